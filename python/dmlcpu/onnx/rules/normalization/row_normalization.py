"""Elements over the length of their row, and less the mean of any axes over their deviation, without weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from dmlcpu.onnx.constant_arrays import Constant
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.rules.element_operators import chosen, compared, on_floats
from dmlcpu.onnx.rules.movement.moved_values import transposed
from dmlcpu.onnx.rules.native_functions import FloatBinary, Logical
from dmlcpu.onnx.rules.normalization.layer_normalization import MOST_CODES, LayerNormalization
from dmlcpu.onnx.rules.operands import axis_within, computed_floats, computed_with_axes, present
from dmlcpu.onnx.rules.reduction.composed_reduction import sum_of_distances
from dmlcpu.onnx.rules.reduction.reduction import reduce_sum
from dmlcpu.onnx.values import Table, Value

__all__ = ["RULES"]


# So little that it changes no deviation: that of elements which are all the same becomes more than 0.
_EPSILON: Final = np.float32(1e-30)


def length_normalization(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """LpNormalization: elements over the sum of their distances to 0, or the root of that of their squares.

    Where that is 0 the result is, too: a quotient by infinity.
    """
    x = computed_with_axes(lowering, present(inputs[0]))
    axis = axis_within(node.attributes.get("axis", -1), len(x.shape))
    absolute = node.attributes.get("p", 2) == 1
    along = replace(
        node,
        operator="ReduceL1" if absolute else "ReduceL2",
        inputs=node.inputs[:1],
        attributes={"axes": (axis,), "keepdims": 1},
    )
    [found] = (sum_of_distances if absolute else reduce_sum)(lowering, along, [x])
    length = computed_floats(lowering, found)
    is_zero = compared(lowering, Logical.EQUALS, length, Constant(np.zeros((), np.float32)))
    divisor = chosen(lowering, is_zero, np.array(np.inf, np.float32), length)
    return [on_floats(lowering, FloatBinary.DIVIDE, x, divisor)]


def mean_variance_normalization(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """MeanVarianceNormalization: a layer normalization of the axes that it is over, which are brought to the end."""
    value = present(inputs[0])
    rank = len(value.shape)
    axes = sorted({axis_within(axis, rank) for axis in node.attributes.get("axes", (0, 2, 3))})
    count = math.prod(value.shape[axis] for axis in axes)
    if not isinstance(value, Table) or count > MOST_CODES:
        value = computed_with_axes(lowering, value)
    order = [*(axis for axis in range(rank) if axis not in axes), *axes]
    rows = transposed(lowering, value, order)
    ones = np.ones(count, np.float32)
    normalized = LayerNormalization(lowering, rows, len(axes), _EPSILON, ones, np.zeros_like(ones))
    return [transposed(lowering, normalized, [order.index(axis) for axis in range(rank)])]


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("", "LpNormalization"): length_normalization,
    ("", "MeanVarianceNormalization"): mean_variance_normalization,
}
