"""GELU and its kin, with or without a bias: on floats a function of one pass, on codes a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from dmlcpu.onnx.constant_arrays import Constant
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.element_operators import on_each_float
from dmlcpu.onnx.rules.element_wise.activation import table_only
from dmlcpu.onnx.rules.element_wise.arithmetic import plus
from dmlcpu.onnx.rules.native_functions import FloatUnary
from dmlcpu.onnx.rules.operands import computed_floats, present, vector
from dmlcpu.onnx.values import Deferred, Table, Tensor, Value

__all__ = ["RULES", "gated", "gelu_by_error_function", "gelu_by_tanh"]

_ROOT_OF_2: Final = math.sqrt(2)


# x / 2 * (1 + tanh(u)) is x * logistic(2 * u); u is the first of these times x, and the second times x cubed.
_LINEAR: Final = 0.7978845608028654
_CUBIC: Final = 0.044715 * _LINEAR


class Gated(Deferred):
    """x times a function of it between 0 and 1, of floats.

    Attributes:
        x: Any value of FLOAT32 elements.
        function: The function of floats.
        alpha, beta: What that takes.
    """

    def __init__(self, lowering: Lowering, x: Value, function: FloatUnary, alpha: float, beta: float = 0) -> None:
        self._lowering = lowering
        self.x, self.function, self.alpha, self.beta = x, function, alpha, beta
        self.shape = x.shape

    def floats(self) -> Tensor:
        """Add the function of floats."""
        x = computed_floats(self._lowering, self.x)
        return on_each_float(self._lowering, self.function, x, alpha=self.alpha, beta=self.beta)


def gelu_by_error_function(lowering: Lowering, x: Value, divisor: float = _ROOT_OF_2) -> Gated:
    """Return x * (erf(x / divisor) + 1) * 0.5."""
    return Gated(lowering, x, FloatUnary.GELU, divisor)


def gelu_by_tanh(lowering: Lowering, x: Value, linear: float = _LINEAR, cubic: float = _CUBIC) -> Gated:
    """Return x / 2 * (1 + tanh(linear * x + cubic * x ** 3))."""
    return Gated(lowering, x, FloatUnary.TANH_GELU, 2 * linear, 2 * cubic)


def gated(lowering: Lowering, x: Value, alpha: float = 1) -> Gated:
    """Return x * sigmoid(alpha * x), of floats: SiLU, or QuickGelu."""
    return Gated(lowering, x, FloatUnary.GATED, alpha)


def _tabulated(x: Table, function: Callable[[float], float]) -> Table:
    return Table(x.codes, np.array([function(float(element)) for element in x.floats], np.float32))


def _floating(lowering: Lowering, x: Value) -> Value:
    """Return what is deferred as it is, so that it may be moved yet, anything else as a tensor of floats."""
    return x if isinstance(x, Deferred) and x.dtype == np.float32 else computed_floats(lowering, x)


def gelu(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """ONNX's Gelu: of codes a table, of floats the function."""
    x = present(inputs[0])
    if isinstance(x, Table):
        return table_only(lowering, node, inputs)
    approximation = node.attributes.get("approximate", b"none")
    if approximation not in (b"none", b"tanh"):
        raise NotNative(f"an approximation by {approximation!r}")
    function = gelu_by_error_function if approximation == b"none" else gelu_by_tanh
    return [function(lowering, _floating(lowering, x))]


def _biased(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Value:
    """Return the first input, with the second one added where there is one: a vector along the last axis."""
    x, bias = (present(inputs[0]), (*inputs, None)[1])
    if bias is None:
        return x
    return plus(lowering, node, (node.inputs[0], x), Constant(vector(bias, x.shape[-1], "the bias")))


def bias_gelu(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """BiasGelu, and Gelu of com.microsoft: by the error function."""
    x = _biased(lowering, node, inputs)
    if isinstance(x, Table):
        return [_tabulated(x, lambda element: element * (math.erf(element / _ROOT_OF_2) + 1) * 0.5)]
    return [gelu_by_error_function(lowering, _floating(lowering, x))]


def fast_gelu(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """FastGelu: by the hyperbolic tangent, with or without a bias."""
    x = _biased(lowering, node, inputs)
    if isinstance(x, Table):
        cubed = _CUBIC / _LINEAR
        return [_tabulated(x, lambda e: 0.5 * e * (1 + math.tanh(_LINEAR * (e + cubed * e * e * e))))]
    return [gelu_by_tanh(lowering, _floating(lowering, x))]


def quick_gelu(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """QuickGelu: x * sigmoid(alpha * x)."""
    x, alpha = present(inputs[0]), float(node.attributes.get("alpha", 1.702))
    if isinstance(x, Table):
        return [_tabulated(x, lambda element: element * 0.5 * (1 + math.tanh(alpha * element / 2)))]
    return [gated(lowering, _floating(lowering, x), alpha)]


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("", "Gelu"): gelu,
    ("com.microsoft", "Gelu"): bias_gelu,
    ("com.microsoft", "BiasGelu"): bias_gelu,
    ("com.microsoft", "FastGelu"): fast_gelu,
    ("com.microsoft", "QuickGelu"): quick_gelu,
}
