"""Rotation of pairs of elements by the angles of positions, where models spell it out on floats.

The halves of x are the pairs, or neighbours are: x * cosines + concat(-second, first) * sines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from dmlcpu.graph.lengths import broadcast_shapes
from dmlcpu.onnx.constant_arrays import Constant
from dmlcpu.onnx.lowering import Lowering
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.rules.element_operators import pairs_turned
from dmlcpu.onnx.rules.element_wise.activation import element_wise
from dmlcpu.onnx.rules.element_wise.arithmetic import binary
from dmlcpu.onnx.rules.movement.movement import concat, reshape, unsqueeze
from dmlcpu.onnx.rules.operands import axes_of, axis_within, beside, computed, computed_floats, shape_asked_for
from dmlcpu.onnx.rules.spelled_out.steps import Following, Form, Kind, Step
from dmlcpu.onnx.values import Deferred, Tensor, Value

__all__ = ["ROTATION_STEPS", "are_angles", "part_of_pairs"]

_LEAST_AXES: Final = 3  # of tokens, heads and their elements
_MOST_AXES: Final = 7  # the two elements of pairs are one more


def _may_have_pairs(x: Value) -> bool:
    """Whether a value has as many axes as what may be turned, which has one more for the pairs."""
    return _LEAST_AXES <= len(x.shape) <= _MOST_AXES


def are_angles(angles: Value | None, x: Value) -> bool:
    """Whether a value may be a number for each element of x, the same for all heads or not."""
    if not isinstance(angles, Tensor | Deferred | Constant) or angles.dtype != np.float32 or not angles.shape:
        return False
    if not _may_have_pairs(x) or len(angles.shape) > len(x.shape) or angles.shape[-1] != x.shape[-1]:
        return False
    return broadcast_shapes(angles.shape, x.shape) == x.shape


def part_of_pairs(x: Value, starts: Sequence[int], distances: Sequence[int], shape: Sequence[int]) -> Form | None:
    """Return which part of x a slice is, if it has one of the elements of each pair."""
    size, *others = x.shape[-1], *x.shape[:-1]
    if not _may_have_pairs(x) or size != 2 * shape[-1] or [*shape[:-1]] != others:
        return None
    first, distance = starts[-1], distances[-1]
    if (distance == 1 and first in (0, shape[-1])) or (distance == 2 and first in (0, 1)):
        return Form(Kind.PART, first=first, distance=distance)
    return None


def _negated(step: Step, node: Node, inputs: Sequence[Value | None]) -> Value | None:
    return step.next(element_wise, node, inputs, Kind.NEGATED_PART, step.shape)


def _with_last_axis(step: Step, node: Node, inputs: Sequence[Value | None]) -> Value | None:
    """An axis of 1 behind those of a part."""
    rank = len(step.shape) + 1
    axes = axes_of(node, inputs, rank)
    if rank != len(step.x.shape) + 1 or axes != (rank - 1,):
        return None
    return step.next(unsqueeze, node, inputs, step.form.kind, (*step.shape, 1))


def _joined(step: Step, node: Node, inputs: Sequence[Value | None]) -> Value | None:
    """Second elements of pairs, negated, with the first ones: halves, or neighbours along an axis of their own."""
    if len(inputs) != 2 or not step.is_beside(inputs[1], Kind.PART):
        return None
    second, first, rank = step, inputs[1], len(step.shape)
    if first.shape != second.shape or axis_within(node.attributes["axis"], rank) != rank - 1:
        return None
    places = first.form.first, second.form.first
    distances = first.form.distance, second.form.distance
    if rank == len(step.x.shape) and distances == (1, 1) and places == (0, second.shape[-1]):
        return step.next(concat, node, inputs, Kind.TURNED, distance=1)
    if rank == len(step.x.shape) + 1 and distances == (2, 2) and places == (0, 1):
        return step.next(concat, node, inputs, Kind.NEIGHBOURS, (*step.shape[:-1], 2))
    return None


def _in_shape(step: Step, node: Node, inputs: Sequence[Value | None]) -> Value | None:
    """Neighbours along the last axis of x."""
    if shape_asked_for(node, inputs) != step.x.shape:
        return None
    return step.next(reshape, node, inputs, Kind.TURNED)


def _by_sines(step: Step, node: Node, inputs: Sequence[Value | None]) -> Value | None:
    sines = beside(step, inputs)
    return step.next(binary, node, inputs, Kind.BY_SINES, angles=sines) if are_angles(sines, step.x) else None


def _rotated_beside(kind: Kind) -> Following:
    """Return what makes a rotation of one of its addends, if a step of a kind is the other one."""

    def follow(step: Step, node: Node, inputs: Sequence[Value | None]) -> Value | None:
        other = beside(step, inputs)
        if not step.is_beside(other, kind):
            return None
        cosines, sines = (step, other) if kind == Kind.BY_SINES else (other, step)
        return _rotated(step.lowering, step.x, cosines.form, sines.form)

    return follow


def _rotated(lowering: Lowering, x: Value, cosines: Form, sines: Form) -> Tensor:
    assert cosines.angles is not None
    assert sines.angles is not None
    *rest, size = x.shape
    axis, pairs = (len(rest), (2, size // 2)) if sines.distance == 1 else (len(rest) + 1, (size // 2, 2))
    in_pairs = lowering.reshaped(computed_floats(lowering, x), (*rest, *pairs))
    by_pairs = [lowering.once([each], _of_pairs, *pairs) for each in (cosines.angles, sines.angles)]
    return lowering.reshaped(pairs_turned(lowering, in_pairs, by_pairs[0], by_pairs[1], axis), x.shape)


def _of_pairs(lowering: Lowering, angles: Value, *pairs: int) -> Tensor:
    return lowering.reshaped(computed(lowering, angles), (*angles.shape[:-1], *pairs))


ROTATION_STEPS: Final[Mapping[tuple[Kind, str], Following]] = {
    (Kind.PART, "Neg"): _negated,
    (Kind.PART, "Unsqueeze"): _with_last_axis,
    (Kind.NEGATED_PART, "Unsqueeze"): _with_last_axis,
    (Kind.NEGATED_PART, "Concat"): _joined,
    (Kind.NEIGHBOURS, "Reshape"): _in_shape,
    (Kind.TURNED, "Mul"): _by_sines,
    (Kind.BY_COSINES, "Add"): _rotated_beside(Kind.BY_SINES),
    (Kind.BY_SINES, "Add"): _rotated_beside(Kind.BY_COSINES),
}
"""What a node makes of a step towards a rotation, by the step's kind and the node's operator."""
