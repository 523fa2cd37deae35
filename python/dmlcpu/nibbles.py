"""Between 4-bit elements, two in a byte, the first in its low half, and numpy arrays that hold one in each byte."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlcpu import _core

__all__ = ["packed", "packed_length", "unpacked"]


def packed_length(elements: int) -> int:
    """Return the bytes that so many elements take.

    >>> packed_length(4), packed_length(5)
    (2, 3)
    """
    return (elements + 1) // 2


def packed(elements: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return elements in pairs, of each byte the low half.

    Args:
        elements: A 1-D array with one element a byte; the high halves do not count.

    >>> [hex(byte) for byte in packed(np.array([1, 2, 3, 4, 0xF5], np.uint8))]
    ['0x21', '0x43', '0x5']
    """
    result: NDArray[Any] = elements[::2] & 15
    result[: elements.size // 2] |= elements[1::2] << 4
    return result


def unpacked(pairs: NDArray[np.uint8], count: int) -> NDArray[np.uint8]:
    """Return the first elements of packed ones as bytes of 0 to 15.

    >>> unpacked(np.array([0x21, 0x43, 0x05], np.uint8), 5).tolist()
    [1, 2, 3, 4, 5]
    """
    return _core.unpacked_nibbles(pairs, count)
