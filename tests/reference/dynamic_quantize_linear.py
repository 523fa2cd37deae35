"""DYNAMIC_QUANTIZE_LINEAR: scale and zero point from the range of the input, then quantization with them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reference.arithmetic import FloatArray, SubnormalWatch, fused_multiply_add, quantized, saturate, widen

__all__ = ["OUTPUTS", "dynamic_quantize_linear"]

OUTPUTS = ("output_tensor", "output_scale_tensor", "output_zero_point_tensor")


@np.errstate(all="ignore")
def dynamic_quantize_linear(
    input: NDArray[Any], *, output_data_type: DTypeLike, watch: SubnormalWatch | None = None
) -> tuple[NDArray[Any], FloatArray, NDArray[Any]]:
    """The codes, the scale and the zero point, the last two with one element on each axis of the input.

    A zero range makes the reciprocal infinite and the codes of zeros NaN, an infinite one makes it zero and the codes
    of infinities NaN; both end as the lowest value by the rule of saturation, with no case of their own.
    """
    values = widen(input)
    # The range always holds +0. Comparisons with NaN are false, which skips NaN.
    lowest = np.min(values[values < 0], initial=np.float32(0))
    highest = np.max(values[values > 0], initial=np.float32(0))
    extent = np.float32(highest - lowest)
    scale = np.float32(extent * np.float32(1 / 255))
    reciprocal = np.float32(1) / scale
    lowest_code = np.float32(np.iinfo(output_data_type).min)
    offset = fused_multiply_add(-lowest, reciprocal, lowest_code)
    zero_point = saturate(np.rint(offset), output_data_type)
    if watch is not None:
        # All of them concern every output. A subnormal x * inv concerns none: flushed or not, it rounds to 0.
        for step in (values, extent, scale, reciprocal, offset):
            watch.see_reduction_of(step)
    ones = (1,) * values.ndim
    codes = quantized(values * reciprocal, widen(zero_point), output_data_type)
    return codes, np.full(ones, scale, np.float32), np.full(ones, zero_point)
