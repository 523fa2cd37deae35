"""FLOAT_POOLING: the average or the maximum of every window, tap after tap, row by row."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reference.arithmetic import SubnormalWatch

__all__ = ["OUTPUTS", "float_pooling"]

OUTPUTS = ("output_tensor",)


def float_pooling(
    input: NDArray[Any],
    *,
    function: Sequence[int],
    include_padding: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    window_size: Sequence[int],
    start_padding: Sequence[int],
    end_padding: Sequence[int],
    output_data_type: DTypeLike,
    watch: SubnormalWatch | None = None,
) -> NDArray[Any]:
    """Input {N, C, H, W}; function 0 is the average, 1 the maximum: b unless a is larger or NaN."""
    is_maximum = function[0] == 1
    widths = [(0, 0), (0, 0), *zip(start_padding, end_padding, strict=True)]
    padded = np.pad(input, widths)
    inside = np.pad(np.ones_like(input, bool), widths)
    sizes = [
        (padded.shape[2 + axis] - (window_size[axis] - 1) * dilations[axis] - 1) // strides[axis] + 1 for axis in (0, 1)
    ]
    shape = (*input.shape[:2], *sizes)
    result = np.full(shape, -np.inf if is_maximum else 0, np.float32)
    count = np.zeros(shape, np.int64)
    with np.errstate(all="ignore"):
        for tap in itertools.product(*map(range, window_size)):
            places = [np.arange(sizes[axis]) * strides[axis] + tap[axis] * dilations[axis] for axis in (0, 1)]
            chosen = (slice(None), slice(None), *np.ix_(*places))
            value, counts = padded[chosen], inside[chosen]
            larger = np.where((result > value) | np.isnan(result), result, value)
            result = np.where(counts, larger if is_maximum else result + value, result)
            count += counts
        if is_maximum:
            return result
        divisor = np.full_like(count, np.prod(window_size)) if include_padding[0] else count
        return result / divisor.astype(np.float32)
