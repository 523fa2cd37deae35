"""DEQUANTIZE: (x - zp) * s, with a scale and a zero point for each block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reference.arithmetic import SubnormalWatch, narrow, widen
from reference.blocks import parameters_of

__all__ = ["CODES", "OUTPUTS", "dequantize"]

CODES = "input_tensor"
OUTPUTS = ("output_tensor",)


@np.errstate(all="ignore")
def dequantize(
    input: NDArray[Any],
    quantization_tensors: Sequence[NDArray[Any]],
    *,
    quantization_type: int,
    code_data_type: str,
    output_data_type: DTypeLike,
    watch: SubnormalWatch | None = None,
) -> NDArray[Any]:
    """4-bit codes come as the bytes of their values."""
    assert len(quantization_tensors) == quantization_type
    scale, zero_point = parameters_of(quantization_tensors, input.shape, code_data_type)
    products = (widen(input) - zero_point) * scale
    if watch is not None:
        watch.see(scale, products)
    return narrow(products, output_data_type)
