"""ELEMENT_WISE_QUANTIZE_LINEAR: sat(rne(x / s) + zp)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reference.arithmetic import SubnormalWatch, quantized, widen, zero_point_or_zero

__all__ = ["OUTPUTS", "quantize_linear"]

OUTPUTS = ("output_tensor",)


@np.errstate(all="ignore")
def quantize_linear(
    input: NDArray[Any],
    scale: NDArray[Any],
    zero_point: NDArray[Any] | None,
    *,
    output_data_type: DTypeLike,
    watch: SubnormalWatch | None = None,
) -> NDArray[Any]:
    """input FLOAT32, FLOAT16 or INT32; all arrays of the same sizes, or broadcasting to the input's."""
    values, divisors = widen(input), widen(scale)
    quotients = values / divisors
    if watch is not None:
        watch.see(values, divisors, quotients)
    return quantized(quotients, zero_point_or_zero(zero_point), output_data_type)
