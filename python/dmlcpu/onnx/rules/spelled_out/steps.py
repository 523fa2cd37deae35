"""Steps on the way to a function that a model spells out.

A step says what it would be computed from, and is computed as it is written where something else reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any, Final, TypeAlias, TypeGuard

import numpy as np

from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.parameters import Parameters
from dmlcpu.onnx.rules.element_wise.activation import element_wise
from dmlcpu.onnx.rules.operands import computed_floats
from dmlcpu.onnx.values import Deferred, Table, Tensor, Value, for_other_nodes

__all__ = ["Following", "Form", "Kind", "Step", "function_as", "is_same"]

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
    # SiLU, and GELU by the logistic function: x * sigmoid(factor * x)
    SIGMOID = auto()
    # HardSwish: x * clip(x + 3, 0, 6) / 6
    SHIFTED = auto()
    CLIPPED = auto()
    SIX_TIMES = auto()
    SIXTH = auto()
    # Rotation of pairs of elements: x * cosines + turned * sines, of which turned has for the first element of a pair
    # the second one, negated, and for the second one the first
    PART = auto()
    NEGATED_PART = auto()
    NEIGHBOURS = auto()
    TURNED = auto()
    BY_SINES = auto()
    BY_COSINES = auto()


_OF_PAIRS: Final = frozenset(
    {Kind.PART, Kind.NEGATED_PART, Kind.NEIGHBOURS, Kind.TURNED, Kind.BY_SINES, Kind.BY_COSINES}
)


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
        first, distance: The first of those elements along the last axis that a part has, and from one to the next.
        angles: Sines or cosines of angles.
    """

    kind: Kind
    axes: int = 0
    mean_axes: int = 0
    epsilon: np.float32 = _ZERO
    factor: np.float32 = _ONE
    cubic: np.float32 = _ZERO
    first: int = 0
    distance: int = 1
    angles: Value | None = None


class Step(Deferred):
    """What a node computes, on the way to a function of x.

    Args:
        lowering: Where it is computed, if something else reads it.
        rule: By which it is computed then.
        node, inputs: What the rule is given.
        following: What comes next, by the kind of a step and the operator that reads it.
        shape: Of what has neither the shape of x nor that of its mean.

    Attributes:
        lowering: The same.
        x: What the function is of.
        form: What this is of x.
    """

    is_whole, is_shared = False, True

    def __init__(
        self,
        lowering: Lowering,
        rule: Rule,
        node: Node,
        inputs: Sequence[Value | None],
        x: Value,
        form: Form,
        following: Mapping[tuple[Kind, str], Following],
        shape: tuple[int, ...] | None = None,
    ) -> None:
        self.lowering, self._rule, self._node, self._inputs = lowering, rule, node, inputs
        self.x, self.form, self._following = x, form, following
        self._result: Value | None = None
        self.shape = x.shape[: len(x.shape) - form.axes] + (1,) * form.axes if shape is None else shape

    def quantized(self, parameters: Parameters) -> Tensor:
        """Compute it as the node says, and quantize."""
        codes = self.lowering.quantized(self._value(), parameters)
        assert isinstance(codes, Tensor)
        return codes

    def floats(self) -> Tensor:
        """Compute it as the node says."""
        return computed_floats(self.lowering, self._value())

    def _value(self) -> Value:
        if self._result is None:
            [self._result] = self._rule(self.lowering, self._node, for_other_nodes(self._inputs))
        return self._result

    def for_other_nodes(self) -> Value:
        """Return what the node makes, codes or a table where x is, of the steps of pairs; other steps as they are."""
        return self._value() if self.form.kind in _OF_PAIRS else self

    def as_multiple(self) -> tuple[Value, np.float32]:
        """Return x and the factor of a product that has not been computed for what else reads it."""
        is_product = self.form.kind == Kind.PRODUCT and self._result is None
        return (self.x, self.form.factor) if is_product else super().as_multiple()

    def with_node(self, node: Node, inputs: Sequence[Value | None]) -> Value | None:
        """Go on to the next step, or to the function."""
        follow = self._following.get((self.form.kind, node.operator))
        if follow is None or any(value is not None and len(value.shape) > len(self.shape) for value in inputs):
            return None  # a number of more axes gives them to the result
        return follow(self, node, inputs)

    def next(
        self,
        rule: Rule,
        node: Node,
        inputs: Sequence[Value | None],
        kind: Kind,
        shape: tuple[int, ...] | None = None,
        **changed: Any,
    ) -> Step:
        """Return the step that a node is, which reads this one, and is of its form but for what is given."""
        form = replace(self.form, kind=kind, **changed)
        return Step(self.lowering, rule, node, inputs, self.x, form, self._following, shape)

    def is_beside(self, value: Value | None, kind: Kind) -> TypeGuard[Step]:
        """Whether a value is another step of the same function."""
        return isinstance(value, Step) and value.form.kind == kind and is_same(value.x, self.x)


Following: TypeAlias = Callable[[Step, Node, Sequence[Value | None]], Value | None]
"""Returns what a node makes of a step that it reads; None if that is no step."""


def function_as(kind: Kind) -> Following:
    """Return what makes a function of each element a step of a kind."""
    return lambda step, node, inputs: step.next(element_wise, node, inputs, kind)


def is_same(a: Value | None, b: Value | None) -> bool:
    """Whether two values are one: models dequantize codes once for each node that reads them."""
    if isinstance(a, Table) and isinstance(b, Table):
        return a.codes is b.codes and np.array_equal(a.floats, b.floats)
    return a is b
