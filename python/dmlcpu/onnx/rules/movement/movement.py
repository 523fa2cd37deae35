"""Nodes that move elements and compute none."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from dmlcpu.dtypes import INT64
from dmlcpu.graph.lengths import broadcast_shapes
from dmlcpu.onnx.constants.shape_arithmetic import numbers
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative, NotValid
from dmlcpu.onnx.rules.movement.moved_values import expanded, join, joined, reshaped, sliced_along, transposed
from dmlcpu.onnx.rules.operands import (
    axes_of,
    axis_within,
    dequantized,
    integers,
    parameters_of,
    present,
    shape_asked_for,
    written,
)
from dmlcpu.onnx.values import Value, as_value
from dmlcpu.shown_values import counted

__all__ = ["RULES", "concat", "reshape", "unsqueeze"]


def reshape(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Reshape."""
    return [reshaped(lowering, present(inputs[0]), shape_asked_for(node, inputs))]


def flatten(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Flatten."""
    value = present(inputs[0])
    rank, axis = len(value.shape), node.attributes.get("axis", 1)
    if axis != rank:  # before which all axes are
        axis = axis_within(axis, rank)
    return [reshaped(lowering, value, (math.prod(value.shape[:axis]), math.prod(value.shape[axis:])))]


def squeeze(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Squeeze."""
    value = present(inputs[0])
    axes = axes_of(node, inputs, len(value.shape))  # none are all of length 1
    kept = [length for axis, length in enumerate(value.shape) if not (axis in axes if axes else length == 1)]
    return [reshaped(lowering, value, kept)]


def unsqueeze(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Unsqueeze."""
    value = present(inputs[0])
    given = node.attributes.get("axes") or integers(inputs[1], "the axes")
    rank = len(value.shape) + len(given)
    axes = {axis_within(axis, rank) for axis in given}
    if len(axes) != len(given):
        raise NotNative(f"axes {given} of {rank}")
    lengths = iter(value.shape)
    return [reshaped(lowering, value, [1 if axis in axes else next(lengths) for axis in range(rank)])]


def transpose(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Transpose."""
    value = present(inputs[0])
    axes = range(len(value.shape))
    order = node.attributes.get("perm", tuple(reversed(axes)))
    if sorted(order) != [*axes]:
        raise NotNative(f"the axes {order} of {len(axes)}")
    return [transposed(lowering, value, order)]


def shape_(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Shape and Size: constants, as far as shapes are known here."""
    shape = present(inputs[0]).shape
    if node.operator == "Size":
        return [numbers([math.prod(shape)], INT64, ())]
    part = slice(node.attributes.get("start"), node.attributes.get("end"))
    return [numbers(shape[part], INT64)]


def split(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Split."""
    value = present(inputs[0])
    axis = axis_within(node.attributes.get("axis", 0), len(value.shape))
    lengths = node.attributes.get("split")
    if lengths is None and len(inputs) > 1 and inputs[1] is not None:
        lengths = integers(inputs[1], "the lengths")
    if lengths is None:
        lengths = _equal_parts(node, value.shape[axis])
    if sum(lengths) != value.shape[axis] or len(lengths) != len(node.outputs):
        raise NotNative(f"parts of {lengths} along an axis of {value.shape[axis]}")
    starts = (sum(lengths[:index]) for index in range(len(lengths)))
    parts = [sliced_along(lowering, value, axis, start, length) for start, length in zip(starts, lengths, strict=True)]
    return written(node, parts)


def _equal_parts(node: Node, length: int) -> Sequence[int]:
    """Return the lengths of the parts of a Split that is told none."""
    count = len(node.outputs)
    if node.version < 18 and length % count:
        raise NotValid(f"got {counted(count, 'output')} of {length} along the axis, expected equal parts")
    size = -(-length // count)
    return [min(size, length - size * index) for index in range(count)]


def expand(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Expand."""
    value = present(inputs[0])
    return [expanded(lowering, value, broadcast_shapes(value.shape, integers(inputs[1], "the shape")))]


def concat(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Concat: of the same codes joined codes, of others what is requantized when it is quantized."""
    values = [present(value) for value in inputs]
    return [joined(lowering, values, axis_within(node.attributes["axis"], len(values[0].shape)))]


def qlinear_concat(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """QLinearConcat: an output's parameters, then codes, scale and zero point of each part."""
    parameters = parameters_of(inputs[0], inputs[1])
    parts = []
    for index in range(2, len(inputs), 3):
        codes, scale, zero_point = inputs[index : index + 3]
        parts.append(lowering.quantized(dequantized(lowering, codes, scale, zero_point), parameters))
    axis = axis_within(node.attributes["axis"], len(parts[0].shape))
    parts = [part for part in parts if part.shape[axis] != 0] or parts[:1]
    if len(parts) > 1:
        return [join(lowering, parts, axis)]
    return [*map(as_value, parts)]


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("", "Reshape"): reshape,
    ("", "Flatten"): flatten,
    ("", "Squeeze"): squeeze,
    ("", "Unsqueeze"): unsqueeze,
    ("", "Transpose"): transpose,
    ("", "Shape"): shape_,
    ("", "Size"): shape_,
    ("", "Split"): split,
    ("", "Expand"): expand,
    ("", "Concat"): concat,
    ("com.microsoft", "QLinearConcat"): qlinear_concat,
}
