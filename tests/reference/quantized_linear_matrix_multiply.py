"""QUANTIZED_LINEAR_MATRIX_MULTIPLY: sat(rne(f32(acc) * (bs * (as / os))) + oz) over an exact int32 sum that wraps."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reference.arithmetic import FloatArray, SubnormalWatch, quantized, widen, zero_point_or_zero
from reference.matrix_multiply_integer import column_line, product_sums, row_line

__all__ = ["OUTPUTS", "quantized_linear_matrix_multiply"]

OUTPUTS = ("output_tensor",)


@np.errstate(all="ignore")
def quantized_linear_matrix_multiply(
    a: NDArray[Any],
    a_scale: FloatArray,
    a_zero_point: NDArray[Any] | None,
    b: NDArray[Any],
    b_scale: FloatArray,
    b_zero_point: NDArray[Any] | None,
    output_scale: FloatArray,
    output_zero_point: NDArray[Any] | None,
    *,
    output_data_type: DTypeLike,
    watch: SubnormalWatch | None = None,
) -> NDArray[Any]:
    """a {.., M, K}, b {.., K, N}; not the grouping of scales that the convolution has."""
    a_scales, b_scales, output_scales = row_line(a_scale), column_line(b_scale), row_line(output_scale)
    totals = widen(product_sums(a, a_zero_point, b, b_zero_point))
    ratios = a_scales / output_scales
    multipliers = b_scales * ratios
    results = totals * multipliers
    if watch is not None:
        watch.see(a_scales, b_scales, output_scales, ratios, multipliers, results)
    zero_points = zero_point_or_zero(None if output_zero_point is None else row_line(output_zero_point))
    return quantized(results, zero_points, output_data_type)
