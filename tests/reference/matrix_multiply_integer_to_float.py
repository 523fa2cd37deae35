"""MATRIX_MULTIPLY_INTEGER_TO_FLOAT: of 8-bit matrices fma(f32(acc), as * bs, bias) over an exact int32 sum.

Of wider ones a chain of fused multiply-adds over the dequantized elements, k ascending, and the bias added to it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reference.arithmetic import FloatArray, SubnormalWatch, fused_multiply_add, narrow, widen
from reference.matrix_multiply_integer import column_line, differences, product_sums, row_line

__all__ = ["OUTPUTS", "matrix_multiply_integer_to_float"]

OUTPUTS = ("output_tensor",)


@np.errstate(all="ignore")
def matrix_multiply_integer_to_float(
    a: NDArray[Any],
    a_scale: NDArray[Any],
    a_zero_point: NDArray[Any] | None,
    b: NDArray[Any],
    b_scale: NDArray[Any],
    b_zero_point: NDArray[Any] | None,
    bias: NDArray[Any] | None,
    *,
    output_data_type: DTypeLike,
    watch: SubnormalWatch | None = None,
) -> NDArray[Any]:
    """a {.., M, K}, b {.., K, N}; scales and bias of the output's type."""
    a_scales, b_scales = widen(row_line(a_scale)), widen(column_line(b_scale))
    biases = None if bias is None else widen(bias)
    if a.itemsize == 1 and b.itemsize == 1:
        totals, multipliers = widen(product_sums(a, a_zero_point, b, b_zero_point)), a_scales * b_scales
        results = totals * multipliers if biases is None else fused_multiply_add(totals, multipliers, biases)
        behind = [multipliers, totals * multipliers]
    else:
        a_values = (
            differences(a, None if a_zero_point is None else row_line(a_zero_point)).astype(np.float32) * a_scales
        )
        b_values = (
            differences(b, None if b_zero_point is None else column_line(b_zero_point)).astype(np.float32) * b_scales
        )
        sums = chain_of_products(a_values, b_values)
        results = sums if biases is None else sums + biases
        behind = [sums]
    if watch is not None:
        watch.see(a_scales, b_scales, *([] if biases is None else [biases]), *behind, results)
    return narrow(results, output_data_type)


def chain_of_products(a: FloatArray, b: FloatArray) -> FloatArray:
    """fma(a[k], b[k], sum) for k = 0, 1, ..., from 0 on."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    sums = np.zeros((*batch, a.shape[-2], b.shape[-1]), np.float32)
    for k in range(a.shape[-1]):
        sums = fused_multiply_add(a[..., :, k : k + 1], b[..., k : k + 1, :], sums)
    return sums
