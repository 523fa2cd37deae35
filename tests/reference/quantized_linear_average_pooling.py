"""QUANTIZED_LINEAR_AVERAGE_POOLING: sat(rne((s / n) / os) + oz), s the float32 sum of (x - xz) * xs over the window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import DTypeLike, NDArray

from reference.arithmetic import FloatArray, SubnormalWatch, quantized, widen, zero_point_or_zero

__all__ = ["OUTPUTS", "quantized_linear_average_pooling"]

OUTPUTS = ("output_tensor",)


def by_channel(tensor: FloatArray, rank: int) -> FloatArray:
    """A parameter of one element, or of one a channel, along the channels of the input."""
    return tensor.reshape([-1 if axis == 1 else 1 for axis in range(rank)])


@np.errstate(all="ignore")
def quantized_linear_average_pooling(
    input: NDArray[Any],
    input_scale: FloatArray,
    input_zero_point: NDArray[Any] | None,
    output_scale: FloatArray,
    output_zero_point: NDArray[Any] | None,
    *,
    strides: Sequence[int],
    window_size: Sequence[int],
    start_padding: Sequence[int],
    end_padding: Sequence[int],
    dilations: Sequence[int],
    include_padding: int,
    output_data_type: DTypeLike,
    watch: SubnormalWatch | None = None,
) -> NDArray[Any]:
    """input {N, C, ...} with two or three spatial axes. Sums start with the window's first element, in row-major order.

    The padding is of values, so it adds 0 whatever the scale.
    """
    rank = input.ndim
    input_scales, output_scales = by_channel(input_scale, rank), by_channel(output_scale, rank)
    steps = widen(input) - by_channel(zero_point_or_zero(input_zero_point), rank)
    padding = [(0, 0), (0, 0), *zip(start_padding, end_padding, strict=True)]
    reaches = [(size - 1) * dilation + 1 for size, dilation in zip(window_size, dilations, strict=True)]

    def windows_of(values: NDArray[Any], padded_with: float) -> NDArray[Any]:
        """{N, C, ..., taps ...}."""
        windows = sliding_window_view(
            np.pad(values, padding, constant_values=padded_with), reaches, axis=range(2, rank)
        )
        return windows[(..., *(slice(None, None, step) for step in (*strides, *dilations)))]

    windows = windows_of(steps * input_scales, 0)
    sums = np.zeros(windows.shape[:rank], np.float32)
    for tap in np.ndindex(*window_size):
        taken = windows[(..., *tap)]
        sums = sums + taken
        if watch is not None:
            watch.see(taken, sums)
    is_counted = windows_of(np.ones((1, 1, *input.shape[2:]), bool), bool(include_padding))
    counts = is_counted.sum(axis=tuple(range(rank, 2 * rank - 2)))
    averages = sums / counts.astype(np.float32)
    results = averages / output_scales
    if watch is not None:
        watch.see(input_scales, output_scales, averages, results)
    return quantized(results, by_channel(zero_point_or_zero(output_zero_point), rank), output_data_type)
