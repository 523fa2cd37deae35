"""CUMULATIVE_SUMMATION: sums of integers along an axis, which wrap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reference.arithmetic import SubnormalWatch

__all__ = ["OUTPUTS", "cumulative_summation"]

OUTPUTS = ("output_tensor",)


def cumulative_summation(
    input: NDArray[Any],
    *,
    axis: Sequence[int],
    axis_direction: Sequence[int],
    has_exclusive_sum: Sequence[int],
    output_data_type: DTypeLike,
    watch: SubnormalWatch | None = None,
) -> NDArray[Any]:
    """Direction 1 is from the end; an exclusive sum is without its own element."""
    values = np.flip(input, axis[0]) if axis_direction[0] else input
    sums = np.cumsum(values, axis[0], dtype=output_data_type)
    if has_exclusive_sum[0]:
        sums = sums - values
    return np.flip(sums, axis[0]) if axis_direction[0] else sums
