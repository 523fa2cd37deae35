"""MAX_UNPOOLING: elements written to where indices say, one after the other, and one byte everywhere else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["max_unpooling"]


def max_unpooling(input: NDArray[Any], indices: NDArray[Any], output_sizes: Sequence[int], value: int) -> NDArray[Any]:
    """Indices count through the whole output; value is the raw byte."""
    sizes = *output_sizes[:-1], output_sizes[-1] * input.itemsize
    result = np.full(sizes, value, np.uint8).view(input.dtype)
    elements = result.reshape(-1)
    for index, element in zip(indices.reshape(-1), input.reshape(-1), strict=True):
        elements[index] = element
    return result
