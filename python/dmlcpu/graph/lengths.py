"""Shapes and what is made of them, where lengths may be known only later (``dmlcpu.graph.record``) or not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dmlcpu.enums import TensorDataType
from dmlcpu.graph.record import Derived, Length, Record

__all__ = [
    "FreeDesc",
    "UnfitShapesError",
    "at_hand",
    "broadcast_shapes",
    "decided_by",
    "derived",
    "derived_among",
    "is_free",
    "length_by",
    "told_unfit",
]


class UnfitShapesError(ValueError):
    """Shapes that no tensors of one operator have."""


@dataclass(frozen=True, slots=True, eq=False)
class FreeDesc:
    """The desc of a packed tensor of which lengths are known only later."""

    data_type: TensorDataType
    sizes: tuple[int, ...]


def is_free(shape: Iterable[Any]) -> bool:
    """Return whether a length among others is known only later."""
    return Length in map(type, shape)


def at_hand(shape: Iterable[int]) -> tuple[int, ...]:
    """Return a shape with the lengths that its record began with; that decides nothing."""
    return tuple(length.value if isinstance(length, Derived) else length for length in shape)


def derived_among(entries: Iterable[Any] | Derived) -> list[Derived]:
    """Return what is known only later: entries, or all of them together."""
    if isinstance(entries, Derived):
        return [entries]
    return [entry for entry in entries if isinstance(entry, Derived)]


def derived(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function makes of its arguments, recorded if one of them is a length that is known only later.

    The function depends on nothing but its arguments, and gives what nobody writes to.
    """
    record = _record_of(arguments)
    return function(*arguments) if record is None else Derived(record, record.call(function, *arguments))


def length_by(function: Callable[..., int], *arguments: Any) -> int:
    """Return the length that a function makes of its arguments, recorded if one of them is known only later."""
    record = _record_of(arguments)
    return function(*arguments) if record is None else record.length(function, *arguments)


def decided_by(function: Callable[..., bool], *arguments: Any) -> bool:
    """Return what a function says of its arguments, recorded as a decision if one of them is known only later."""
    record = _record_of(arguments)
    return function(*arguments) if record is None else record.decided(function, *arguments)


def _record_of(arguments: Iterable[Any]) -> Record | None:
    """Return the record of the arguments that are known only later; None if all are known."""
    for argument in arguments:
        if isinstance(argument, Derived):
            return argument.record
    return None


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """Return the shape that tensors have together, as numpy's function does, of lengths that are known only later too.

    Raises:
        UnfitShapesError: They do not fit together.

    >>> broadcast_shapes((2, 1, 4), (3, 1))
    (2, 3, 4)
    """
    result = [*max(shapes, key=len, default=())]
    rank = len(result)
    for shape in shapes:
        for axis, length in enumerate(shape, rank - len(shape)):
            if result[axis] is length or length == 1:
                continue
            if result[axis] == 1:
                result[axis] = length
            elif result[axis] != length:
                raise UnfitShapesError(told_unfit(*shapes))
    return tuple(result)


def told_unfit(*shapes: Sequence[int]) -> str:
    """Return what a message says of shapes that no tensors of one operator have.

    >>> told_unfit((3,), [4, 1], (5,))
    'shapes (3,), (4, 1) and (5,) do not fit together'
    """
    *others, last = map(str, map(tuple, shapes))
    return f"shapes {', '.join(others)} and {last} do not fit together"
