"""Arrays that are known when a model is lowered, and those that follow from lengths which are known only later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from dmlcpu.graph.lengths import decided_by, derived, is_free, length_by
from dmlcpu.graph.record import Derived

__all__ = [
    "Array",
    "ArrayType",
    "Constant",
    "ConstantElements",
    "FreeArray",
    "RepeatedArray",
    "array_broadcast",
    "array_in_shape",
    "broadcast_to",
    "constant_by",
    "source_of",
]

Array: TypeAlias = np.ndarray[Any, Any]
ArrayType: TypeAlias = tuple[np.dtype[Any], tuple[int, ...]]
"""Type and shape of an array."""


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """An array known when the model is lowered."""

    array: Array

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return tuple(self.array.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of its elements."""
        dtype: np.dtype[Any] = self.array.dtype
        return dtype

    @property
    def source(self) -> Array | Derived:
        """What is given to a function whose result follows from the constant, and may be known only later."""
        return self.array

    @property
    def entries(self) -> Array:
        """Its elements as objects, of which some may be lengths that are known only later."""
        return self.array.astype(object)

    def elements(self) -> ConstantElements:
        """Return the array where it is there, else the constant itself."""
        return self.array


class FreeArray(Constant):
    """An array that follows from lengths that are known only later.

    Who asks for its elements binds the lengths to what they are.

    Attributes:
        dtype: Of its elements.
        shape: With lengths that are known only later.
    """

    __slots__ = ("_bound", "_derived", "dtype", "shape")
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    _bound: Array | None
    _derived: Derived | None

    def __init__(self, derived: Derived | None, dtype: np.dtype[Any], shape: Sequence[int]) -> None:
        object.__setattr__(self, "_derived", derived)
        object.__setattr__(self, "dtype", dtype)
        object.__setattr__(self, "shape", tuple(shape))
        object.__setattr__(self, "_bound", None)

    @classmethod
    def of(cls, derived: Derived) -> FreeArray:
        """Return an array of a record, its type and the number of its axes decided."""
        array: Array = derived.value
        decided_by(_has_type_and_axes, derived, array.dtype, array.ndim)
        return cls.of_type(derived, array.dtype, array.ndim)

    @classmethod
    def of_type(cls, derived: Derived, dtype: np.dtype[Any], axes: int) -> FreeArray:
        """Return an array of a record that has this type and so many axes whatever the lengths are."""
        return cls(derived, dtype, [length_by(_length_along, derived, axis) for axis in range(axes)])

    @property
    def derived(self) -> Derived:
        """The array, in a record of these lengths."""
        if self._derived is None:
            object.__setattr__(self, "_derived", self._recorded())
        assert self._derived is not None
        return self._derived

    def _recorded(self) -> Derived:
        """Record the array, of a kind that most graphs take otherwise, when it is asked for."""
        raise NotImplementedError

    @property
    def array(self) -> Array:
        """The array, to which the lengths are bound: one array, whoever asks."""
        if self._bound is None:
            object.__setattr__(self, "_bound", self.derived.bound)
        assert self._bound is not None
        return self._bound

    @property
    def source(self) -> Array | Derived:
        """The array, in its record."""
        return self.derived

    def elements(self) -> FreeArray:
        """Return itself."""
        return self

    def reshape(self, shape: Sequence[int]) -> FreeArray:
        """Return the array in another shape, as numpy's method does."""
        return FreeArray(derived(array_in_shape, self.derived, *shape), self.dtype, shape)


class RepeatedArray(FreeArray):
    """An array, repeated along axes of which lengths are known only later: no array is made for each of them.

    Attributes:
        repeated: What is repeated, which is known.
    """

    __slots__ = ("repeated",)
    repeated: Array

    def __init__(self, repeated: Array, shape: Sequence[int]) -> None:
        super().__init__(None, repeated.dtype, shape)
        object.__setattr__(self, "repeated", repeated)

    def _recorded(self) -> Derived:
        made: Derived = derived(array_broadcast, self.repeated, *self.shape)
        return made


ConstantElements: TypeAlias = Array | FreeArray
"""The elements of a constant: an array, or what is one only later."""


def source_of(elements: ConstantElements) -> Array | Derived:
    """Return what is given to a function of an array that may be known only later."""
    return elements.derived if isinstance(elements, FreeArray) else elements


def array_in_shape(array: Array, *shape: int) -> Array:
    """Return an array in another shape: a function of the array and lengths alone, for records."""
    return array.reshape(shape)


def array_broadcast(array: Array, *shape: int) -> Array:
    """Return an array broadcast to a shape, in a fraction of the time that numpy's function takes."""
    more = len(shape) - array.ndim
    if more < 0 or array.dtype.kind not in "biuf" or not array.flags.c_contiguous:  # others have no buffer
        return np.broadcast_to(array, shape)
    strides = [0] * more
    for length, stride, wanted in zip(array.shape, array.strides, shape[more:], strict=True):
        if length not in (1, wanted):
            return np.broadcast_to(array, shape)
        strides.append(0 if length == 1 else stride)
    same: Array = np.ndarray(shape, array.dtype, array, strides=strides)
    return same


def broadcast_to(array: ConstantElements, shape: Sequence[int]) -> ConstantElements:
    """Return a view of an array with its elements repeated along axes by strides of 0; one axis at least."""
    if isinstance(array, FreeArray):
        return FreeArray(derived(array_broadcast, array.derived, *(shape or (1,))), array.dtype, shape or (1,))
    if not is_free(shape):
        return array_broadcast(array, *(shape or (1,)))
    known = np.asarray(array)  # numpy's numbers are given, too
    if _has_no_free_axis(known, shape):
        return RepeatedArray(known, shape)
    return FreeArray(derived(array_broadcast, array, *shape), array.dtype, shape)


def _has_no_free_axis(array: Array, shape: Sequence[int]) -> bool:
    """Return whether an array is repeated along all axes of a shape whose lengths are known only later."""
    along = shape[len(shape) - array.ndim :]
    return array.ndim <= len(shape) and all(
        length == 1 or (not is_free([wanted]) and length == wanted)
        for length, wanted in zip(array.shape, along, strict=True)
    )


def _has_type_and_axes(array: Array, dtype: np.dtype[Any], axes: int) -> bool:
    return array.dtype == dtype and array.ndim == axes


def _length_along(array: Array, axis: int) -> int:
    length: int = array.shape[axis]
    return length


def constant_by(function: Callable[..., Array], *arguments: Any) -> Constant:
    """Return the array that a function makes of its arguments, known only later if one of them is.

    The function depends on nothing but its arguments, and gives what nobody writes to.
    """
    made = derived(function, *arguments)
    return FreeArray.of(made) if isinstance(made, Derived) else Constant(made)
