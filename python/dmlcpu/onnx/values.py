"""What the values of a model are while it is lowered to native graphs.

Quantized models say in floating point what is computed in codes: dequantize, operate, quantize. So a node's result is
not computed when the node is met. It is kept as what it is a function of, until a node needs it as codes, which most
often come without any floating point, or as floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from dmlcpu.dtypes import CODE_TYPES
from dmlcpu.graph.record import Derived
from dmlcpu.onnx.constant_arrays import Array, Constant, ConstantElements, FreeArray, constant_by, source_of
from dmlcpu.onnx.parameters import Parameters
from dmlcpu.onnx.refusals import NotNative

if TYPE_CHECKING:
    from dmlcpu.onnx.models.nodes import Node

__all__ = [
    "CONSTANTS",
    "AffineTable",
    "Computed",
    "Deferred",
    "DeferredCodes",
    "Dequantized",
    "Elements",
    "Operand",
    "Table",
    "Tensor",
    "Value",
    "as_value",
    "element_type",
    "for_other_nodes",
]


@dataclass(slots=True, eq=False)  # never changed, but frozen it would be made in three times the time
class Tensor:
    """A tensor that a partition computes or is given.

    Attributes:
        partition: The native graph it is a value of; -1 for an input of the model and for what another runtime made.
        number: Its number there.
        name: The value of the model, where it is one.
        dtype: Of its elements.
        shape: May be empty, for a single element.
    """

    partition: int
    number: int
    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Floats that are a function of 8-bit codes, element by element: each is one of 256.

    Attributes:
        codes: The codes, UINT8 or INT8.
        function: FLOAT32, 256 of them, by the byte of a code; or what tells them.
    """

    codes: Tensor
    function: Array | Parameters

    @property
    def floats(self) -> Array:
        """FLOAT32, 256 of them, by the byte of a code."""
        return self.function.floats() if isinstance(self.function, Parameters) else self.function

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the codes."""
        return self.codes.shape


@dataclass(frozen=True, slots=True, eq=False)
class AffineTable(Table):
    """Codes of one scale and zero point, dequantized and nothing else."""

    function: Parameters

    @property
    def parameters(self) -> Parameters:
        """Of the codes."""
        return self.function


@dataclass(frozen=True, slots=True, eq=False)
class Dequantized:
    """Constant codes with their scale and zero point, such as a filter.

    Attributes:
        held: The codes, integers.
        scale: FLOAT32 with one element, or 1-D along ``axis``.
        zero_point: Of the codes' type, with the scale's shape.
        axis: Of the codes.
    """

    held: ConstantElements
    scale: Array
    zero_point: Array
    axis: int

    @property
    def codes(self) -> Array:
        """The codes; who asks for them binds the lengths that they follow from."""
        return self.held.array if isinstance(self.held, FreeArray) else self.held

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the codes."""
        return self.held.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the codes."""
        return tuple(self.held.shape)

    @property
    def parameters(self) -> Parameters | None:
        """Those of 8-bit codes that have one scale; None of any others."""
        if self.scale.size != 1 or self.dtype not in CODE_TYPES:
            return None
        return Parameters(np.float32(self.scale[0]), int(self.zero_point[0]), self.dtype)

    def has_scales_along(self, axis: int) -> bool:
        """Return whether there is one scale, or one for each index of an axis."""
        return self.scale.size == 1 or self.axis == axis

    @property
    def array(self) -> Array:
        """The dequantized array, made anew: ``(codes - zero_point) * scale`` in FLOAT32."""
        return _dequantized(self.codes, self.scale, self.zero_point, self.axis)

    @property
    def source(self) -> Array | Derived:
        """What is given to a function of the floats, which may be known only later."""
        return source_of(self.elements())

    def elements(self) -> ConstantElements:
        """Return the floats, also where they are known only later."""
        return constant_by(_dequantized, source_of(self.held), self.scale, self.zero_point, self.axis).elements()


def _dequantized(codes: Array, scale: Array, zero_point: Array, axis: int) -> Array:
    along = [1] * codes.ndim
    if scale.size > 1:
        along[axis] = scale.size
    difference = codes.astype(np.float32) - zero_point.astype(np.float32).reshape(along)
    with np.errstate(all="ignore"):
        return np.asarray(difference * scale.astype(np.float32).reshape(along))


_SEQUENCES: Final = (tuple, list)


class Deferred:  # no ABC, of which isinstance() takes several times as long, and planning asks often
    """The result of an operator on quantized operands, in floating point as a rule, not yet computed.

    Attributes:
        shape: Of the result.
        dtype: Of what :meth:`floats` computes.
        is_whole: Whether it is what an operator makes: what nodes that follow make one with it is of its node then.
        is_shared: Whether a node may become one with it that is not the only one to read it.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any] = np.dtype(np.float32)
    is_whole: bool = True
    is_shared: bool = False
    _computed: Tensor | None = None
    _depth: int | None = None

    @property
    def depth(self) -> int:
        """How many such values, this one included, wait for each other: computing it calls from one to the next.

        Values count that are attributes, or in tuples and lists that are.
        """
        if self._depth is None:
            waiting = 0
            for held in vars(self).values():
                if isinstance(held, Deferred):
                    waiting = max(waiting, held.depth)
                elif isinstance(held, _SEQUENCES):
                    waiting = max(waiting, *[value.depth for value in held if isinstance(value, Deferred)], 0)
            self._depth = 1 + waiting
        return self._depth

    def quantized(self, parameters: Parameters) -> Tensor | None:
        """Compute the codes of the result, by an operator from codes to codes; None if its floats are quantized."""
        return None

    def floats(self) -> Tensor:
        """Compute the result itself, in FLOAT32."""
        raise NotImplementedError

    def computed(self) -> Tensor:
        """Return what :meth:`floats` computes, which it does once, whoever asks."""
        if self._computed is None:
            self._computed = self.floats()
        return self._computed

    @property
    def has_floats(self) -> bool:
        """Whether the result has been computed in FLOAT32, or is moved or clipped from what has."""
        return self._computed is not None and self.dtype == np.float32

    def as_multiple(self) -> tuple[Value, np.float32]:
        """Return what this is a number of times, and the number; itself, once, unless it is known to be more."""
        return self, np.float32(1)

    def followed_by(self, node: Node, inputs: Sequence[Value | None], alone: bool) -> Value | None:
        """Return what a node makes of this value and others, where it is not computed when the node is met either.

        Args:
            node: One that reads this value.
            inputs: Of the node.
            alone: Whether no other node reads this value, nor the caller.

        Returns:
            None where the node takes this value as any other.
        """
        return None if node.domain or not (alone or self.is_shared) else self.with_node(node, inputs)

    def with_node(self, node: Node, inputs: Sequence[Value | None]) -> Value | None:
        """Return the same of one of ONNX's own nodes, which reads the value alone unless that is shared."""
        return None

    def for_other_nodes(self) -> Value:
        """Return what nodes are given that do not follow the value: itself, or what it is a step of, made at once."""
        return self

    def sliced(self, starts: Sequence[int], steps: Sequence[int], shape: Sequence[int]) -> Value | None:
        """Return every step-th element of each axis from a start on, where that takes less than all of the value."""
        return None


