"""QUANTIZE: sat(rne(x / s) + zp), with a scale and a zero point for each block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reference.arithmetic import SubnormalWatch, quantized, widen
from reference.blocks import LIMITS, parameters_of

__all__ = ["CODES", "OUTPUTS", "quantize"]

CODES = "output_tensor"
OUTPUTS = ("output_tensor",)


@np.errstate(all="ignore")
def quantize(
    input: NDArray[Any],
    quantization_tensors: Sequence[NDArray[Any]],
    *,
    quantization_type: int,
    code_data_type: str,
    output_data_type: DTypeLike,
    watch: SubnormalWatch | None = None,
) -> NDArray[Any]:
    """Clamped to 8 bits, where NaN becomes the lowest value, and then to 4 if the codes have so many."""
    assert len(quantization_tensors) == quantization_type
    scale, zero_point = parameters_of(quantization_tensors, input.shape, code_data_type)
    values = widen(input)
    quotients = values / scale
    if watch is not None:
        watch.see(values, scale, quotients)
    lowest, highest = LIMITS[code_data_type]
    signed = np.int8 if lowest < 0 else np.uint8
    return np.clip(quantized(quotients, zero_point, signed), lowest, highest)
