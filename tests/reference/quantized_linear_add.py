"""ELEMENT_WISE_QUANTIZED_LINEAR_ADD: sat(rne(fma(a - az, as, (b - bz) * bs) / os) + oz)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reference.arithmetic import (
    FloatArray,
    SubnormalWatch,
    fused_multiply_add,
    quantized,
    widen,
    zero_point_or_zero,
)

__all__ = ["OUTPUTS", "quantized_linear_add"]

OUTPUTS = ("output_tensor",)


@np.errstate(all="ignore")
def quantized_linear_add(
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
    """a and b of the same sizes, 8-bit types freely mixed. Only a's product fuses, so swapping can change a bit."""
    a_steps = widen(a) - zero_point_or_zero(a_zero_point)
    b_product = (widen(b) - zero_point_or_zero(b_zero_point)) * b_scale
    sums = fused_multiply_add(a_steps, a_scale, b_product)
    quotients = sums / output_scale
    if watch is not None:
        watch.see(a_scale, b_scale, output_scale, b_product, sums, quotients)
    return quantized(quotients, zero_point_or_zero(output_zero_point), output_data_type)
