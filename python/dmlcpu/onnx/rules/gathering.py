"""Elements chosen along axes by constant indices: Gather and Slice."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from dmlcpu.onnx.lowering import Lowering, NotNative, Rule
from dmlcpu.onnx.model import Node
from dmlcpu.onnx.rules.movement import join, moved, reshaped, sliced
from dmlcpu.onnx.rules.operands import CODE_TYPES, constant, integers, present
from dmlcpu.onnx.rules.resizing import Taps, resampled
from dmlcpu.onnx.values import Array, Parameters, Tensor, Value

__all__ = ["RULES", "gathered"]

# Up to this many slices are joined; more indices than they cover are looked up one by one.
_MOST_SLICES: Final = 16


def _progressions(places: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return indices as slices, one after the other: start, step of 1 or more, length."""
    found: list[tuple[int, int, int]] = []
    for place in places:
        if found:
            start, step, length = found[-1]
            if length == 1 and place > start:
                found[-1] = start, place - start, 2
                continue
            if length > 1 and place == start + step * length:
                found[-1] = start, step, length + 1
                continue
        found.append((place, 1, 1))
    return found


def _joined_slices(lowering: Lowering, tensor: Tensor, axis: int, slices: Sequence[tuple[int, int, int]]) -> Tensor:
    parts: list[Tensor | Array] = []
    for start, step, length in slices:
        starts, steps, shape = [0] * len(tensor.shape), [1] * len(tensor.shape), list(tensor.shape)
        starts[axis], steps[axis], shape[axis] = start, step, length
        part = sliced(lowering, tensor, starts, steps, shape)
        assert isinstance(part, Tensor)
        parts.append(part)
    if len(parts) == 1:
        assert isinstance(parts[0], Tensor)
        return parts[0]
    return join(lowering, parts, axis)


def _nearest(places: Sequence[int]) -> Taps:
    index = np.array(places, np.int64)
    return Taps(index, index, np.zeros(index.size, np.float32))


def _looked_up(lowering: Lowering, codes: Tensor, axis: int, places: Sequence[int]) -> Tensor:
    """Return codes by single indices along an axis: the rows of an image that are nearest to none but themselves."""
    shape = list(codes.shape)
    shape[axis] = len(places)
    own = Parameters(np.float32(1), 0, codes.dtype)
    if len(shape) == 4 and axis > 1:
        taps = [_nearest(range(length)) for length in shape[2:]]
        taps[axis - 2] = _nearest(places)
        return resampled(lowering, codes, shape, (taps[0], taps[1]), own, own)
    before, behind = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    image = lowering.reshaped(codes, (1, before, codes.shape[axis], behind))
    taken = resampled(
        lowering, image, (1, before, len(places), behind), (_nearest(places), _nearest(range(behind))), own, own
    )
    return lowering.reshaped(taken, shape)


def gathered(lowering: Lowering, value: Value, places: Mapping[int, Sequence[int]]) -> Value:
    """Return a value with other elements along some axes.

    Args:
        lowering: Where views and operators are added.
        value: Any.
        places: By axis, the indices within it of the elements of the result.

    Raises:
        NotNative: There are none, or they are no few slices of something else than codes.
    """
    shape = list(value.shape)
    for axis, chosen in places.items():
        shape[axis] = len(chosen)
    if 0 in shape:
        raise NotNative("an empty slice")
    slices = {axis: _progressions(chosen) for axis, chosen in places.items()}
    if isinstance(value, Tensor) and value.dtype not in CODE_TYPES and max(map(len, slices.values())) > _MOST_SLICES:
        raise NotNative(f"single elements of type {value.dtype}")

    def move(tensor: Tensor) -> Tensor:
        for axis, chosen in places.items():
            if len(slices[axis]) <= _MOST_SLICES:
                tensor = _joined_slices(lowering, tensor, axis, slices[axis])
            elif tensor.dtype in CODE_TYPES:
                tensor = _looked_up(lowering, tensor, axis, chosen)
            else:
                raise NotNative(f"single elements of type {tensor.dtype}")
        return tensor

    def move_array(array: Array) -> Array:
        for axis, chosen in places.items():
            array = np.take(array, chosen, axis)
        return array

    return moved(lowering, value, shape, move, move_array)


def gather(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Gather by constant indices."""
    value, indices = present(inputs[0]), constant(inputs[1], "the indices")
    if not value.shape or indices.size == 0 or indices.dtype.kind not in "iu":
        raise NotNative("no indices, or nothing to choose from")
    axis = int(node.attributes.get("axis", 0)) % len(value.shape)
    length = value.shape[axis]
    places = [int(place) + (length if place < 0 else 0) for place in indices.reshape(-1)]
    if min(places) < 0 or max(places) >= length:
        raise NotNative("indices out of range")
    part = gathered(lowering, value, {axis: places})
    return [reshaped(lowering, part, (*value.shape[:axis], *indices.shape, *value.shape[axis + 1 :]))]


def slice_(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Slice."""
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
    backwards: dict[int, Sequence[int]] = {}
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        places = range(*slice(start, end, step).indices(value.shape[axis]))
        if step < 0:
            backwards[axis % rank] = places
        else:
            begin[axis], stride[axis], shape[axis] = places.start, step, len(places)
    part = sliced(lowering, value, begin, stride, shape)
    return [gathered(lowering, part, backwards) if backwards else part]


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("", "Gather"): gather,
    ("", "Slice"): slice_,
}
