"""Operators that move the elements of constants, or repeat them, as functions of numpy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np

from dmlcpu.onnx.constant_arrays import Array
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotFolded, NotNative

__all__ = [
    "LARGEST_ENDS",
    "MOST_ELEMENTS",
    "MOVEMENT_FUNCTIONS",
    "ConstantFunction",
    "given_axes",
    "is_numpys_slice",
    "is_small",
]

ConstantFunction: TypeAlias = Callable[[Node, Sequence[Array]], Array | None]
"""What a node makes of arrays; None of those that are left to the evaluator."""

# Of what has more elements the evaluator is asked, which is asked first how many there are.
MOST_ELEMENTS: Final = 1 << 20
# Ends of slices by which exporters mean all that is left, and onnxruntime takes them so, whichever way a slice goes.
LARGEST_ENDS: Final = ((1 << 31) - 1, (1 << 63) - 1)


def is_small(shape: Sequence[int]) -> bool:
    """Return whether an array of this shape is made here; lengths below 0 are those of no array."""
    return min(shape, default=1) >= 0 and math.prod(shape) <= MOST_ELEMENTS


def _reshape(node: Node, arrays: Sequence[Array]) -> Array | None:
    """Return an array in another shape, in which 0 is the length that it has there, or none.

    Raises:
        NotNative: A length is below -1, which the evaluator takes.
    """
    array, shape = arrays
    lengths: list[int] = shape.tolist()
    if not node.attributes.get("allowzero", 0):
        lengths = [length or array.shape[axis] for axis, length in enumerate(lengths)]
    if min(lengths, default=0) < -1:
        raise NotNative(f"a shape of {lengths}")
    return array.reshape(lengths)


def _flatten(node: Node, arrays: Sequence[Array]) -> Array:
    [array] = arrays
    return array.reshape(math.prod(array.shape[: node.attributes.get("axis", 1)]), -1)


def given_axes(node: Node, arrays: Sequence[Array]) -> tuple[int, ...] | None:
    """Return the axes of an attribute, or of the second input where an operator of its version has one."""
    if len(arrays) > 1:
        return tuple(arrays[1].tolist())
    return tuple(node.attributes.get("axes", ())) or None


def _unsqueeze(node: Node, arrays: Sequence[Array]) -> Array | None:
    axes = given_axes(node, arrays)
    if axes is None:
        return None
    if len(axes) == 1 and 0 <= axes[0] <= arrays[0].ndim:  # in a fifth of the time
        return arrays[0][(slice(None),) * axes[0] + (None,)]
    return np.expand_dims(arrays[0], axes)


def _squeeze(node: Node, arrays: Sequence[Array]) -> Array:
    return np.squeeze(arrays[0], given_axes(node, arrays) or None)  # of no axes all of length 1, as in runtimes


def _transpose(node: Node, arrays: Sequence[Array]) -> Array:
    return np.transpose(arrays[0], node.attributes.get("perm"))


def _concat(node: Node, arrays: Sequence[Array]) -> Array | None:
    is_large = sum(array.size for array in arrays) > MOST_ELEMENTS or len({array.dtype for array in arrays}) != 1
    return None if is_large else np.concatenate(arrays, node.attributes["axis"])


def is_numpys_slice(start: int, end: int, step: int, length: int) -> bool:
    """Return whether numpy's slice of an axis is ONNX's.

    Backwards it is not where the slice starts before the first element, nor where its end is one of the numbers that
    stand for all that is left.
    """
    return step >= 0 or (start >= -length and end not in LARGEST_ENDS)


def _slice(node: Node, arrays: Sequence[Array]) -> Array | None:
    """Return a slice.

    Raises:
        NotFolded: It goes backwards from before the first element, or as far as it goes, which the evaluator takes for
            nothing.
    """
    if node.version < 10 or "" in node.inputs[:3]:
        return None
    array, starts, ends, *others = arrays
    named = dict(zip(filter(None, node.inputs[3:]), others, strict=True))
    axes, steps = (named.get(name) for name in (*node.inputs[3:], "", "")[:2])
    slices = [slice(None)] * array.ndim
    for axis, start, end, step in zip(
        range(starts.size) if axes is None else axes.tolist(),
        starts.tolist(),
        ends.tolist(),
        [1] * starts.size if steps is None else steps.tolist(),
        strict=True,
    ):
        if not is_numpys_slice(start, end, step, array.shape[axis]):
            raise NotFolded("a slice backwards from before the first element, or to the largest end")
        slices[axis] = slice(start, end, step)
    return array[tuple(slices)]


def _gather(node: Node, arrays: Sequence[Array]) -> Array | None:
    array, indices = arrays
    axis = node.attributes.get("axis", 0)
    if indices.dtype.kind != "i" or indices.size * array.size // array.shape[axis] > MOST_ELEMENTS:
        return None
    taken: Array = np.take(array, indices, axis)
    return taken


def _gather_elements(node: Node, arrays: Sequence[Array]) -> Array | None:
    """Return what indices name, of an array that may be longer than they are.

    Raises:
        NotNative: They name nothing. The evaluator would count them round and round the axis, one step after the other.
    """
    array, indices = arrays
    axis = range(indices.ndim)[node.attributes.get("axis", 0)]
    ends = [None if place == axis else length for place, length in enumerate(indices.shape)]
    part = array[tuple(slice(end) for end in ends)]
    is_long_enough = all(end in (None, length) for end, length in zip(ends, part.shape, strict=True))
    length = array.shape[axis]
    if not is_long_enough or (indices.size and not -length <= indices.min() <= indices.max() < length):
        raise NotNative("indices out of range")
    return np.take_along_axis(part, indices, axis)


def _gather_nd(node: Node, arrays: Sequence[Array]) -> Array | None:
    array, indices = arrays
    depth = indices.shape[-1]
    shape = (*indices.shape[:-1], *array.shape[depth:])
    if node.attributes.get("batch_dims", 0) or not 1 <= depth <= array.ndim or indices.dtype.kind != "i":
        return None
    return array[tuple(np.moveaxis(indices, -1, 0))] if is_small(indices.shape) and is_small(shape) else None


def _scatter_nd(node: Node, arrays: Sequence[Array]) -> Array | None:
    array, indices, updates = arrays
    depth = indices.shape[-1]
    shape = (*indices.shape[:-1], *array.shape[depth:])
    if node.attributes.get("reduction", b"none") != b"none" or updates.shape != shape or indices.dtype.kind != "i":
        return None
    if updates.dtype != array.dtype or not all(map(is_small, (array.shape, indices.shape, shape))):
        return None
    written: Array = array.copy()
    written[tuple(np.moveaxis(indices, -1, 0))] = updates  # of an index that is there twice the last one counts
    return written


def _expand(node: Node, arrays: Sequence[Array]) -> Array | None:
    shape = np.broadcast_shapes(arrays[0].shape, tuple(arrays[1].tolist()))
    return np.broadcast_to(arrays[0], shape).copy() if is_small(shape) else None


def _tile(node: Node, arrays: Sequence[Array]) -> Array | None:
    array, repeats = arrays
    counts = repeats.tolist()
    if array.ndim != len(counts):
        return None
    lengths = [length * count for length, count in zip(array.shape, counts, strict=True)]
    return np.tile(array, counts) if is_small(lengths) else None


def _pad(node: Node, arrays: Sequence[Array]) -> Array | None:
    """Return an array between repetitions of one element, of which there are none below 0."""
    named = dict(zip(filter(None, node.inputs), arrays, strict=True))
    array, pads, value, axes = (named.get(name) for name in (*node.inputs, "", "")[:4])
    if array is None or pads is None or node.version < 11 or node.attributes.get("mode", b"constant") != b"constant":
        return None
    element = 0 if value is None else value.reshape(()).astype(array.dtype)
    count = pads.size // 2
    widths = [(0, 0)] * array.ndim
    for axis, begin, end in zip(
        range(array.ndim) if axes is None else axes.tolist(), pads[:count].tolist(), pads[count:].tolist(), strict=True
    ):
        widths[axis] = begin, end
    lengths = [begin + length + end for length, (begin, end) in zip(array.shape, widths, strict=True)]
    return np.pad(array, widths, constant_values=element) if is_small(lengths) else None


def _trilu(node: Node, arrays: Sequence[Array]) -> Array | None:
    array, diagonal = arrays[0], arrays[1].item() if len(arrays) > 1 else 0
    if array.size > MOST_ELEMENTS:
        return None
    if array.size == 0:  # numpy makes a mask of rows and columns even where no array has them
        return array
    return np.triu(array, diagonal) if node.attributes.get("upper", 1) else np.tril(array, diagonal)


MOVEMENT_FUNCTIONS: Final[Mapping[str, ConstantFunction]] = {
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Concat": _concat,
    "Slice": _slice,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "ScatterND": _scatter_nd,
    "Expand": _expand,
    "Pad": _pad,
    "Trilu": _trilu,
    "Tile": _tile,
}
