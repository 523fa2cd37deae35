"""Reductions that no kernel computes by itself, composed of maxima, sums and functions of floats that kernels do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.rules.element_wise.float_functions import Floats
from dmlcpu.onnx.rules.movement.moved_values import reshaped, sliced_along, transposed
from dmlcpu.onnx.rules.native_functions import FloatUnary
from dmlcpu.onnx.rules.operands import computed, computed_floats, present
from dmlcpu.onnx.rules.reduction.reduction import reduce_extreme, reduce_sum, reduced_axes, reduced_shape
from dmlcpu.onnx.values import Table, Value

__all__ = ["RULES", "sum_of_distances"]

_LARGEST_FLOAT32: Final = float(np.finfo(np.float32).max)


def _sum(lowering: Lowering, node: Node, inputs: Sequence[Value | None], value: Value) -> Value:
    """Return the sum of a value over the axes of a node."""
    [total] = reduce_sum(lowering, replace(node, operator="ReduceSum"), [value, *inputs[1:]])
    return total


def sum_of_distances(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """ReduceL1: the sum of the elements' distances to 0."""
    value = present(inputs[0])
    distances: Value
    if isinstance(value, Table):
        distances = Table(value.codes, np.abs(value.floats))
    else:
        distances = Floats(lowering, computed_floats(lowering, value)).absolute().tensor
    return [_sum(lowering, node, inputs, distances)]


def logarithm_of_sum(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """ReduceLogSum."""
    value = present(inputs[0])
    x = value if isinstance(value, Table) else computed_floats(lowering, value)
    total = _sum(lowering, node, inputs, x)
    return [Floats(lowering, computed(lowering, total)).function(FloatUnary.LOGARITHM).tensor]


def logarithm_of_sum_of_exponentials(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """ReduceLogSumExp: of the distances to the largest element, and that one added again.

    Where that is infinite it is taken for the largest number, so that an infinity, or nothing but -infinity, is kept.
    """
    x = Floats(lowering, computed_floats(lowering, present(inputs[0])))
    shape = x.tensor.shape
    keeping = replace(node, attributes={**node.attributes, "keepdims": 1})
    [found] = reduce_extreme(lowering, replace(keeping, operator="ReduceMax"), [x.tensor, *inputs[1:]])
    largest = Floats(lowering, computed_floats(lowering, found)).larger(-_LARGEST_FLOAT32).smaller(_LARGEST_FLOAT32)
    total = _sum(lowering, keeping, inputs, (x - largest).function(FloatUnary.EXPONENTIAL).tensor)
    result = Floats(lowering, computed_floats(lowering, total)).function(FloatUnary.LOGARITHM) + largest
    return [reshaped(lowering, result.tensor, reduced_shape(node, shape, reduced_axes(node, inputs, len(shape))))]


def product(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """ReduceProd: one half of the elements times the other, and so on."""
    x = computed_floats(lowering, present(inputs[0]))
    axes = reduced_axes(node, inputs, len(x.shape))
    kept = [axis for axis in range(len(x.shape)) if axis not in axes]
    outer = tuple(x.shape[axis] for axis in kept)
    length = math.prod(x.shape[axis] for axis in axes)
    rows = reshaped(lowering, transposed(lowering, x, (*kept, *axes)), (*outer, length))

    def part(start: int, count: int) -> Floats:
        return Floats(lowering, computed_floats(lowering, sliced_along(lowering, rows, len(outer), start, count)))

    odd: list[Floats] = []
    while length > 1:
        half = length // 2
        if length % 2:
            odd.append(part(length - 1, 1))
        rows, length = (part(0, half) * part(half, half)).tensor, half
    result = math.prod(odd, start=part(0, 1))
    return [reshaped(lowering, result.tensor, reduced_shape(node, x.shape, axes))]


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("", "ReduceL1"): sum_of_distances,
    ("", "ReduceLogSum"): logarithm_of_sum,
    ("", "ReduceLogSumExp"): logarithm_of_sum_of_exponentials,
    ("", "ReduceProd"): product,
}
