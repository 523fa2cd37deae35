"""What functions are given, right and wrong."""

from __future__ import annotations

import decimal
import fractions
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Broken", "Hostile", "Mute", "OldDLPack", "OnlyDLPack", "anything", "one_element_forms"]


def one_element_forms(value: Any) -> Iterator[Any]:
    """A number, as a plain one too, and arrays of one element: of any rank, and one that was cut out of another."""
    yield value
    yield np.asarray(value)
    yield from (np.full((1,) * rank, value) for rank in (1, 2, 3, 5, 6))
    yield np.full(3, value)[2::-5]


class OnlyDLPack:
    """An array of another library."""

    def __init__(self, content: NDArray[Any]) -> None:
        self.content = content

    def __dlpack__(self, **options: Any) -> Any:
        return self.content.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.content.__dlpack_device__()


class OldDLPack(OnlyDLPack):
    """One of a library that knows DLPack before 1.0 alone, which does not tell whether memory can be written."""

    def __dlpack__(self, stream: None = None) -> Any:
        return self.content.__dlpack__(stream=stream)


class Mute(Exception):
    """Raises another error where it is asked what it says."""

    def __str__(self) -> str:
        raise ZeroDivisionError


class Hostile:
    """Raises whatever it is asked for."""

    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)

    def __array__(self, *arguments: Any, **options: Any) -> Any:
        raise RuntimeError("no")


class Broken:
    """Raises something of its own where it is asked for its elements."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __array__(self, *arguments: Any, **options: Any) -> Any:
        raise self.error


def anything() -> Iterator[Any]:
    """What somebody might give as any argument."""
    yield from (None, True, 0, 1, -1, 300, 2**31, 2**64, 0.0, 1.5, -0.0, float("nan"), float("inf"), 1e300, 1j)
    yield from ("", "1", b"", b"12", (), [], {}, set(), [1], [1.5], [[1], [2]], [[1], [2, 3]], [None], range(3))
    yield from (
        object(),
        int,
        np.ndarray,
        np,
        Hostile(),
        Broken(Mute()),
        iter([1]),
        itertools.count(),
        Ellipsis,
        NotImplemented,
    )
    yield from (decimal.Decimal(1), fractions.Fraction(1, 2), memoryview(b"12"), bytearray(6), slice(1))
    for dtype in (
        "float32",
        "float16",
        "uint8",
        "int8",
        "int32",
        "float64",
        "int64",
        "bool",
        "O",
        "U1",
        ">i4",
        "M8[D]",
    ):
        for shape in ((), (0,), (1,), (2,), (3,), (2, 3), (3, 2), (1, 2, 4, 4), (1,) * 9, (2, 3, 0)):
            content = np.zeros(shape, dtype)
            yield from (content, content[()], content[..., ::-1] if shape else content, content.T)
    yield np.broadcast_to(np.uint8(1), (2**20, 2**20, 2**20))
