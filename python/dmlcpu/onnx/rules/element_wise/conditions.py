"""Comparisons, functions of conditions, and what they choose: Equal, And, Where, OneHot and their kin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from dmlcpu.graph.lengths import broadcast_shapes, decided_by
from dmlcpu.onnx.constant_arrays import Array, Constant, FreeArray, broadcast_to, constant_by
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.parameters import Parameters
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.element_operators import INTEGER_TYPES, chosen, compared, on_integers
from dmlcpu.onnx.rules.movement.moved_values import sliced_along
from dmlcpu.onnx.rules.native_functions import IntegerBinary, Logical
from dmlcpu.onnx.rules.operands import (
    axis_within,
    computed,
    computed_floats,
    dequantized,
    integers,
    number_of,
    parameters_of,
    present,
)
from dmlcpu.onnx.values import (
    AffineTable,
    Deferred,
    Dequantized,
    Elements,
    Table,
    Tensor,
    Value,
    as_value,
    element_type,
)

__all__ = ["RULES", "where"]


_FUNCTIONS: Final[Mapping[str, Logical]] = {
    "Equal": Logical.EQUALS,
    "Greater": Logical.GREATER_THAN,
    "GreaterOrEqual": Logical.GREATER_THAN_OR_EQUAL,
    "Less": Logical.LESS_THAN,
    "LessOrEqual": Logical.LESS_THAN_OR_EQUAL,
    "And": Logical.AND,
    "Or": Logical.OR,
    "Xor": Logical.XOR,
}


def compare(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Equal, Greater, ... of numbers of one type, and And, Or and Xor of conditions."""
    return [compared(lowering, _FUNCTIONS[node.operator], present(inputs[0]), present(inputs[1]))]


