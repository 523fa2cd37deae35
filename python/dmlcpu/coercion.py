"""What the constructors of descs make of their arguments: plain tuples, integers and enumeration members.

Coercion never refuses: what it cannot turn into the canonical form it hands back as it came, for the validator to
report. It reads a bounded number of entries, so an endless iterator or a huge range costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from enum import IntEnum, IntFlag
from itertools import islice
from operator import index
from typing import Any, TypeVar, cast

import numpy as np

__all__ = ["coerce_integer", "coerce_member", "coerce_sequence"]

# Far above any rank (at most 8), and enough for attribute arrays that are longer than they need to be.
_LONGEST_SEQUENCE = 4096
_INTEGER = frozenset({int})

_Member = TypeVar("_Member", bound=IntEnum | IntFlag)


def coerce_integer(value: Any) -> Any:
    """Return the exact ``int`` behind anything that is an integer or a boolean (numpy's too), else the value itself.

    >>> coerce_integer(np.uint8(3)), coerce_integer(np.True_), coerce_integer(2.0), coerce_integer(None)
    (3, 1, 2.0, None)
    """
    if type(value) is int or value is None:
        return value
    if type(value) is np.bool_:  # which is no integer to Python
        return int(value)
    try:
        return int(index(value))
    except Exception:  # a foreign __index__ may raise anything
        return value


def coerce_sequence(value: Any) -> Any:
    """Return the entries of any iterable as a tuple of coerced integers, else the value itself.

    Text, sets and mappings are no sequences of numbers and stay what they are.

    >>> coerce_sequence([1, 2.5]), coerce_sequence(range(3)), coerce_sequence("12"), coerce_sequence(4)
    ((1, 2.5), (0, 1, 2), '12', 4)
    """
    if value is None:
        return None
    if type(value) is tuple and len(value) <= _LONGEST_SEQUENCE and _INTEGER.issuperset(map(type, value)):
        return value  # the most common case is quick
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes, bytearray, Mapping, Set)):
        return value
    try:
        entries = tuple(islice(value, _LONGEST_SEQUENCE + 1))
    except Exception:  # a foreign __iter__ may raise anything
        return value
    return tuple(coerce_integer(entry) for entry in entries) if len(entries) <= _LONGEST_SEQUENCE else value


def coerce_member(enumeration: type[_Member], value: Any) -> _Member:
    """Return the member (or combination of flags) with this number; a number that has none stays a number.

    >>> from dmlcpu.enums import TensorDataType
    >>> coerce_member(TensorDataType, 5), coerce_member(TensorDataType, 99), coerce_member(TensorDataType, "INT8")
    (<TensorDataType.UINT8: 5>, 99, 'INT8')
    """
    if type(value) is enumeration:
        return value
    number = coerce_integer(value)
    if type(number) is not int:
        return cast(_Member, value)
    if issubclass(enumeration, IntFlag):
        every_flag = sum(enumeration)
        known = number & every_flag == number
    else:
        known = number in enumeration._value2member_map_
    return enumeration(number) if known else cast(_Member, number)
