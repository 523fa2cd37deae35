"""Means, sums and maxima over axes: poolings of images whose windows are as long as these axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from dmlcpu.dtypes import CODE_TYPES
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.element_operators import INTEGER_TYPES, on_each_float, on_floats
from dmlcpu.onnx.rules.movement.moved_values import reshaped, sliced_along, transposed
from dmlcpu.onnx.rules.native_functions import FloatBinary, FloatUnary
from dmlcpu.onnx.rules.operands import (
    axes_of,
    axis_within,
    between_codes,
    computed,
    computed_floats,
    in_order,
    integers,
    present,
)
from dmlcpu.onnx.rules.pooling.float_means import LONGEST_REDUCED, mean_over, sum_over
from dmlcpu.onnx.rules.pooling.pooled_values import StackedSum, averaged, maximum, minimum, summed
from dmlcpu.onnx.rules.windows import Window
from dmlcpu.onnx.values import AffineTable, Deferred, Table, Tensor, Value

__all__ = [
    "RULES",
    "computed_mean",
    "mean_axes",
    "place_of_extreme",
    "reduce_extreme",
    "reduce_sum",
    "reduced_axes",
    "reduced_shape",
    "sum_of_integers",
]


def reduced_axes(node: Node, inputs: Sequence[Value | None], rank: int) -> tuple[int, ...]:
    """Return the axes that a node reduces: where none are given all, or none."""
    return axes_of(node, inputs, rank) or (() if node.attributes.get("noop_with_empty_axes", 0) else tuple(range(rank)))


def reduced_shape(node: Node, shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of what a node makes of one, its axes reduced."""
    if node.attributes.get("keepdims", 1):
        return tuple(1 if axis in axes else length for axis, length in enumerate(shape))
    return tuple(length for axis, length in enumerate(shape) if axis not in axes)


