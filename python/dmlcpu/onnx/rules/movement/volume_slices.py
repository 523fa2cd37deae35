"""Volumes, {N, C, D, H, W}, as their slices, which are images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dmlcpu.onnx.lowering import Lowering
from dmlcpu.onnx.rules.movement.moved_values import reshaped, transposed
from dmlcpu.onnx.rules.windows import Window
from dmlcpu.onnx.values import Value

__all__ = ["SLICES_AS_IMAGES", "VOLUME_RANK", "pooled_by_slices"]

VOLUME_RANK: Final = 5

SLICES_AS_IMAGES: Final = (0, 2, 1, 3, 4)
"""The order of axes that makes images of slices, and slices of images again."""


def pooled_by_slices(lowering: Lowering, value: Value, window: Window, pool: Callable[[Value, Window], Value]) -> Value:
    """Return a volume pooled slice by slice, and then across the slices, by what pools images."""
    images, channels, depth, *plane = value.shape
    slices = transposed(lowering, value, SLICES_AS_IMAGES)
    slices = reshaped(lowering, slices, (images * depth, channels, *plane))
    slices = pool(slices, window.along(slice(1, None)))
    area = window.output[1] * window.output[2]
    slices = reshaped(lowering, slices, (images, depth, channels, area))
    # A column of the image is what the slices have at one place: windows are one wide.
    across = window.along(slice(0, 1)).beside(Window.plain((1,), (area,)))
    result = pool(transposed(lowering, slices, (0, 2, 1, 3)), across)
    return reshaped(lowering, result, (images, channels, *window.output))
