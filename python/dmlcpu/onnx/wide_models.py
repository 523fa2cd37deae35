"""Whether codes of 16 bits are rounded natively, which depends on the model that they are in.

Among codes of 8 bits they are: each pair of nodes that another runtime takes cuts the graph in two. A model that has
hardly any others is computed in floats by whoever runs it, and is left to onnxruntime as a whole where that is faster:
where convolutions outnumber products of matrices and most of them are such that onnxruntime's layouts of channels are
made for, or most codes follow nodes that no kernel computes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import onnx

from dmlcpu.onnx.missing_package import has_onnxruntime
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.rules import RULES
from dmlcpu.onnx.rules.convolution.transposed_convolution import FEWEST_CHANNELS
from dmlcpu.onnx.rules.quantization.wide_codes import WIDE_TYPES
from dmlcpu.onnx.values import Array

__all__ = ["rounds_wide_codes"]

_OF_LENGTHS: Final = frozenset({"Shape", "Size"})
_OF_MATRICES: Final = frozenset({"MatMul", "Gemm", "FusedMatMul"})


def rounds_wide_codes(nodes: Sequence[Node], constants: Mapping[str, Array], independent: Collection[str]) -> bool:
    """Return whether a model's floats are rounded to codes of 16 bits natively.

    Args:
        nodes: Of the model, in order.
        constants: Of the model.
        independent: Names of the values that depend on no input, nor on its lengths.
    """
    if not has_onnxruntime():
        return True
    made = {
        node.outputs[0]: node.attributes.get("value") for node in nodes if node.operator == "Constant" and node.outputs
    }
    quantizing = [node for node in nodes if node.operator == "QuantizeLinear"]
    arrays = {**made, **constants}
    wide = {node.name for node in quantizing if _type_of_codes(node, arrays) in WIDE_TYPES}
    if 2 * len(wide) <= len(quantizing):
        return True
    shapes = {name: array.shape for name, array in arrays.items() if array is not None}
    dequantizing = [node for node in nodes if node.operator == "DequantizeLinear" and node.inputs and node.outputs]
    shapes |= {node.outputs[0]: shapes[node.inputs[0]] for node in dequantizing if node.inputs[0] in shapes}
    convolutions = [node for node in nodes if node.operator == "Conv"]
    by_constants = [node for node in convolutions if all(name in independent for name in node.inputs[1:2])]
    windows = [node for node in by_constants if _is_dense_window(node, shapes)]
    convolves = len(convolutions) > sum(node.operator in _OF_MATRICES for node in nodes)  # more than patches, say
    behind = wide.intersection(_behind_foreign_nodes(nodes, independent, shapes))
    return not (convolves and 2 * len(windows) > len(convolutions)) and 2 * len(behind) <= len(wide)


def _type_of_codes(node: Node, constants: Mapping[str, Array | None]) -> np.dtype[np.generic] | None:
    if len(node.inputs) > 2 and node.inputs[2]:
        point = constants.get(node.inputs[2])
        return None if point is None else point.dtype
    named = node.attributes.get("output_dtype", 0)
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(named)) if named else None


def _is_dense_window(node: Node, shapes: Mapping[str, Sequence[int]]) -> bool:
    """Return whether a node convolves images, all channels at once, by windows of several elements, or may do so."""
    of_filter = shapes.get(node.inputs[1], (0, 0, 0, 0)) if len(node.inputs) > 1 else ()
    window = node.attributes.get("kernel_shape", of_filter[2:])
    return len(window) == 2 and max(window) != 1 and node.attributes.get("group", 1) == 1


def _behind_foreign_nodes(
    nodes: Sequence[Node], independent: Collection[str], shapes: Mapping[str, Sequence[int]]
) -> Iterator[str]:
    """Yield the names of nodes that no kernel computes, and of those that follow them."""
    of_lengths, foreign = set(independent), set[str]()
    for node in nodes:
        if node.operator in _OF_LENGTHS or of_lengths.issuperset(node.reads):
            of_lengths.update(node.outputs)
        elif not (foreign.isdisjoint(node.reads) and _may_have_kernel(node, shapes)):
            foreign.update(filter(None, node.outputs))
            yield node.name


def _may_have_kernel(node: Node, shapes: Mapping[str, Sequence[int]]) -> bool:
    if node.operator == "ConvTranspose":
        return _are_apart(node) or _has_phases(node, shapes)
    return node.operator == "If" or (node.domain, node.operator) in RULES


def _are_apart(node: Node) -> bool:
    """Return whether the windows of a transposed convolution do not overlap, where the node tells."""
    window = node.attributes.get("kernel_shape", ())
    strides = node.attributes.get("strides", (1,) * len(window))
    return 0 < len(window) == len(strides) and all(map(int.__le__, window, strides))


def _has_phases(node: Node, shapes: Mapping[str, Sequence[int]]) -> bool:
    """Return whether a transposed convolution of floats becomes convolutions, one for each phase of its strides."""
    of_filter = shapes.get(node.inputs[1], ()) if len(node.inputs) > 1 else ()
    return len(of_filter) in (3, 4) and of_filter[1] >= FEWEST_CHANNELS and node.attributes.get("group", 1) == 1
