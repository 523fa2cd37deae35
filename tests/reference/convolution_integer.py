"""CONVOLUTION_INTEGER: the exact int32 sum, which wraps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reference.arithmetic import SubnormalWatch, wrap_to_int32
from reference.quantized_linear_convolution import convolution_sums

__all__ = ["OUTPUTS", "convolution_integer"]

OUTPUTS = ("output_tensor",)


def convolution_integer(
    input: NDArray[Any],
    input_zero_point: NDArray[Any] | None,
    filter: NDArray[Any],
    filter_zero_point: NDArray[Any] | None,
    *,
    strides: Sequence[int],
    dilations: Sequence[int],
    start_padding: Sequence[int],
    end_padding: Sequence[int],
    group_count: int,
    output_data_type: DTypeLike = np.int32,
    watch: SubnormalWatch | None = None,
) -> NDArray[Any]:
    """input {N, C, H, W} or {N, C, W}; attribute arrays may be longer than the spatial axes and are then cut."""
    del watch  # no floats
    window = (strides, dilations, start_padding, end_padding, group_count)
    sums = convolution_sums(input, input_zero_point, filter, filter_zero_point, *window)
    return wrap_to_int32(sums).astype(output_data_type)
