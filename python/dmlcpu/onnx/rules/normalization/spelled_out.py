"""Layer normalization, with the mean or without, and GELU where models spell them out, node by node, on floats.

Each node on the way is kept as a step, which says what it would be computed from. The last one is the function itself.
A step that something else reads is computed as it is written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any, Final, TypeAlias, TypeGuard

import numpy as np

from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.parameters import Parameters
from dmlcpu.onnx.rules.element_wise.activation import element_wise
from dmlcpu.onnx.rules.element_wise.arithmetic import binary, power
from dmlcpu.onnx.rules.element_wise.gelu import gelu_by_error_function, gelu_by_tanh
from dmlcpu.onnx.rules.normalization.normalization import LayerNormalization, root_mean_square_normalization
from dmlcpu.onnx.rules.operands import computed_floats, present
from dmlcpu.onnx.rules.pooling.pooled_values import StackedSum
from dmlcpu.onnx.rules.reduction.reduction import computed_mean, mean_axes
from dmlcpu.onnx.values import Constant, Deferred, Dequantized, Table, Tensor, Value

__all__ = ["RULES"]

_ZERO: Final = np.float32(0)
_ONE: Final = np.float32(1)


class Kind(Enum):
    """The steps on the way to a function of x, which models write in several ways."""

    # Layer normalization: (x - mean) / sqrt(mean((x - mean) ** 2) + epsilon)
    MEAN = auto()
    DISTANCES = auto()
    SQUARES = auto()
    VARIANCE = auto()
    SUM = auto()
    DEVIATION = auto()
    # Without the mean: x / sqrt(mean(x ** 2) + epsilon), or times 1 / sqrt(...)
    SQUARE = auto()
    MEAN_SQUARE = auto()
    MEAN_SQUARE_SUM = auto()
    ROOT = auto()
    INVERSE_ROOT = auto()
    # GELU by the error function: x * (erf(x / divisor) + 1) / 2
    QUOTIENT = auto()
    ERF = auto()
    ERF_AND_1 = auto()
    TWICE = auto()
    # GELU by tanh: x * (tanh(a * x + b * x ** 3) + 1) / 2
    PRODUCT = auto()
    QUADRATIC = auto()
    QUADRATIC_AND_1 = auto()
    CUBE = auto()
    CUBIC = auto()
    TANH = auto()
    TANH_AND_1 = auto()
    TWICE_BY_TANH = auto()


@dataclass(frozen=True, slots=True)
class Form:
    """What a step is of x. The numbers go on from step to step, to the function.

    Attributes:
        kind: Which step it is.
        axes: How many axes a mean is over, the last ones, and what is computed of the mean.
        mean_axes: The same of a mean that is subtracted.
        epsilon: What is added to a variance, or a mean of squares.
        factor: Of x, or of its power; of a quotient the divisor; of a sum of x and its cube the factor of x.
        cubic: The factor of the cube then.
    """

    kind: Kind
    axes: int = 0
    mean_axes: int = 0
    epsilon: np.float32 = _ZERO
    factor: np.float32 = _ONE
    cubic: np.float32 = _ZERO


class Step(Deferred):
    """What a node computes, on the way to a function of x.

    Attributes:
        x: What the function is of.
        form: What this is of x.
    """

    def __init__(
        self, lowering: Lowering, rule: Rule, node: Node, inputs: Sequence[Value | None], x: Value, form: Form
    ) -> None:
        self._lowering, self._rule, self._node, self._inputs = lowering, rule, node, inputs
        self.x, self.form = x, form
        self._result: Value | None = None
        self.shape = x.shape[: len(x.shape) - form.axes] + (1,) * form.axes

    def quantized(self, parameters: Parameters) -> Tensor:
        """Compute it as the node says, and quantize."""
        codes = self._lowering.quantized(self._value(), parameters)
        assert isinstance(codes, Tensor)
        return codes

    def floats(self) -> Tensor:
        """Compute it as the node says."""
        return computed_floats(self._lowering, self._value())

    def _value(self) -> Value:
        if self._result is None:
            [self._result] = self._rule(self._lowering, self._node, self._inputs)
        return self._result

    def as_multiple(self) -> tuple[Value, np.float32]:
        """Return x and the factor of a product that has not been computed for what else reads it."""
        is_product = self.form.kind == Kind.PRODUCT and self._result is None
        return (self.x, self.form.factor) if is_product else super().as_multiple()

    def followed_by(self, node: Node, inputs: Sequence[Value | None], alone: bool) -> Value | None:
        """Go on to the next step, or to the function."""
        follow = None if node.domain else _FOLLOWING.get((self.form.kind, node.operator))
        if follow is None or any(value is not None and len(value.shape) > len(self.shape) for value in inputs):
            return None  # a number of more axes gives them to the result
        return follow(self, node, inputs)

    def next(self, rule: Rule, node: Node, inputs: Sequence[Value | None], kind: Kind, **changed: Any) -> Step:
        """Return the step that a node is, which reads this one, and is of its form but for what is given."""
        return Step(self._lowering, rule, node, inputs, self.x, replace(self.form, kind=kind, **changed))

    def other(self, inputs: Sequence[Value | None]) -> Value | None:
        """Return the operand beside this step."""
        return inputs[1] if inputs[0] is self else inputs[0]

    def is_beside(self, value: Value | None, kind: Kind) -> TypeGuard[Step]:
        """Whether a value is another step of the same function."""
        return isinstance(value, Step) and value.form.kind == kind and _same(value.x, self.x)

    def normalized(self, deviation: Step) -> Value:
        """Return the quotient of the distances to the mean, which this is, and the deviation."""
        count, epsilon = deviation.form.axes, deviation.form.epsilon
        ones = np.ones(math.prod(self.shape[len(self.shape) - count :]), np.float32)
        return LayerNormalization(self._lowering, self.x, count, epsilon, ones, np.zeros_like(ones))

    def over_root(self) -> Value:
        """Return x over the root of the mean of its squares, which this is, or its reciprocal."""
        count, epsilon = self.form.axes, self.form.epsilon
        ones = np.ones(math.prod(self.x.shape[len(self.shape) - count :]), np.float32)
        return root_mean_square_normalization(self._lowering, self.x, count, epsilon, ones)

    def gelu(self) -> Value:
        """Return the GELU of x, by the function that this is a step of."""
        if self.form.kind in (Kind.ERF_AND_1, Kind.TWICE):
            return gelu_by_error_function(self._lowering, self.x, float(self.form.factor))
        return gelu_by_tanh(self._lowering, self.x, float(self.form.factor), float(self.form.cubic))


Following: TypeAlias = Callable[[Step, Node, Sequence[Value | None]], Value | None]
"""Returns what a node makes of a step that it reads; None if that is no step."""


def _same(a: Value | None, b: Value | None) -> bool:
    """Whether two values are one: models dequantize codes once for each node that reads them."""
    if isinstance(a, Table) and isinstance(b, Table):
        return a.codes is b.codes and np.array_equal(a.floats, b.floats)
    return a is b


def _number(value: Value | None) -> np.float32 | None:
    """Return the one FLOAT32 that a value is, if it is."""
    if not isinstance(value, Constant | Dequantized) or math.prod(value.shape) != 1:
        return None
    array = value.array if isinstance(value, Constant) else value.floats()
    return np.float32(array.reshape(())) if array.dtype == np.float32 else None


def _distances(step: Step, node: Node, inputs: Sequence[Value | None]) -> Value | None:
    if inputs[1] is not step or not _same(inputs[0], step.x):
        return None
    return step.next(binary, node, inputs, Kind.DISTANCES, axes=0, mean_axes=step.form.axes)


def _squares(step: Step, node: Node, inputs: Sequence[Value | None]) -> Value | None:
    if node.operator == "Pow":
        return step.next(power, node, inputs, Kind.SQUARES) if _number(inputs[1]) == 2 else None
    return step.next(binary, node, inputs, Kind.SQUARES) if inputs[0] is inputs[1] else None


def _mean_as(kind: Kind) -> Following:
    """Return what makes a mean over the last axes a step of a kind."""

    def follow(step: Step, node: Node, inputs: Sequence[Value | None]) -> Value | None:
        count = _trailing(node, inputs)
        if count is None or (step.form.kind == Kind.SQUARES and count != step.form.mean_axes):
            return None
        return step.next(mean, node, inputs, kind, axes=count)

    return follow


def _with_epsilon_as(kind: Kind) -> Following:
    """Return what makes a sum with a number, the epsilon, a step of a kind."""

    def follow(step: Step, node: Node, inputs: Sequence[Value | None]) -> Value | None:
        epsilon = _number(step.other(inputs))
        return None if epsilon is None else step.next(binary, node, inputs, kind, epsilon=epsilon)

    return follow


def _function_as(kind: Kind) -> Following:
    """Return what makes a function of each element a step of a kind."""
    return lambda step, node, inputs: step.next(element_wise, node, inputs, kind)


def _normalized(step: Step, node: Node, inputs: Sequence[Value | None]) -> Value | None:
    deviation = inputs[1]
    if inputs[0] is not step or not step.is_beside(deviation, Kind.DEVIATION):
        return None
    return step.normalized(deviation) if deviation.form.axes == step.form.mean_axes else None


def _and_one_as(kind: Kind) -> Following:
    """Return what makes a sum with 1 a step of a kind."""

    def follow(step: Step, node: Node, inputs: Sequence[Value | None]) -> Value | None:
        return step.next(binary, node, inputs, kind) if _number(step.other(inputs)) == 1 else None

    return follow


def _times_x_as(kind: Kind) -> Following:
    """Return what makes a product with x a step of a kind; with half of x it is the function."""

    def follow(step: Step, node: Node, inputs: Sequence[Value | None]) -> Value | None:
        other = step.other(inputs)
        if step.is_beside(other, Kind.PRODUCT) and other.form.factor == 0.5:
            return step.gelu()
        return step.next(binary, node, inputs, kind) if _same(other, step.x) else None

    return follow


def _half(step: Step, node: Node, inputs: Sequence[Value | None]) -> Value | None:
    return step.gelu() if _number(step.other(inputs)) == 0.5 else None


def _scaled_as(kind: Kind) -> Following:
    """Return what makes a product with a number a step of a kind, and one of a square with x its cube."""

    def follow(step: Step, node: Node, inputs: Sequence[Value | None]) -> Value | None:
        other = step.other(inputs)
        if step.form.kind == Kind.SQUARE and _same(other, step.x):
            return step.next(binary, node, inputs, Kind.CUBE)
        factor = _number(other)
        if factor is None:
            return None
        own = step.form
        return step.next(binary, node, inputs, kind, factor=own.factor * factor, cubic=own.cubic * factor)

    return follow


def _product_times_x(step: Step, node: Node, inputs: Sequence[Value | None]) -> Value | None:
    return step.next(binary, node, inputs, Kind.QUADRATIC) if _same(step.other(inputs), step.x) else None


def _plus_x(step: Step, node: Node, inputs: Sequence[Value | None]) -> Value | None:
    if not _same(step.other(inputs), step.x):
        return None
    return step.next(binary, node, inputs, Kind.CUBIC, factor=_ONE, cubic=step.form.factor)


def _times_multiple(step: Step, node: Node, inputs: Sequence[Value | None]) -> Value | None:
    """The sum of 1 and a multiple of x squared, times x or another multiple of it."""
    other = step.other(inputs)
    if step.is_beside(other, Kind.PRODUCT):
        factor = other.form.factor
    elif _same(other, step.x):
        factor = _ONE
    else:
        return None
    return step.next(binary, node, inputs, Kind.CUBIC, factor=factor, cubic=factor * step.form.factor)


def _over_root(step: Step, node: Node, inputs: Sequence[Value | None]) -> Value | None:
    if inputs[1] is not step:
        return None
    if _same(inputs[0], step.x):
        return step.over_root()
    return step.next(binary, node, inputs, Kind.INVERSE_ROOT) if _number(inputs[0]) == 1 else None


def _times_inverse_root(step: Step, node: Node, inputs: Sequence[Value | None]) -> Value | None:
    return step.over_root() if _same(step.other(inputs), step.x) else None


_FOLLOWING: Final[Mapping[tuple[Kind, str], Following]] = {
    (Kind.MEAN, "Sub"): _distances,
    (Kind.DISTANCES, "Pow"): _squares,
    (Kind.DISTANCES, "Mul"): _squares,
    (Kind.SQUARES, "ReduceMean"): _mean_as(Kind.VARIANCE),
    (Kind.VARIANCE, "Add"): _with_epsilon_as(Kind.SUM),
    (Kind.SUM, "Sqrt"): _function_as(Kind.DEVIATION),
    (Kind.DISTANCES, "Div"): _normalized,
    (Kind.SQUARE, "ReduceMean"): _mean_as(Kind.MEAN_SQUARE),
    (Kind.MEAN_SQUARE, "Add"): _with_epsilon_as(Kind.MEAN_SQUARE_SUM),
    (Kind.MEAN_SQUARE_SUM, "Sqrt"): _function_as(Kind.ROOT),
    (Kind.ROOT, "Div"): _over_root,
    (Kind.ROOT, "Reciprocal"): _function_as(Kind.INVERSE_ROOT),
    (Kind.INVERSE_ROOT, "Mul"): _times_inverse_root,
    (Kind.QUOTIENT, "Erf"): _function_as(Kind.ERF),
    (Kind.ERF, "Add"): _and_one_as(Kind.ERF_AND_1),
    (Kind.ERF_AND_1, "Mul"): _times_x_as(Kind.TWICE),
    (Kind.TWICE, "Mul"): _half,
    (Kind.SQUARE, "Mul"): _scaled_as(Kind.QUADRATIC),
    (Kind.PRODUCT, "Mul"): _product_times_x,
    (Kind.QUADRATIC, "Add"): _and_one_as(Kind.QUADRATIC_AND_1),
    (Kind.QUADRATIC_AND_1, "Mul"): _times_multiple,
    (Kind.CUBE, "Mul"): _scaled_as(Kind.CUBE),
    (Kind.CUBE, "Add"): _plus_x,
    (Kind.CUBIC, "Mul"): _scaled_as(Kind.CUBIC),
    (Kind.CUBIC, "Tanh"): _function_as(Kind.TANH),
    (Kind.TANH, "Add"): _and_one_as(Kind.TANH_AND_1),
    (Kind.TANH_AND_1, "Mul"): _times_x_as(Kind.TWICE_BY_TANH),
    (Kind.TWICE_BY_TANH, "Mul"): _half,
}


def squared(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Pow; a square may begin a normalization without the mean, a cube a GELU."""
    x, exponent = inputs[0], _number(inputs[1])
    if _is_float_rows(x) and exponent in (2, 3) and len(present(inputs[1]).shape) <= len(x.shape):
        kind = Kind.SQUARE if exponent == 2 else Kind.CUBE
        return [Step(lowering, power, node, inputs, x, Form(kind))]
    return power(lowering, node, inputs)


