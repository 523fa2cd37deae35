"""Names of types, as onnxruntime tells them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import onnx

from dmlcpu.dtypes import is_of_ml_dtypes
from dmlcpu.errors import InvalidModelError

__all__ = ["CONTAINERS", "tensor_dtype", "tensor_name", "type_name"]

CONTAINERS: Final = frozenset({"sequence_type", "map_type", "optional_type"})
"""The kinds of types of what is no tensor, but holds some."""
_NAMES: Final = {
    "float32": "float",
    "float64": "double",
    "str": "string",
    "object": "string",
    **{name: name.replace("_", "") for name in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")},
}
_DTYPES: Final = {name: dtype for dtype, name in _NAMES.items()}  # of strings objects, the last ones


def tensor_name(dtype: np.dtype[Any]) -> str:
    """Return the name of a tensor's type."""
    return f"tensor({_element_name(dtype)})"


def tensor_dtype(name: str) -> np.dtype[Any] | None:
    """Return the type of a tensor's elements by the name of its type; None of other values, and of unknown types.

    >>> tensor_dtype("tensor(float)"), tensor_dtype("tensor(string)"), tensor_dtype("seq(tensor(float))")
    (dtype('float32'), dtype('O'), None)
    """
    if not name.startswith("tensor("):
        return None
    element = name.removeprefix("tensor(").removesuffix(")")
    try:
        return np.dtype(_DTYPES.get(element, element))
    except TypeError:  # onnx may have it
        pass
    try:
        dtype = _dtype_of(onnx.TensorProto.DataType.Value(element.upper()))
    except ValueError:  # as an InvalidModelError is
        return None
    return dtype if is_of_ml_dtypes(dtype) else None  # until 1.19 onnx had another one in its place


def type_name(value: onnx.ValueInfoProto) -> str:
    """Return the name of a value's type.

    Raises:
        InvalidModelError: It is of an unknown kind.
    """
    try:
        return _name(value.type)
    except InvalidModelError as error:
        raise InvalidModelError(f"{value.name!r}: {error}") from None


def _name(declared: onnx.TypeProto) -> str:
    kind = declared.WhichOneof("value")
    if kind == "sequence_type":
        return f"seq({_name(declared.sequence_type.elem_type)})"
    if kind == "optional_type":
        return f"optional({_name(declared.optional_type.elem_type)})"
    if kind == "map_type":
        key = _element_name(_dtype_of(declared.map_type.key_type))
        return f"map({key},{_name(declared.map_type.value_type)})"
    if kind == "tensor_type":
        return tensor_name(_dtype_of(declared.tensor_type.elem_type))
    raise InvalidModelError(f"got a value of kind {kind}, expected tensors, or what holds some")


def _element_name(dtype: np.dtype[Any]) -> str:
    name: str = dtype.name
    return _NAMES.get(name, name)


def _dtype_of(element_type: int) -> np.dtype[Any]:
    try:
        return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(element_type))
    except (KeyError, ValueError):
        raise InvalidModelError(f"the element type {element_type} is unknown") from None
