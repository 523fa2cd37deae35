"""Interpolation that reads more than two places of an axis: cubic, and such against aliasing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

import numpy as np

from dmlcpu.graph.lengths import derived
from dmlcpu.graph.record import Derived
from dmlcpu.onnx.constant_arrays import Array
from dmlcpu.onnx.lowering import Lowering
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.values import Tensor

__all__ = ["Axis", "WeightedTaps", "check_weights", "interpolated", "weighted_taps"]

# Of an axis; they are kept as integers.
_MOST_WEIGHTS: Final = 1 << 22


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """How an axis is resized.

    Attributes:
        size, resized: Its length before and after.
        scale: As the node gives it, or the quotient of the lengths: of some that are known only later, derived.
    """

    size: int
    resized: int
    scale: np.float32 | Derived

    @property
    def changes(self) -> bool:
        """Whether anything happens to it."""
        return self.size != self.resized or (not isinstance(self.scale, Derived) and bool(self.scale != 1))

    @property
    def known_scale(self) -> np.float32:
        """The scale of lengths that are known."""
        assert not isinstance(self.scale, Derived)
        return self.scale

    @property
    def bound(self) -> Axis:
        """The axis with lengths that are known, if they were not."""
        scale = self.scale.value if isinstance(self.scale, Derived) else self.scale
        return Axis(int(self.size), int(self.resized), scale)


@dataclass(frozen=True, slots=True, eq=False)
class WeightedTaps:
    """Of one axis, for every output index: the first of some source indices, one behind the other, and their weights.

    Indices beyond the axis have a weight of 0.
    """

    first: Array
    weights: Array  # FLOAT32, {output indices, source indices}


def _linear(distance: Array) -> Array:
    return np.asarray(np.maximum(1 - distance, 0))


def _cubic(distance: Array, a: float) -> Array:
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.asarray(np.where(distance < 1, near, np.where(distance < 2, far, 0)))


def check_weights(axis: Axis) -> None:
    """Refuse an axis whose weights are too many.

    Raises:
        NotNative: So they are.
    """
    # A cubic reaches over at most 4 places of the shorter length, and is rounded to whole ones.
    if 4 * axis.size + 7 * axis.resized > _MOST_WEIGHTS:
        raise NotNative(f"interpolation from {axis.size} to {axis.resized} by more than two places")


def weighted_taps(node: Node, axis: Axis, places: Array) -> WeightedTaps:
    """Return the taps of an axis.

    Args:
        node: A Resize, cubic or linear.
        axis: The axis, of known lengths.
        places: In the source, of each output index.
    """
    if not axis.changes:
        return WeightedTaps(np.arange(axis.size), np.ones((axis.size, 1), np.float32))
    is_cubic = node.attributes["mode"] == b"cubic"
    stretch = max(1 / float(axis.known_scale), 1.0) if node.attributes.get("antialias", 0) else 1.0
    reach = (2 if is_cubic else 1) * stretch
    centres = places.astype(np.float64)[:, None]
    indices = np.floor(centres - reach).astype(np.int64) + np.arange(math.ceil(2 * reach) + 2)
    distances = np.abs(indices - centres) / stretch
    weights = _cubic(distances, node.attributes.get("cubic_coeff_a", -0.75)) if is_cubic else _linear(distances)
    if node.attributes.get("exclude_outside", 0):
        weights[(indices < 0) | (indices >= axis.size)] = 0
    weights /= weights.sum(1, keepdims=True)
    # Of an index beyond an end the weight is the end's.
    inside = np.clip(indices, 0, axis.size - 1)
    sums = np.zeros((axis.resized, min(inside.shape[1], axis.size)))
    np.add.at(sums, (np.arange(axis.resized)[:, None], inside - inside[:, :1]), weights)
    return WeightedTaps(inside[:, 0], sums.astype(np.float32))


def _first(taps: WeightedTaps) -> list[int]:
    return cast(list[int], taps.first.tolist())


def _weight_bits(taps: WeightedTaps) -> list[int]:
    return cast(list[int], taps.weights.view(np.uint32).reshape(-1).tolist())


def interpolated(
    lowering: Lowering,
    x: Tensor,
    resized: Sequence[int],
    axes: tuple[int, int],
    taps: Sequence[WeightedTaps | Derived],
) -> Tensor:
    """Add the operator on floats: resizes a 4-D tensor along two axes, those of its rows and of its columns."""
    rows, columns = taps
    attributes = {
        "axes": axes,
        "first_rows": derived(_first, rows),
        "row_weights": derived(_weight_bits, rows),
        "first_columns": derived(_first, columns),
        "column_weights": derived(_weight_bits, columns),
    }
    return lowering.emit("FLOAT_INTERPOLATION", [x], np.float32, resized, attributes)
