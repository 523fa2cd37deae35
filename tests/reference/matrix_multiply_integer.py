"""MATRIX_MULTIPLY_INTEGER: the exact int32 sum, which wraps."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reference.arithmetic import SubnormalWatch, wrap_to_int32

__all__ = ["OUTPUTS", "column_line", "differences", "matrix_multiply_integer", "product_sums", "row_line"]

OUTPUTS = ("output_tensor",)


def row_line(parameter: NDArray[Any]) -> NDArray[Any]:
    """A parameter of one element, or of one a row, whatever its rank, as {M, 1}."""
    return parameter.reshape(-1, 1)


def column_line(parameter: NDArray[Any]) -> NDArray[Any]:
    """A parameter of one element, or of one a column, whatever its rank, as {N}."""
    return parameter.reshape(-1)


def differences(codes: NDArray[Any], zero_point: NDArray[Any] | None) -> NDArray[np.int64]:
    """codes - zero_point, exact; the zero point is laid along rows or columns already."""
    return codes.astype(np.int64) - (np.int64(0) if zero_point is None else zero_point.astype(np.int64))


def product_sums(
    a: NDArray[Any], a_zero_point: NDArray[Any] | None, b: NDArray[Any], b_zero_point: NDArray[Any] | None
) -> NDArray[np.int32]:
    """sum (a - az)(b - bz) over K, wrapping; leading axes of one length may be missing in a or b."""
    a_steps = differences(a, None if a_zero_point is None else row_line(a_zero_point))
    b_steps = differences(b, None if b_zero_point is None else column_line(b_zero_point))
    # Whole numbers below 2**53, exact in float64 in whatever order they are summed; numpy is slow at sums of integers.
    assert a.dtype.itemsize == b.dtype.itemsize == 1
    assert a.shape[-1] * 255 * 255 < 2**53
    return wrap_to_int32(np.matmul(a_steps.astype(np.float64), b_steps.astype(np.float64)).astype(np.int64))


def matrix_multiply_integer(
    a: NDArray[Any],
    a_zero_point: NDArray[Any] | None,
    b: NDArray[Any],
    b_zero_point: NDArray[Any] | None,
    *,
    output_data_type: DTypeLike = np.int32,
    watch: SubnormalWatch | None = None,
) -> NDArray[Any]:
    """a {.., M, K}, b {.., K, N}."""
    del watch  # no floats
    return product_sums(a, a_zero_point, b, b_zero_point).astype(output_data_type)
