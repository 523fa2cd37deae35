"""SOFTMAX, LOG_SOFTMAX and QUANTIZED_SOFTMAX: exponentials of the distances to a row's maximum, and their sum."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reference.arithmetic import FloatArray, quantized, zero_point_or_zero
from reference.float_functions import exponential, logarithm

__all__ = ["fold", "log_softmax", "quantized_softmax", "row_sums", "softmax"]


def row_sums(values: FloatArray) -> FloatArray:
    """Along the last axis: element i goes to partial sum i % 16, in order; the 16 are folded in halves."""
    sums = np.zeros((*values.shape[:-1], 16), np.float32)
    for i in range(values.shape[-1]):
        sums[..., i % 16] += values[..., i]
    return fold(sums)


def fold(sums: FloatArray) -> FloatArray:
    for half in (8, 4, 2, 1):
        sums = sums[..., :half] + sums[..., half:]
    return sums


@np.errstate(all="ignore")
def softmax(x: FloatArray, axis: int) -> FloatArray:
    """The maximum passes over NaN, and the sum does not. Powers of distances below -87 are 0."""
    distances = _distances(np.moveaxis(x, axis, -1))
    powers = np.where(distances < np.float32(-87), np.float32(0), exponential(distances))
    return np.moveaxis(powers / row_sums(powers), -1, axis)


def _distances(rows: FloatArray) -> FloatArray:
    distances: FloatArray = rows - np.fmax.reduce(rows, axis=-1, keepdims=True, initial=-np.inf)
    return distances


@np.errstate(all="ignore")
def log_softmax(x: FloatArray, axis: int) -> FloatArray:
    """The distances, less the logarithm of the sum."""
    distances = _distances(np.moveaxis(x, axis, -1))
    return np.moveaxis(distances - logarithm(row_sums(exponential(distances))), -1, axis)


@np.errstate(all="ignore")
def quantized_softmax(
    x: NDArray[Any],
    scale: FloatArray,
    output_scale: FloatArray,
    output_zero_point: NDArray[Any] | None,
    axis: int,
    output_data_type: DTypeLike,
) -> NDArray[Any]:
    """The exponentials are those of float64, rounded to float32 and to a multiple of 2^-31; their sum is rounded once.

    Scales and the zero point are single values. Where the scale is negative the smallest code counts most; where it is
    no number, no share is.
    """
    rows = np.moveaxis(x, axis, -1).astype(np.int64) * (-1 if scale < 0 else 1)
    distances = rows.max(axis=-1, keepdims=True) - rows
    exponentials = np.exp(-np.arange(256) * np.abs(np.float64(scale))).astype(np.float32)
    powers = np.rint(exponentials[distances].astype(np.float64) * 2**31)
    assert powers.shape[-1] < 2**22, "sums of float64 are exact"
    sums = (powers.sum(axis=-1, keepdims=True) / 2**31).astype(np.float32)
    shares = (powers / 2**31).astype(np.float32) / sums
    shares[..., not np.isfinite(scale)] = np.nan
    codes = quantized(shares / output_scale, zero_point_or_zero(output_zero_point), output_data_type)
    return np.moveaxis(codes, -1, axis)
