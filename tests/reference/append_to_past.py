"""APPEND_TO_PAST: of each image the rows of the past that there are, those appended, and zeros."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["append_to_past"]


def append_to_past(past: NDArray[Any], appended: NDArray[Any], lengths: NDArray[np.int32], rows: int) -> NDArray[Any]:
    """The lengths are of the images, and rows those of the output."""
    images, heads, _, elements = past.shape
    output = np.zeros((images, heads, rows, elements), past.dtype)
    for image, length in enumerate(lengths):
        output[image, :, :length] = past[image, :, :length]
        output[image, :, length : length + appended.shape[2]] = appended[image]
    return output
