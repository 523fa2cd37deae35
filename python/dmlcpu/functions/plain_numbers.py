"""Python's numbers among the arguments of functions: they have no type, and take the one that is wanted."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

__all__ = ["are_numbers", "is_number", "number_not_held", "numbers_in"]

_MOST_AXES: Final = 8


def is_number(value: Any) -> bool:
    """Return whether a value is a Python number."""
    return isinstance(value, bool | int | float) and not isinstance(value, np.generic)


def are_numbers(value: Any, most_axes: int = _MOST_AXES) -> bool:
    """Return whether a value is a Python number, or a list or tuple of nothing else, of up to so many axes.

    >>> are_numbers(0.5), are_numbers([1, (2, 3)]), are_numbers([np.float64(0.5)]), are_numbers(np.ones(2))
    (True, True, False, False)
    """
    if not isinstance(value, list | tuple):
        return is_number(value)
    return most_axes > 0 and all(are_numbers(entry, most_axes - 1) for entry in value)


def numbers_in(value: Any) -> Iterator[Any]:
    """Yield the numbers of a value that ``are_numbers`` is true of, in their order.

    >>> [*numbers_in([1, (2, 3)])]
    [1, 2, 3]
    """
    if not isinstance(value, list | tuple):
        yield value
        return
    for entry in value:
        yield from numbers_in(entry)


def number_not_held(value: Any, floats: np.ndarray[Any, Any]) -> Any:
    """Return the first number of a value that is finite, but not in an array made of them, or is 0 in it alone.

    >>> number_not_held([0.0, 1e-7, 1e-9, 1e9], np.float16([0, 1e-7, 1e-9, np.inf]))
    1e-09
    """
    for number, element in zip(numbers_in(value), floats.flat, strict=True):
        if (math.isfinite(number) and not np.isfinite(element)) or (number != 0 and element == 0):
            return number
    return None
