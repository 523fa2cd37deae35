"""Comparisons, functions of conditions, and what they choose: Equal, And, Where and their kin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from dmlcpu.graph.lengths import broadcast_shapes, decided_by
from dmlcpu.onnx.lowering import Lowering, NotNative, Rule, broadcast_to
from dmlcpu.onnx.nodes import Node
from dmlcpu.onnx.rules.native_functions import Logical
from dmlcpu.onnx.rules.operands import broadcast, compared, computed, present
from dmlcpu.onnx.values import (
    Array,
    Constant,
    Deferred,
    Dequantized,
    FreeArray,
    Parameters,
    Table,
    Tensor,
    Value,
    element_type,
)

__all__ = ["RULES"]


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
    tensor = _computed_floats(lowering, value)
    return [compared(lowering, Logical.NOT_EQUALS, tensor, tensor)]


def is_infinite(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """IsInf, above, below or both: of codes most often known."""
    value = present(inputs[0])
    ends = [end for name, end in _INFINITIES.items() if node.attributes.get(name, 1)]
    if not ends or (isinstance(value, Table) and not np.isinf(value.floats).any()):
        return [_nowhere(value.shape)]
    tensor = _computed_floats(lowering, value)
    found = [compared(lowering, Logical.EQUALS, tensor, Constant(np.array(end, np.float32))) for end in ends]
    return [found[0] if len(found) == 1 else compared(lowering, Logical.OR, *found)]


_INFINITIES: Final = {"detect_negative": -np.inf, "detect_positive": np.inf}


def _nowhere(shape: tuple[int, ...]) -> Constant:
    """Return a condition that no element meets."""
    nowhere = broadcast_to(np.array(False), shape)
    return nowhere if isinstance(nowhere, FreeArray) else Constant(nowhere.reshape(shape))


def _computed_floats(lowering: Lowering, value: Value) -> Tensor:
    tensor = computed(lowering, value)
    if tensor.dtype != np.float32:
        raise NotNative(f"elements of type {tensor.dtype}")
    return tensor


class Chosen(Deferred):
    """Elements of one value where a condition holds, elsewhere of another."""

    def __init__(self, lowering: Lowering, condition: Tensor | Array | FreeArray, a: Value, b: Value) -> None:
        self._lowering, self._condition, self._values = lowering, condition, (a, b)
        self.shape, self.dtype = broadcast_shapes(condition.shape, a.shape, b.shape), element_type(a)

    def quantized(self, parameters: Parameters) -> Tensor:
        """Choose among codes of the same parameters: quantizing an element depends on no other."""
        return self._emitted([self._lowering.quantized(value, parameters) for value in self._values])

    def floats(self) -> Tensor:
        """Choose among floats."""
        return self._emitted([self._lowering.elements(value) for value in self._values])

    def _emitted(self, values: Sequence[Tensor | Array | FreeArray]) -> Tensor:
        dtype = values[0].dtype
        if dtype != values[1].dtype:
            raise NotNative(f"operands of type {dtype} and {values[1].dtype}")
        operands = [broadcast(self._lowering, value, self.shape) for value in (self._condition, *values)]
        return self._lowering.emit("ELEMENT_WISE_IF", operands, dtype, self.shape)


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
    return [result if any(isinstance(value, Table | Dequantized | Deferred) for value in (a, b)) else result.computed()]


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    **{("", name): compare for name in _FUNCTIONS},
    ("", "Not"): not_,
    ("", "IsNaN"): is_nan,
    ("", "IsInf"): is_infinite,
    ("", "Where"): where,
}
