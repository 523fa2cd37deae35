"""QUANTIZE_BY_RANGE: ONNX's DynamicQuantizeLinear, whose quotients are divisions where DirectML multiplies."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reference.arithmetic import FloatArray, quantized, saturate, widen

__all__ = ["OUTPUTS", "quantize_by_range"]

OUTPUTS = ("output_tensor", "output_scale_tensor", "output_zero_point_tensor")


@np.errstate(all="ignore")
def quantize_by_range(input: NDArray[Any]) -> tuple[NDArray[np.uint8], FloatArray, NDArray[np.uint8]]:
    """The codes, the scale and the zero point, the last two with one element on each axis of the input."""
    values = widen(input)
    lowest = np.min(values[values < 0], initial=np.float32(0))
    highest = np.max(values[values > 0], initial=np.float32(0))
    scale = np.float32(1) if highest == lowest else np.float32(np.float32(highest - lowest) / np.float32(255))
    zero_point = saturate(np.rint(np.float32(-lowest / scale)), np.uint8)
    ones = (1,) * values.ndim
    codes = quantized(values / scale, widen(zero_point), np.uint8)
    return codes, np.full(ones, scale, np.float32), np.full(ones, zero_point)
