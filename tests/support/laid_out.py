"""Whole numpy arrays as tensors, in the layouts that networks use."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from strided_tensor import StridedTensor

__all__ = ["channels_last", "packed", "part_of_joined"]


def packed(values: NDArray[Any]) -> StridedTensor:
    return StridedTensor(values.dtype.name.upper(), values.shape, None, np.ascontiguousarray(values).reshape(-1))


def channels_last(values: NDArray[Any]) -> StridedTensor:
    """{N, C, H, W} sizes over {N, H, W, C} memory."""
    _, channels, height, width = values.shape
    buffer = np.ascontiguousarray(values.transpose(0, 2, 3, 1)).reshape(-1)
    strides = (height * width * channels, 1, width * channels, channels)
    return StridedTensor(values.dtype.name.upper(), values.shape, strides, buffer)


def part_of_joined(values: NDArray[Any]) -> StridedTensor:
    """The same, with five channels of another tensor behind those of each pixel."""
    images, channels, height, width = values.shape
    whole = np.full((images, height, width, channels + 5), 0x55, values.dtype)
    whole[..., :channels] = values.transpose(0, 2, 3, 1)
    strides = tuple(whole.strides[axis] // whole.itemsize for axis in (0, 3, 1, 2))
    return StridedTensor(values.dtype.name.upper(), values.shape, strides, whole.reshape(-1)[: whole.size - 5])
