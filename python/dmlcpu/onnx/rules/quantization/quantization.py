"""QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np
import onnx

from dmlcpu.dtypes import CODE_TYPES, FLOAT32, INT32
from dmlcpu.errors import InvalidModelError
from dmlcpu.functions.element_wise import quantize_linear as linear
from dmlcpu.graph.lengths import derived
from dmlcpu.onnx.coded_weights import ConstantOfBlocks, DequantizedNibbles
from dmlcpu.onnx.constant_arrays import Array, Constant, constant_by
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.parameters import Parameters
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.element_operators import broadcast
from dmlcpu.onnx.rules.operands import aligned, constant, parameters_of, present, written
from dmlcpu.onnx.rules.quantization.float8_codes import FLOAT8_TYPES, float8_codes, rounded_to_float8
from dmlcpu.onnx.rules.quantization.wide_codes import WIDE_TYPES, WideCodes, wide_codes
from dmlcpu.onnx.values import (
    CONSTANTS,
    AffineTable,
    Deferred,
    DeferredCodes,
    Dequantized,
    Operand,
    Table,
    Tensor,
    Value,
    as_value,
)

__all__ = ["RULES", "dequantize_linear", "dynamically_quantized"]

# Types of 4 bits, from the lowest to the highest code.
_NIBBLES: Final = {"int4": (-8, 7), "uint4": (0, 15)}
# Of more codes of 16 bits, which are computed in four passes, onnxruntime's one pass makes up for a part of its own.
_MOST_FOR_THE_CALLER: Final = 1 << 16


class SignedCodes(DeferredCodes):
    """INT8 codes that are computed as UINT8 ones, 128 more each, and made INT8 again for who wants them so.

    Products read unsigned codes where they stand. Quantized with a zero point of 128 more, floats have the same codes.
    """

    dtype = np.dtype(np.int8)

    def __init__(self, lowering: Lowering, unsigned: Tensor) -> None:
        self._lowering, self.unsigned, self.shape = lowering, unsigned, unsigned.shape

    def codes(self) -> Tensor:
        return self._lowering.with_other_sign(self.unsigned)


def _tensor(codes: Tensor | Deferred) -> Tensor:
    return codes if isinstance(codes, Tensor) else codes.computed()


def _blocked(node: Node) -> bool:
    return bool(node.attributes.get("block_size", 0))


def dequantize_linear(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Codes of one scale become a table, constants keep their codes, and the others are dequantized."""
    codes, scale, zero_point = (*inputs, None)[:3]
    dtype = _type_of(scale)
    named = node.attributes.get("output_dtype", 0)
    if named and named != onnx.helper.np_dtype_to_tensor_dtype(dtype):
        raise NotNative("another type than the scale's")
    if _blocked(node):
        return [_of_blocks(node, codes, scale, zero_point)]
    if isinstance(codes, Constant):
        return [_of_columns(node, codes, constant(scale, "a scale"), zero_point)]
    if isinstance(codes, WideCodes) and codes.are_by(scale, zero_point):
        return [codes.dequantized]
    if not isinstance(codes, Tensor | Deferred) or codes.dtype.kind == "f":
        raise NotNative("floats are dequantized")
    known = isinstance(scale, Constant) and (zero_point is None or isinstance(zero_point, Constant))
    if known and codes.dtype in CODE_TYPES and math.prod(present(scale).shape) == 1 and dtype == np.float32:
        parameters = parameters_of(scale, zero_point, codes.dtype)
        if isinstance(codes, SignedCodes) and parameters.dtype == codes.dtype:
            return [AffineTable(codes.unsigned, parameters.of_other_sign)]
        return [AffineTable(_tensor(codes), parameters)]
    codes = _tensor(codes)
    if dtype not in (np.float32, np.float16):
        raise NotNative(f"scales of type {dtype}")
    if zero_point is not None and _type_of(zero_point) != codes.dtype:
        raise NotNative("a zero point of another type than the codes")
    operands = [codes, *(_along(lowering, value, codes.shape, node) for value in (scale, zero_point))]
    return [lowering.emit("ELEMENT_WISE_DEQUANTIZE_LINEAR", operands, dtype, codes.shape)]


