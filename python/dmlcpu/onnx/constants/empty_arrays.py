"""Values without elements: constants, whatever made them, such as the past of a prompt or what a detector found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from dmlcpu.onnx.constant_arrays import Array, Constant, constant_by
from dmlcpu.onnx.values import Value, element_type

__all__ = ["has_no_elements", "nothing", "zeros_of"]

# numpy has no array whose other lengths, multiplied, are too many bytes to count; up to here it has, of any type.
_MAX_ELEMENTS: Final = 1 << 48


def has_no_elements(shape: Sequence[int]) -> bool:
    """Return whether a shape is that of an array without elements; of some such shapes numpy has no arrays."""
    return 0 in shape and math.prod(length for length in shape if length != 0) <= _MAX_ELEMENTS


def zeros_of(dtype: np.dtype[Any], shape: Sequence[int]) -> Constant:
    """Return zeros of a shape, such as sums of nothing, or what has a length of 0, whatever computes it or is fed."""
    return constant_by(_zeros, dtype, *shape)


def _zeros(dtype: np.dtype[Any], *shape: int) -> Array:
    return np.zeros(shape, dtype)


def nothing(value: Value, shape: Sequence[int]) -> Constant:
    """Return an array without elements, of the type that a value's floats, or other elements, have."""
    return zeros_of(element_type(value), shape)
