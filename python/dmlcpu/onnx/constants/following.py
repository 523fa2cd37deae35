"""Constants that follow from lengths of a model's inputs, by themselves: what is left of a model reads them, too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from dmlcpu.graph.lengths import derived, length_by
from dmlcpu.graph.record import Derived, Length, RecordedFunction
from dmlcpu.onnx.constant_arrays import Array, Constant, FreeArray, constant_by
from dmlcpu.onnx.constants.shape_arithmetic import FreeNumbers, numbers

__all__ = ["Axis", "FollowingConstant", "following", "free_axes"]

Axis: TypeAlias = tuple[str, int]
"""The name of an input, and one of its axes."""


@dataclass(frozen=True, slots=True)
class _Followed:
    """What follows from the lengths of some axes.

    Attributes:
        function: Of these lengths.
        axes: Those axes.
        is_length: Whether it is a length as well.
    """

    function: RecordedFunction
    axes: tuple[Axis, ...]
    is_length: bool

    def of(self, shapes: Mapping[str, Sequence[int]]) -> Any:
        """Return it, in the record of the lengths where these are known only later."""
        return (length_by if self.is_length else derived)(self.function, *self.lengths(shapes))

    def lengths(self, shapes: Mapping[str, Sequence[int]]) -> Iterator[int]:
        """Yield what the function is called with."""
        return (shapes[name][axis] for name, axis in self.axes)


@dataclass(frozen=True, slots=True, eq=False)
class FollowingConstant:
    """A constant that follows from lengths.

    Attributes:
        made: The constant, or entry by entry the numbers that it has.
        dtype, shape: Of the numbers; None where it is an array.
    """

    made: _Followed | Sequence[Any]
    dtype: np.dtype[Any] | None = None
    shape: tuple[int, ...] | None = None

    @property
    def inputs(self) -> frozenset[str]:
        """The names of the inputs whose lengths it follows from."""
        made = [self.made] if isinstance(self.made, _Followed) else self.made
        return frozenset(name for each in made if isinstance(each, _Followed) for name, _ in each.axes)

    def at(self, shapes: Mapping[str, Sequence[int]]) -> Constant:
        """Return the constant for shapes of the inputs, of which lengths may be known only later."""
        if isinstance(self.made, _Followed):
            return constant_by(self.made.function, *self.made.lengths(shapes))
        assert self.dtype is not None
        entries = [entry.of(shapes) if isinstance(entry, _Followed) else entry for entry in self.made]
        return numbers(entries, self.dtype, self.shape)


def free_axes(shapes: Mapping[str, Sequence[int]]) -> Mapping[int, Axis]:
    """Return for the place of each free length of a record an axis of inputs that is as long."""
    axes: dict[int, Axis] = {}
    for name, shape in shapes.items():
        for axis, length in enumerate(shape):
            if isinstance(length, Derived):
                axes.setdefault(length.place, (name, axis))
    return axes


def following(value: FreeArray, axes: Mapping[int, Axis]) -> FollowingConstant:
    """Return a constant by itself.

    Args:
        value: The constant, in a record.
        axes: As ``free_axes`` returns them of the inputs.
    """
    if not isinstance(value, FreeNumbers):
        return FollowingConstant(_followed(value.derived, axes))
    entries: Array = value.entries
    made = [_followed(entry, axes) if isinstance(entry, Derived) else entry for entry in entries.flat]
    return FollowingConstant(made, value.dtype, entries.shape)


def _followed(made: Derived, axes: Mapping[int, Axis]) -> _Followed:
    function = made.record.function_of(made)
    return _Followed(function, tuple(axes[place] for place in function.free), isinstance(made, Length))
