"""Functions of arrays that make as many elements as numbers say which a run computes, such as durations of sounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from dmlcpu.errors import InvalidModelError
from dmlcpu.onnx.constant_arrays import Array
from dmlcpu.onnx.models.nodes import Node

__all__ = ["chosen", "counted_up", "filled", "is_filled_with_a_number", "repeated"]

# More than a process can address.
_MOST_ELEMENTS: Final = 1 << 48


def counted_up(node: Node, inputs: Sequence[Array | None]) -> Array:
    """Return what Range makes of integers: from the first one on, up to the second, in steps of the third."""
    given = [array for array in inputs if array is not None]
    dtype = given[0].dtype
    if any(array.size != 1 or array.dtype != dtype for array in given):
        got = ", ".join(f"{array.dtype} of shape {array.shape}" for array in given)
        raise InvalidModelError(f"node {node}: got {got}, expected three integers of one type")
    start, limit, step = (int(array.item()) for array in given)
    if step == 0:
        raise InvalidModelError(f"node {node}: got delta 0, expected steps that lead somewhere")
    count = max(-((start - limit) // step), 0)
    _check_size(node, (count,))
    elements: Array = (
        np.arange(count, dtype=np.int64) * step + start
    )  # in INT64 a product may wrap, and back by the sum
    return elements.astype(dtype)


def filled(node: Node, inputs: Sequence[Array | None]) -> Array:
    """Return what ConstantOfShape makes: an array of a shape, of one element again and again."""
    (lengths,) = inputs
    assert lengths is not None
    value = node.attributes.get("value", np.zeros(1, np.float32))
    shape = _shape(node, lengths)
    return np.full(shape, value.reshape(()), value.dtype)


def is_filled_with_a_number(node: Node) -> bool:
    """Return whether the element of a ConstantOfShape is one that numpy has."""
    value = node.attributes.get("value", np.zeros(1, np.float32))
    return isinstance(value, np.ndarray) and value.size == 1 and value.dtype.kind in "biuf"


def repeated(node: Node, inputs: Sequence[Array | None]) -> Array:
    """Return what Expand makes: an array, repeated along axes of length 1."""
    array, lengths = inputs
    assert array is not None
    assert lengths is not None
    wanted = _shape(node, lengths)
    try:
        shape = np.broadcast_shapes(array.shape, wanted)
    except ValueError:
        raise InvalidModelError(
            f"node {node}: got an array of shape {array.shape}, which cannot be expanded to {wanted}"
        ) from None
    _check_size(node, shape)
    made: Array = np.broadcast_to(array, shape).copy()
    return made


def chosen(node: Node, inputs: Sequence[Array | None]) -> Array:
    """Return what Compress makes: the parts of an array along an axis, or its elements, for which conditions are met.

    There may be fewer conditions than parts, and, as onnxruntime has it, more.
    """
    array, conditions = inputs
    assert array is not None
    assert conditions is not None
    axis = node.attributes.get("axis")
    if conditions.ndim != 1 or not (axis is None or -array.ndim <= axis < array.ndim):
        got = f"axis {axis} of an array of shape {array.shape}, and conditions of shape {conditions.shape}"
        raise InvalidModelError(f"node {node}: got {got}, expected one of its axes, and conditions along it")
    length = array.size if axis is None else array.shape[axis]
    parts: Array = np.compress(conditions[:length], array, axis)
    return parts


def _shape(node: Node, lengths: Array) -> tuple[int, ...]:
    shape = tuple(int(length) for length in lengths.reshape(-1).tolist())
    if min(shape, default=0) < 0:
        raise InvalidModelError(f"node {node}: got a shape of {shape}, expected lengths of 0 or more")
    _check_size(node, shape)
    return shape


def _check_size(node: Node, shape: Sequence[int]) -> None:
    if math.prod(shape) > _MOST_ELEMENTS:
        raise InvalidModelError(f"node {node}: got a shape of {tuple(shape)}, which no memory holds")
