"""How arrays lie in memory, and how new ones shall."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from dmlcpu.enums import TensorDataType
from dmlcpu.tensor import data_type_of

__all__ = [
    "Array",
    "Layout",
    "PackedArray",
    "broadcast",
    "can_be_described",
    "common_length",
    "layout_of",
    "memory_order",
    "new_array",
    "new_like",
    "on_axis",
    "on_channel_axis",
]

Array: TypeAlias = np.ndarray[Any, Any]


class Layout(NamedTuple):
    """How an array lies in memory; in place of an array, an output that is allocated once its operator is accepted.

    ``strides`` are in bytes, but of packed 4-bit elements, whose data type is then ``packed``, in elements.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    packed: TensorDataType | None = None


class PackedArray(NamedTuple):
    """4-bit elements, two in a byte, with the shape and the strides in elements that they are to be seen with.

    ``pairs`` is 1-D; None for an output that is allocated once its operator is accepted.
    """

    pairs: Array | None
    data_type: TensorDataType
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@lru_cache(maxsize=1024)
def can_be_described(dtype: np.dtype[Any], strides: tuple[int, ...]) -> bool:
    """Return whether a desc can hold these: a tensor data type, and strides of whole elements, none backwards."""
    try:
        data_type_of(dtype)
    except TypeError:
        return False
    return all(stride >= 0 and stride % dtype.itemsize == 0 for stride in strides)


@lru_cache(maxsize=1024)
def layout_of(dtype: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...]) -> Layout | None:
    """Return how an array lies in memory; None if no desc can say it."""
    # The stride of an axis of length 1 is never applied; numpy may hold anything there.
    steps = tuple(0 if size <= 1 else stride for size, stride in zip(shape, strides, strict=True))
    return Layout(dtype, shape, steps) if can_be_described(dtype, steps) else None


def broadcast(array: Array, shape: tuple[int, ...]) -> Array:
    """Return a view of an array in a shape, by strides of 0: ``np.broadcast_to``, a fifth of its time where it can be.

    Raises:
        ValueError: The array's shape does not broadcast to it.

    >>> broadcast(np.float32([1, 2]), (2, 2))
    array([[1., 2.],
           [1., 2.]], dtype=float32)
    """
    if array.shape == shape:
        return array
    if array.flags.c_contiguous and array.dtype.kind in "fiu":  # else numpy finds no buffer
        strides = _broadcast_strides(array.shape, array.strides, shape)
        if strides is not None:
            view: Array = np.ndarray(shape, array.dtype, array, 0, strides)
            return view
    return np.broadcast_to(array, shape)


@lru_cache(maxsize=1024)
def _broadcast_strides(
    array_shape: tuple[int, ...], strides: tuple[int, ...], shape: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Return the strides of the view; None if the shapes do not allow it, or there is nothing to view."""
    missing = len(shape) - len(array_shape)
    axes = zip(array_shape, strides, shape[max(missing, 0) :], strict=False)
    if missing < 0 or any(size not in (1, extent) or extent < 1 for size, _, extent in axes):
        return None
    steps = (0 if size == 1 else stride for size, stride in zip(array_shape, strides, strict=True))
    return (0,) * missing + tuple(steps)


def common_length(lines: Iterable[Array | None]) -> int:
    """Return how many elements those lines have that do not have one: all as many, perhaps none.

    >>> common_length([np.ones(1), None, np.ones(3)]), common_length([np.ones(1)]), common_length([np.ones(0)])
    (3, 1, 0)
    """
    return next((line.size for line in lines if line is not None and line.size != 1), 1)


def on_axis(line: Array, shape: tuple[int, ...], axis: int) -> Array:
    """Return a view of a line of values as a shape of ones but for the axis; a single value repeats along it.

    >>> on_axis(np.uint8([5]), (1, 3, 1), 1).shape
    (1, 3, 1)
    """
    return broadcast(line.reshape([-1 if index == axis else 1 for index in range(len(shape))]), shape)


def on_channel_axis(line: Array, rank: int) -> Array:
    """Return a view of a line of values, repeated ones too, as {1, channels, 1, ...}.

    >>> on_channel_axis(np.uint8([5, 6]), 4).shape
    (1, 2, 1, 1)
    """
    result: Array = line.reshape((1, line.size) + (1,) * max(rank - 2, 0))
    return result


def memory_order(*arrays: Array) -> list[int]:
    """Return the axes of arrays of one shape from the outermost in memory to the innermost, as numpy's order K.

    Axes of length 1 and repeated ones lie nowhere in particular and stay where they are; where the arrays differ, one
    in which an axis already stands right decides.

    >>> memory_order(np.zeros((2, 3, 4)).transpose(1, 2, 0)), memory_order(np.broadcast_to(np.zeros(4), (2, 3, 4)))
    ([2, 0, 1], [0, 1, 2])
    """
    return list(_memory_order(arrays[0].shape, tuple(array.strides for array in arrays)))


@lru_cache(maxsize=1024)
def _memory_order(shape: tuple[int, ...], array_strides: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    strides = [[0 if size == 1 else step for size, step in zip(shape, steps, strict=True)] for steps in array_strides]
    order: list[int] = []
    for axis in range(len(shape)):
        place = len(order)
        for index in reversed(range(len(order))):
            pairs = [(steps[order[index]], steps[axis]) for steps in strides]
            outward = [outer >= inner for outer, inner in pairs if outer != 0 and inner != 0]
            if any(outward):
                break
            if outward:
                place = index
        order.insert(place, axis)
    return tuple(order)


def new_array(shape: Sequence[int], dtype: np.dtype[Any], order: Iterable[int]) -> Layout:
    """Return the layout of a packed array whose axes nest in this order, the last one innermost."""
    return _new_array(tuple(shape), dtype, tuple(order))


@lru_cache(maxsize=1024)
def _new_array(shape: tuple[int, ...], dtype: np.dtype[Any], order: tuple[int, ...]) -> Layout:
    strides, step = [0] * len(shape), dtype.itemsize
    for axis in reversed(order):
        strides[axis] = step
        step *= shape[axis]
    return Layout(dtype, shape, tuple(strides))


def new_like(dtype: np.dtype[Any], *arrays: Array) -> Layout:
    """Return the layout of a packed array of the shape and the memory order of others, which have one shape."""
    return new_array(arrays[0].shape, dtype, memory_order(*arrays))
