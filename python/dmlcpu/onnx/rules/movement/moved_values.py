"""Values whose elements move, and none is computed: what a value is a function of moves, and the function stays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, overload

import numpy as np

from dmlcpu.graph.lengths import decided_by, told_unfit
from dmlcpu.onnx.coded_weights import ConstantOfBlocks
from dmlcpu.onnx.constant_arrays import Array, Constant, array_broadcast, array_in_shape, constant_by, source_of
from dmlcpu.onnx.constants.empty_arrays import nothing
from dmlcpu.onnx.lowering import Lowering
from dmlcpu.onnx.parameters import Parameters
from dmlcpu.onnx.refusals import NotFitting, NotNative
from dmlcpu.onnx.rules.quantization.wide_codes import WideCodes
from dmlcpu.onnx.values import CONSTANTS, Deferred, Dequantized, Elements, Operand, Table, Tensor, Value, element_type

__all__ = ["Moved", "expanded", "join", "joined", "moved", "reshaped", "sliced", "sliced_along", "transposed"]

Move = Callable[[Tensor], Tensor]
Part = Callable[[Sequence[int], Sequence[int], Sequence[int]], Value | None]
MoveArray = Callable[..., Array]


class Moved(Deferred):
    """A computed value, its elements moved."""

    def __init__(
        self,
        lowering: Lowering,
        source: Deferred | Table,
        shape: tuple[int, ...],
        move: Move,
        part: Part | None = None,
    ) -> None:
        self._lowering, self._source, self._move, self._part = lowering, source, move, part
        self.shape, self.dtype = shape, element_type(source)

    @property
    def has_floats(self) -> bool:
        """Whether there are floats that only need be moved."""
        return super().has_floats or (isinstance(self._source, Deferred) and self._source.has_floats)

    def quantized(self, parameters: Parameters) -> Tensor | None:
        """Move the codes."""
        return self._move(self._lowering.quantized(self._source, parameters))

    def sliced(self, starts: Sequence[int], steps: Sequence[int], shape: Sequence[int]) -> Value | None:
        """Return what a part of the source becomes, where such a part is one of the elements moved."""
        return None if self._part is None else self._part(starts, steps, shape)

    def floats(self) -> Tensor:
        """Move the floats."""
        return self._move(self._lowering.floats(self._source))


def moved(
    lowering: Lowering,
    value: Value,
    shape: Sequence[int],
    move: Move,
    move_array: MoveArray,
    *lengths: Any,
    part: Part | None = None,
) -> Value:
    """Return a value with its elements moved.

    Args:
        lowering: Where operators are added.
        value: Any.
        shape: Of the result.
        move: Moves the elements of a tensor.
        move_array: Moves those of an array; it is given the lengths that it depends on.
        lengths: All of those, or other arguments, that may be known only later.
        part: Returns a part of the result of a source that is computed later; None where it takes all of that.
    """
    if isinstance(value, Table):
        return replace(value, codes=move(value.codes))
    if isinstance(value, WideCodes):
        dequantized = moved(lowering, value.dequantized, shape, move, move_array, *lengths)
        return WideCodes(value.parameters, dequantized, lambda: move(value.computed()))
    if isinstance(value, Deferred):
        return Moved(lowering, value, tuple(shape), move, part)
    if isinstance(value, Dequantized) and value.scale.size == 1:
        return replace(value, held=constant_by(move_array, source_of(value.held), *lengths).elements())
    if isinstance(value, CONSTANTS):
        return constant_by(move_array, value.source, *lengths)
    return move(value)


def _every(array: Array, *limits: int) -> Array:
    """Return every step-th element of each axis from a start on: limits are all starts, all steps, and the shape."""
    rank = array.ndim
    starts, steps, shape = limits[:rank], limits[rank : 2 * rank], limits[2 * rank :]
    return array[
        tuple(
            slice(start, start + (length - 1) * step + 1, step)
            for start, step, length in zip(starts, steps, shape, strict=True)
        )
    ]


def reshaped(lowering: Lowering, value: Value, shape: Sequence[int]) -> Value:
    """Return a value with its elements, in row-major order, under another shape.

    Raises:
        NotNative: The shape has not as many.
    """
    lengths = tuple(shape)
    if not decided_by(_have_as_many, len(lengths), *lengths, *value.shape):
        if not decided_by(_have_none, len(lengths), *lengths, *value.shape):
            raise NotFitting(told_unfit(value.shape, lengths))
        return nothing(value, lengths)
    if isinstance(value, Dequantized) and value.scale.size > 1:
        axis = _axis_after_reshape(value.shape, value.axis, lengths)
        if axis is not None:
            return replace(value, held=value.codes.reshape(lengths), axis=axis)

    def move(tensor: Tensor) -> Tensor:
        return lowering.reshaped(tensor, lengths)

    def part(starts: Sequence[int], steps: Sequence[int], shape: Sequence[int]) -> Value | None:
        assert isinstance(value, Deferred)
        return _part_of_reshaped(lowering, value, lengths, starts, steps, shape)

    return moved(lowering, value, lengths, move, array_in_shape, *lengths, part=part)


def _part_of_reshaped(
    lowering: Lowering,
    source: Deferred,
    lengths: tuple[int, ...],
    starts: Sequence[int],
    steps: Sequence[int],
    shape: Sequence[int],
) -> Value | None:
    """Return a part of a value under another shape, along one axis, where it is one of the value along an axis, too."""
    axes = [axis for axis, length in enumerate(shape) if length != lengths[axis]]
    if len(axes) != 1 or steps[axes[0]] != 1:
        return None
    [axis] = axes
    for place in reversed(range(len(source.shape))):
        if decided_by(_begin_alike, place, *source.shape[:place], *lengths[:axis]):
            break
    else:
        return None
    behind, inner = math.prod(lengths[axis + 1 :]), math.prod(source.shape[place + 1 :])
    if behind % inner != 0:
        return None
    begin, of_source = [0] * len(source.shape), [*source.shape]
    begin[place], of_source[place] = starts[axis] * (behind // inner), shape[axis] * (behind // inner)
    part = source.sliced(begin, [1] * len(begin), of_source)
    return None if part is None else reshaped(lowering, part, shape)


def _begin_alike(count: int, *lengths: int) -> bool:
    """Return whether lengths, so many of one shape and those of another, have as many elements together."""
    return math.prod(lengths[:count]) == math.prod(lengths[count:])


def _have_as_many(rank: int, *lengths: int) -> bool:
    """Return whether two shapes, the first one of this rank, have the same number of elements, and some."""
    return math.prod(lengths[:rank]) == math.prod(lengths[rank:]) != 0


def _have_none(rank: int, *lengths: int) -> bool:
    return math.prod(lengths[:rank]) == math.prod(lengths[rank:]) == 0


def _axis_after_reshape(before: Sequence[int], axis: int, after: Sequence[int]) -> int | None:
    """Return the axis that has the elements of an axis in their old order, if there is one."""
    for place, length in enumerate(after):
        if length == before[axis] and math.prod(after[:place]) == math.prod(before[:axis]):
            return place
    return None


@overload
def transposed(lowering: Lowering, value: Tensor, permutation: Sequence[int]) -> Tensor: ...


@overload
def transposed(lowering: Lowering, value: Value, permutation: Sequence[int]) -> Value: ...


def transposed(lowering: Lowering, value: Value, permutation: Sequence[int]) -> Value:
    """Return a value with its axes in another order."""
    order = tuple(permutation)
    shape = tuple(value.shape[axis] for axis in order)
    if order == tuple(range(len(value.shape))):
        return value
    if isinstance(value, ConstantOfBlocks):
        return value.transpose(order)
    if isinstance(value, Dequantized):
        codes = constant_by(np.transpose, source_of(value.held), order)
        return replace(value, held=codes.elements(), axis=order.index(value.axis))

    def move(tensor: Tensor) -> Tensor:
        return lowering.emit("TRANSPOSE", [tensor], tensor.dtype, shape, {"permutation": order})

    def part(starts: Sequence[int], steps: Sequence[int], lengths: Sequence[int]) -> Value | None:
        assert isinstance(value, Deferred)
        before = ([entries[order.index(axis)] for axis in range(len(order))] for entries in (starts, steps, lengths))
        of_source = value.sliced(*before)
        return None if of_source is None else transposed(lowering, of_source, order)

    return moved(lowering, value, shape, move, lambda array: array.transpose(order), part=part)


def sliced(
    lowering: Lowering, value: Value, starts: Sequence[int], steps: Sequence[int], shape: Sequence[int]
) -> Value:
    """Return every step-th element of each axis from a start on, as many as the shape says; of none a constant."""
    if 0 in shape:
        return nothing(value, shape)
    part = value.sliced(starts, steps, shape) if isinstance(value, Deferred) else None
    if part is not None:
        return part
    attributes = {"starts": tuple(starts), "steps": tuple(steps)}

    def move(tensor: Tensor) -> Tensor:
        return lowering.emit("SLICE", [tensor], tensor.dtype, shape, attributes)

    return moved(lowering, value, shape, move, _every, *starts, *steps, *shape)


def sliced_along(lowering: Lowering, value: Value, axis: int, start: int, length: int, step: int = 1) -> Value:
    """Return so many elements along one axis, every step-th from a start on, and all along the others."""
    rank = len(value.shape)
    starts, steps, shape = [0] * rank, [1] * rank, list(value.shape)
    starts[axis], steps[axis], shape[axis] = start, step, length
    return sliced(lowering, value, starts, steps, shape)


def expanded(lowering: Lowering, value: Value, shape: tuple[int, ...]) -> Value:
    """Return a value with its axes of length 1, and those before the first, repeated."""
    return moved(lowering, value, shape, lambda tensor: lowering.expanded(tensor, shape), array_broadcast, *shape)


class Joined(Deferred):
    """Values side by side."""

    def __init__(self, lowering: Lowering, parts: Sequence[Value], axis: int, shape: tuple[int, ...]) -> None:
        self._lowering, self._parts, self._axis = lowering, parts, axis
        self.shape, self.dtype = shape, element_type(parts[0])

    def quantized(self, parameters: Parameters) -> Tensor:
        """Bring all parts to the same parameters, and join their codes."""
        return join(self._lowering, [self._lowering.quantized(part, parameters) for part in self._parts], self._axis)

    def floats(self) -> Tensor:
        """Join the floats."""
        return join(self._lowering, [self._lowering.elements(part) for part in self._parts], self._axis)


def join(lowering: Lowering, parts: Sequence[Elements], axis: int) -> Tensor:
    """Return tensors of one type side by side."""
    shape = list(parts[0].shape)
    shape[axis] = sum(part.shape[axis] for part in parts)
    operands: list[Operand] = list(parts)
    return lowering.emit("JOIN", operands, parts[0].dtype, shape, {"axis": (axis,)})


def joined(lowering: Lowering, values: Sequence[Value], axis: int) -> Value:
    """Return values of one type side by side.

    Raises:
        NotNative: Their shapes differ along other axes, or their types do.
    """
    shape = list(values[0].shape)
    shape[axis] = sum(value.shape[axis] for value in values)
    if any(
        (*value.shape[:axis], 0, *value.shape[axis + 1 :]) != (*shape[:axis], 0, *shape[axis + 1 :]) for value in values
    ):
        raise NotFitting(f"{told_unfit(*(value.shape for value in values))} along axis {axis}")
    given = values
    values = [value for value in given if value.shape[axis] != 0]  # such as what a decoder knows of the past at first
    if len(values) == 1:
        return values[0]
    if not values:
        return nothing(given[0], shape)
    tables = [value for value in values if isinstance(value, Table)]
    first = tables[0] if len(tables) == len(values) else None
    if first is not None and all(
        table.codes.dtype == first.codes.dtype and np.array_equal(table.floats, first.floats) for table in tables
    ):
        return replace(first, codes=join(lowering, [table.codes for table in tables], axis))
    wide = [value for value in values if isinstance(value, WideCodes)]
    if len(wide) == len(values) and all(value.has_parameters_of(wide[0]) for value in wide):
        dequantized = joined(lowering, [value.dequantized for value in wide], axis)
        return WideCodes(
            wide[0].parameters, dequantized, lambda: join(lowering, [value.computed() for value in wide], axis)
        )
    if all(isinstance(value, Tensor | Constant) for value in values):
        parts = [lowering.elements(value) for value in values]
        if len({part.dtype for part in parts}) != 1:
            raise NotNative("parts of several types")
        return join(lowering, parts, axis)
    return Joined(lowering, values, axis, tuple(shape))
