"""What a diagonal tells: EyeLike, of a shape alone, and Trilu, which keeps the elements on one side of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import onnx

from dmlcpu.onnx.constant_arrays import Array, Constant, constant_by
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.element_wise.conditions import where
from dmlcpu.onnx.rules.operands import integers, present
from dmlcpu.onnx.values import Value, element_type

__all__ = ["RULES"]

_MOST_ELEMENTS: Final = 1 << 24


def _diagonal(rows: int, columns: int, place: int, dtype: np.dtype[np.generic]) -> Array:
    return np.eye(rows, columns, place, dtype)


def eye_like(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """EyeLike: a plan knows it."""
    value, given = present(inputs[0]), node.attributes.get("dtype")
    dtype = element_type(value) if given is None else onnx.helper.tensor_dtype_to_np_dtype(given)
    place = int(node.attributes.get("k", 0))
    if len(value.shape) != 2 or value.shape[0] * value.shape[1] > _MOST_ELEMENTS or abs(place) > _MOST_ELEMENTS:
        raise NotNative(f"a diagonal of shape {value.shape}")
    if dtype.kind not in "biuf":
        raise NotNative(f"a diagonal of type {dtype}")
    return [constant_by(_diagonal, value.shape[0], value.shape[1], place, dtype)]


def trilu(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Trilu: elements on one side of a diagonal, elsewhere 0."""
    value, diagonal = present(inputs[0]), (*inputs, None)[1]
    rows, columns = value.shape[-2:]
    [offset] = (0,) if diagonal is None else integers(diagonal, "the diagonal")
    kept = lowering.constant_once(_triangle, rows, columns, offset, bool(node.attributes.get("upper", 1)))
    return where(lowering, node, [kept, value, Constant(np.zeros((), element_type(value)))])


def _triangle(rows: int, columns: int, offset: int, is_upper: bool) -> Array:
    """Return the condition that holds in a triangle of a matrix."""
    diagonal = max(-rows - 1, min(offset, columns + 1))  # those beyond are the same, and numpy's sums of them may wrap
    return ~np.tri(rows, columns, diagonal - 1, np.bool_) if is_upper else np.tri(rows, columns, diagonal, np.bool_)


RULES: Final[Mapping[tuple[str, str], Rule]] = {("", "EyeLike"): eye_like, ("", "Trilu"): trilu}
