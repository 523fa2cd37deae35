"""QUANTIZED_MULTIPLY: sat(rne(((a - az) * as) * ((b - bz) * bs) / os) + oz)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reference.arithmetic import FloatArray, SubnormalWatch, quantized, widen, zero_point_or_zero

__all__ = ["OUTPUTS", "quantized_multiply"]

OUTPUTS = ("output_tensor",)


@np.errstate(all="ignore")
def quantized_multiply(
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
    """a and b of the same sizes, 8-bit types freely mixed. Every operation is rounded to float32."""
    a_values = (widen(a) - zero_point_or_zero(a_zero_point)) * a_scale
    b_values = (widen(b) - zero_point_or_zero(b_zero_point)) * b_scale
    quotients = a_values * b_values / output_scale
    return quantized(quotients, zero_point_or_zero(output_zero_point), output_data_type)
