"""Element-wise operators that rules add to a graph: functions of floats, integers and conditions."""

from __future__ import annotations

import sys
from typing import Any, Final

import numpy as np

from dmlcpu.dtypes import FLOAT32, INT32, INT64
from dmlcpu.graph.lengths import broadcast_shapes
from dmlcpu.onnx.constant_arrays import broadcast_to
from dmlcpu.onnx.lowering import Lowering
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.native_functions import FloatBinary, FloatUnary, IntegerBinary, Logical
from dmlcpu.onnx.values import Elements, Operand, Tensor, Value

__all__ = [
    "INTEGER_TYPES",
    "broadcast",
    "chosen",
    "compared",
    "float_bits",
    "low_bits",
    "on_each_float",
    "on_floats",
    "on_integers",
    "pairs_turned",
]

INTEGER_TYPES: Final = (INT32, INT64)


def on_floats(lowering: Lowering, function: FloatBinary, a: Value, b: Value) -> Tensor:
    """Add a function of two FLOAT32 operands, broadcast to each other.

    Raises:
        NotNative: They are of another type.
    """
    shape = broadcast_shapes(a.shape, b.shape)
    operands: list[Operand] = []
    for value in (a, b):
        floats = lowering.elements(value)
        if floats.dtype != np.float32:
            raise NotNative(f"operands of type {floats.dtype}")
        operands.append(broadcast(lowering, floats, shape))
    return lowering.emit("ELEMENT_WISE_BINARY", operands, FLOAT32, shape, {"function": (function,)})


def on_each_float(lowering: Lowering, function: FloatUnary, tensor: Tensor, **parameters: float | np.float32) -> Tensor:
    """Add a function of each element of a FLOAT32 tensor, with its alpha and beta where it has these."""
    bits = {name: (float_bits(np.float32(number)),) for name, number in parameters.items()}
    return lowering.emit("ELEMENT_WISE_UNARY", [tensor], FLOAT32, tensor.shape, {"function": (function,), **bits})


def pairs_turned(lowering: Lowering, x: Tensor, cosines: Tensor, sines: Tensor, axis: int) -> Tensor:
    """Add a rotation: pairs of FLOAT32 elements turned by angles.

    Args:
        lowering: Where it is added.
        x: Along one axis the two elements of pairs.
        cosines, sines: Of the angles, broadcast to x.
        axis: The axis.
    """
    angles = (lowering.expanded(each, x.shape) for each in (cosines, sines))
    return lowering.emit("ROTARY_EMBEDDING", [x, *angles], FLOAT32, x.shape, {"axis": (axis,)})


def broadcast(lowering: Lowering, value: Elements, shape: tuple[int, ...]) -> Elements:
    """Return a tensor or an array with another shape, its elements repeated by strides of 0."""
    return lowering.expanded(value, shape) if isinstance(value, Tensor) else broadcast_to(value, shape)


def on_integers(lowering: Lowering, function: IntegerBinary, a: Value, b: Value) -> Tensor:
    """Add a function of two operands, INT32 or INT64, broadcast to each other.

    Raises:
        NotNative: They are of other types.
    """
    left, right = lowering.elements(a), lowering.elements(b)
    if left.dtype != right.dtype or left.dtype not in INTEGER_TYPES:
        raise NotNative(f"operands of type {left.dtype} and {right.dtype}")
    shape = broadcast_shapes(a.shape, b.shape)
    operands = [broadcast(lowering, operand, shape) for operand in (left, right)]
    return lowering.emit("ELEMENT_WISE_BINARY", operands, left.dtype, shape, {"function": (function,)})


def compared(lowering: Lowering, function: Logical, a: Value, b: Value) -> Tensor:
    """Add a comparison of two operands of one type, or a function of two conditions, broadcast to each other.

    Raises:
        NotNative: Their type is none that is compared.
    """
    left, right = lowering.elements(a), lowering.elements(b)
    of_conditions = left.dtype == np.bool_
    is_known = of_conditions or left.dtype in (*INTEGER_TYPES, np.dtype(np.float32), np.dtype(np.uint8))
    if of_conditions and function in (Logical.GREATER_THAN, Logical.LESS_THAN):
        raise NotNative("an order of conditions")
    if left.dtype != right.dtype or not is_known:
        raise NotNative(f"operands of type {left.dtype} and {right.dtype}")
    shape = broadcast_shapes(a.shape, b.shape)
    operands = [broadcast(lowering, operand, shape) for operand in (left, right)]
    return lowering.emit("ELEMENT_WISE_LOGICAL", operands, np.bool_, shape, {"function": (function,)})


def chosen(lowering: Lowering, condition: Elements, a: Elements, b: Elements) -> Tensor:
    """Add a choice: elements of one operand where a condition holds, elsewhere of another, broadcast to each other.

    Raises:
        NotNative: They are of two types.
    """
    if a.dtype != b.dtype:
        raise NotNative(f"operands of type {a.dtype} and {b.dtype}")
    shape = broadcast_shapes(condition.shape, a.shape, b.shape)
    operands = [broadcast(lowering, elements, shape) for elements in (condition, a, b)]
    return lowering.emit("ELEMENT_WISE_IF", operands, a.dtype, shape)


def float_bits(number: np.float32) -> int:
    """Return the bits of a FLOAT32, as attributes of operators hold it."""
    return int(np.float32(number).view(np.uint32))


def low_bits(lowering: Lowering, tensor: Tensor, dtype: np.dtype[Any]) -> Tensor:
    """Return elements of fewer bits, or as many, that have the lower ones."""
    count = tensor.dtype.itemsize // dtype.itemsize
    parts = lowering.emit("REINTERPRET", [tensor], dtype, (*tensor.shape, count))
    starts = (*(0,) * len(tensor.shape), 0 if sys.byteorder == "little" else count - 1)
    lowest = lowering.emit("SLICE", [parts], dtype, (*tensor.shape, 1), {"starts": starts, "steps": (1,) * len(starts)})
    return lowering.reshaped(lowest, tensor.shape)
