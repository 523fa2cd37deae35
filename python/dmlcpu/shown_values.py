"""How errors tell what came, and how descs print."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum, IntFlag

import numpy as np

__all__ = ["counted", "message_of", "nearest", "repr_of", "shown"]


def shown(value: object) -> str:
    """Describe any value in a few words. Never runs code of a foreign object, which may raise or never end.

    Python refuses to print integers of thousands of digits.

    >>> shown((1, 10**5000)), shown((4,)), shown("avx9"), shown([1]), shown({1})
    ('(1, an integer of 16610 bits)', '(4,)', "'avx9'", 'a list of length 1', 'an object of type set')
    >>> shown(((6,), 7))
    '(a tuple of length 1, 7)'
    """
    if issubclass(type(value), IntEnum | IntFlag):  # isinstance asks the object too
        name = value.name  # type: ignore[attr-defined]
        return str(name) if name is not None else str(int(value))  # type: ignore[call-overload]
    if type(value) is int:
        return str(value) if value.bit_length() <= 64 else f"an integer of {value.bit_length()} bits"
    if type(value) is tuple:
        entries = [f"a tuple of length {len(e)}" if type(e) is tuple else shown(e) for e in value[:9]]
        end = "," if len(value) == 1 else ", ..." if len(value) > len(entries) else ""
        return f"({', '.join(entries)}{end})"
    if type(value) is list:
        return f"a list of length {len(value)}"
    if value is None or type(value) is float:
        return repr(value)
    if type(value) is str:
        return repr(value if len(value) <= 40 else f"{value[:40]}...")
    if type(value) is type and type(module := value.__module__) is str:
        return f"{module}.{value.__name__}"
    if issubclass(type(value), np.dtype):
        return f"numpy's dtype {str(value)[:40]}"
    return f"an object of type {type(value).__name__}"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a number with the noun for what it counts.

    >>> counted(1, "entry", "entries"), counted(0, "element")
    ('1 entry', '0 elements')
    """
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def message_of(error: BaseException) -> str:
    """Return what an error says; of one that raises another where it is asked its type.

    >>> message_of(ValueError("no array"))
    'no array'
    """
    try:
        return str(error)
    except Exception:  # a foreign object may raise anything
        return type(error).__name__


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name that another one is likely meant to be; "" if none is near.

    >>> nearest("group_counts", ["strides", "group_count"]), nearest("x", ["strides"])
    ('group_count', '')
    """
    from difflib import get_close_matches  # here: only a mistake needs it

    return next(iter(get_close_matches(name, [*known], 1)), "")


def repr_of(value: object) -> str:
    """Return the expression that evaluates to a value, of members of enumerations too, if there is one.

    >>> from dmlcpu.enums import TensorFlags
    >>> repr_of(TensorFlags.OWNED_BY_DML), repr_of((1, "x"))
    ('TensorFlags.OWNED_BY_DML', "(1, 'x')")
    """
    if isinstance(value, IntEnum | IntFlag):
        return f"{type(value).__name__}.{value.name}"
    try:
        return repr(value)
    except ValueError:  # integers of more digits than Python prints
        return shown(value)
