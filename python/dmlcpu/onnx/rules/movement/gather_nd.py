"""GatherND: a Gather of rows, those of the axes that its indices name as one.

What a row's indices name is a sum of places, one for each axis. Of computed indices each is looked up in a table, so
that it is checked against its own axis and may count from that axis's end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from dmlcpu.onnx.constant_arrays import Array, constant_by
from dmlcpu.onnx.constants.empty_arrays import nothing
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.element_operators import on_integers
from dmlcpu.onnx.rules.movement.gathered_values import chosen_by
from dmlcpu.onnx.rules.movement.moved_values import reshaped, sliced_along
from dmlcpu.onnx.rules.native_functions import IntegerBinary
from dmlcpu.onnx.rules.operands import present
from dmlcpu.onnx.values import CONSTANTS, Value
from dmlcpu.tensor import row_major_strides

__all__ = ["RULES", "row_places"]


def gather_nd(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """GatherND."""
    value, indices = present(inputs[0]), present(inputs[1])
    batch, depth = int(node.attributes.get("batch_dims", 0)), int(indices.shape[-1])  # decided
    named = batch + depth
    if depth < 1 or not 0 <= batch < len(indices.shape) or named > len(value.shape):
        raise NotNative(f"indices of shape {indices.shape} for {value.shape}, of which {batch} axes are batches")
    if indices.shape[:batch] != value.shape[:batch]:
        raise NotNative(f"batches {indices.shape[:batch]} of indices for batches {value.shape[:batch]}")
    if 0 in indices.shape:
        return [nothing(value, (*indices.shape[:-1], *value.shape[named:]))]
    lengths = value.shape[:named]
    rows = reshaped(lowering, value, (math.prod(lengths), *value.shape[named:]))
    if isinstance(indices, CONSTANTS):
        return [chosen_by(lowering, rows, 0, constant_by(_named_rows, indices.source, *lengths))]
    return [chosen_by(lowering, rows, 0, row_places(lowering, indices, lengths))]


def row_places(lowering: Lowering, indices: Value, lengths: Sequence[int]) -> Value:
    """Return which rows computed indices name.

    Args:
        lowering: Where operators are added.
        indices: {batches ..., ..., depth}, for the last axes of these.
        lengths: Of the axes that are rows as one: those of batches, then those that the indices name.
    """
    shape = indices.shape[:-1]
    batch = len(lengths) - int(indices.shape[-1])
    steps = row_major_strides(lengths)
    parts: list[Value] = [constant_by(_along, axis, lengths[axis], steps[axis], len(shape)) for axis in range(batch)]
    for place, (length, step) in enumerate(zip(lengths[batch:], steps[batch:], strict=True)):
        own = reshaped(lowering, sliced_along(lowering, indices, len(shape), place, 1), shape)
        # Of rows of one axis alone the index is the place.
        parts.append(own if len(lengths) == 1 else chosen_by(lowering, constant_by(_multiples, length, step), 0, own))
    places = parts[0]
    for part in parts[1:]:
        places = on_integers(lowering, IntegerBinary.ADD, places, part)
    return places


def _named_rows(indices: Array, *lengths: int) -> Array:
    """Return the rows that constant indices name, of ``row_places``'s indices and lengths.

    Raises:
        NotNative: Some are out of range.
    """
    batch, axes = len(lengths) - indices.shape[-1], indices.ndim - 1
    bounds, steps = np.array(lengths[batch:], np.int64), row_major_strides(lengths)
    if (indices < -bounds).any() or (indices >= bounds).any():
        raise NotNative("indices out of range")
    within = np.where(indices < 0, indices + bounds, indices) * np.array(steps[batch:], np.int64)
    places: Array = within.sum(-1)
    for axis in range(batch):
        places = places + _along(axis, lengths[axis], steps[axis], axes)
    return places


def _along(axis: int, length: int, step: int, rank: int) -> Array:
    return _multiples(length, step).reshape(length, *(1,) * (rank - axis - 1))


def _multiples(length: int, step: int) -> Array:
    return np.arange(length, dtype=np.int64) * step


RULES: Final[Mapping[tuple[str, str], Rule]] = {("", "GatherND"): gather_nd}
