"""Transposed convolution: each input element adds the filter, times it, to the output, and the sums are requantized."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reference.arithmetic import FloatArray, quantized, widen, wrap_to_int32

__all__ = ["requantized", "transposed_convolution_sums"]


def transposed_convolution_sums(
    input: NDArray[Any],
    input_zero_point: int,
    filter: NDArray[Any],
    filter_zero_point: int,
    strides: Sequence[int],
    dilations: Sequence[int],
    start_padding: Sequence[int],
    output_sizes: Sequence[int],
    group_count: int,
) -> NDArray[np.int64]:
    """Exact sums {N, C, ...}; the filter is {input channels, output channels / groups, ...}.

    What falls outside the output, whose beginning lies start_padding behind the first element written, is dropped.
    """
    images = input.astype(np.int64) - input_zero_point
    filters = filter.astype(np.int64) - filter_zero_point
    channels_in, channels_out = filters.shape[0] // group_count, filters.shape[1]
    sums = np.zeros((images.shape[0], channels_out * group_count, *output_sizes), np.int64)
    for group in range(group_count):
        ins = slice(group * channels_in, (group + 1) * channels_in)
        outs = slice(group * channels_out, (group + 1) * channels_out)
        for place in np.ndindex(*images.shape[2:]):
            for tap in np.ndindex(*filters.shape[2:]):
                steps = zip(place, strides, tap, dilations, start_padding, strict=True)
                target = tuple(i * stride + k * dilation - start for i, stride, k, dilation, start in steps)
                if all(0 <= index < size for index, size in zip(target, output_sizes, strict=True)):
                    sums[(slice(None), outs, *target)] += (
                        images[(slice(None), ins, *place)] @ filters[(ins, slice(None), *tap)]
                    )
    return sums


@np.errstate(all="ignore")
def requantized(
    sums: NDArray[np.int64],
    bias: NDArray[np.int32] | None,
    input_scale: np.float32,
    filter_scales: FloatArray,
    output_scale: np.float32,
    output_zero_point: int,
    output_data_type: DTypeLike,
) -> NDArray[Any]:
    """Codes of sums {N, C, ...} plus a bias {C}; one filter scale, or one for each output channel."""
    along = (-1, *(1,) * (sums.ndim - 2))
    totals = sums if bias is None else sums + bias.astype(np.int64).reshape(along)
    multipliers = (input_scale * filter_scales.reshape(along)) / output_scale
    return quantized(widen(wrap_to_int32(totals)) * multipliers, np.float32(output_zero_point), output_data_type)
