"""Weights that a model casts from codes to floats and multiplies by their scales: dequantized when a model is read.

Some tools write weights of 8 bits so, without operators of quantization. The two nodes are what DequantizeLinear says,
bit for bit where all floats are finite, and rules know that one: products keep the codes, and rows of an embedding are
chosen before they are dequantized. Otherwise the floats of all of them would be made, and packed, for each length that
is fed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import onnx

from dmlcpu.dtypes import CODE_TYPES
from dmlcpu.onnx.constant_arrays import Array
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.models.rewritten_graph import RewrittenGraph

__all__ = ["with_dequantized_casts"]

# The versions of ONNX's operators from which on DequantizeLinear takes one scale, and one for each index of an axis.
_ONE_SCALE: Final = 10
_SCALES_ALONG_AXIS: Final = 13
# Of finite floats of 8-bit codes: operators on codes make others of such as are none.
_LARGEST_SCALE: Final = np.finfo(np.float32).max / 255
# Nodes that only move elements.
_MOVING: Final = frozenset(("Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"))


def with_dequantized_casts(graph: RewrittenGraph) -> RewrittenGraph:
    """Return a graph with DequantizeLinear in place of each such Cast and Mul; the same where there are none."""
    constants = graph.constants
    casts = {node.outputs[0]: node for node in graph.nodes if _is_cast_of_codes(node, constants)}
    if not casts or graph.version < _ONE_SCALE:
        return graph
    alone = {name: casts[name] for name in graph.read_by_one_node() & casts.keys()}
    further = _computed_further(graph.nodes, constants)
    scales = dict(constants)
    made: list[Node] = []
    left_out: set[Node] = set()
    for node in graph.nodes:
        operands = None if node.outputs[0] in further else _codes_and_scale(node, alone, constants)
        axis = None if operands is None else _axis_of_scale(*(constants[name] for name in operands))
        if operands is None or axis is None or (axis >= 0 and graph.version < _SCALES_ALONG_AXIS):
            made.append(node)
            continue
        codes, scale = operands
        if constants[scale].ndim != (axis >= 0):
            scale = graph.new_name(f"{node.name}/scale")
            scales[scale] = constants[operands[1]].reshape(-1 if axis >= 0 else ())
        left_out.update(alone[name] for name in node.inputs if name in alone)
        along = {"axis": axis} if axis >= 0 else {}
        made.append(graph.made(node, "DequantizeLinear", [codes, scale], node.outputs[0], **along))
    return replace(graph, nodes=tuple(node for node in made if node not in left_out), constants=scales)


def _computed_further(nodes: Sequence[Node], constants: Mapping[str, Array]) -> set[str]:
    """Return the names of constants of which reading the model makes others, which it does not of dequantized ones."""
    known = {*constants}
    for node in nodes:
        if known.issuperset(node.reads):
            known.update(node.outputs)
    further: set[str] = set()
    for node in reversed(nodes):
        is_moving = node.operator in _MOVING and further.isdisjoint(node.outputs)
        if not is_moving and known.issuperset(node.reads):
            further.update(node.reads)
    return further


def _is_cast_of_codes(node: Node, constants: Mapping[str, Array]) -> bool:
    if node.operator != "Cast" or node.domain != "" or len(node.inputs) != 1 or len(node.outputs) != 1:
        return False
    codes = constants.get(node.inputs[0])
    is_float = node.attributes.get("to") == onnx.TensorProto.FLOAT
    return is_float and codes is not None and codes.dtype in CODE_TYPES and codes.ndim > 1 and codes.size > 0


def _codes_and_scale(node: Node, casts: Mapping[str, Node], constants: Mapping[str, Array]) -> tuple[str, str] | None:
    """Return the names of the constants that a Mul multiplies, one of which is cast before; None if it does not."""
    if node.operator != "Mul" or node.domain != "" or len(node.inputs) != 2 or len(node.outputs) != 1:
        return None
    for cast, name in (node.inputs, node.inputs[::-1]):
        scale = constants.get(name)
        if cast not in casts or scale is None or scale.dtype != np.float32:
            continue
        if (np.abs(scale) <= _LARGEST_SCALE).all():
            return casts[cast].inputs[0], name
    return None


def _axis_of_scale(codes: Array, scale: Array) -> int | None:
    """Return the axis of codes along which scales are; -1 if there is one scale, None if it is otherwise."""
    if scale.ndim > codes.ndim:
        return None
    if scale.size == 1:
        return -1
    along = [axis for axis in range(-scale.ndim, 0) if scale.shape[axis] != 1]
    if len(along) != 1 or scale.shape[along[0]] != codes.shape[along[0]]:
        return None
    return along[0] + codes.ndim
