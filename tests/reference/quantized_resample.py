"""QUANTIZED_RESAMPLE: interpolation along columns, then between rows, requantized; or copies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reference.arithmetic import FloatArray, quantized, widen, zero_point_or_zero

__all__ = ["Taps", "between", "quantized_resample"]


@dataclass(frozen=True, eq=False)
class Taps:
    """Of one axis, for every output index: two source indices, and the weight of the upper one."""

    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    weight: FloatArray


def between(lower: FloatArray, upper: FloatArray, weight: FloatArray) -> FloatArray:
    return lower + (upper - lower) * weight


@np.errstate(all="ignore")
def quantized_resample(
    x: NDArray[Any],
    scale: FloatArray,
    zero_point: NDArray[Any] | None,
    output_scale: FloatArray,
    output_zero_point: NDArray[Any] | None,
    rows: Taps,
    columns: Taps,
    output_data_type: DTypeLike,
) -> NDArray[Any]:
    """x has sizes {N, C, H, W}. Scales and zero points are single values."""
    input_zero, output_zero = zero_point_or_zero(zero_point), zero_point_or_zero(output_zero_point)
    is_nearest = not rows.weight.any() and not columns.weight.any()
    if is_nearest and x.dtype == output_data_type and scale == output_scale and input_zero == output_zero:
        return x[:, :, rows.lower][:, :, :, columns.lower]
    steps = widen(x) - input_zero
    top, bottom = (
        between(row[..., columns.lower], row[..., columns.upper], columns.weight)
        for row in (steps[:, :, rows.lower], steps[:, :, rows.upper])
    )
    values = between(top, bottom, rows.weight.reshape(-1, 1))
    return quantized((values * scale) / output_scale, output_zero, output_data_type)