def _of_columns(node: Node, codes: Constant, scales: Array, zero_point: Value | None) -> Dequantized:
    """Return constant codes which have one scale, or one for each index of an axis."""
    points = np.zeros_like(scales, codes.dtype) if zero_point is None else constant(zero_point, "a zero point")
    if scales.dtype != np.float32 or points.dtype != codes.dtype:
        raise NotNative(f"codes of type {codes.dtype} with scales of type {scales.dtype} and points of {points.dtype}")
    rank = len(codes.shape)
    axis = int(node.attributes.get("axis", 1)) if scales.size > 1 else 0
    if rank == 1 and axis == 1:
        # The attribute's default, which tools leave to biases. Onnxruntime takes such where its optimizer makes them
        # biases of a product of codes, and refuses them elsewhere.
        axis = 0
    if scales.size > 1:
        _check_axis(node, axis, codes.shape)
    if scales.size > 1 and scales.shape != (codes.shape[axis],):
        raise NotNative(f"scales of shape {scales.shape} along axis {axis} of {codes.shape}")
    if points.size != scales.size:
        raise NotNative(f"{points.size} zero points and {scales.size} scales")
    dequantized = DequantizedNibbles.of if DequantizedNibbles.has_type(codes.dtype) else Dequantized
    return dequantized(codes.elements(), scales.reshape(-1), points.reshape(-1), axis % max(rank, 1))


def _check_axis(node: Node, axis: int, shape: Sequence[int]) -> None:
    if not -len(shape) <= axis < len(shape):
        raise InvalidModelError(f"node {node}: got scales along axis {axis} of {tuple(shape)}")


def _of_blocks(node: Node, codes: Value | None, scale: Value | None, zero_point: Value | None) -> ConstantOfBlocks:
    """Return constant codes, such as weights of 4 bits, which have scales of blocks along an axis."""
    array, scales = constant(codes, "codes of blocks"), constant(scale, "a scale")
    points = np.zeros_like(scales, array.dtype) if zero_point is None else constant(zero_point, "zero point")
    if not ConstantOfBlocks.has_type(array, scales, points):
        raise NotNative(f"codes of type {array.dtype} with blocks of scales of type {scales.dtype}")
    block, axis = _check_blocks(node, array.shape, scales, points)
    return ConstantOfBlocks(array, scales, points, block, axis)


