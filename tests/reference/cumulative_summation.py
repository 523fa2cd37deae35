"""CUMULATIVE_SUMMATION: sums along an axis; of integers they wrap, of floats each is rounded."""

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
    with np.errstate(all="ignore"):
        sums = np.cumsum(values, axis[0], dtype=output_data_type)
    if has_exclusive_sum[0]:
        first = np.zeros_like(np.take(sums, [0], axis[0]))
        sums = np.concatenate([first, np.take(sums, range(sums.shape[axis[0]] - 1), axis[0])], axis[0])
    return np.flip(sums, axis[0]) if axis_direction[0] else sums
