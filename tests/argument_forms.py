"""The forms in which functions take one value, and how their results are compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dispatching import difference

__all__ = ["assert_equal", "one_element_forms"]


def one_element_forms(value: Any) -> Iterator[Any]:
    """A number, as a plain one too, and arrays of one element: of any rank, and one that was cut out of another."""
    yield value
    yield np.asarray(value)
    yield from (np.full((1,) * rank, value) for rank in (1, 2, 3, 5, 6))
    yield np.full(3, value)[2::-5]


def assert_equal(result: NDArray[Any], expected: NDArray[Any], explanation: object = "") -> None:
    """Of the same type, shape and bits."""
    found = difference(result, expected)
    assert found is None, f"{explanation}: {found}"
