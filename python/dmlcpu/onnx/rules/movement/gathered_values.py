"""Values whose elements indices name along axes: views where that is enough, else copies of slices, or look-ups."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

import numpy as np

from dmlcpu.dtypes import CODE_TYPES
from dmlcpu.graph.lengths import decided_by, derived, length_by
from dmlcpu.graph.record import Derived
from dmlcpu.onnx.coded_weights import ConstantOfBlocks
from dmlcpu.onnx.constant_arrays import Array, Constant, ConstantElements, FreeArray, source_of
from dmlcpu.onnx.constants.empty_arrays import nothing
from dmlcpu.onnx.lowering import Lowering
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.element_operators import INTEGER_TYPES
from dmlcpu.onnx.rules.movement.coded_rows import dequantized_rows
from dmlcpu.onnx.rules.movement.moved_values import expanded, join, moved, reshaped, sliced_along, transposed
from dmlcpu.onnx.rules.operands import computed, constant
from dmlcpu.onnx.rules.quantized_resampling import Taps, resampled
from dmlcpu.onnx.values import CONSTANTS, AffineTable, Dequantized, Elements, Tensor, Value
from dmlcpu.tensor import row_major_strides

__all__ = ["chosen_by", "gathered", "looked_up"]

# Up to this many slices are joined; more indices than they cover are taken one by one.
_MOST_SLICES: Final = 16
# Rows of so many codes are copied as they are, others looked up in less time. What is copied may be of any length.
_LONG_ROW: Final = 128
# Nor are rows of so many looked up: each is moved at once.
_UNITS: Final = frozenset({2, 4, 8, 16})
# Of matrices of so many codes the floats are not made, for each length that is fed, to choose a few rows of them.
_LARGE_MATRIX: Final = 1 << 18


def _progressions(places: Array) -> list[tuple[int, int, int]]:
    """Return indices as slices, one after the other: start, step of 1 or more, length; of many no more than that."""
    found: list[tuple[int, int, int]] = []
    for place in places.tolist():
        if found:
            start, step, length = found[-1]
            if length == 1 and place > start:
                found[-1] = start, place - start, 2
                continue
            if length > 1 and place == start + step * length:
                found[-1] = start, step, length + 1
                continue
            if len(found) > _MOST_SLICES:
                break
        found.append((place, 1, 1))
    return found


def _count_of_slices(slices: Sequence[object]) -> int:
    return min(len(slices), _MOST_SLICES + 1)


def _entry(slices: Sequence[Sequence[int]], index: int, place: int) -> int:
    return slices[index][place]


def _slices(places: Array | Derived) -> list[tuple[int, int, int]] | None:
    """Return indices as a few slices; None if they are many."""
    found = derived(_progressions, places)
    count = int(length_by(_count_of_slices, found))  # decided
    if count > _MOST_SLICES:
        return None
    return [
        (length_by(_entry, found, index, 0), length_by(_entry, found, index, 1), length_by(_entry, found, index, 2))
        for index in range(count)
    ]


def _joined_slices(lowering: Lowering, tensor: Tensor, axis: int, slices: Sequence[tuple[int, int, int]]) -> Tensor:
    parts = [
        computed(lowering, sliced_along(lowering, tensor, axis, start, length, step)) for start, step, length in slices
    ]
    return parts[0] if len(parts) == 1 else join(lowering, parts, axis)


def _nearest(places: Sequence[int]) -> Taps:
    index = np.array(places, np.int64)
    return Taps(index, index, np.zeros(index.size, np.float32))


def _looked_up(lowering: Lowering, codes: Tensor, axis: int, places: Sequence[int]) -> Tensor:
    """Return codes by single indices along an axis: the rows of an image that are nearest to none but themselves."""
    shape = list(codes.shape)
    shape[axis] = len(places)
    if len(shape) == 4 and axis > 1:
        taps = [_nearest(range(length)) for length in shape[2:]]
        taps[axis - 2] = _nearest(places)
        return resampled(lowering, codes, shape, (taps[0], taps[1]))
    # Images of one channel, whose layout is not chosen for channels; rows of single codes would be copied one by one.
    before, behind = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    given, wanted = (before, 1, codes.shape[axis], behind), (before, 1, len(places), behind)
    taken = resampled(lowering, lowering.reshaped(codes, given), wanted, (_nearest(places), _nearest(range(behind))))
    return lowering.reshaped(taken, shape)


def _is_unit(row: int) -> bool:
    return row in _UNITS


def _is_looked_up(tensor: Tensor, axis: int, is_image: bool) -> bool:
    """Return whether single elements along an axis are looked up, else rows behind it copied.

    Of images they are, whatever is behind the axis: their channels may be neighbours in memory.
    """
    if tensor.dtype not in CODE_TYPES:
        return False
    row = math.prod(tensor.shape[axis + 1 :])
    if not (is_image and len(tensor.shape) == 4) and decided_by(_is_unit, row):
        return False
    return axis > 0 or row < _LONG_ROW


def gathered(
    lowering: Lowering, value: Value, places: Mapping[int, Array | Derived], *, is_image: bool = True
) -> Value:
    """Return a value with other elements along some axes.

    Args:
        lowering: Where views and operators are added.
        value: Any.
        places: By axis, the indices within it of the elements of the result, 1-D.
        is_image: Whether four axes may be those of images.
    """
    shape = list(value.shape)
    for axis, chosen in places.items():
        shape[axis] = length_by(len, chosen)
    if 0 in shape:
        return nothing(value, shape)

    def move(tensor: Tensor) -> Tensor:
        for axis, chosen in places.items():
            slices = _slices(chosen)
            if slices is not None:
                tensor = _joined_slices(lowering, tensor, axis, slices)
            elif _is_looked_up(tensor, axis, is_image):
                known = chosen.bound if isinstance(chosen, Derived) else chosen
                tensor = _looked_up(lowering, tensor, axis, known.tolist())
            else:
                indices = FreeArray.of(chosen) if isinstance(chosen, Derived) else chosen
                tensor = _taken(lowering, tensor, axis, indices)
        return tensor

    return moved(lowering, value, shape, move, _along_axes, *chain.from_iterable(places.items()))


def _along_axes(array: Array, *axes_and_places: Any) -> Array:
    """Return what indices name along axes, each before its indices."""
    for axis, chosen in zip(axes_and_places[::2], axes_and_places[1::2], strict=True):
        array = np.take(array, chosen, axis)
    return array


def _taken(lowering: Lowering, elements: Elements, axis: int, indices: Elements) -> Tensor:
    """Add what indices name in place of an axis; they may be computed, and are checked at each run."""
    shape = (*elements.shape[:axis], *indices.shape, *elements.shape[axis + 1 :])
    count = math.prod(indices.shape)
    flat = lowering.reshaped(indices, (count,)) if isinstance(indices, Tensor) else indices.reshape((count,))
    long = (*elements.shape[:axis], count, *elements.shape[axis + 1 :])
    result = lowering.emit("GATHER", [elements, flat], elements.dtype, long, {"axis": (axis,)})
    return lowering.reshaped(result, shape)


def looked_up(lowering: Lowering, value: Value, axis: int, indices: Tensor) -> Value:
    """Return what computed indices name in place of an axis; of codes the codes.

    Raises:
        NotNative: They are no integers, or the value is of a type that no kernel takes.
    """
    if indices.dtype not in INTEGER_TYPES:
        raise NotNative(f"indices of type {indices.dtype}")
    shape = (*value.shape[:axis], *indices.shape, *value.shape[axis + 1 :])
    if 0 in shape:  # rows without elements, such as what beams have chosen before the first step
        return nothing(value, shape)

    def chosen(elements: Elements) -> Tensor:
        return _taken(lowering, elements, axis, indices)

    if isinstance(value, Dequantized):
        parameters = value.parameters
        if parameters is None:
            matrix = _by_rows(value) if axis == 0 else None
            dequantized = None if matrix is None else dequantized_rows(lowering, matrix, chosen)
            return chosen(value.array) if dequantized is None else dequantized
        return AffineTable(chosen(value.codes), parameters)
    if isinstance(value, ConstantOfBlocks) and axis == 0 and value.axis == 1:
        rows = dequantized_rows(lowering, value, chosen)
        if rows is not None:
            return rows
    if isinstance(value, Constant):
        return chosen(value.elements())
    return moved(lowering, value, shape, chosen, lambda array: array)


def _by_rows(value: Dequantized) -> ConstantOfBlocks | None:
    """Return a large matrix of codes with a scale for each row, as with a block in each; None if it is none."""
    is_matrix = len(value.shape) == 2 and value.axis == 0 and value.scale.size == value.shape[0]
    if not is_matrix or math.prod(value.shape) < _LARGE_MATRIX or value.codes.dtype not in CODE_TYPES:
        return None
    scale, zero_point = (array.reshape(-1, 1) for array in (value.scale, value.zero_point))
    return ConstantOfBlocks(value.codes, scale, zero_point, value.shape[1], 1)


def chosen_by(lowering: Lowering, value: Value, axis: int, indices: Value) -> Value:
    """Return what indices, computed or constant, name in place of an axis.

    Raises:
        NotNative: They are no indices of the axis.
    """
    if not isinstance(indices, CONSTANTS):
        return looked_up(lowering, value, axis, computed(lowering, indices))
    known = indices if isinstance(indices, FreeArray) else constant(indices, "the tensor of indices")
    return _gathered_by_constants(lowering, value, axis, known)


def _gathered_by_constants(lowering: Lowering, value: Value, axis: int, indices: ConstantElements) -> Value:
    """Return what constant indices name in place of an axis, as a view where it is one.

    Raises:
        NotNative: They are no indices of the axis.
    """
    shape = (*value.shape[:axis], *indices.shape, *value.shape[axis + 1 :])
    if 0 in indices.shape:
        return nothing(value, shape)
    if isinstance(indices, FreeArray) and isinstance(value, Dequantized):
        return _taken_of_constants(lowering, value, axis, indices)
    places: Any = derived(_counted_from_front, source_of(indices), value.shape[axis])
    view = _view(lowering, value, axis, places, indices.shape)
    if view is not None:
        return view
    # Indices of several axes make more axes than images have.
    part = gathered(lowering, value, {axis: derived(np.ravel, places)}, is_image=len(indices.shape) == 1)
    return reshaped(lowering, part, shape)


def _taken_of_constants(lowering: Lowering, value: Dequantized, axis: int, indices: FreeArray) -> Value:
    """Return what indices that are known only later name of constants, such as rows of positions."""

    def taken(array: Array) -> FreeArray:
        return FreeArray.of(derived(_array_gathered, lowering, array, axis, indices.derived))

    return replace(value, held=taken(value.codes)) if value.scale.size == 1 else taken(value.array)


def _array_gathered(lowering: Lowering, array: Array, axis: int, indices: Array) -> Array:
    part = _gathered_by_constants(lowering, Constant(array), axis, indices)
    assert isinstance(part, Constant)
    return part.array


def _counted_from_front(indices: Array, length: int) -> Array:
    """Return indices counted from the front.

    Raises:
        NotNative: They are no indices of an axis of this length.
    """
    if indices.dtype.kind not in "iu":
        raise NotNative("no indices")
    if indices.min() < -length or indices.max() >= length:
        raise NotNative("indices out of range")
    places = indices.astype(np.int64)
    return np.where(places < 0, places + length, places) if indices.min() < 0 else places


@dataclass(frozen=True)
class _Steps:
    """Indices that are a range in another order, or repeated.

    Attributes:
        first: The least of them.
        inner_last: Their axes with more than one index, those with the largest steps first.
    """

    first: int
    inner_last: tuple[int, ...]


def _steps(places: Array) -> _Steps | None:
    """Return what range indices are; None if they are none."""
    first, steps = int(places.flat[0]), []
    expected = np.full(places.shape, first, np.int64)
    for along, count in enumerate(places.shape):
        steps.append(int(np.take(places, 1, along).flat[0]) - first if count > 1 else 0)
        expected += (np.arange(count) * steps[-1]).reshape(count, *(1,) * (places.ndim - along - 1))
    if min(steps, default=0) < 0 or not np.array_equal(expected, places):
        return None
    inner_last = sorted((along for along, step in enumerate(steps) if step), key=lambda along: -steps[along])
    counts = [places.shape[along] for along in inner_last]
    if tuple(steps[along] for along in inner_last) != row_major_strides(counts):
        return None
    return _Steps(first, tuple(inner_last))


def _are_in_order(steps: _Steps | None, inner_last: tuple[int, ...] | None) -> bool:
    return (steps and steps.inner_last) == inner_last


def _first(steps: _Steps) -> int:
    return steps.first


def _view(lowering: Lowering, value: Value, axis: int, places: Array | Derived, lengths: Sequence[int]) -> Value | None:
    """Return what indices name in place of an axis as a view, if they are a range in another order, or repeated.

    That is how masks are brought to the shape of attention: by indices of several axes, computed of ranges alone.

    Args:
        lowering: Where views are added.
        value: Any.
        axis: Of the value.
        places: Indices, none below 0.
        lengths: Their shape.
    """
    found = derived(_steps, places)
    steps: _Steps | None = found.value if isinstance(found, Derived) else found
    decided_by(_are_in_order, found, steps and steps.inner_last)
    if steps is None:
        return None
    inner_last = steps.inner_last
    counts = tuple(lengths[along] for along in inner_last)
    before, behind = value.shape[:axis], value.shape[axis + 1 :]
    part = sliced_along(lowering, value, axis, length_by(_first, found), math.prod(counts))
    part = reshaped(lowering, part, (*before, *counts, *behind))
    order = (inner_last.index(along) for along in sorted(inner_last))
    outer, inner = range(axis), range(axis + len(counts), axis + len(counts) + len(behind))
    part = transposed(lowering, part, (*outer, *(axis + place for place in order), *inner))
    alone = tuple(count if along in inner_last else 1 for along, count in enumerate(lengths))
    return expanded(lowering, reshaped(lowering, part, (*before, *alone, *behind)), (*before, *lengths, *behind))
