"""What the tables of several operators are made of: sets of data types, and fields that hold tensors."""

from __future__ import annotations

from dmlcpu.enums import TensorDataType
from dmlcpu.schema import Field, FieldKind, TensorSupport

__all__ = [
    "FLOAT32_ALONE",
    "FLOATS",
    "INT32_ALONE",
    "INTEGERS_4",
    "INTEGERS_8",
    "INTEGERS_8_TO_32",
    "UINT8_ALONE",
    "input_field",
    "output_field",
]

FLOAT32_ALONE = (TensorDataType.FLOAT32,)
FLOATS = (TensorDataType.FLOAT32, TensorDataType.FLOAT16)
UINT8_ALONE = (TensorDataType.UINT8,)
INT32_ALONE = (TensorDataType.INT32,)
INTEGERS_4 = (TensorDataType.INT4, TensorDataType.UINT4)
INTEGERS_8 = (TensorDataType.INT8, TensorDataType.UINT8)
INTEGERS_8_TO_32 = (
    TensorDataType.INT32,
    TensorDataType.INT16,
    TensorDataType.INT8,
    TensorDataType.UINT32,
    TensorDataType.UINT16,
    TensorDataType.UINT8,
)


def input_field(name: str, *history: TensorSupport) -> Field:
    """Return the field of an input tensor."""
    return Field(name, FieldKind.INPUT, history)


def output_field(name: str, *history: TensorSupport) -> Field:
    """Return the field of an output tensor."""
    return Field(name, FieldKind.OUTPUT, history)
