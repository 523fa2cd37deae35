"""The functions of block-wise quantization."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from dmlcpu.coercion import coerce_member, coerce_sequence
from dmlcpu.descs.quantization import DequantizeOperatorDesc, QuantizeOperatorDesc
from dmlcpu.device import Device
from dmlcpu.dtypes import FLOAT32
from dmlcpu.enums import QuantizationType, TensorDataType
from dmlcpu.feature_levels.quantization import SCALE, ZERO_POINT
from dmlcpu.functions.arguments import Operand, Parameter, Result
from dmlcpu.functions.call import FunctionCall
from dmlcpu.functions.layout import Array, PackedArray, new_array, new_like
from dmlcpu.functions.operator_function import operator_function
from dmlcpu.functions.plain_numbers import is_number
from dmlcpu.graph.builder import expression_of
from dmlcpu.nibbles import packed_length
from dmlcpu.shown_values import counted, shown
from dmlcpu.tensor import dtype_of, is_four_bits, row_major_strides

__all__ = ["dequantize", "quantize"]

_Tensor: TypeAlias = Array | PackedArray | None


@operator_function(QuantizeOperatorDesc)
def quantize(
    call: FunctionCall,
    input: Operand[Result],
    scale: Parameter[Result],
    zero_point: Parameter[Result] = None,
    *,
    out: Array | None = None,
    device: Device | None = None,
    output_data_type: TensorDataType | int | None = None,
) -> Result:
    """Return ``clamp(round(input / scale) + zero_point)`` with a scale a block (QUANTIZE, from level 6_3).

    Args:
        input: FLOAT32 or FLOAT16 array of 1 to 8 dimensions.
        scale: A number, or an array of the input's type whose sizes divide the input's; it is aligned with the
            input's last axes as in numpy, and each of its elements holds for a block.
        zero_point: None for 128 (UINT8), 8 (UINT4) or 0 (INT8, INT4), a number, or an array of the output's type that
            broadcasts with the scale. Of 4 bits also as packed bytes: 1-D ``uint8``, in the scale's sizes.
        out: The array to write; by default a new one in the input's memory order, but packed bytes if of 4 bits.
        device: Where it runs; by default ``default_device()``.
        output_data_type: INT8, UINT8, INT4 or UINT4; by default that of ``out``, else of ``zero_point``, else UINT8.

    Returns:
        The codes. 4-bit ones as packed bytes, 1-D ``uint8``, two elements in each, the first in the low half, unless
        ``out`` is given: an array of ``ml_dtypes``' ``int4`` or ``uint4`` in the input's shape, or, with an
        ``output_data_type``, a contiguous ``uint8`` array of any shape for the packed bytes.

    Raises:
        InvalidDescError, UnsupportedFeatureLevelError: Types or sizes that the operator does not have.
        BindingError: An argument is no array, its shape does not do, or a number does not fit its type.

    >>> quantize(np.float32([[-1, 0, 10, 99]]), np.float32([[0.5, 10]]), 128)
    array([[126, 128, 129, 138]], dtype=uint8)
    >>> quantize(np.float32([-1, 0, 0.25, 99]), 0.5, output_data_type=TensorDataType.UINT4)
    array([134, 248], dtype=uint8)
    """
    x = call.array("input", input)
    parameter = ("zero_point", zero_point) if output_data_type is None else None
    data_type = call.output_data_type(output_data_type, {"out": out}, parameter, TensorDataType.UINT8)
    is_packed = is_four_bits(data_type) and (out is None or (isinstance(out, np.ndarray) and out.dtype == np.uint8))
    output: Any = out
    if is_packed:
        output = _packed_output(call, x.shape, data_type, out)
    elif out is None:
        output = new_like(dtype_of(data_type), x)
    scale_dtype = x.dtype if x.dtype.kind == "f" else FLOAT32  # else the input is what is wrong
    written = _run(call, x, scale, scale_dtype, zero_point, data_type, output)
    output = out if out is not None else written if is_packed else written.reshape(x.shape)
    result: Result = output
    return result


@operator_function(DequantizeOperatorDesc)
def dequantize(
    call: FunctionCall,
    input: Operand[Result],
    scale: Parameter[Result],
    zero_point: Parameter[Result] = None,
    *,
    out: Array | None = None,
    device: Device | None = None,
    output_data_type: TensorDataType | int | None = None,
    input_data_type: TensorDataType | int | None = None,
    sizes: Sequence[int] | None = None,
) -> Result:
    """Return ``(input - zero_point) * scale`` with a scale a block (DEQUANTIZE, from level 6_3).

    Args:
        input: INT8 or UINT8 array of 1 to 8 dimensions, or one of ``ml_dtypes``' ``int4`` or ``uint4``; or, with an
            ``input_data_type`` of INT4 or UINT4, a ``uint8`` array of packed bytes, two elements in each, the first
            in the low half.
        scale: A number, or an array of the output's type whose sizes divide the input's; it is aligned with the
            input's last axes as in numpy, and each of its elements holds for a block.
        zero_point: None for 128 (UINT8), 8 (UINT4) or 0 (INT8, INT4), a number, or an array of the input's type that
            broadcasts with the scale. Of 4 bits also as packed bytes: 1-D ``uint8``, in the scale's sizes.
        out: The array to write; by default a new one in the input's memory order.
        device: Where it runs; by default ``default_device()``.
        output_data_type: FLOAT32 or FLOAT16; by default that of ``out``, else of ``scale``, else FLOAT32.
        input_data_type: INT4 or UINT4 where the input is packed bytes; by default the input's own type.
        sizes: The shape of the elements in packed bytes; by default the shape of the bytes with the last axis twice
            as long. The bytes follow each other without a gap: an odd last axis ends in the middle of one.

    Raises:
        InvalidDescError, UnsupportedFeatureLevelError: Types or sizes that the operator does not have.
        BindingError: An argument is no array, its shape does not do, or a number does not fit its type.

    >>> dequantize(np.uint8([[126, 128, 129, 138]]), np.float32([[0.5, 10]]), 128)
    array([[ -1.,   0.,  10., 100.]], dtype=float32)
    >>> dequantize(np.uint8([134, 248]), 0.5, input_data_type=TensorDataType.UINT4)
    array([-1. ,  0. ,  0. ,  3.5], dtype=float32)
    """
    x = call.array("input", input)
    dtype = call.output_dtype(output_data_type, {"out": out}, ("scale", scale), FLOAT32)
    data_type = call.data_type("input", x.dtype)
    if input_data_type is not None:
        data_type = _input_type(call, input_data_type, x)
    codes: Array | PackedArray = x
    if is_four_bits(data_type) and x.dtype == np.uint8:
        codes = _packed_input(call, x, data_type, sizes)
        output = new_array(codes.shape, dtype, range(len(codes.shape)))
    elif sizes is not None:
        expected = "None: only packed bytes of an input_data_type of 4 bits need them"
        raise call.error("sizes", shown(coerce_sequence(sizes)), expected)
    else:
        output = new_like(dtype, x)
    written = _run(call, codes, scale, dtype, zero_point, data_type, output if out is None else out)
    result: Result = written.reshape(codes.shape) if out is None else written
    return result


def _run(
    call: FunctionCall,
    input: Array | PackedArray,
    scale: Any,
    dtype: np.dtype[Any],
    zero_point: Any,
    data_type: TensorDataType,
    output: Any,
) -> Any:
    """Dispatch with a scale of a dtype and a zero point of a data type, in the forms that functions take."""
    rank = max(len(input.shape), 1)
    scales = _at_rank(call, "scale", call.typed("scale", scale, dtype), rank)
    zero_points: _Tensor
    if is_four_bits(data_type):
        zero_points = _four_bit_zero_point(call, zero_point, data_type, scales, rank)
    else:
        zero_points = _at_rank(call, "zero_point", call.typed("zero_point", zero_point, dtype_of(data_type)), rank)
    if scales is not None and isinstance(zero_points, np.ndarray) and scales.shape != zero_points.shape:
        try:
            scales, zero_points = np.broadcast_arrays(scales, zero_points)
        except ValueError:
            expected = f"one that broadcasts with the scale's {scales.shape}"
            raise call.error("zero_point", f"shape {zero_points.shape}", expected) from None
    arrays = {"input_tensor": input, SCALE: scales, ZERO_POINT: zero_points, "output_tensor": output}
    has_zero_point = zero_points is not None
    return call.run(arrays, quantization_type=QuantizationType(1 + has_zero_point))


def _at_rank(call: FunctionCall, name: str, array: Array | None, rank: int) -> Array | None:
    """Return a parameter with as many axes as the input: more of length 1 in front, as numpy broadcasts."""
    if array is None:
        return None
    if array.size != 1 and array.ndim > rank:
        raise call.error(name, f"shape {array.shape}", f"at most {rank} dimensions, as many as the input has")
    shape = (1,) * rank if array.size == 1 else (1,) * (rank - array.ndim) + array.shape
    result: Array = array.reshape(shape)
    return result


def _four_bit_zero_point(
    call: FunctionCall, value: Any, data_type: TensorDataType, scales: Array | None, rank: int
) -> _Tensor:
    if value is None:
        return None
    shape = (1,) * rank if scales is None else scales.shape
    lowest = -8 if data_type is TensorDataType.INT4 else 0
    name = data_type.name.lower()
    if is_number(value):
        if not isinstance(value, int) or not lowest <= value <= lowest + 15:
            raise call.error("zero_point", shown(value), f"an integer from {lowest} to {lowest + 15}")
        return PackedArray(np.array([value & 15], np.uint8), data_type, shape, (0,) * rank)
    array = call.array("zero_point", value)
    if array.dtype != np.uint8:
        if call.data_type("zero_point", array.dtype) is not data_type:
            got = shown(value) if isinstance(value, list | tuple) else f"an array of {array.dtype}"
            raise call.error("zero_point", got, f"a number, an array of ml_dtypes.{name}, or packed bytes")
        return _at_rank(call, "zero_point", array, rank)
    needed = packed_length(math.prod(shape))
    if array.size != needed or array.ndim > 1:
        expected = f"({needed},): the packed bytes of {name} elements in the scale's shape {shape}"
        raise call.error("zero_point", f"uint8 of shape {array.shape}", expected)
    return PackedArray(_flat(call, "zero_point", array), data_type, shape, row_major_strides(shape))


def _input_type(call: FunctionCall, given: Any, input: Array) -> TensorDataType:
    data_type = coerce_member(TensorDataType, given)
    own = call.data_type("input", input.dtype)
    if isinstance(data_type, TensorDataType) and (
        data_type is own or (is_four_bits(data_type) and own is TensorDataType.UINT8)
    ):
        return data_type
    expected = f"{own.name}, as the input is; INT4 and UINT4 are of packed bytes, which are uint8"
    raise call.error("input_data_type", shown(data_type), expected)


def _packed_input(call: FunctionCall, pairs: Array, data_type: TensorDataType, sizes: Any) -> PackedArray:
    shape = coerce_sequence(sizes)
    if sizes is None:
        shape = (*pairs.shape[:-1], 2 * pairs.shape[-1]) if pairs.ndim else (2,)
    elif not isinstance(shape, tuple) or not all(type(size) is int and size > 0 for size in shape):
        raise call.error("sizes", shown(sizes), "a sequence of positive integers")
    elements = math.prod(shape)
    needed = packed_length(elements)
    if elements >= 2**32:
        name = "input" if sizes is None else "sizes"
        raise call.error(name, f"2**{elements.bit_length() - 1} elements or more", "fewer than 2**32")
    if pairs.size != needed:
        raise call.error("input", counted(pairs.size, "packed byte"), f"{needed}, for {counted(elements, 'element')}")
    return PackedArray(_flat(call, "input", pairs), data_type, shape, row_major_strides(shape))


def _flat(call: FunctionCall, name: str, pairs: Array) -> Array:
    """Return packed bytes one after the other, in a copy if they do not lie so. An expression's cannot be copied."""
    if expression_of(pairs) is not None and not pairs.flags.c_contiguous:
        raise call.error(name, f"strides of {pairs.strides} bytes", "packed bytes that are contiguous")
    return np.ascontiguousarray(pairs).reshape(-1)


def _packed_output(
    call: FunctionCall, shape: tuple[int, ...], data_type: TensorDataType, out: Array | None
) -> PackedArray:
    sizes = shape or (1,)
    if out is not None and not out.flags.c_contiguous:
        raise call.error("out", f"strides of {out.strides} bytes", "packed bytes that are contiguous")
    return PackedArray(None if out is None else out.reshape(-1), data_type, sizes, row_major_strides(sizes))
