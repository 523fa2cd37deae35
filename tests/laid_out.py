"""Whole numpy arrays as tensors, in the layouts that networks use."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from strided_tensor import StridedTensor

__all__ = ["channels_last", "packed"]


def packed(values: NDArray[Any]) -> StridedTensor:
    return StridedTensor(values.dtype.name.upper(), values.shape, None, np.ascontiguousarray(values).reshape(-1))


def channels_last(values: NDArray[Any]) -> StridedTensor:
    """{N, C, H, W} sizes over {N, H, W, C} memory."""
    _, channels, height, width = values.shape
    buffer = np.ascontiguousarray(values.transpose(0, 2, 3, 1)).reshape(-1)
    strides = (height * width * channels, 1, width * channels, channels)
    return StridedTensor(values.dtype.name.upper(), values.shape, strides, buffer)
