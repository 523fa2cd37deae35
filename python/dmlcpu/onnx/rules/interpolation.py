"""Interpolation that reads more than two places of an axis: cubic, and such against aliasing. Products with matrices.

A matrix has a row for each output index, with the weights of the source indices. They are mostly 0, and it is much
faster than gathering four by four: a product runs at the speed of memory or better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from dmlcpu.graph.record import Derived
from dmlcpu.onnx.lowering import Lowering, NotNative
from dmlcpu.onnx.nodes import Node
from dmlcpu.onnx.rules.matrix_multiply import matmul
from dmlcpu.onnx.rules.movement import reshaped
from dmlcpu.onnx.values import Array, Constant, Tensor, Value

__all__ = ["Axis", "interpolation", "multiplied"]

# Of a matrix, which may be larger than image and model: 16 MiB.
_MOST_ELEMENTS: Final = 1 << 22


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


def _linear(distance: Array) -> Array:
    return np.asarray(np.maximum(1 - distance, 0))


def _cubic(distance: Array, a: float) -> Array:
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.asarray(np.where(distance < 1, near, np.where(distance < 2, far, 0)))


def interpolation(node: Node, axis: Axis, places: Array) -> Array | None:
    """Return the matrix {resized, size} of an axis, FLOAT32; None where nothing changes.

    Args:
        node: A Resize, cubic or linear.
        axis: The axis.
        places: In the source, of each output index.

    Raises:
        NotNative: It is too large.
    """
    if not axis.changes:
        return None
    if axis.size * axis.resized > _MOST_ELEMENTS:
        raise NotNative(f"interpolation from {axis.size} to {axis.resized} by more than two places")
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
    matrix = np.zeros((axis.resized, axis.size))
    np.add.at(matrix, (np.arange(axis.resized)[:, None], np.clip(indices, 0, axis.size - 1)), weights)
    return matrix.astype(np.float32)


def multiplied(lowering: Lowering, node: Node, x: Tensor, matrices: Sequence[Array | None]) -> Value:
    """Return images with their columns, and their rows if there are some, multiplied with matrices."""
    *outer, width = x.shape
    value: Value = x
    by_columns = matrices[-1]
    if by_columns is not None:
        rows = reshaped(lowering, value, (math.prod(outer), width))
        [rows] = matmul(lowering, node, [rows, Constant(np.ascontiguousarray(by_columns.T))])
        width = by_columns.shape[0]
        value = reshaped(lowering, rows, (*outer, width))
    by_rows = matrices[0] if len(matrices) > 1 else None
    if by_rows is not None:
        *outer, height = outer
        images = reshaped(lowering, value, (math.prod(outer), height, width))
        [images] = matmul(lowering, node, [Constant(by_rows), images])
        value = reshaped(lowering, images, (*outer, by_rows.shape[0], width))
    return value
