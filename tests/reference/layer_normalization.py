"""LAYER_NORMALIZATION and GROUP_NORMALIZATION, and of codes QUANTIZED_ before these.

Rows, or groups of channels, less their mean, over their deviation, then affine.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reference.arithmetic import FloatArray, fused_multiply_add, quantized, zero_point_or_zero
from reference.softmax import fold, row_sums

__all__ = [
    "group_normalization",
    "layer_normalization",
    "quantized_group_normalization",
    "quantized_layer_normalization",
]


def row_squares(values: FloatArray) -> FloatArray:
    """As row_sums, of squares, which are added by fused operations."""
    sums = np.zeros((*values.shape[:-1], 16), np.float32)
    for i in range(values.shape[-1]):
        sums[..., i % 16] = fused_multiply_add(values[..., i], values[..., i], sums[..., i % 16])
    return fold(sums)


def near_means(rows: FloatArray) -> FloatArray:
    """Sums as row_sums, but of whole steps of 32 elements by 32 partial sums, times the reciprocal of the length."""
    length = rows.shape[-1]
    whole = length - length % 32
    sums = np.zeros((*rows.shape[:-1], 32), np.float32)
    for i in range(whole):
        sums[..., i % 32] += rows[..., i]
    sums = sums[..., :16] + sums[..., 16:]
    for i in range(whole, length):
        sums[..., i % 16] += rows[..., i]
    return fold(sums) * (np.float32(1) / np.float32(length))


@np.errstate(all="ignore")
def layer_normalization(
    x: FloatArray, weight: FloatArray, bias: FloatArray, epsilon: np.float32, axis: int, uses_mean: bool = True
) -> FloatArray:
    normalized = normalized_rows(np.moveaxis(x, axis, -1), epsilon, uses_mean)
    return np.moveaxis(fused_multiply_add(normalized, weight, bias), -1, axis)


@np.errstate(all="ignore")
def group_normalization(x: FloatArray, weight: FloatArray, bias: FloatArray, epsilon: np.float32) -> FloatArray:
    """Groups along the last axis, of equally many channels each, which are scaled by a product and a sum."""
    images, groups, _ = x.shape
    channels = normalized_rows(x, epsilon).reshape(images, groups, weight.size // groups, -1)
    by_channel = (groups, weight.size // groups, 1)
    return np.asarray(channels * weight.reshape(by_channel) + bias.reshape(by_channel)).reshape(x.shape)


def normalized_rows(rows: FloatArray, epsilon: np.float32, uses_mean: bool = True) -> FloatArray:
    length = np.float32(rows.shape[-1])
    distances = rows - near_means(rows) if uses_mean else rows
    radicands = row_squares(distances) / length + epsilon
    if uses_mean:
        errors = row_sums(distances) / length
        distances = distances - errors
        radicands = np.maximum(fused_multiply_add(-errors, errors, radicands), epsilon)
    return np.asarray(distances * (np.float32(1) / np.sqrt(radicands)))


def distributions(rows: NDArray[Any], scale: np.float32, epsilon: np.float32) -> tuple[NDArray[Any], NDArray[Any]]:
    """Means, and factors of codes less their mean, in float64: of the exact moments along the last axis.

    Of equal codes the factor is 0, if it is a finite number.
    """
    length, wide = rows.shape[-1], np.float64(scale)
    sums, squares = rows.sum(axis=-1, keepdims=True), (rows * rows).sum(axis=-1, keepdims=True)
    variances = (length * squares - sums * sums).astype(np.float64) / (np.float64(length) * np.float64(length))
    factors = wide / np.sqrt(wide * wide * variances + np.float64(epsilon))
    factors = np.where((variances == 0) & np.isfinite(factors), 0.0, factors)
    return sums.astype(np.float64) / np.float64(length), factors


@np.errstate(all="ignore")
def quantized_group_normalization(
    x: NDArray[Any],
    scale: np.float32,
    weight: FloatArray,
    bias: FloatArray,
    epsilon: np.float32,
    output_zero_point: NDArray[Any] | None,
    groups: int,
    output_data_type: DTypeLike,
) -> NDArray[Any]:
    """Groups of neighbouring channels; a weight and a bias for each channel, in units of the output's scale."""
    images, channels = x.shape[:2]
    codes = x.astype(np.int64) - np.iinfo(x.dtype).min
    means, factors = distributions(codes.reshape(images, groups, -1), scale, epsilon)
    shape = (images, groups, channels // groups)
    scaled = factors * weight.astype(np.float64).reshape(shape[1:])
    offsets = bias.astype(np.float64).reshape(shape[1:]) - means * scaled
    of_channels = [
        np.broadcast_to(array, shape).astype(np.float32).reshape(images, channels, 1) for array in (scaled, offsets)
    ]
    results = fused_multiply_add(codes.reshape(images, channels, -1).astype(np.float32), *of_channels)
    return quantized(results, zero_point_or_zero(output_zero_point), output_data_type).reshape(x.shape)


@np.errstate(all="ignore")
def quantized_layer_normalization(
    x: NDArray[Any],
    scale: np.float32,
    weight: FloatArray,
    bias: FloatArray,
    epsilon: np.float32,
    output_zero_point: NDArray[Any] | None,
    axis: int,
    output_data_type: DTypeLike,
) -> NDArray[Any]:
    """Moments are exact, and of codes in the order of their values; weight and bias in units of the output's scale."""
    rows = np.moveaxis(x, axis, -1).astype(np.int64) - np.iinfo(x.dtype).min
    means, factors = distributions(rows, scale, epsilon)
    offsets = (-means * factors).astype(np.float32)
    normalized = fused_multiply_add(rows.astype(np.float32), factors.astype(np.float32), offsets)
    results = fused_multiply_add(normalized, weight, bias)
    return np.moveaxis(quantized(results, zero_point_or_zero(output_zero_point), output_data_type), -1, axis)
