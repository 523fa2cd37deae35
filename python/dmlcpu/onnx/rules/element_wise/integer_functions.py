"""Functions of one INT32 or INT64, composed of those of two that kernels do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from dmlcpu.onnx.constant_arrays import Constant
from dmlcpu.onnx.lowering import Lowering
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.rules.element_operators import INTEGER_TYPES, on_integers
from dmlcpu.onnx.rules.movement.moved_values import reshaped
from dmlcpu.onnx.rules.native_functions import IntegerBinary
from dmlcpu.onnx.values import Value, element_type

__all__ = ["of_integers"]


def of_integers(lowering: Lowering, node: Node, value: Value, others: Sequence[Value | None]) -> Value | None:
    """Return a node's function of integers; None if they are none, or it is a function that has no form here.

    Args:
        lowering: Where operators are added.
        node: A function of one element.
        value: Its elements.
        others: The node's other inputs.
    """
    function = _FUNCTIONS.get(node.operator)
    return None if function is None or element_type(value) not in INTEGER_TYPES else function(lowering, value, others)


def _number(value: Value, number: int) -> Constant:
    return Constant(np.array(number, element_type(value)))


def _relu(lowering: Lowering, value: Value, others: Sequence[Value | None]) -> Value:
    return on_integers(lowering, IntegerBinary.MAXIMUM, value, _number(value, 0))


def _negative(lowering: Lowering, value: Value, others: Sequence[Value | None]) -> Value:
    return on_integers(lowering, IntegerBinary.SUBTRACT, _number(value, 0), value)


def _absolute(lowering: Lowering, value: Value, others: Sequence[Value | None]) -> Value:
    return on_integers(lowering, IntegerBinary.MAXIMUM, value, _negative(lowering, value, others))


def _sign(lowering: Lowering, value: Value, others: Sequence[Value | None]) -> Value:
    return _clip(lowering, value, [_number(value, -1), _number(value, 1)])


def _clip(lowering: Lowering, value: Value, others: Sequence[Value | None]) -> Value:
    for function, bound in zip((IntegerBinary.MAXIMUM, IntegerBinary.MINIMUM), others, strict=False):
        if bound is not None:
            value = on_integers(lowering, function, value, reshaped(lowering, bound, ()))
    return value


_FUNCTIONS: Final[Mapping[str, Callable[[Lowering, Value, Sequence[Value | None]], Value]]] = {
    "Abs": _absolute,
    "Clip": _clip,
    "Neg": _negative,
    "Relu": _relu,
    "Sign": _sign,
}