def not_(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Not."""
    condition = computed(lowering, present(inputs[0]))
    return [compared(lowering, Logical.EQUALS, condition, Constant(np.zeros((), np.bool_)))]


def is_nan(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """IsNaN: of codes most often known."""
    value = present(inputs[0])
    if isinstance(value, Table) and not np.isnan(value.floats).any():
        return [_nowhere(value.shape)]
    tensor = computed_floats(lowering, value)
    return [compared(lowering, Logical.NOT_EQUALS, tensor, tensor)]


def is_infinite(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """IsInf, above, below or both: of codes most often known."""
    value = present(inputs[0])
    ends = [end for name, end in _INFINITIES.items() if node.attributes.get(name, 1)]
    if not ends or (isinstance(value, Table) and not np.isinf(value.floats).any()):
        return [_nowhere(value.shape)]
    tensor = computed_floats(lowering, value)
    found = [compared(lowering, Logical.EQUALS, tensor, Constant(np.array(end, np.float32))) for end in ends]
    return [found[0] if len(found) == 1 else compared(lowering, Logical.OR, *found)]


_INFINITIES: Final = {"detect_negative": -np.inf, "detect_positive": np.inf}


def _nowhere(shape: tuple[int, ...]) -> Constant:
    """Return a condition that no element meets."""
    nowhere = broadcast_to(np.array(False), shape)
    return nowhere if isinstance(nowhere, FreeArray) else Constant(nowhere.reshape(shape))


class Chosen(Deferred):
    """Elements of one value where a condition holds, elsewhere of another."""

    def __init__(self, lowering: Lowering, condition: Elements, a: Value, b: Value) -> None:
        self._lowering, self._condition, self._values = lowering, condition, (a, b)
        self.shape, self.dtype = broadcast_shapes(condition.shape, a.shape, b.shape), element_type(a)

    def quantized(self, parameters: Parameters) -> Tensor:
        """Choose among codes of the same parameters: quantizing an element depends on no other."""
        codes = (self._lowering.quantized(value, parameters) for value in self._values)
        return chosen(self._lowering, self._condition, *codes)

    def floats(self) -> Tensor:
        """Choose among floats."""
        return chosen(self._lowering, self._condition, *map(self._lowering.elements, self._values))

    def table(self) -> Table | None:
        """Choose among codes for all who read the result, if both values are floats of the same codes; else None."""
        first = next((value for value in self._values if isinstance(value, Table)), None)
        if first is None:
            return None
        codes = [_codes_among(value, first) for value in self._values]
        known = [each for each in codes if each is not None]
        return replace(first, codes=chosen(self._lowering, self._condition, *known)) if len(known) == 2 else None


def _codes_among(value: Value, table: Table) -> Tensor | Array | None:
    """Return the codes that stand for a value in a table, to the last bit; None if there are none."""
    if isinstance(value, Table):
        is_same = value.codes.dtype == table.codes.dtype and np.array_equal(
            value.floats.view(np.uint32), table.floats.view(np.uint32)
        )
        return value.codes if is_same else None
    number = number_of(value)
    keeps = not isinstance(table, AffineTable) or table.parameters.keeps_codes
    if number is None or not keeps or not np.isfinite(number):
        return None
    found = np.flatnonzero(table.floats.view(np.uint32) == number.view(np.uint32))
    return np.full(value.shape, found[0], np.uint8).view(table.codes.dtype) if found.size else None


def _holds_everywhere(condition: Array) -> bool:
    return bool(condition.all())


def _holds_somewhere(condition: Array) -> bool:
    return bool(condition.any())


def where(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Where: of floats that are no codes computed at once."""
    condition, a, b = (present(value) for value in inputs)
    if isinstance(condition, Constant) and condition.dtype == np.bool_:
        holds_everywhere = decided_by(_holds_everywhere, condition.source)
        chosen, other = (a, b) if holds_everywhere else (b, a)
        is_settled = holds_everywhere or not decided_by(_holds_somewhere, condition.source)
        if is_settled and broadcast_shapes(condition.shape, other.shape, chosen.shape) == chosen.shape:
            return [chosen]
    mask = lowering.elements(condition)
    if mask.dtype != np.bool_:
        raise NotNative("a condition of another type than BOOL")
    result = Chosen(lowering, mask, a, b)
    table = result.table()
    if table is not None:
        return [table]
    return [result if any(isinstance(value, Table | Dequantized | Deferred) for value in (a, b)) else result.computed()]


def qlinear_where(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """QLinearWhere: from codes to codes."""
    condition, x, x_scale, x_zero_point, y, y_scale, y_zero_point, z_scale, z_zero_point = inputs
    a, b = dequantized(lowering, x, x_scale, x_zero_point), dequantized(lowering, y, y_scale, y_zero_point)
    [result] = where(lowering, node, [condition, a, b])
    return [as_value(lowering.quantized(result, parameters_of(z_scale, z_zero_point)))]


# Places along the axis of OneHot, each compared with each index.
_LARGEST_DEPTH: Final = 1 << 20


def _depths(depth: int, axes_behind: int, dtype: np.dtype[np.generic]) -> Array:
    places: Array = np.arange(depth, dtype=dtype).reshape(-1, *(1,) * axes_behind)
    return places


def one_hot(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """OneHot of a constant depth: along a new axis one value where it equals the index, elsewhere the other.

    Indices below 0 count from the end; those that are no place have the other value everywhere.
    """
    indices, values = computed(lowering, present(inputs[0])), present(inputs[2])
    [depth], rank = integers(inputs[1], "the depth"), len(indices.shape)
    axis = axis_within(node.attributes.get("axis", -1), rank + 1)
    if indices.dtype not in INTEGER_TYPES or values.shape != (2,):
        raise NotNative(f"places of type {indices.dtype}")
    if not 1 <= depth <= _LARGEST_DEPTH:
        raise NotNative(f"{depth} places")
    from_end = on_integers(lowering, IntegerBinary.ADD, indices, constant_by(np.array, depth, indices.dtype))
    is_negative = compared(lowering, Logical.LESS_THAN, indices, Constant(np.zeros((), indices.dtype)))
    counted = chosen(lowering, is_negative, from_end, indices)
    aligned = lowering.reshaped(counted, (*indices.shape[:axis], 1, *indices.shape[axis:]))
    condition = compared(lowering, Logical.EQUALS, aligned, constant_by(_depths, depth, rank - axis, indices.dtype))
    off, on = (sliced_along(lowering, values, 0, place, 1) for place in (0, 1))
    result = Chosen(lowering, condition, on, off)
    return [result if result.dtype == np.float32 else result.computed()]


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    **{("", name): compare for name in _FUNCTIONS},
    ("", "Not"): not_,
    ("", "OneHot"): one_hot,
    ("", "IsNaN"): is_nan,
    ("", "IsInf"): is_infinite,
    ("", "Where"): where,
    ("com.microsoft", "QLinearWhere"): qlinear_where,
}
