"""Weights that a model leaves in floats between dequantized inputs and quantized results: codes, as in onnxruntime.

Some recipes quantize activations alone. Onnxruntime quantizes the weights of such convolutions and products itself when
it opens a file (its optimizer WeightBiasQuantization), so that they are operators on codes, and what it computes of the
model is what these compute. Here the same weights become the same codes, before anything is lowered: INT8, one scale
and zero point for the whole tensor, from the least to the greatest weight, and 0 between them. Rules quantize the
biases of floats of any product of codes, in the unit that onnxruntime takes.

Which weights these are follows onnxruntime 1.32: those of Conv, ConvTranspose and Gemm, and of MatMul with a bias added
to it, which it makes a Gemm of, between two Reshapes unless the rows are a matrix. The input is dequantized by one
scale, and one QuantizeLinear reads the result, at most functions behind Relu and Clip, and what moves elements, with
which quantization changes places. It is so since 1.23. In 1.20 weights stay floats, 1.21 does not look at what reads
the result, and 1.22 wants the QuantizeLinear at once.

Left in floats here are products that the caller reads and a Transpose moves, of which onnxruntime returns the floats of
codes, and what it makes codes of only after other optimizations: weights that are computed of constants, such as by
Mul, products with a BatchNormalization or an addition behind them, Pad before them, and, in branches of an If, weights
of the branch's own. So are weights that are no finite numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final

import numpy as np
import onnx

from dmlcpu.onnx.constant_arrays import Array
from dmlcpu.onnx.models.nodes import FreeNames, Node, node_of
from dmlcpu.onnx.models.rewritten_graph import RewrittenGraph

__all__ = ["with_coded_weights"]

_PRODUCTS: Final = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
_BEFORE_CODES: Final = frozenset({"Relu", "Clip"})
# With the version from which on they move codes.
_MOVING: Final = {"MaxPool": 12, "Reshape": 1, "Transpose": 1, "Squeeze": 1, "Unsqueeze": 1, "Slice": 1}
_LEFT_OUT: Final = frozenset({"Identity", "Dropout"})
_KEEPING_RANK: Final = _BEFORE_CODES | _LEFT_OUT | {"QuantizeLinear", "DequantizeLinear", "Transpose", "Softmax"}
_CODES_SINCE: Final = 10
_FOLDED: Final = frozenset({"Constant", "Identity", "Transpose"})
_PARTS: Final = ("codes", "scale", "zero_point")


def with_coded_weights(graph: RewrittenGraph, ranks: Mapping[str, int]) -> RewrittenGraph:
    """Return a graph with codes in place of weights that are quantized so; the same where there are none.

    Args:
        graph: Of a model, or within a node.
        ranks: Of its inputs, where they are known.
    """
    weights = _Weights(graph, ranks)
    found = {node: array for node in graph.nodes if (array := weights.of(node)) is not None}
    return weights.as_codes(found) if found else graph


class _Weights:
    """The weights of a graph.

    Args:
        graph, ranks: Those of ``with_coded_weights``.
    """

    def __init__(self, graph: RewrittenGraph, ranks: Mapping[str, int]) -> None:
        self._graph, self._ranks, self._outputs = graph, ranks, frozenset(graph.outputs)
        self._writers = {name: node for node in graph.nodes for name in node.outputs if name}

    @cached_property
    def _readers(self) -> Mapping[str, Sequence[Node]]:
        readers: dict[str, list[Node]] = {}
        for node in self._graph.nodes:
            for name in node.reads:
                readers.setdefault(name, []).append(node)
        return readers

    def of(self, node: Node) -> Array | None:
        """Return the weights of a node that are to be quantized; None if there are none."""
        if node.operator not in _PRODUCTS or node.domain != "" or len(node.inputs) < 2 or node.version < _CODES_SINCE:
            return None
        weights = self._array(node.inputs[1])
        if weights is None or weights.dtype != np.float32 or not self._is_dequantized(node.inputs[0]):
            return None
        behind = self._behind_bias(node, weights)
        if behind is None or self._is_transposed(node) or not weights.size or not np.isfinite(weights).all():
            return None
        is_reshaped = node.operator == "MatMul" and not self._is_matrix(node.inputs[0])
        return weights if self._is_quantized(behind, is_reshaped) else None

    def _is_transposed(self, node: Node) -> bool:
        """Return whether the result of a Gemm without a bias is transposed: then its weights are the left operand."""
        if node.operator != "Gemm" or any(node.inputs[2:]):
            return False
        return any(
            reader.operator == "Transpose" and list(reader.attributes.get("perm", (1, 0))) == [1, 0]
            for reader in self._readers.get(node.outputs[0], ())
        )

    def _is_matrix(self, name: str) -> bool:
        """Return whether a value is known to have two axes."""
        while name not in self._ranks:
            node = self._writers.get(name)
            if node is None or node.domain != "" or not node.inputs:
                return False
            if node.operator in ("Gemm", "Flatten"):
                return True
            if node.operator == "Reshape":
                shape = self._array(node.inputs[1]) if len(node.inputs) > 1 else None
                return shape is not None and shape.size == 2
            given = [each for each in node.inputs if self._array(each) is None]
            keeps = node.operator in _KEEPING_RANK or (
                node.operator in ("MatMul", "Add", "Mul")
                and len(given) == 1
                and all(array.ndim <= 2 for each in node.inputs if (array := self._array(each)) is not None)
            )
            if not keeps:
                return False
            name = given[0] if given else node.inputs[0]
        return self._ranks[name] == 2

    def _array(self, name: str) -> Array | None:
        """Return a constant, or what it is once it is moved; None if it is none of these."""
        moving: list[Node] = []
        while name not in self._graph.constants:
            node = self._writers.get(name)
            if node is None or node.operator not in _FOLDED or node.domain != "" or len(node.inputs) > 1:
                return None
            moving.append(node)
            if not node.inputs:
                break
            name = node.inputs[0]
        array = self._graph.constants.get(name)
        for node in reversed(moving):
            array = _moved(node, array)
            if array is None:
                return None
        return array

    def _behind_bias(self, node: Node, weights: Array) -> Node | None:
        """Return the node whose result has the bias, of MatMul an addition; None if there is a bias, but no vector."""
        if node.operator != "MatMul":
            bias = node.inputs[2] if len(node.inputs) > 2 else ""
            return node if not bias or self._is_vector(bias) else None
        readers = self._readers.get(node.outputs[0], ()) if node.outputs else ()
        if weights.ndim != 2 or len(readers) != 1 or readers[0].operator != "Add" or node.outputs[0] in self._outputs:
            return None
        biases = [name for name in readers[0].inputs if name != node.outputs[0]]
        return readers[0] if len(biases) == 1 and self._is_vector(biases[0], weights.shape[1]) else None

    def _is_vector(self, name: str, length: int | None = None) -> bool:
        array = self._array(name)
        return array is not None and array.ndim == 1 and length in (None, array.size)

    def _has_one_scale(self, node: Node) -> bool:
        array = self._array(node.inputs[1]) if len(node.inputs) > 1 else None
        return array is not None and array.shape in ((), (1,))

    def _is_dequantized(self, name: str) -> bool:
        """Return whether a value is dequantized by one scale, or moved after that."""
        node = self._writers.get(name)
        while node is not None and (_moves_codes(node) or self._is_left_out(node)) and node.inputs:
            node = self._writers.get(node.inputs[0])
        return node is not None and node.operator == "DequantizeLinear" and self._has_one_scale(node)

    def _is_left_out(self, node: Node) -> bool:
        """Return whether a node changes nothing, and the caller does not read what it returns."""
        return node.operator in _LEFT_OUT and self._outputs.isdisjoint(node.outputs)

    def _is_quantized(self, node: Node, is_moved: bool) -> bool:
        """Return whether the result of a node, moved or not, is quantized, and nothing else becomes of it."""
        is_output = False
        while len(node.outputs) == 1:
            readers = self._readers.get(node.outputs[0], ())
            if len(readers) != 1:
                return False
            [reader] = readers
            is_output = node.outputs[0] in self._outputs or (is_output and node.operator in _LEFT_OUT)
            if reader.operator == "QuantizeLinear":
                return not is_moved or (not is_output and self._has_one_scale(reader))
            moves, is_left_out = _moves_codes(reader), self._is_left_out(reader)
            if moves and is_output:
                return False
            is_function = not is_moved and reader.domain == "" and reader.operator in _BEFORE_CODES
            if not (moves or is_left_out or is_function):
                return False
            node, is_moved = reader, is_moved or moves
        return False

    def as_codes(self, found: Mapping[Node, Array]) -> RewrittenGraph:
        """Return the graph with codes for the weights of some nodes."""
        constants = dict(self._graph.constants)
        # Its own, not the graph's: the body of a loop has the same names each time it is unrolled.
        values = FreeNames((*constants, *self._graph.inputs, *self._writers, *self._readers))
        dequantized: dict[str, str] = {}
        nodes: list[Node] = []
        for node in self._graph.nodes:
            if node not in found:
                nodes.append(node)
                continue
            weights = node.inputs[1]
            if weights not in dequantized:
                base = values.like(f"{node.name}/weights")
                inputs = [values.like(f"{base}/{part}") for part in _PARTS]
                constants.update(zip(inputs, _quantized(found[node]), strict=True))
                dequantized[weights] = base
                proto = onnx.helper.make_node("DequantizeLinear", inputs, [base], base)
                nodes.append(node_of(len(nodes), proto, {"": node.version}, self._graph.taken))
            nodes.append(node.with_inputs([node.inputs[0], dequantized[weights], *node.inputs[2:]]))
        self._graph.names().take((*constants, *dequantized.values()))
        return replace(self._graph, nodes=tuple(nodes), constants=constants)


def _moved(node: Node, array: Array | None) -> Array | None:
    """Return what a node that is folded makes of a constant, or holds; None if it is not valid."""
    if node.operator == "Constant":
        value = node.attributes.get("value")
        return value if isinstance(value, np.ndarray) else None
    if node.operator == "Identity" or array is None:
        return array
    try:
        return np.transpose(array, node.attributes.get("perm"))
    except (ArithmeticError, LookupError, TypeError, ValueError):  # no order of its axes
        return None


def _moves_codes(node: Node) -> bool:
    return node.domain == "" and node.version >= _MOVING.get(node.operator, 1 << 31)


def _quantized(weights: Array) -> tuple[Array, Array, Array]:
    """Return weights as INT8 codes, their scale and their zero point, rounded as onnxruntime rounds them."""
    limits = np.iinfo(np.int8)
    least, most = (np.float32(end) for end in (min(weights.min(), 0), max(weights.max(), 0)))
    with np.errstate(all="ignore"):
        scale = np.float32(1) if least == most else (most - least) / np.float32(limits.max - limits.min)
        point = np.rint(np.clip(np.float32(limits.min) - least / scale, limits.min, limits.max))
        codes = np.clip(np.rint(weights / scale) + point, limits.min, limits.max)
    return codes.astype(np.int8), np.array(scale), np.array(point, np.int8)
