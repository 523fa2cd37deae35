"""Functions of one float that have operators of other names, or are composed of these; of codes tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from dmlcpu.onnx.constant_arrays import Constant
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.element_operators import chosen, compared, on_each_float, on_floats
from dmlcpu.onnx.rules.element_wise.activation import table_only
from dmlcpu.onnx.rules.element_wise.integer_functions import of_integers
from dmlcpu.onnx.rules.native_functions import FloatBinary, FloatUnary, Logical
from dmlcpu.onnx.rules.operands import computed_floats, present
from dmlcpu.onnx.values import Table, Tensor, Value

__all__ = ["RULES", "Floats"]


class Floats:
    """A computed FLOAT32 tensor, with the arithmetic that adds operators to the graph."""

    def __init__(self, lowering: Lowering, tensor: Tensor) -> None:
        self._lowering, self.tensor = lowering, tensor

    def _with(self, function: FloatBinary, other: Floats | float) -> Floats:
        value = other.tensor if isinstance(other, Floats) else Constant(np.array(other, np.float32))
        return Floats(self._lowering, on_floats(self._lowering, function, self.tensor, value))

    def __add__(self, other: Floats | float) -> Floats:
        return self._with(FloatBinary.ADD, other)

    def __sub__(self, other: Floats | float) -> Floats:
        return self._with(FloatBinary.SUBTRACT, other)

    def __mul__(self, other: Floats | float) -> Floats:
        return self._with(FloatBinary.MULTIPLY, other)

    def __truediv__(self, other: Floats | float) -> Floats:
        return self._with(FloatBinary.DIVIDE, other)

    def larger(self, other: Floats | float) -> Floats:
        """Return the larger one of two."""
        return self._with(FloatBinary.MAXIMUM, other)

    def smaller(self, other: Floats | float) -> Floats:
        """Return the smaller one of two."""
        return self._with(FloatBinary.MINIMUM, other)

    def above(self, threshold: float) -> Floats:
        """Return it where it is above a number, else 0: what is no number is not above it either."""
        is_above = compared(
            self._lowering, Logical.GREATER_THAN, self.tensor, Constant(np.array(threshold, np.float32))
        )
        return Floats(self._lowering, chosen(self._lowering, is_above, self.tensor, np.zeros((), np.float32)))

    def function(self, function: FloatUnary, **parameters: float) -> Floats:
        """Return a function that has a kernel, with its parameters."""
        return Floats(self._lowering, on_each_float(self._lowering, function, self.tensor, **parameters))

    def absolute(self) -> Floats:
        """Return its distance to 0."""
        return self.function(FloatUnary.ABSOLUTE)


def _finite(node: Node, default: float) -> float:
    """Return alpha, by which the kernel multiplies a zero of what is above 0."""
    alpha = float(node.attributes.get("alpha", default))
    if not math.isfinite(alpha):
        raise NotNative(f"alpha is {alpha}")
    return alpha


def _celu(x: Floats, node: Node) -> Floats:
    alpha = node.attributes.get("alpha", 1.0)
    return x.function(FloatUnary.ELU, alpha=alpha, beta=alpha)


def _selu(x: Floats, node: Node) -> Floats:
    alpha = _finite(node, 1.67326319217681884765625)
    gamma = float(node.attributes.get("gamma", 1.05070102214813232421875))
    return x.function(FloatUnary.ELU, alpha=alpha, beta=1.0) * gamma


_FUNCTIONS: Final[Mapping[str, Callable[[Floats, Node], Floats]]] = {
    "Abs": lambda x, node: x.absolute(),
    "Celu": _celu,
    "Elu": lambda x, node: x.function(FloatUnary.ELU, alpha=_finite(node, 1.0), beta=1.0),
    "HardSwish": lambda x, node: x.function(FloatUnary.HARD_SWISH, alpha=1 / 6, beta=0.5),
    "Mish": lambda x, node: x.function(FloatUnary.MISH),
    "Selu": _selu,
    "Sign": lambda x, node: x.function(FloatUnary.SIGN),
    "Softplus": lambda x, node: x.function(FloatUnary.SOFTPLUS),
    "Softsign": lambda x, node: x.function(FloatUnary.SOFTSIGN),
    "Swish": lambda x, node: x.function(FloatUnary.GATED, alpha=node.attributes.get("alpha", 1.0)),
    "ThresholdedRelu": lambda x, node: x.above(node.attributes.get("alpha", 1.0)),
}


def composed(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """One of the functions."""
    value = present(inputs[0])
    if isinstance(value, Table):
        return table_only(lowering, node, inputs)
    integers = of_integers(lowering, node, value, inputs[1:])
    if integers is not None:
        return [integers]
    x = Floats(lowering, computed_floats(lowering, value))
    return [_FUNCTIONS[node.operator](x, node).tensor]


RULES: Final[Mapping[tuple[str, str], Rule]] = {("", name): composed for name in _FUNCTIONS}
