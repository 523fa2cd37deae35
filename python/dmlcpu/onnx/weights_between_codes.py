"""Weights that a model leaves in floats between dequantized inputs and quantized results: codes, as in onnxruntime.

Some recipes quantize activations alone. Onnxruntime quantizes the weights of such convolutions and products itself when
it opens a file (its optimizer WeightBiasQuantization), so that they are operators on codes, and what it computes of the
model is what these compute. Here the same weights become the same codes, before anything is lowered: INT8, one scale
and zero point for the whole tensor, from the least to the greatest weight, and 0 between them. Rules quantize the
biases of floats of any product of codes, in the unit that onnxruntime takes.

Which weights these are follows onnxruntime 1.32: those of Conv, ConvTranspose and Gemm, and of MatMul with a bias added
to it, which it makes a Gemm of. The input is dequantized by one scale, and one QuantizeLinear reads the result, at most
functions behind Relu and Clip, and what moves elements, with which quantization changes places. It is so since 1.23.
In 1.20 weights stay floats, 1.21 does not look at what reads the result, and 1.22 wants the QuantizeLinear at once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final

import numpy as np
import onnx

from dmlcpu.onnx.constant_functions import by_numpy
from dmlcpu.onnx.nodes import Node, node_of
from dmlcpu.onnx.values import Array

__all__ = ["with_coded_weights"]

_PRODUCTS: Final = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
_BEFORE_CODES: Final = frozenset({"Relu", "Clip"})
_MOVING: Final = frozenset({"MaxPool", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Slice"})
_CODES_SINCE: Final = 10
_FOLDED: Final = frozenset({"Constant", "Identity", "Transpose"})
_PARTS: Final = ("codes", "scale", "zero_point")


def with_coded_weights(
    nodes: tuple[Node, ...], constants: Mapping[str, Array], outputs: Collection[str]
) -> tuple[tuple[Node, ...], Mapping[str, Array]]:
    """Return the nodes and constants of a graph, with codes in place of weights that are quantized so.

    Args:
        nodes: In an order in which they can run.
        constants: By name.
        outputs: The names of what the graph returns.

    Returns:
        The same where there are none of these weights.
    """
    graph = _Graph(nodes, constants, outputs)
    found = {node: weights for node in nodes if (weights := graph.weights_of(node)) is not None}
    return (nodes, constants) if not found else graph.with_codes(found)


class _Graph:
    def __init__(self, nodes: Sequence[Node], constants: Mapping[str, Array], outputs: Collection[str]) -> None:
        self._nodes, self._constants, self._outputs = nodes, constants, outputs
        self._writers = {name: node for node in nodes for name in node.outputs if name}

    @cached_property
    def _readers(self) -> Mapping[str, Sequence[Node]]:
        readers: dict[str, list[Node]] = {}
        for node in self._nodes:
            for name in node.reads:
                readers.setdefault(name, []).append(node)
        return readers

    def weights_of(self, node: Node) -> Array | None:
        """Return the weights of a node that are to be quantized; None if there are none."""
        if node.operator not in _PRODUCTS or node.domain != "" or len(node.inputs) < 2 or node.version < _CODES_SINCE:
            return None
        weights = self._array(node.inputs[1])
        if weights is None or weights.dtype != np.float32 or not self._is_dequantized(node.inputs[0]):
            return None
        behind = self._behind_bias(node, weights)
        if behind is None or not self._is_quantized(behind) or not weights.size or not np.isfinite(weights).all():
            return None
        return weights

    def _array(self, name: str) -> Array | None:
        """Return a constant, or what it is once it is moved; None if it is none of these."""
        moving: list[Node] = []
        while name not in self._constants:
            node = self._writers.get(name)
            if node is None or node.operator not in _FOLDED or node.domain != "" or len(node.inputs) > 1:
                return None
            moving.append(node)
            if not node.inputs:
                break
            name = node.inputs[0]
        array = self._constants.get(name)
        for node in reversed(moving):
            array = array if node.operator == "Identity" else by_numpy(node, [] if array is None else [array])
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
        while node is not None and node.operator in _MOVING and node.domain == "" and node.inputs:
            node = self._writers.get(node.inputs[0])
        return node is not None and node.operator == "DequantizeLinear" and self._has_one_scale(node)

    def _is_quantized(self, node: Node) -> bool:
        """Return whether the result of a node is quantized, and nothing else becomes of it."""
        is_moved = False
        while len(node.outputs) == 1:
            readers = self._readers.get(node.outputs[0], ())
            if len(readers) != 1:
                return False
            [reader] = readers
            if reader.operator == "QuantizeLinear":
                return not is_moved or (node.outputs[0] not in self._outputs and self._has_one_scale(reader))
            is_moving = reader.operator in _MOVING and node.outputs[0] not in self._outputs
            if reader.domain != "" or not (is_moving or (reader.operator in _BEFORE_CODES and not is_moved)):
                return False
            node, is_moved = reader, is_moved or is_moving
        return False

    def with_codes(self, found: Mapping[Node, Array]) -> tuple[tuple[Node, ...], Mapping[str, Array]]:
        """Return nodes and constants with codes for the weights of some nodes."""
        constants = dict(self._constants)
        names = {node.name for node in self._nodes}
        taken = {*constants, *self._writers, *self._readers}
        dequantized: dict[str, str] = {}
        nodes: list[Node] = []
        for node in self._nodes:
            if node not in found:
                nodes.append(node)
                continue
            weights = node.inputs[1]
            if weights not in dequantized:
                base = f"{node.name}/weights"
                while not taken.isdisjoint((base, *(inputs := [f"{base}/{part}" for part in _PARTS]))):
                    base += "'"
                constants.update(zip(inputs, _quantized(found[node]), strict=True))
                dequantized[weights] = base
                proto = onnx.helper.make_node("DequantizeLinear", inputs, [base], base)
                nodes.append(node_of(len(nodes), proto, {"": node.version}, names))
            nodes.append(_reading(node, 1, dequantized[weights]))
        return tuple(nodes), constants


def _quantized(weights: Array) -> tuple[Array, Array, Array]:
    """Return weights as INT8 codes, their scale and their zero point, rounded as onnxruntime rounds them."""
    limits = np.iinfo(np.int8)
    least, most = (np.float32(end) for end in (min(weights.min(), 0), max(weights.max(), 0)))
    with np.errstate(all="ignore"):
        scale = np.float32(1) if least == most else (most - least) / np.float32(limits.max - limits.min)
        point = np.rint(np.clip(np.float32(limits.min) - least / scale, limits.min, limits.max))
        codes = np.clip(np.rint(weights / scale) + point, limits.min, limits.max)
    return codes.astype(np.int8), np.array(scale), np.array(point, np.int8)


def _reading(node: Node, place: int, name: str) -> Node:
    """Return a node with another input."""
    proto = onnx.NodeProto()
    proto.CopyFrom(node.proto)
    proto.input[place] = name
    inputs = tuple(proto.input)
    captured = [value for value in node.reads if value not in node.inputs]
    return replace(node, inputs=inputs, proto=proto, reads=tuple(dict.fromkeys(filter(None, (*inputs, *captured)))))
