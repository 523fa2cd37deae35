"""ScatterND by constant indices, as models write to a part of a mask: a look-up among what is written and the rest."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from dmlcpu.graph.lengths import decided_by
from dmlcpu.onnx.lowering import Lowering, NotNative, Rule
from dmlcpu.onnx.nodes import Node
from dmlcpu.onnx.rules.gathering import gathered_by_constants
from dmlcpu.onnx.rules.movement import join, reshaped
from dmlcpu.onnx.rules.operands import present
from dmlcpu.onnx.values import Array, Constant, FreeArray, Value, constant_by

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
    count = math.prod(updates.shape)
    places = constant_by(_places, indices.source, *data.shape)
    flat = reshaped(lowering, updates, (count,))
    if not decided_by(_are_all_written, places.source, count):
        rest = reshaped(lowering, data, (math.prod(data.shape),))
        parts = [lowering.elements(value) for value in (flat, rest)]
        if parts[0].dtype != parts[1].dtype:
            raise NotNative(f"updates of type {parts[0].dtype} in {parts[1].dtype}")
        flat = join(lowering, parts, 0)
    return [gathered_by_constants(lowering, flat, 0, places if isinstance(places, FreeArray) else places.array)]


RULES: Final[Mapping[tuple[str, str], Rule]] = {("", "ScatterND"): scatter_nd}
