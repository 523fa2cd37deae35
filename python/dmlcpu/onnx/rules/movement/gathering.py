"""Elements chosen along axes by indices: Gather, GatherElements, and what Slice has, which may begin a function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from dmlcpu.graph.lengths import derived
from dmlcpu.graph.record import Derived
from dmlcpu.onnx.constant_arrays import Array
from dmlcpu.onnx.constants.movement_functions import LARGEST_ENDS
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative, NotValid
from dmlcpu.onnx.rules.element_operators import INTEGER_TYPES
from dmlcpu.onnx.rules.movement.gathered_values import chosen_by, gathered
from dmlcpu.onnx.rules.movement.moved_values import sliced
from dmlcpu.onnx.rules.operands import axis_within, integers, present
from dmlcpu.onnx.values import Value

__all__ = ["RULES", "places_of", "slice_"]


def gather(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Gather."""
    value, places = present(inputs[0]), present(inputs[1])
    if not value.shape:
        raise NotNative("nothing to choose from")
    return [chosen_by(lowering, value, axis_within(node.attributes.get("axis", 0), len(value.shape)), places)]


def gather_elements(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """GatherElements."""
    elements, indices = (lowering.elements(present(value)) for value in inputs)
    axis = axis_within(node.attributes.get("axis", 0), len(elements.shape))
    if indices.dtype not in INTEGER_TYPES:
        raise NotNative(f"indices of type {indices.dtype}")
    return [lowering.emit("GATHER_ELEMENTS", [elements, indices], elements.dtype, indices.shape, {"axis": (axis,)})]


def _places_backwards(start: int, end: int, step: int, length: int) -> Array:
    """Return the places of a slice whose step is below 0.

    As ONNX has it: what begins before the first element begins there, where in Python it is empty. All that is left
    goes to the first element, too.
    """
    if end in LARGEST_ENDS:
        end = -length - 1
    first = min(max(start + length if start < 0 else start, 0), length - 1)
    last = min(max(end + length if end < 0 else end, -1), length - 1)
    return np.arange(first, last, step)


@dataclass(frozen=True, slots=True)
class _Places:
    """Which elements a Slice has.

    Attributes:
        starts, steps, shape: Along each axis the first element, from one to the next, and how many; where steps are
            below 0 all.
        backwards: Of those the places, by axis.
    """

    starts: Sequence[int]
    steps: Sequence[int]
    shape: Sequence[int]
    backwards: Mapping[int, Array | Derived]


def places_of(node: Node, inputs: Sequence[Value | None]) -> _Places:
    """Return which elements a Slice has."""
    value = present(inputs[0])
    rank = len(value.shape)
    if node.version < 10:
        starts, ends = node.attributes["starts"], node.attributes["ends"]
        axes, steps = node.attributes.get("axes", range(len(starts))), (1,) * len(starts)
    else:
        starts, ends = integers(inputs[1], "the starts"), integers(inputs[2], "the ends")
        given_axes, given_steps = (*inputs[3:], None, None)[:2]
        axes = range(len(starts)) if given_axes is None else integers(given_axes, "the axes")
        steps = (1,) * len(starts) if given_steps is None else integers(given_steps, "the steps")
    begin, stride, shape = [0] * rank, [1] * rank, list(value.shape)
    backwards: dict[int, Array | Derived] = {}
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        length = value.shape[axis]
        if step == 0:
            raise NotValid(f"got step 0 along axis {axis}, expected another number")
        if step < 0:
            backwards[axis % rank] = derived(_places_backwards, start, end, step, length)
        else:
            first, last = (min(max(place + length if place < 0 else place, 0), length) for place in (start, end))
            begin[axis], stride[axis], shape[axis] = first, step, max(-(-(last - first) // step), 0)
    return _Places(begin, stride, shape, backwards)


def slice_(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Slice."""
    places = places_of(node, inputs)
    part = sliced(lowering, present(inputs[0]), places.starts, places.steps, places.shape)
    return [gathered(lowering, part, places.backwards) if places.backwards else part]


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("", "Gather"): gather,
    ("", "GatherElements"): gather_elements,
}
