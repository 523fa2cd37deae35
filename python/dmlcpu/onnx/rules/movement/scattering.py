"""ScatterElements, and ScatterND as models write to a part of a mask or of scores, or to a cache.

By constant indices of a block, one range along each axis, ScatterND is the data with the block replaced, joined of
slices; by others it is a look-up among what is written and the rest. By computed indices, or with a reduction, it
writes rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from dmlcpu.dtypes import FLOAT32
from dmlcpu.graph.lengths import decided_by, derived, length_by
from dmlcpu.onnx.constant_arrays import Array, Constant, constant_by
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.element_operators import INTEGER_TYPES
from dmlcpu.onnx.rules.movement.gather_nd import row_places
from dmlcpu.onnx.rules.movement.gathered_values import chosen_by
from dmlcpu.onnx.rules.movement.moved_values import expanded, join, joined, reshaped, sliced_along
from dmlcpu.onnx.rules.operands import axis_within, present
from dmlcpu.onnx.values import Tensor, Value, element_type

__all__ = ["RULES"]

# In the order of their numbers.
_REDUCTIONS: Final = (b"none", b"add", b"mul", b"max", b"min")
# Of more elements there is no array of where each is from.
_MOST_ELEMENTS: Final = 1 << 20


def _origins(indices: Array, *shape: int) -> Array:
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
    """Return the block that indices, of which there are some, count through, its last axis first; None if none."""
    depth = indices.shape[-1]
    rows = indices.reshape(-1, depth)
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
        return sliced_along(lowering, data, axis, begin, count)

    behind = whole - start - length
    before = [part(0, start)] if start > 0 else []
    after = [part(start + length, behind)] if behind > 0 else []
    middle = _with_block(lowering, part(start, length), block, ranges, axis + 1)
    return joined(lowering, [*before, middle, *after], axis)


def _are_all_written(places: Array, count: int) -> bool:
    return bool((places < count).all())


def scatter_nd(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """ScatterND."""
    data, indices, updates = (present(value) for value in inputs)
    depth = int(indices.shape[-1])  # decided
    if not 1 <= depth <= len(data.shape) or updates.shape != (*indices.shape[:-1], *data.shape[depth:]):
        raise NotNative(f"updates of shape {updates.shape} by indices of shape {indices.shape}")
    if element_type(data) != element_type(updates):
        raise NotNative(f"updates of type {element_type(updates)} in {element_type(data)}")
    if 0 in updates.shape:
        return [data]
    if not isinstance(indices, Constant) or _reduction(node):
        return [_rows_written(lowering, node, data, indices, updates)]
    if indices.dtype.kind != "i":
        raise NotNative(f"indices of type {indices.dtype}")
    found = derived(_block, indices.source, *data.shape)
    if decided_by(_is_found, found):
        ranges = [(length_by(_start, found, axis), length_by(_length, found, axis)) for axis in range(depth)]
        shape = (*(length for _, length in ranges), *data.shape[depth:])
        return [_with_block(lowering, data, reshaped(lowering, updates, shape), ranges)]
    count = math.prod(updates.shape)
    places = constant_by(_origins, indices.source, *data.shape)
    flat = reshaped(lowering, updates, (count,))
    if not decided_by(_are_all_written, places.source, count):
        rest = reshaped(lowering, data, (math.prod(data.shape),))
        parts = [lowering.elements(value) for value in (flat, rest)]
        flat = join(lowering, parts, 0)
    return [chosen_by(lowering, flat, 0, places)]


def _reduction(node: Node) -> int:
    """Return the number that SCATTER_ELEMENTS has for a reduction.

    Raises:
        NotNative: It is none of ONNX's.
    """
    name = node.attributes.get("reduction", b"none")
    if name not in _REDUCTIONS:
        raise NotNative(f"reduction {name!r}")
    return _REDUCTIONS.index(name)


def _rows_written(lowering: Lowering, node: Node, data: Value, indices: Value, updates: Value) -> Value:
    """Add updates of whole rows of the data, the axes that indices name as one."""
    depth = int(indices.shape[-1])
    count, length = math.prod(indices.shape[:-1]), math.prod(data.shape[depth:])
    places = row_places(lowering, indices, data.shape[:depth])
    columns = expanded(lowering, reshaped(lowering, places, (count, 1)), (count, length))
    rows = reshaped(lowering, data, (math.prod(data.shape[:depth]), length))
    written = _written(lowering, node, 0, (rows, columns, reshaped(lowering, updates, (count, length))))
    return lowering.reshaped(written, data.shape)


def _written(lowering: Lowering, node: Node, axis: int, operands: Sequence[Value]) -> Tensor:
    """Add updates along an axis: of data, indices and updates.

    Raises:
        NotNative: Their types do not fit together, or are none that is reduced.
    """
    data, indices, updates = (lowering.elements(value) for value in operands)
    reduction = _reduction(node)
    if indices.dtype not in INTEGER_TYPES or data.dtype != updates.dtype:
        raise NotNative(f"updates of type {updates.dtype} by {indices.dtype} in {data.dtype}")
    if reduction and data.dtype not in (*INTEGER_TYPES, FLOAT32):
        raise NotNative(f"a reduction of {data.dtype}")
    attributes = {"axis": (axis,), "reduction": (reduction,)}
    return lowering.emit("SCATTER_ELEMENTS", [data, indices, updates], data.dtype, data.shape, attributes)


def scatter_elements(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """ScatterElements, and Scatter as it was called."""
    operands = [present(value) for value in inputs]
    data, indices, updates = operands
    rank = len(data.shape)
    axis = axis_within(node.attributes.get("axis", 0), rank)
    if len(indices.shape) != rank or updates.shape != indices.shape:
        raise NotNative(f"updates {updates.shape} by {indices.shape} along axis {axis} of {data.shape}")
    return [data if 0 in updates.shape else _written(lowering, node, axis, operands)]


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("", "Scatter"): scatter_elements,
    ("", "ScatterElements"): scatter_elements,
    ("", "ScatterND"): scatter_nd,
}
