"""ELEMENT_WISE_DEQUANTIZE_LINEAR: (f32(x) - f32(zp)) * s."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reference.arithmetic import SubnormalWatch, narrow, widen, zero_point_or_zero

__all__ = ["OUTPUTS", "dequantize_linear"]

OUTPUTS = ("output_tensor",)


@np.errstate(all="ignore")
def dequantize_linear(
    input: NDArray[Any],
    scale: NDArray[Any],
    zero_point: NDArray[Any] | None,
    *,
    output_data_type: DTypeLike,
    watch: SubnormalWatch | None = None,
) -> NDArray[Any]:
    """input of 8, 16 or 32-bit integers, each converted before the subtraction: a 32-bit one rounds there."""
    factors = widen(scale)
    products = (widen(input) - zero_point_or_zero(zero_point)) * factors
    if watch is not None:
        watch.see(factors, products)
    return narrow(products, output_data_type)
