"""QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from dmlcpu.onnx.lowering import Lowering, NotNative, Rule
from dmlcpu.onnx.model import Node
from dmlcpu.onnx.rules.operands import CODE_TYPES, constant, parameters_of
from dmlcpu.onnx.values import Array, Constant, Dequantized, Operand, Tensor, Value

__all__ = ["RULES"]


def _blocked(node: Node) -> bool:
    return bool(node.attributes.get("block_size", 0))


def dequantize_linear(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Codes of one scale become a table, constants keep their codes, and the others are dequantized."""
    codes, scale, zero_point = (*inputs, None)[:3]
    if _blocked(node):
        raise NotNative("scales of blocks")
    if isinstance(codes, Constant):
        scales = constant(scale, "a scale")
        zero_points = (
            np.zeros_like(scales, codes.array.dtype) if zero_point is None else constant(zero_point, "zero point")
        )
        axis = int(node.attributes.get("axis", 1)) if scales.size > 1 else 0
        if scales.size > 1 and not (-codes.array.ndim <= axis < codes.array.ndim and scales.size == codes.shape[axis]):
            raise NotNative(f"{scales.size} scales along axis {axis} of {codes.shape}")
        return [Dequantized(codes.array, scales.reshape(-1), zero_points.reshape(-1), axis % max(codes.array.ndim, 1))]
    if not isinstance(codes, Tensor):
        raise NotNative("floats are dequantized")
    scales = constant(scale, "a scale")
    if codes.dtype in CODE_TYPES and scales.size == 1 and scales.dtype == np.float32:
        return [lowering.table(codes, parameters_of(scale, zero_point, codes.dtype))]
    if scales.dtype not in (np.float32, np.float16):
        raise NotNative(f"scales of type {scales.dtype}")
    points = None if zero_point is None else constant(zero_point, "a zero point")
    operands: list[Operand] = [
        codes,
        *(None if array is None else _along(array, codes.shape, node) for array in (scales, points)),
    ]
    return [lowering.emit("ELEMENT_WISE_DEQUANTIZE_LINEAR", operands, scales.dtype, codes.shape)]


def _along(parameter: Array, shape: tuple[int, ...], node: Node) -> Array:
    """Return parameters as a view of the tensor's shape."""
    if parameter.size == 1:
        return np.broadcast_to(parameter.reshape(()), shape or (1,))
    axis = int(node.attributes.get("axis", 1))
    if not -len(shape) <= axis < len(shape) or parameter.size != shape[axis]:
        raise NotNative(f"{parameter.size} scales along axis {axis} of {shape}")
    lengths = [1] * len(shape)
    lengths[axis] = parameter.size
    return np.broadcast_to(parameter.reshape(lengths), shape)


def quantize_linear(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """What is a function of codes becomes a table; what an operator computes is computed in codes."""
    value, scale, zero_point = (*inputs, None)[:3]
    if value is None or _blocked(node):
        raise NotNative("scales of blocks")
    scales = constant(scale, "a scale")
    if scales.size == 1 and not node.attributes.get("output_dtype", 0):
        codes = lowering.quantized(value, parameters_of(scale, zero_point))
        return [Constant(codes) if isinstance(codes, np.ndarray) else codes]
    floats = lowering.floats(value)
    points = np.zeros(1, np.uint8) if zero_point is None else constant(zero_point, "a zero point")
    if isinstance(floats, np.ndarray) or points.dtype not in CODE_TYPES or scales.dtype != floats.dtype:
        raise NotNative(f"codes of type {points.dtype}")
    operands: list[Operand] = [floats, _along(scales, floats.shape, node), _along(points, floats.shape, node)]
    return [lowering.emit("ELEMENT_WISE_QUANTIZE_LINEAR", operands, points.dtype, floats.shape)]


def dynamic_quantize_linear(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Codes, scale and zero point, all computed."""
    [value] = inputs
    floats = None if value is None else lowering.floats(value)
    if not isinstance(floats, Tensor) or floats.dtype != np.float32:
        raise NotNative("an input that is no FLOAT32 tensor")
    rank = max(len(floats.shape), 1)
    ones = (1,) * rank
    outputs = [(np.uint8, floats.shape), (np.float32, ones), (np.uint8, ones)]
    codes, scale, zero_point = lowering.emit_several("DYNAMIC_QUANTIZE_LINEAR", [floats], outputs)
    return [codes, lowering.reshaped(scale, ()), lowering.reshaped(zero_point, ())]


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("", "QuantizeLinear"): quantize_linear,
    ("", "DequantizeLinear"): dequantize_linear,
    ("com.microsoft", "QuantizeLinear"): quantize_linear,
    ("com.microsoft", "DequantizeLinear"): dequantize_linear,
    ("", "DynamicQuantizeLinear"): dynamic_quantize_linear,
}
