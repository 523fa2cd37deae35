"""EyeLike of what is computed: it reads the shape alone, so that a plan knows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import onnx

from dmlcpu.onnx.lowering import Lowering, NotNative, Rule
from dmlcpu.onnx.nodes import Node
from dmlcpu.onnx.rules.operands import present
from dmlcpu.onnx.values import Array, Value, constant_by, element_type

__all__ = ["RULES"]

_MOST_ELEMENTS: Final = 1 << 24


def _diagonal(rows: int, columns: int, place: int, dtype: np.dtype[np.generic]) -> Array:
    return np.eye(rows, columns, place, dtype)


def eye_like(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """EyeLike."""
    value, given = present(inputs[0]), node.attributes.get("dtype")
    dtype = element_type(value) if given is None else onnx.helper.tensor_dtype_to_np_dtype(given)
    place = int(node.attributes.get("k", 0))
    if len(value.shape) != 2 or value.shape[0] * value.shape[1] > _MOST_ELEMENTS or abs(place) > _MOST_ELEMENTS:
        raise NotNative(f"a diagonal of shape {value.shape}")
    if dtype.kind not in "biuf":
        raise NotNative(f"a diagonal of type {dtype}")
    return [constant_by(_diagonal, value.shape[0], value.shape[1], place, dtype)]


RULES: Final[Mapping[tuple[str, str], Rule]] = {("", "EyeLike"): eye_like}
