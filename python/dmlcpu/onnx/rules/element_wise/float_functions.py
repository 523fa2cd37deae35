"""Functions of one float that no kernel computes by itself, composed of those that kernels do; of codes tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.rules.element_operators import on_each_float, on_floats
from dmlcpu.onnx.rules.element_wise.activation import table_only
from dmlcpu.onnx.rules.element_wise.integer_functions import of_integers
from dmlcpu.onnx.rules.native_functions import FloatBinary, FloatUnary
from dmlcpu.onnx.rules.operands import computed_floats, present
from dmlcpu.onnx.values import Constant, Table, Tensor, Value

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

    def function(self, function: FloatUnary) -> Floats:
        """Return a function that has a kernel and no parameters."""
        return Floats(self._lowering, on_each_float(self._lowering, function, self.tensor))

    def absolute(self) -> Floats:
        """Return its distance to 0."""
        return self.larger(self.function(FloatUnary.NEGATE))


def _exponential_below_zero(x: Floats, alpha: float, divisor: float = 1.0) -> Floats:
    """Return x above 0, and below it ``alpha * (exp(x / divisor) - 1)``."""
    below = x.smaller(0.0)
    curve = (below / divisor if divisor != 1 else below).function(FloatUnary.EXPONENTIAL) - 1.0
    return x.larger(0.0) + (curve * alpha if alpha != 1 else curve)


def _elu(x: Floats, node: Node) -> Floats:
    return _exponential_below_zero(x, node.attributes.get("alpha", 1.0))


def _celu(x: Floats, node: Node) -> Floats:
    alpha = node.attributes.get("alpha", 1.0)
    return _exponential_below_zero(x, alpha, alpha)


def _selu(x: Floats, node: Node) -> Floats:
    alpha = float(node.attributes.get("alpha", 1.67326319217681884765625))
    gamma = float(node.attributes.get("gamma", 1.05070102214813232421875))
    return _exponential_below_zero(x, alpha) * gamma


def _softplus(x: Floats, node: Node) -> Floats:
    """log(1 + exp(x)), by an exponential that is at most 1."""
    exponential = x.absolute().function(FloatUnary.NEGATE).function(FloatUnary.EXPONENTIAL)
    return x.larger(0.0) + (exponential + 1.0).function(FloatUnary.LOGARITHM)


# exp(20) + 2 is exp(20) in FLOAT32, and the square of that far from the largest number.
_MISH_IS_X: Final = 20.0


def _mish(x: Floats, node: Node) -> Floats:
    """With e = exp(x) and n = e * (e + 2) the factor of x, tanh(log(1 + e)), is n / (n + 2): 1 from 20 on."""
    exponential = x.smaller(_MISH_IS_X).function(FloatUnary.EXPONENTIAL)
    n = exponential * (exponential + 2.0)
    return x * (n / (n + 2.0))


def _softsign(x: Floats, node: Node) -> Floats:
    return x / (x.absolute() + 1.0)


def _swish(x: Floats, node: Node) -> Floats:
    alpha = node.attributes.get("alpha", 1.0)
    return x * (x * alpha if alpha != 1 else x).function(FloatUnary.SIGMOID)


def _absolute(x: Floats, node: Node) -> Floats:
    return x.absolute()


def _sign(x: Floats, node: Node) -> Floats:
    """Times 2**149 the smallest number is 1; what is no number stays none."""
    return (x * 2.0**127 * 2.0**22).larger(-1.0).smaller(1.0)


_FUNCTIONS: Final[Mapping[str, Callable[[Floats, Node], Floats]]] = {
    "Abs": _absolute,
    "Celu": _celu,
    "Elu": _elu,
    "Mish": _mish,
    "Selu": _selu,
    "Sign": _sign,
    "Softplus": _softplus,
    "Softsign": _softsign,
    "Swish": _swish,
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