def _check_blocks(node: Node, shape: Sequence[int], scales: Array, points: Array) -> tuple[int, int]:
    """Return the elements of a block of a tensor and the axis along which blocks are, from 0 on.

    Raises:
        InvalidModelError: Scales or zero points are not one for each block.
    """
    block, axis = int(node.attributes["block_size"]), int(node.attributes.get("axis", 1))
    _check_axis(node, axis, shape)
    blocks = [*shape]
    blocks[axis] = -(-blocks[axis] // block)
    if not scales.shape == points.shape == (*blocks,):
        raise InvalidModelError(
            f"node {node}: got scales of shape {scales.shape} and zero points of shape {points.shape}, expected "
            f"{(*blocks,)} for blocks of {block}"
        )
    return block, axis % len(shape)


def _type_of(value: Value | None) -> np.dtype[np.generic]:
    """Return the type of a scale or zero point, computed or constant."""
    return value.dtype if isinstance(value, Tensor) else constant(value, "a scale").dtype


def _along(lowering: Lowering, value: Value | None, shape: tuple[int, ...], node: Node) -> Operand:
    """Return scales or zero points as a view of the tensor's shape."""
    if value is None:
        return None
    lengths, count = [1] * max(len(shape), 1), math.prod(value.shape)
    if count != 1:
        axis = int(node.attributes.get("axis", 1))
        if not -len(shape) <= axis < len(shape) or count != shape[axis]:
            raise NotNative(f"{count} scales along axis {axis} of {shape}")
        lengths[axis] = count
    parameter = aligned(lowering, value, lengths, "scales")
    assert isinstance(parameter, Tensor | np.ndarray)
    return broadcast(lowering, parameter, shape or (1,))


def quantize_linear(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """QuantizeLinear to 8 bits, to 16 or to FLOAT8; of constants, such as weights, also to 4."""
    value, scale, zero_point = (*inputs, None)[:3]
    if node.attributes.get("precision", 0) not in (0, onnx.TensorProto.FLOAT):
        raise NotNative("a division of another precision")
    named = onnx.helper.tensor_dtype_to_np_dtype(node.attributes.get("output_dtype", 0) or onnx.TensorProto.UINT8)
    nibbles = _constant_nibbles(node, value, scale, zero_point, named)
    if nibbles is not None:
        return [Constant(nibbles)]
    if value is None or _blocked(node):
        raise NotNative("scales of blocks")
    points: Value = Constant(np.zeros(1, named)) if zero_point is None else zero_point
    dtype = _type_of(points)
    if dtype in WIDE_TYPES:
        return [_as_wide_codes(lowering, node, value, parameters_of(scale, points, types=WIDE_TYPES))]
    if dtype not in CODE_TYPES and dtype.name in FLOAT8_TYPES:  # numpy puts names together anew
        return [_as_float8(lowering, node, value, constant(scale, "a scale"), constant(points, "a zero point"))]
    if isinstance(scale, Constant) and isinstance(points, Constant) and scale.array.size == 1:
        return [_by_one_scale(lowering, node, value, parameters_of(scale, points))]
    return [_by_several_scales(lowering, node, value, scale, points)]


def _by_one_scale(lowering: Lowering, node: Node, value: Value, parameters: Parameters) -> Value:
    """What is a function of codes becomes a table; what an operator computes is computed in codes."""
    if isinstance(value, Tensor) and value.dtype not in (FLOAT32, INT32):
        raise NotNative(f"an input of type {value.dtype}")
    if isinstance(value, Deferred) and value.dtype == FLOAT32 and lowering.uses.is_calculated_with(node.inputs[0]):
        with suppress(NotNative):  # floats are wanted anyway, such as those of a residual branch
            lowering.floats(value)
    if _is_better_unsigned(lowering, node, value, parameters):
        unsigned = lowering.quantized(value, parameters.of_other_sign)
        assert isinstance(unsigned, Tensor)
        return SignedCodes(lowering, unsigned)
    return as_value(lowering.quantized(value, parameters))


def _by_several_scales(lowering: Lowering, node: Node, value: Value, scale: Value | None, points: Value) -> Value:
    """Return the codes of floats that have scales along an axis, or such as are computed."""
    floats, dtype = lowering.floats(value), _type_of(points)
    if isinstance(floats, np.ndarray) and isinstance(scale, Constant) and isinstance(points, Constant):
        return Constant(_constant_codes(floats, scale.array, points.array, int(node.attributes.get("axis", 1))))
    divided = FLOAT32 if floats.dtype == INT32 else floats.dtype
    if isinstance(floats, np.ndarray) or dtype not in CODE_TYPES or _type_of(scale) != divided:
        raise NotNative(f"codes of type {dtype}")
    operands = [floats, *(_along(lowering, parameter, floats.shape, node) for parameter in (scale, points))]
    return lowering.emit("ELEMENT_WISE_QUANTIZE_LINEAR", operands, dtype, floats.shape)


def _as_wide_codes(lowering: Lowering, node: Node, value: Value, parameters: Parameters) -> Value:
    """Return codes of 16 bits, unless there are so many for the caller that onnxruntime makes them faster."""
    if lowering.uses.is_for_the_caller(node.outputs[0]) and math.prod(value.shape) > _MOST_FOR_THE_CALLER:
        raise NotNative(f"codes of type {parameters.dtype}, so many for the caller alone")
    return wide_codes(lowering, value, parameters)


def _as_float8(lowering: Lowering, node: Node, value: Value, scales: Array, points: Array) -> Value:
    """Return floats as FLOAT8: of constants, such as weights, constants, also by scales along an axis."""
    if not node.attributes.get("saturate", 1) or points.astype(np.float32).any():
        raise NotNative(f"codes of type {points.dtype} that are shifted, or do not end with the largest")
    if not isinstance(value, CONSTANTS):
        return float8_codes(lowering, value, parameters_of(Constant(scales), Constant(points), types=(points.dtype,)))
    floats = lowering.elements(value)
    if floats.dtype != np.float32 or scales.dtype != np.float32 or not isinstance(floats, np.ndarray):
        raise NotNative(f"an input of type {floats.dtype} with scales of type {scales.dtype}")
    along, _ = _of_elements(node, scales, scales, floats.shape)
    return Constant(rounded_to_float8(floats, along, points.dtype))


def _is_better_unsigned(lowering: Lowering, node: Node, value: Value, parameters: Parameters) -> bool:
    """Return whether INT8 codes are computed as UINT8 ones.

    Not where they are there already, or anything but a DequantizeLinear reads them.
    """
    if parameters.dtype != np.int8 or isinstance(value, CONSTANTS):
        return False
    is_function_of_signed = isinstance(value, Table) and value.codes.dtype == np.int8
    is_signed = is_function_of_signed or lowering.has_codes(value, parameters)
    return not is_signed and lowering.uses.is_only_dequantized(node.outputs[0])


def _constant_nibbles(
    node: Node, floats: Value | None, scale: Value | None, zero_point: Value | None, named: np.dtype[Any]
) -> Array | None:
    """Return the codes of 4 bits of constant floats, such as weights; None if they are none, or not for sure.

    Onnxruntime's tools write such nodes in its own domain as well, of which onnx's evaluator knows nothing.
    """
    if not isinstance(floats, Constant) or not isinstance(scale, Constant):
        return None
    if zero_point is not None and not isinstance(zero_point, Constant):
        return None
    dtype = named if zero_point is None else zero_point.dtype
    if dtype.name not in _NIBBLES:  # before arrays are asked for, which binds the lengths that they follow from
        return None
    values, scales = floats.array, scale.array
    points = np.zeros(scales.shape, dtype) if zero_point is None else zero_point.array
    if values.dtype != np.float32 or scales.dtype != np.float32 or scales.shape != points.shape:
        return None
    scales, points = _of_elements(node, scales, points.astype(np.float32), values.shape)
    lowest, highest = _NIBBLES[dtype.name]
    with np.errstate(all="ignore"):
        codes = np.clip(np.rint(values / scales) + points, lowest, highest)
    nibbles: Array = np.nan_to_num(codes).astype(np.int8).astype(dtype)
    return nibbles


def _of_elements(node: Node, scales: Array, points: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Return scales and zero points of the whole, an axis or blocks of it so that each meets its elements."""
    if scales.size == 1:
        return scales.reshape(()), points.reshape(())
    if _blocked(node):
        block, axis = _check_blocks(node, shape, scales, points)
        of_block = np.arange(shape[axis]) // block
        return np.take(scales, of_block, axis), np.take(points, of_block, axis)
    axis = int(node.attributes.get("axis", 1))
    _check_axis(node, axis, shape)
    if scales.size != shape[axis]:
        raise InvalidModelError(f"node {node}: got scales of shape {scales.shape} along axis {axis} of {shape}")
    lengths = [1] * len(shape)
    lengths[axis] = shape[axis]
    return scales.reshape(lengths), points.reshape(lengths)


def _constant_codes(floats: Array, scales: Array, points: Array, axis: int) -> Array:
    """Return the codes of constant floats with scales along an axis, such as a filter's."""
    if floats.dtype != np.float32 or scales.dtype != np.float32 or points.dtype not in CODE_TYPES:
        raise NotNative(f"codes of type {points.dtype}")
    if points.size == 1:
        points = np.broadcast_to(points.reshape(1), scales.shape)
    codes: Array = linear(np.ascontiguousarray(floats), scales, np.ascontiguousarray(points), axis=axis)
    return codes


def dynamically_quantized(lowering: Lowering, value: Value) -> list[Tensor]:
    """Return floats as UINT8 codes, their scale and their zero point, each of as many axes.

    Not by DYNAMIC_QUANTIZE_LINEAR, which multiplies by reciprocals: its scales differ from ONNX's in the last bit.

    Raises:
        NotNative: They are of another type, or constant.
    """
    floats = lowering.floats(value)
    if not isinstance(floats, Tensor) or floats.dtype != np.float32:
        raise NotNative("an input that is no FLOAT32 tensor")
    ones = (1,) * max(len(floats.shape), 1)
    outputs: list[tuple[Any, tuple[int, ...]]] = [(np.uint8, floats.shape), (np.float32, ones), (np.uint8, ones)]
    return lowering.emit_several("QUANTIZE_BY_RANGE", [floats], outputs)


def _dynamic_codes(floats: Array) -> tuple[Array, Array, Array]:
    """Return the codes of constant floats by their range, their scale and their zero point.

    Raises:
        NotNative: They are of another type.
    """
    if floats.dtype != np.float32 or not floats.size:
        raise NotNative(f"{floats.size} elements of type {floats.dtype}")
    lowest, highest = (function.reduce(floats, None, initial=np.float32(0)) for function in (np.fmin, np.fmax))
    with np.errstate(all="ignore"):
        scale = (highest - lowest) / np.float32(255) if highest != lowest else np.float32(1)
        zero_point = np.nan_to_num(np.rint(-lowest / scale)).clip(0, 255).astype(np.uint8)
    codes: Array = linear(np.ascontiguousarray(floats), np.asarray(scale), np.asarray(zero_point))
    return codes, np.asarray(scale), np.asarray(zero_point)


def dynamic_quantize_linear(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Codes, scale and zero point, all computed; of constants constants."""
    value = present(inputs[0])
    if isinstance(value, CONSTANTS):
        made = derived(_dynamic_codes, value.source)
        return written(node, [constant_by(operator.getitem, made, place) for place in range(3)])
    codes, scale, zero_point = dynamically_quantized(lowering, value)
    return written(node, [codes, lowering.reshaped(scale, ()), lowering.reshaped(zero_point, ())])


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("", "QuantizeLinear"): quantize_linear,
    ("", "DequantizeLinear"): dequantize_linear,
    ("com.microsoft", "QuantizeLinear"): quantize_linear,
    ("com.microsoft", "DequantizeLinear"): dequantize_linear,
    ("", "DynamicQuantizeLinear"): dynamic_quantize_linear,
}