def _is_float_rows(value: Value | None) -> TypeGuard[Tensor | Deferred]:
    return isinstance(value, Tensor | Deferred) and value.dtype == np.float32 and len(value.shape) > 0


def scaled(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Mul and Div; by a number they may begin a GELU, by 1 they are nothing, and a square may begin a normalization."""
    square = inputs[0]
    if (
        node.operator == "Mul"
        and isinstance(square, Tensor | Deferred)
        and square is inputs[1]
        and square.dtype == np.float32
    ):
        return [Step(lowering, binary, node, inputs, square, Form(Kind.SQUARE))]
    if len(inputs) == 2:
        for x, other, kind in ((inputs[0], inputs[1], None), (inputs[1], inputs[0], Kind.PRODUCT)):
            number = _number(other)
            is_float = isinstance(x, Tensor | Deferred) and x.dtype == np.float32
            if x is None or other is None or number is None or not is_float:
                continue
            if math.prod(x.shape) == 1 or len(other.shape) > len(x.shape):
                continue  # a scale, or axes more than x has
            kind = kind or (Kind.QUOTIENT if node.operator == "Div" else Kind.PRODUCT)
            if kind == Kind.QUOTIENT or node.operator == "Mul":
                if number == 1:
                    return [x]
                return [Step(lowering, binary, node, inputs, x, Form(kind, factor=number))]
    return binary(lowering, node, inputs)


def _trailing(node: Node, inputs: Sequence[Value | None]) -> int | None:
    """Return over how many axes a mean is, if it is over the last ones and keeps them."""
    rank = len(present(inputs[0]).shape)
    axes = mean_axes(node, inputs, rank)
    if not node.attributes.get("keepdims", 1) or axes != tuple(range(rank - len(axes), rank)):
        return None
    return len(axes)


def mean(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """ReduceMean; over the last axes it may begin a layer normalization, but for the average of an image's codes."""
    value = present(inputs[0])
    axes = mean_axes(node, inputs, len(value.shape))
    count = _trailing(node, inputs)
    if isinstance(value, Tensor):
        computed_floats(lowering, value)
    if count is not None and not (isinstance(value, Table | StackedSum) and axes == (2, 3)):
        return [Step(lowering, computed_mean, node, inputs, value, Form(Kind.MEAN, axes=count))]
    return computed_mean(lowering, node, inputs)


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("", "Mul"): scaled,
    ("", "Div"): scaled,
    ("", "Pow"): squared,
    ("", "ReduceMean"): mean,
}