def _reduced(
    lowering: Lowering, node: Node, inputs: Sequence[Value | None], pool: Callable[[Lowering, Value, Window], Value]
) -> Value:
    """Return a value pooled over the axes of a node."""
    value = present(inputs[0])
    rank = len(value.shape)
    axes = reduced_axes(node, inputs, rank)
    if not axes:
        return value
    _check_windows(value, axes)
    kept = [axis for axis in range(rank) if axis not in axes]
    shape = reduced_shape(node, value.shape, axes)
    if rank != 4 or min(axes) < 2:
        value = _as_image(lowering, value, kept, axes)
        axes = (2, 3)
    kernel = tuple(value.shape[axis] if axis in axes else 1 for axis in (2, 3))
    output = tuple(length // window for length, window in zip(value.shape[2:], kernel, strict=True))
    return reshaped(lowering, pool(lowering, value, Window.plain(kernel, output)), shape)


def _check_windows(value: Value, axes: Sequence[int]) -> None:
    """Raise NotNative where there is nothing to reduce."""
    if any(value.shape[axis] == 0 for axis in axes):
        raise NotNative("a reduction of no elements")


def _as_image(lowering: Lowering, value: Value, kept: Sequence[int], axes: Sequence[int]) -> Value:
    """Return a value with the axes that are kept as images and channels, and the others as rows and columns."""
    order = (*kept, *axes)
    if order != tuple(range(len(order))):
        value = transposed(lowering, value, order)
    lengths, count = value.shape, len(kept)
    images = lengths[0] if count > 1 else 1
    rows = lengths[count] if len(axes) > 1 else 1
    shape = (images, math.prod(lengths[:count]) // images, rows, math.prod(lengths[count:]) // rows)
    return reshaped(lowering, value, shape)


def mean_axes(node: Node, inputs: Sequence[Value | None], rank: int) -> tuple[int, ...]:
    """Return the axes of a mean, in order.

    Raises:
        NotNative: They are computed, the value has not all of them, or none are wanted.
    """
    axes = reduced_axes(node, inputs, rank)
    if not axes and node.attributes.get("noop_with_empty_axes", 0):
        raise NotNative("a mean over no axes")
    return axes


def computed_mean(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """ReduceMean: of codes a pooling, and of floats where REDUCE_MEAN would add too many to a sum."""
    value = present(inputs[0])
    axes = mean_axes(node, inputs, len(value.shape))
    _check_windows(value, axes)
    of_codes = isinstance(value, Table) or (isinstance(value, StackedSum) and axes == (2, 3))
    if type(value) is Table and not lowering.uses.is_read_once(node.inputs[0]):
        inputs = [computed_floats(lowering, value), *inputs[1:]]  # there for others; a table in another shape is not
    if of_codes or _are_too_long(value, axes):
        return [_reduced(lowering, node, inputs, averaged)]
    x = computed_floats(lowering, value)
    return [mean_over(lowering, x, axes, reduced_shape(node, x.shape, axes))]


# The operator that finds the place of an extreme, and the pooling.
_EXTREMES: Final = {"ReduceMax": ("ARGMAX", maximum), "ReduceMin": ("ARGMIN", minimum)}


def reduce_extreme(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """ReduceMax and ReduceMin, of integers too: the element at the extreme's place."""
    operator, pool = _EXTREMES[node.operator]

    def element(lowering: Lowering, tensor: Tensor, axis: int) -> Tensor:
        places = place_of_extreme(lowering, operator, tensor, axis)
        return lowering.emit("GATHER_ELEMENTS", [tensor, places], tensor.dtype, places.shape, {"axis": (axis,)})

    of_integers = _reduced_integers(lowering, node, inputs, element)
    return [_reduced(lowering, node, inputs, pool) if of_integers is None else of_integers]


def place_of_extreme(lowering: Lowering, operator: str, tensor: Tensor, axis: int, is_last: bool = False) -> Tensor:
    """Add ARGMAX or ARGMIN: the place of the first extreme along an axis, or of the last one; the axis is kept."""
    shape = (*tensor.shape[:axis], 1, *tensor.shape[axis + 1 :])
    attributes = {"axis": (axis,), "axis_direction": (int(is_last),)}
    return lowering.emit(operator, [tensor], np.int64, shape, attributes)


def _are_too_long(value: Value, axes: Sequence[int]) -> bool:
    """Return whether several axes are too long for means of means: poolings add the sums of halves."""
    return len(axes) > 1 and any(value.shape[axis] > LONGEST_REDUCED for axis in axes)


def _sum_of_floats(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Tensor | None:
    """Return the sum of floats over the axes of a node; None of codes, over no axes, and of other types.

    As a pooling it would have its layout chosen for channels, which these need not be.
    """
    value = present(inputs[0])
    axes = sorted(reduced_axes(node, inputs, len(value.shape)))
    of_images = isinstance(value, StackedSum) and axes == [2, 3]
    if not axes or of_images or isinstance(value, AffineTable) or _are_too_long(value, axes):
        return None
    _check_windows(value, axes)
    x = computed(lowering, value)
    return sum_over(lowering, x, axes, reduced_shape(node, x.shape, axes)) if x.dtype == np.float32 else None


def _summed(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Value:
    """Return the sum over the axes of a node."""
    value = present(inputs[0])
    is_stack = len(value.shape) == 5 and axes_of(node, inputs, 5) == (1,) and not node.attributes.get("keepdims", 1)
    if isinstance(value, AffineTable) and is_stack:
        return StackedSum(lowering, value, lambda: computed(lowering, _sum_by_operator(lowering, node, inputs)))
    return _sum_by_operator(lowering, node, inputs)


def _sum_by_operator(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Value:
    total = _sum_of_floats(lowering, node, inputs)
    return _reduced(lowering, node, inputs, summed) if total is None else total


def sum_of_integers(lowering: Lowering, tensor: Tensor, axis: int) -> Tensor:
    """Return the sum of INT32 or INT64 elements along an axis, which it keeps: the last of the sums of the first ones.

    Raises:
        NotNative: They are of another type.
    """
    if tensor.dtype not in INTEGER_TYPES:
        raise NotNative(f"sums of elements of type {tensor.dtype}")
    attributes = {"axis": (axis,), "axis_direction": (0,), "has_exclusive_sum": (0,)}
    sums = lowering.emit("CUMULATIVE_SUMMATION", [tensor], tensor.dtype, tensor.shape, attributes)
    return computed(lowering, sliced_along(lowering, sums, axis, tensor.shape[axis] - 1, 1))


def _reduced_integers(
    lowering: Lowering,
    node: Node,
    inputs: Sequence[Value | None],
    reduce: Callable[[Lowering, Tensor, int], Tensor],
) -> Value | None:
    """Return integers reduced over the axes of a node, one after the other; None if it has no integers."""
    value = inputs[0]
    if not isinstance(value, Tensor | Deferred) or value.dtype not in INTEGER_TYPES:
        return None
    value = lowering.floats(value)
    axes = reduced_axes(node, inputs, len(value.shape))
    _check_windows(value, axes)
    result = value
    for axis in axes:
        result = reduce(lowering, result, axis)
    return lowering.reshaped(result, reduced_shape(node, value.shape, axes))


def reduce_sum(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """ReduceSum, of integers too, and of squares ReduceSumSquare and ReduceL2."""
    if node.operator == "ReduceSum":
        of_integers = _reduced_integers(lowering, node, inputs, sum_of_integers)
        return [_summed(lowering, node, inputs) if of_integers is None else of_integers]
    value = present(inputs[0])
    axes = axes_of(node, inputs, len(value.shape))
    is_row = axes is not None and len(axes) == 1
    squares: Value
    if isinstance(value, Table) and not (is_row and isinstance(value, AffineTable)):
        squares = Table(value.codes, np.square(value.floats))
    else:  # of dequantized rows too: who divides them by their length reads the same floats
        squares = on_floats(lowering, FloatBinary.MULTIPLY, value, value)
    total = _summed(lowering, node, [squares, *inputs[1:]])
    if node.operator == "ReduceSumSquare":
        return [total]
    return [on_each_float(lowering, FloatUnary.SQUARE_ROOT, computed(lowering, total))]


@between_codes
def qlinear_reduce_mean(lowering: Lowering, node: Node, table: Table) -> Value:
    """QLinearReduceMean."""
    return _reduced(lowering, replace(node, inputs=node.inputs[:1]), [table], averaged)


def arg_extreme(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """ArgMax and ArgMin: of dequantized codes the codes', where these have the floats' order."""
    value = present(inputs[0])
    axis = axis_within(node.attributes.get("axis", 0), len(value.shape))
    tensor = in_order(lowering, value)
    if tensor.dtype not in (*CODE_TYPES, *INTEGER_TYPES, np.dtype(np.float32)):
        raise NotNative(f"the places of elements of type {tensor.dtype}")
    is_last = bool(node.attributes.get("select_last_index", 0))
    places = place_of_extreme(lowering, node.operator.upper(), tensor, axis, is_last)
    kept = node.attributes.get("keepdims", 1)
    return [places if kept else lowering.reshaped(places, (*tensor.shape[:axis], *tensor.shape[axis + 1 :]))]


# By operator of ONNX's, the native one and what it calls a total without an element's own.
_CUMULATIVE: Final = {
    "CumSum": ("CUMULATIVE_SUMMATION", "has_exclusive_sum"),
    "CumProd": ("CUMULATIVE_PRODUCT", "has_exclusive_product"),
}
_CUMULATED_TYPES: Final = (*INTEGER_TYPES, np.dtype(np.uint32), np.dtype(np.float32))


def cumulative(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """CumSum and CumProd, along a constant axis."""
    operator, exclusive = _CUMULATIVE[node.operator]
    tensor = computed(lowering, present(inputs[0]))
    [axis] = integers(inputs[1], "the axis")
    if tensor.dtype not in _CUMULATED_TYPES:
        raise NotNative(f"totals of elements of type {tensor.dtype}")
    attributes = {
        "axis": (axis_within(axis, len(tensor.shape)),),
        "axis_direction": (int(bool(node.attributes.get("reverse", 0))),),
        exclusive: (int(bool(node.attributes.get("exclusive", 0))),),
    }
    return [lowering.emit(operator, [tensor], tensor.dtype, tensor.shape, attributes)]


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    # ReduceMean, which may begin a layer normalization, is in ``spelled_out``.
    **{("", name): reduce_extreme for name in _EXTREMES},
    **{("", name): reduce_sum for name in ("ReduceSum", "ReduceSumSquare", "ReduceL2")},
    ("", "ArgMax"): arg_extreme,
    ("", "ArgMin"): arg_extreme,
    **{("", name): cumulative for name in _CUMULATIVE},
    ("com.microsoft", "QLinearReduceMean"): qlinear_reduce_mean,
}
