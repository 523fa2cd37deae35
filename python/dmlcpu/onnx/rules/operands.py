"""What rules ask of the operands of a node."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from dmlcpu.dtypes import CODE_TYPES, FLOAT32, INT32, INT64
from dmlcpu.graph.lengths import broadcast_shapes
from dmlcpu.onnx.lowering import Lowering, broadcast_to
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.native_functions import FloatBinary, FloatUnary, IntegerBinary, Logical
from dmlcpu.onnx.values import Array, Constant, Dequantized, Elements, FreeNumbers, Operand, Parameters, Tensor, Value

__all__ = [
    "INTEGER_TYPES",
    "aligned",
    "broadcast",
    "compared",
    "computed",
    "constant",
    "float_bits",
    "integers",
    "low_bits",
    "on_each_float",
    "on_floats",
    "on_integers",
    "parameters_of",
    "present",
    "written",
]


def present(value: Value | None) -> Value:
    """Return an operand that may not be absent.

    Raises:
        NotNative: It is.
    """
    if value is None:
        raise NotNative("an operand is absent")
    return value


def written(node: Node, results: Sequence[Value]) -> list[Value]:
    """Return those of an operator's results, in its order, that a node has names for."""
    return [value for value, name in zip(results, node.outputs, strict=False) if name]


def constant(value: Value | None, what: str) -> Array:
    """Return the array of an operand that has to be known when the model is lowered; of constant codes the floats.

    Raises:
        NotNative: It is computed.
    """
    if isinstance(value, Dequantized):
        return value.floats()
    if not isinstance(value, Constant):
        raise NotNative(f"{what} is not a constant")
    return value.array


def aligned(lowering: Lowering, value: Value | None, shape: Sequence[int], what: str) -> Operand:
    """Return a scale or zero point with another shape, computed or constant; None if it is absent.

    Raises:
        NotNative: It has not as many elements.
    """
    if value is None:
        return None
    if math.prod(value.shape) != math.prod(shape):
        raise NotNative(f"{what} of shape {value.shape}")
    return lowering.reshaped(value, shape) if isinstance(value, Tensor) else constant(value, what).reshape(tuple(shape))


def integers(value: Value | None, what: str) -> tuple[int, ...]:
    """Return the numbers of a constant operand such as axes or sizes."""
    if isinstance(value, FreeNumbers) and value.dtype.kind in "iu":
        return tuple(value.entries.reshape(-1).tolist())
    array = constant(value, what)
    if array.dtype.kind not in "iu":
        raise NotNative(f"{what} of type {array.dtype}")
    return tuple(int(number) for number in array.reshape(-1))


def parameters_of(
    scale: Value | None, zero_point: Value | None, dtype: np.dtype[np.generic] | None = None
) -> Parameters:
    """Return the parameters of a whole tensor; codes without a zero point are UINT8 if nothing else tells.

    Raises:
        NotNative: They are computed, there are several, or the codes have not 8 bits.
    """
    scales = constant(scale, "a scale")
    zero_points = np.zeros(1, dtype or np.uint8) if zero_point is None else constant(zero_point, "a zero point")
    if scales.size != 1 or zero_points.size != 1:
        raise NotNative("scales along an axis")
    if scales.dtype != np.float32 or zero_points.dtype not in CODE_TYPES:
        raise NotNative(f"codes of type {zero_points.dtype} with scales of type {scales.dtype}")
    return Parameters(np.float32(scales.item()), int(zero_points.item()), zero_points.dtype)


def computed(lowering: Lowering, value: Value) -> Tensor:
    """Return a value as a tensor of the graph; a constant becomes one that is packed with the graph.

    Raises:
        NotNative: No kernel takes its type.
    """
    elements = lowering.elements(value)
    if isinstance(elements, Tensor):
        return elements
    number = lowering.number(elements)
    assert number is not None
    return lowering.tensor(number, elements.dtype, elements.shape)


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


INTEGER_TYPES: Final = (INT32, INT64)


def broadcast(lowering: Lowering, value: Elements, shape: tuple[int, ...]) -> Operand:
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
