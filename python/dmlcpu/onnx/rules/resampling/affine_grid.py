"""AffineGrid by matrices that are computed: their products with the places of pixels, and 1."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from dmlcpu.dtypes import FLOAT32
from dmlcpu.onnx.constant_arrays import Array, constant_by
from dmlcpu.onnx.constants.affine_grid import places_along
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.movement.moved_values import transposed
from dmlcpu.onnx.rules.operands import computed_floats, integers, present
from dmlcpu.onnx.values import Value

__all__ = ["RULES"]


def _places(align_corners: bool, *lengths: int) -> Array:
    """Return x, y, of volumes z, and 1 of each pixel: FLOAT32 {axes + 1, pixels}."""
    along = [places_along(length, align_corners) for length in lengths]
    axes = np.meshgrid(*along, indexing="ij")[::-1]
    return np.stack([*axes, np.ones_like(axes[0])]).reshape(len(lengths) + 1, -1)


def affine_grid(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """AffineGrid of images and volumes of known lengths."""
    theta, size = present(inputs[0]), integers(inputs[1], "the size")
    axes, lengths = len(size) - 2, size[2:]
    if axes not in (2, 3) or theta.shape != (size[0], axes, axes + 1) or any(length < 1 for length in size):
        raise NotNative(f"a grid of size {size} by matrices {theta.shape}")
    matrices = computed_floats(lowering, theta)
    count, pixels = size[0], math.prod(lengths)
    places = constant_by(_places, bool(node.attributes.get("align_corners", 0)), *lengths).elements()
    planes = lowering.emit("FLOAT_PRODUCT", [matrices, places], FLOAT32, (count, axes, pixels))
    return [lowering.reshaped(transposed(lowering, planes, (0, 2, 1)), (count, *lengths, axes))]


RULES: Final[Mapping[tuple[str, str], Rule]] = {("", "AffineGrid"): affine_grid}
