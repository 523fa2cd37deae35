"""A tensor as an operator sees it: sizes and strides over the raw elements of a buffer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

__all__ = ["FILL_BYTE", "NUMPY_TYPES", "StridedTensor", "blank_tensor", "buffer_length", "element_span"]

# What every byte of an output holds before the operator runs, in the recordings as in the tests.
FILL_BYTE = 0xAA

# The 4-bit types lie packed in bytes, two elements in each, the first in the low half.
PACKED_TYPES = ("UINT4", "INT4")
NUMPY_TYPES: dict[str, np.dtype[Any]] = {
    **{name: np.dtype(name.lower()) for name in ("FLOAT32", "FLOAT16", "UINT32", "UINT16", "UINT8")},
    **{name: np.dtype(name.lower()) for name in ("INT64", "INT32", "INT16", "INT8")},
    **dict.fromkeys(PACKED_TYPES, np.dtype(np.uint8)),
}


def element_span(sizes: tuple[int, ...], strides: tuple[int, ...] | None) -> int:
    """How many elements lie from the first to the last one of a tensor, gaps included."""
    if strides is None:
        return math.prod(sizes)
    return 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))


def buffer_length(data_type: str, sizes: tuple[int, ...], strides: tuple[int, ...] | None) -> int:
    """The length of the numpy buffer that holds the span."""
    span = element_span(sizes, strides)
    return (span + 1) // 2 if data_type in PACKED_TYPES else span


@dataclass(frozen=True, eq=False)
class StridedTensor:
    """`strides` count elements, None is packed; `buffer` is 1-D and holds the span, gaps included."""

    data_type: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...] | None
    buffer: NDArray[Any]

    @property
    def packed_strides(self) -> tuple[int, ...]:
        return tuple(math.prod(self.sizes[axis + 1 :]) for axis in range(len(self.sizes)))

    def view_of(self, buffer: NDArray[Any]) -> NDArray[Any]:
        """Another buffer (one numpy element for one of the tensor) seen with these sizes and strides."""
        strides = self.packed_strides if self.strides is None else self.strides
        return as_strided(buffer, self.sizes, [stride * buffer.itemsize for stride in strides])

    def logical(self) -> NDArray[Any]:
        """The elements, with the sizes of the tensor; 4-bit ones widened to 8 bits."""
        return self.view_of(self.unpacked())

    def unpacked(self) -> NDArray[Any]:
        """The elements of the span, gaps included, one numpy element each."""
        if self.data_type not in PACKED_TYPES:
            return self.buffer
        halves = np.stack([self.buffer & 15, self.buffer >> 4], axis=1).reshape(-1)
        # Moved to the upper half of a signed byte and back, the sign bit of the half becomes the byte's.
        signed = (halves << 4).view(np.int8) >> 4
        return signed if self.data_type == "INT4" else halves

    def holding(self, values: NDArray[Any]) -> NDArray[Any]:
        """A copy of the buffer with the logical elements replaced and the gaps as they are."""
        elements: NDArray[Any] = self.unpacked().copy()
        self.view_of(elements)[...] = values
        if self.data_type not in PACKED_TYPES:
            return elements
        halves = elements.view(np.uint8).reshape(-1, 2) & 15
        packed: NDArray[Any] = halves[:, 0] | halves[:, 1] << 4
        return packed


def blank_tensor(data_type: str, sizes: tuple[int, ...], strides: tuple[int, ...] | None) -> StridedTensor:
    """An output before the operator runs."""
    buffer = np.empty(buffer_length(data_type, sizes, strides), NUMPY_TYPES[data_type])
    buffer.view(np.uint8).fill(FILL_BYTE)
    return StridedTensor(data_type, sizes, strides, buffer)