class DeferredCodes(Deferred):
    """Codes that are computed for those alone who read them as they are: nodes that dequantize them do without."""

    def codes(self) -> Tensor:
        """Compute the codes."""
        raise NotImplementedError

    def quantized(self, parameters: Parameters) -> Tensor:
        """Refuse: codes are not quantized."""
        raise NotNative(f"an input of type {self.dtype}")

    def floats(self) -> Tensor:
        """Compute the codes, which is what the value is."""
        return self.codes()


CONSTANTS: Final = (Constant, Dequantized)
"""The values that are constants. A tuple, which ``isinstance`` looks through in a third of a union's time."""

Computed: TypeAlias = Tensor | Table | Deferred
"""Values that are no constants."""

Value: TypeAlias = Constant | Dequantized | Computed
"""What a name of a model stands for.

Values are told apart as objects: they are keys of dictionaries, so none of their classes has an ``__eq__`` of its own.
"""

Elements: TypeAlias = Tensor | ConstantElements
"""The elements of a value: of one that is computed the tensor."""

Operand: TypeAlias = Elements | Constant | None
"""What an operator of a native graph reads; None where an optional tensor is absent."""


def as_value(elements: Elements) -> Value:
    """Return the value that has these elements, and is nothing but them."""
    return Constant(elements) if isinstance(elements, np.ndarray) else elements


def for_other_nodes(inputs: Sequence[Value | None]) -> list[Value | None]:
    """Return what a node is given that follows none of its inputs."""
    return [value.for_other_nodes() if isinstance(value, Deferred) else value for value in inputs]


def element_type(value: Value) -> np.dtype[Any]:
    """Return the type of a value's elements: of what stands for floats the floats'."""
    return np.dtype(np.float32) if isinstance(value, Table | Dequantized) else value.dtype
