"""CONVOLUTION_INTEGER_TO_FLOAT: the int32 sum as a float, times a scale, plus a bias, rounded one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reference.arithmetic import FloatArray, SubnormalWatch, wrap_to_int32
from reference.quantized_linear_convolution import convolution_sums

__all__ = ["OUTPUTS", "convolution_integer_to_float"]

OUTPUTS = ("output_tensor",)


def convolution_integer_to_float(
    input: NDArray[Any],
    input_zero_point: NDArray[Any] | None,
    filter: NDArray[Any],
    filter_zero_point: NDArray[Any] | None,
    scale: FloatArray,
    bias: FloatArray | None,
    *,
    strides: Sequence[int],
    dilations: Sequence[int],
    start_padding: Sequence[int],
    end_padding: Sequence[int],
    group_count: int | Sequence[int],
    output_data_type: DTypeLike = np.float32,
    watch: SubnormalWatch | None = None,
) -> FloatArray:
    """input {N, C, H, W} or {N, C, W}; scale and bias {1, 1 or C, 1, ...}."""
    groups = int(np.ravel(group_count)[0])
    window = (strides, dilations, start_padding, end_padding, groups)
    sums = wrap_to_int32(convolution_sums(input, input_zero_point, filter, filter_zero_point, *window))
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = sums.astype(np.float32) * scale
        results = scaled if bias is None else scaled + bias
    if watch is not None:
        watch.see(scale, *([] if bias is None else [bias]), scaled, results)
    return results.astype(output_data_type)
