"""Poolings of floats."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from dmlcpu.dtypes import FLOAT32
from dmlcpu.onnx.lowering import Lowering
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.movement.volume_slices import VOLUME_RANK, pooled_by_slices
from dmlcpu.onnx.rules.native_functions import Pooling
from dmlcpu.onnx.rules.operands import computed
from dmlcpu.onnx.rules.pooling.float_means import LONGEST_REDUCED, mean_over, sum_over
from dmlcpu.onnx.rules.windows import Window
from dmlcpu.onnx.values import Tensor, Value

__all__ = ["float_pooling"]

# Of an image, whose average FLOAT_POOLING has sooner than REDUCE_MEAN, and whose sum.
_FEW_PIXELS: Final = 8


def float_pooling(
    lowering: Lowering, floats: Tensor, window: Window, function: Pooling, include_padding: bool = False
) -> Tensor:
    """Add a pooling of a FLOAT32 tensor: of an image, or of a volume, whose padding counts.

    Raises:
        NotNative: It is none of these.
    """
    if len(floats.shape) == VOLUME_RANK:
        # Averages of averages are those of all only if there are as many elements in each.
        if any((*window.start_padding, *window.end_padding)) and not include_padding and function == Pooling.AVERAGES:
            raise NotNative("averages of volumes whose padding does not count")

        def pool(image: Value, part: Window) -> Tensor:
            return float_pooling(lowering, computed(lowering, image), part, function, include_padding)

        return computed(lowering, pooled_by_slices(lowering, floats, window, pool))
    if floats.dtype != np.float32 or len(floats.shape) != 4:
        raise NotNative(f"a pooling of {len(floats.shape)} dimensions of type {floats.dtype}")
    adds = function in (Pooling.AVERAGES, Pooling.SUMS)
    if adds and _is_whole(window, floats) and math.prod(window.kernel) > _FEW_PIXELS:
        reduced_over = mean_over if function == Pooling.AVERAGES else sum_over
        return reduced_over(lowering, floats, (2, 3), (*floats.shape[:2], 1, 1))
    attributes = {
        **window.attributes(),
        "window_size": window.kernel,
        "include_padding": (int(include_padding),),
        "function": (function,),
    }
    return lowering.emit("FLOAT_POOLING", [floats], FLOAT32, (*floats.shape[:2], *window.output), attributes)


def _is_whole(window: Window, image: Tensor) -> bool:
    """Return whether a window is exactly the image, of which neither axis is too long for one mean."""
    is_image = window.kernel == image.shape[2:] and not any((*window.start_padding, *window.end_padding))
    return is_image and all(length <= LONGEST_REDUCED for length in window.kernel)
