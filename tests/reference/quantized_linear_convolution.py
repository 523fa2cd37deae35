"""QUANTIZED_LINEAR_CONVOLUTION: sat(rne(f32(acc) * ((xs * ws) / os)) + oz) over an exact int32 sum that wraps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reference.arithmetic import FloatArray, SubnormalWatch, quantized, widen, wrap_to_int32, zero_point_or_zero

__all__ = ["OUTPUTS", "convolution_sums", "quantized_linear_convolution"]

OUTPUTS = ("output_tensor",)


def convolution_sums(
    input: NDArray[Any],
    input_zero_point: NDArray[Any] | None,
    filter: NDArray[Any],
    filter_zero_point: NDArray[Any] | None,
    strides: Sequence[int],
    dilations: Sequence[int],
    start_padding: Sequence[int],
    end_padding: Sequence[int],
    group_count: int,
) -> NDArray[np.int64]:
    """sum (x - xz)(w - wz), exact, {N, OC, ...}. The padding is of x - xz, so it adds nothing."""
    # Whole numbers below 2**53, exact in float64 in whatever order they are summed; numpy is slow at sums of integers.
    assert input.dtype.itemsize == filter.dtype.itemsize == 1
    assert math.prod(filter.shape[1:]) * 255 * 255 < 2**53
    spatial_axes = input.ndim - 2
    images = input.astype(np.float64) - one_element(input_zero_point)
    filters = filter.astype(np.float64) - per_channel(filter_zero_point, filter.ndim, 0)
    padding = [(0, 0), (0, 0), *zip(start_padding[:spatial_axes], end_padding[:spatial_axes], strict=True)]
    images = np.pad(images, padding)
    output_sizes = [
        (images.shape[2 + axis] - (filters.shape[2 + axis] - 1) * dilations[axis] - 1) // strides[axis] + 1
        for axis in range(spatial_axes)
    ]
    batch, pixels = images.shape[0], math.prod(output_sizes)
    channels_in, channels_out = filters.shape[1], filters.shape[0] // group_count
    sums = np.zeros((batch, group_count, channels_out, pixels))
    for tap in np.ndindex(*filters.shape[2:]):
        begins = [index * dilation for index, dilation in zip(tap, dilations, strict=False)]
        window = tuple(
            slice(begin, begin + (size - 1) * stride + 1, stride)
            for begin, size, stride in zip(begins, output_sizes, strides, strict=False)
        )
        taken = images[(..., *window)].reshape(batch, group_count, channels_in, pixels)
        weights = filters[(..., *tap)].reshape(group_count, channels_out, channels_in)
        sums += np.matmul(weights, taken)
    return sums.astype(np.int64).reshape(batch, -1, *output_sizes)


def one_element(tensor: NDArray[Any] | None) -> int:
    return 0 if tensor is None else int(tensor.reshape(()))


def per_channel(tensor: NDArray[Any] | None, rank: int, axis: int) -> NDArray[np.int64]:
    """A parameter of one element, or of one an output channel, whatever its rank, laid along one axis."""
    if tensor is None:
        return np.zeros((1,) * rank, np.int64)
    return tensor.astype(np.int64).reshape([-1 if index == axis else 1 for index in range(rank)])


@np.errstate(all="ignore")
def quantized_linear_convolution(
    input: NDArray[Any],
    input_scale: FloatArray,
    input_zero_point: NDArray[Any] | None,
    filter: NDArray[Any],
    filter_scale: FloatArray,
    filter_zero_point: NDArray[Any] | None,
    bias: NDArray[np.int32] | None,
    output_scale: FloatArray,
    output_zero_point: NDArray[Any] | None,
    *,
    strides: Sequence[int],
    dilations: Sequence[int],
    start_padding: Sequence[int],
    end_padding: Sequence[int],
    group_count: int,
    output_data_type: DTypeLike,
    watch: SubnormalWatch | None = None,
) -> NDArray[Any]:
    """input {N, C, H, W} or {N, C, W}; attribute arrays may be longer than the spatial axes and are then cut."""
    window = (strides, dilations, start_padding, end_padding, group_count)
    sums = convolution_sums(input, input_zero_point, filter, filter_zero_point, *window)
    sums += per_channel(bias, input.ndim, 1)
    totals = widen(wrap_to_int32(sums))
    filter_scales = filter_scale.reshape([-1 if axis == 1 else 1 for axis in range(input.ndim)])
    products = input_scale.reshape(()) * filter_scales
    multipliers = products / output_scale.reshape(())
    results = totals * multipliers
    if watch is not None:
        watch.see(input_scale.reshape(()), filter_scales, output_scale.reshape(()), products, multipliers, results)
    return quantized(results, zero_point_or_zero(output_zero_point).reshape(()), output_data_type)
