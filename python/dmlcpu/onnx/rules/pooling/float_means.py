"""Means and sums of floats over axes, wherever these lie."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from dmlcpu.dtypes import FLOAT32
from dmlcpu.onnx.lowering import Lowering
from dmlcpu.onnx.values import Tensor

__all__ = ["LONGEST_REDUCED", "mean_over", "sum_over"]

# Operators add to 16 partial sums: 2^10 elements to each are wrong by less than 2^-14 of their absolute values' sum.
_MOST_REDUCED_AT_ONCE: Final = 1 << 14
# They add to 16 partial sums an axis: of two axes of such lengths a mean is wrong by less than 2^-13.9 of that of the
# absolute values, as one of FLOAT_POOLING is.
LONGEST_REDUCED: Final = 1 << 13
# Of axes that are apart the last are reduced first, if they are so long: rows, or columns of what lies behind them.
_LONG_ROW: Final = 128
_LONG_COLUMN: Final = 8


def mean_over(lowering: Lowering, x: Tensor, axes: Sequence[int], shape: Sequence[int]) -> Tensor:
    """Return the mean of a FLOAT32 tensor over axes, in ascending order, as a tensor of this shape."""
    return _reduced_over(lowering, "REDUCE_MEAN", x, axes, shape)


def sum_over(lowering: Lowering, x: Tensor, axes: Sequence[int], shape: Sequence[int]) -> Tensor:
    """Return the sum of a FLOAT32 tensor over axes, in ascending order, as a tensor of this shape."""
    return _reduced_over(lowering, "REDUCE_SUM", x, axes, shape)


def _reduced_over(lowering: Lowering, operator: str, x: Tensor, axes: Sequence[int], shape: Sequence[int]) -> Tensor:
    """Return a tensor reduced over axes by an operator.

    Neighbours are one axis to the operator. Of axes that are apart, and of more elements than it adds well, there is
    one for each: the mean of means of equally many, or the sum of sums.
    """
    result, lengths = x, list(x.shape)
    groups = _neighbours(axes)
    if len(groups) > 1:
        first, end = groups[-1]
        if math.prod(lengths[first:end]) >= (_LONG_ROW if end == len(lengths) else _LONG_COLUMN):
            groups.reverse()
    for first, end in groups:
        reduced = tuple(lengths[first:end])
        if len(reduced) > 1 and math.prod(reduced) <= _MOST_REDUCED_AT_ONCE:
            reduced = (math.prod(reduced),)
        result = lowering.reshaped(result, (*lengths[:first], *reduced, *lengths[end:]))
        for axis in reversed(range(first, first + len(reduced))):
            kept = (*result.shape[:axis], 1, *result.shape[axis + 1 :])
            result = lowering.emit(operator, [result], FLOAT32, kept, {"axis": (axis,)})
        lengths[first:end] = [1] * (end - first)
    return lowering.reshaped(result, shape)


def _neighbours(axes: Sequence[int]) -> list[tuple[int, int]]:
    """Return the first of each of some neighbouring axes, and the one behind the last."""
    groups: list[tuple[int, int]] = []
    for axis in axes:
        if groups and groups[-1][1] == axis:
            groups[-1] = (groups[-1][0], axis + 1)
        else:
            groups.append((axis, axis + 1))
    return groups
