"""ScatterND by constant indices, as models write to a part of a mask or of scores.

Of a block, one range of indices along each axis, it is the data with the block replaced, joined of slices. Of others it
is a look-up among what is written and the rest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from dmlcpu.graph.lengths import decided_by, derived, length_by
from dmlcpu.onnx.lowering import Lowering, NotNative, Rule
from dmlcpu.onnx.nodes import Node
from dmlcpu.onnx.rules.gathering import gathered_by_constants
from dmlcpu.onnx.rules.movement import join, joined, reshaped, sliced
from dmlcpu.onnx.rules.operands import present
from dmlcpu.onnx.values import Array, Constant, FreeArray, Value, constant_by, element_type

__all__ = ["RULES"]

# Of more elements there is no array of where each is from.
_MOST_ELEMENTS: Final = 1 << 20


def _places(indices: Array, *shape: int) -> Array:
    """Return where each element is from: its place among the updates, or behind them its own.

    Raises:
        NotNative: There are too many.
        IndexError: Indices are out of range.
    """
    depth = indices.shape[-1]
    written = (*indices.shape[:-1], *shape[depth:])
    count = math.prod(written)
    if math.prod(shape) + count > _MOST_ELEMENTS:
        raise NotNative("more elements than places are told of")
    places = np.arange(count, count + math.prod(shape)).reshape(shape)
    # The last one of the same indices counts.
    places[tuple(np.moveaxis(indices, -1, 0))] = np.arange(count).reshape(written)
    return places


@dataclass(frozen=True)
class _Block:
    """A range of places along each of the first axes."""

    starts: tuple[int, ...]
    lengths: tuple[int, ...]


def _block(indices: Array, *shape: int) -> _Block | None:
    """Return the block that indices count through, its last axis first; None if they do not."""
    depth = indices.shape[-1]
    rows = indices.reshape(-1, depth)
    if not rows.size:
        return None
    starts, last = (np.where(row < 0, row + shape[:depth], row).tolist() for row in rows[[0, -1]])
    lengths = tuple(end - start + 1 for start, end in zip(starts, last, strict=True))
    inside = all(0 <= start <= end < whole for start, end, whole in zip(starts, last, shape, strict=False))
    if not inside or math.prod(lengths) != len(rows):
        return None
    grid = rows.reshape(*lengths, depth)
    for axis, (start, whole) in enumerate(zip(starts, shape, strict=False)):
        along = np.arange(start, start + lengths[axis]).reshape(-1, *(1,) * (depth - axis - 1))
        if not np.all((grid[..., axis] == along) | (grid[..., axis] == along - whole)):
            return None
    return _Block(tuple(starts), lengths)


def _is_found(block: _Block | None) -> bool:
    return block is not None


def _start(block: _Block, axis: int) -> int:
    return block.starts[axis]


def _length(block: _Block, axis: int) -> int:
    return block.lengths[axis]


def _with_block(
    lowering: Lowering, data: Value, block: Value, ranges: Sequence[tuple[int, int]], axis: int = 0
) -> Value:
    """Return data with a block in place of its own elements: of the ranges' starts and lengths from an axis on."""
    if axis == len(ranges):
        return block
    (start, length), whole = ranges[axis], data.shape[axis]
    if start == 0 and length == whole:
        return _with_block(lowering, data, block, ranges, axis + 1)

    def part(begin: int, count: int) -> Value:
        starts, shape = [0] * len(data.shape), list(data.shape)
        starts[axis], shape[axis] = begin, count
        return sliced(lowering, data, starts, (1,) * len(shape), shape)

    behind = whole - start - length
    before = [part(0, start)] if start > 0 else []
    after = [part(start + length, behind)] if behind > 0 else []
    middle = _with_block(lowering, part(start, length), block, ranges, axis + 1)
    return joined(lowering, [*before, middle, *after], axis)


def _are_all_written(places: Array, count: int) -> bool:
    return bool((places < count).all())


def scatter_nd(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """ScatterND, without a reduction."""
    data, indices, updates = (present(value) for value in inputs)
    if node.attributes.get("reduction", b"none") != b"none":
        raise NotNative("updates that are reduced")
    if not isinstance(indices, Constant) or indices.dtype.kind != "i":
        raise NotNative("the indices are not constants")
    depth = indices.shape[-1]
    if not 1 <= depth <= len(data.shape) or updates.shape != (*indices.shape[:-1], *data.shape[depth:]):
        raise NotNative(f"updates of shape {updates.shape} by indices of shape {indices.shape}")
    if element_type(data) != element_type(updates):
        raise NotNative(f"updates of type {element_type(updates)} in {element_type(data)}")
    found = derived(_block, indices.source, *data.shape)
    if decided_by(_is_found, found):
        ranges = [(length_by(_start, found, axis), length_by(_length, found, axis)) for axis in range(depth)]
        shape = (*(length for _, length in ranges), *data.shape[depth:])
        return [_with_block(lowering, data, reshaped(lowering, updates, shape), ranges)]
    count = math.prod(updates.shape)
    places = constant_by(_places, indices.source, *data.shape)
    flat = reshaped(lowering, updates, (count,))
    if not decided_by(_are_all_written, places.source, count):
        rest = reshaped(lowering, data, (math.prod(data.shape),))
        parts = [lowering.elements(value) for value in (flat, rest)]
        flat = join(lowering, parts, 0)
    return [gathered_by_constants(lowering, flat, 0, places if isinstance(places, FreeArray) else places.array)]


RULES: Final[Mapping[tuple[str, str], Rule]] = {("", "ScatterND"): scatter_nd}
