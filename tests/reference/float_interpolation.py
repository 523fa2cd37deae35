"""FLOAT_INTERPOLATION: weighted sums of rows, then of columns: a product, then fused multiply-adds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reference.arithmetic import FloatArray, fused_multiply_add

__all__ = ["WeightedTaps", "float_interpolation"]


@dataclass(frozen=True, eq=False)
class WeightedTaps:
    """Of one axis, for every output index: the first source index, and weights of this one and of those behind it."""

    first: NDArray[np.int64]
    weights: FloatArray


@np.errstate(all="ignore")
def summed(x: FloatArray, axis: int, taps: WeightedTaps) -> FloatArray:
    """Weights of 0 before the first other one and behind the last one are passed over."""
    results = []
    for first, weights in zip(taps.first, taps.weights, strict=True):
        others = np.flatnonzero(weights != 0)
        begin, *rest = range(others[0], others[-1] + 1)
        total = x.take(first + begin, axis) * weights[begin]
        for t in rest:
            total = fused_multiply_add(x.take(first + t, axis), weights[t], total)
        results.append(total)
    return np.stack(results, axis)


def float_interpolation(x: FloatArray, axes: tuple[int, int], rows: WeightedTaps, columns: WeightedTaps) -> FloatArray:
    """axes are that of the rows and that of the columns."""
    return summed(summed(x, axes[0], rows), axes[1], columns)
