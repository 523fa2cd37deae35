"""FLOAT_POOLING: the average, the sum or an extreme of every window, tap after tap, row by row, or half after half."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reference.arithmetic import FloatArray, SubnormalWatch

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
    """Input {N, C, H, W}; function 0: average, 1: maximum, b unless a is larger or NaN, 2: minimum, 3: sum."""
    is_added, first = function[0] in (0, 3), (0, -np.inf, np.inf, 0)[function[0]]
    widths = [(0, 0), (0, 0), *zip(start_padding, end_padding, strict=True)]
    padded = np.pad(input, widths)
    inside = np.pad(np.ones_like(input, bool), widths)
    sizes = [
        (padded.shape[2 + axis] - (window_size[axis] - 1) * dilations[axis] - 1) // strides[axis] + 1 for axis in (0, 1)
    ]
    shape = (*input.shape[:2], *sizes)
    count = np.zeros(shape, np.int64)

    def taps(rows: range, columns: range) -> FloatArray:
        nonlocal count
        result = np.full(shape, first, np.float32)
        for tap in itertools.product(rows, columns):
            places = [np.arange(sizes[axis]) * strides[axis] + tap[axis] * dilations[axis] for axis in (0, 1)]
            chosen = (slice(None), slice(None), *np.ix_(*places))
            value, counts = padded[chosen], inside[chosen]
            stays = (result < value if first > 0 else result > value) | np.isnan(result)
            extreme = np.where(stays, result, value)
            result = np.where(counts, result + value if is_added else extreme, result)
            count += counts
        return result

    with np.errstate(all="ignore"):
        whole = [range(length) for length in window_size]
        if not is_added:
            return taps(*whole)
        total = by_halves(taps, *whole)
        if function[0] == 3:
            return total
        divisor = np.full_like(count, np.prod(window_size)) if include_padding[0] else count
        return total / divisor.astype(np.float32)


def by_halves(sums: Callable[[range, range], FloatArray], rows: range, columns: range) -> FloatArray:
    """The sums of 1024 taps at most; of more than that those of their halves are added, of rows before those of one."""
    if len(rows) * len(columns) <= 1024:
        return sums(rows, columns)
    if len(rows) > 1:
        middle = len(rows) // 2
        return by_halves(sums, rows[:middle], columns) + by_halves(sums, rows[middle:], columns)
    middle = len(columns) // 2
    return by_halves(sums, rows, columns[:middle]) + by_halves(sums, rows, columns[middle:])
