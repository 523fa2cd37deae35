"""The data of constant nodes, as the tensors that read it: shaped arrays by their indices, all else as it lies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from dmlcpu.nibbles import packed, packed_length
from dmlcpu.shown_values import counted
from dmlcpu.tensor import (
    TensorDesc,
    data_type_of,
    dtype_of,
    has_data_type,
    is_four_bits,
    span_in_bytes,
    span_in_elements,
)

__all__ = ["constant_elements", "constant_misfit"]

_Array = np.ndarray[Any, Any]


def constant_misfit(data: _Array | bytes, desc: TensorDesc) -> tuple[str, str] | None:
    """Return what data is that a tensor cannot read, and what it should be; None if it can.

    Arrays of bytes are bytes to all types. Others have the tensor's type, and either the tensor's shape, in which axes
    of length 1 and repeated ones may be left out, or else one axis, whose elements lie in memory as the desc says.
    """
    if isinstance(data, np.ndarray) and data.dtype != np.uint8 and not has_data_type(data.dtype, desc.data_type):
        is_packed = "packed " if is_four_bits(desc.data_type) else ""
        return str(data.dtype), f"{desc.data_type.name.lower()}, or {is_packed}bytes"
    if _is_shaped(data, desc):
        assert isinstance(data, np.ndarray)
        sizes = tuple(desc.sizes)
        core = _core_sizes(desc)
        if data.shape == sizes and core != sizes and not _repeats(data, core):
            return "other elements where the tensor repeats some", "the same again, or those alone that it has"
        if data.shape == sizes or _long_axes(data.shape) == _long_axes(core):
            return None
        return f"shape {data.shape}", f"{sizes}, or elements in one dimension as they lie in memory"
    size, needed = _size(data), span_in_bytes(desc)
    if size >= needed:
        return None
    return counted(size, "byte of data", "bytes of data"), f"at least {needed}, which the tensor spans"


def constant_elements(data: _Array | bytes, desc: TensorDesc) -> _Array:
    """Return the elements that a tensor spans of data that it can read, in a copy: a flat array that can be bound."""
    if _is_shaped(data, desc):
        assert isinstance(data, np.ndarray)
        memory = np.zeros(span_in_elements(desc.sizes, desc.strides), data.dtype)
        view = as_strided(memory, tuple(desc.sizes), [stride * data.itemsize for stride in desc.element_strides])
        view[...] = data if data.shape == view.shape else data.reshape(_core_sizes(desc))
        data = memory
    raw = np.frombuffer(data if isinstance(data, bytes) else data.tobytes(), np.uint8)
    if isinstance(data, np.ndarray) and is_four_bits(data_type_of(data.dtype)):
        raw = packed(raw)
    elements: _Array = raw[: span_in_bytes(desc)].copy()
    return elements if is_four_bits(desc.data_type) else elements.view(dtype_of(desc.data_type))


def _is_shaped(data: _Array | bytes, desc: TensorDesc) -> bool:
    """Return whether data is an array of a tensor's type whose axes say which element is which.

    One axis of the tensor's shape does: a tensor without repetition or gaps spans as many elements, one with gaps more,
    and of one that repeats its element others would be dropped unseen.
    """
    if not isinstance(data, np.ndarray) or not has_data_type(data.dtype, desc.data_type):
        return False
    return data.ndim > 1 or data.shape == tuple(desc.sizes) or _long_axes(data.shape) == _long_axes(_core_sizes(desc))


def _repeats(data: _Array, core: tuple[int, ...]) -> bool:
    """Return whether an array has the elements of its first indices along the axes that are longer than a core."""
    bits = np.ascontiguousarray(data)[..., np.newaxis].view(np.uint8)  # NaN is equal to itself by these
    first = bits[tuple(slice(size) for size in core)]
    return bool((bits == np.broadcast_to(first, bits.shape)).all())


def _core_sizes(desc: TensorDesc) -> tuple[int, ...]:
    """Return the sizes of a tensor without what repeats along axes of stride 0."""
    return tuple(1 if stride == 0 else size for size, stride in zip(desc.sizes, desc.element_strides, strict=True))


def _long_axes(sizes: Iterable[int]) -> list[int]:
    return [size for size in sizes if size != 1]


def _size(data: _Array | bytes) -> int:
    """Return the bytes of data; 4-bit elements of an array count as packed."""
    if isinstance(data, bytes):
        return len(data)
    return packed_length(data.size) if is_four_bits(data_type_of(data.dtype)) else data.nbytes
