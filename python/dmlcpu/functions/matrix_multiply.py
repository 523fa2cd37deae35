"""The functions of the matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np

from dmlcpu.descs.matrix_multiply import (
    MatrixMultiplyIntegerOperatorDesc,
    MatrixMultiplyIntegerToFloatOperatorDesc,
    QuantizedLinearMatrixMultiplyOperatorDesc,
)
from dmlcpu.device import Device
from dmlcpu.dtypes import FLOAT32, INT32
from dmlcpu.enums import TensorDataType
from dmlcpu.functions.arguments import Operand, Parameter, Result, code_type
from dmlcpu.functions.call import FunctionCall
from dmlcpu.functions.layout import Array, new_array
from dmlcpu.functions.operator_function import operator_function
from dmlcpu.functions.plain_numbers import are_numbers

__all__ = ["matrix_multiply_integer", "matrix_multiply_integer_to_float", "quantized_linear_matrix_multiply"]


@operator_function(MatrixMultiplyIntegerOperatorDesc)
def matrix_multiply_integer(
    call: FunctionCall,
    a: Operand[Result],
    a_zero_point: Parameter[Result],
    b: Operand[Result],
    b_zero_point: Parameter[Result],
    *,
    out: Array | None = None,
    device: Device | None = None,
) -> Result:
    """Return the product of quantized matrices as 32-bit sums, which wrap (MATRIX_MULTIPLY_INTEGER, from level 2_1).

    Args:
        a: INT8 or UINT8 array {.., M, K} of 2 to 4 dimensions.
        a_zero_point: None for 0, a number, or an array of a's type of one element, or of one for each row: {M} or
            {M, 1}.
        b: INT8 or UINT8 array {.., K, N}; the batch axes of a and b broadcast against each other as in numpy.
        b_zero_point: None for 0, a number, or an array of b's type of one element, or of one for each column: {N}.
        out: The INT32 array to write; by default a new one.
        device: Where it runs; by default ``default_device()``.

    Raises:
        InvalidDescError, UnsupportedFeatureLevelError: Types or sizes that the operator does not have.
        BindingError: An argument is no array, its shape does not do, or a number does not fit its type.

    >>> matrix_multiply_integer(np.uint8([[1, 2], [3, 4]]), 1, np.int8([[1, -1], [2, 5]]), None)
    array([[ 2,  5],
           [ 8, 13]], dtype=int32)
    """
    a_array, b_array, shape = _matrices(call, a, b)
    [a_zero_points] = call.by_line("row", shape[-2], len(shape), a_zero_point=(a_zero_point, a_array.dtype))
    [b_zero_points] = call.by_line("column", shape[-1], len(shape), b_zero_point=(b_zero_point, b_array.dtype))
    arrays = {
        "a_tensor": a_array,
        "a_zero_point_tensor": a_zero_points,
        "b_tensor": b_array,
        "b_zero_point_tensor": b_zero_points,
        "output_tensor": new_array(shape, INT32, range(len(shape))) if out is None else out,
    }
    result: Result = call.run(arrays)
    return result


@operator_function(QuantizedLinearMatrixMultiplyOperatorDesc)
def quantized_linear_matrix_multiply(
    call: FunctionCall,
    a: Operand[Result],
    a_scale: Parameter[Result],
    a_zero_point: Parameter[Result],
    b: Operand[Result],
    b_scale: Parameter[Result],
    b_zero_point: Parameter[Result],
    output_scale: Parameter[Result],
    output_zero_point: Parameter[Result],
    *,
    out: Array | None = None,
    device: Device | None = None,
    output_data_type: TensorDataType | int | None = None,
) -> Result:
    """Return the quantized product of quantized matrices (QUANTIZED_LINEAR_MATRIX_MULTIPLY, from level 2_1).

    Args:
        a: INT8 or UINT8 array {.., M, K} of 2 to 4 dimensions.
        a_scale, output_scale: Numbers, or FLOAT32 arrays of one element, or of one for each row: {M} or {M, 1}.
        a_zero_point, output_zero_point: None for 0, numbers, or arrays of the type of ``a`` and of the output, shaped
            like their scales.
        b: INT8 or UINT8 array {.., K, N}; the batch axes of a and b broadcast against each other as in numpy.
        b_scale: A number, or a FLOAT32 array of one element, or of one for each column: {N}.
        b_zero_point: None for 0, a number, or an array of b's type, shaped like a scale of b.
        out: The array to write; by default a new one.
        device: Where it runs; by default ``default_device()``.
        output_data_type: INT8 or UINT8; by default that of ``out``, else of ``output_zero_point``, else of ``a``.

    Raises:
        InvalidDescError, UnsupportedFeatureLevelError: Types or sizes that the operator does not have.
        BindingError: An argument is no array, its shape does not do, or a number does not fit its type.

    >>> a, b = np.uint8([[1, 2], [3, 4]]), np.int8([[1, -1], [2, 5]])
    >>> quantized_linear_matrix_multiply(a, 0.5, 1, b, np.float32([1, 2]), None, 0.5, 100)
    array([[102, 110],
           [108, 126]], dtype=uint8)
    """
    a_array, b_array, shape = _matrices(call, a, b)
    parameter = ("output_zero_point", output_zero_point)
    dtype = call.output_dtype(output_data_type, {"out": out}, parameter, code_type(a_array))
    rank = len(shape)
    a_scales, a_zero_points = call.by_line(
        "row", shape[-2], rank, a_scale=(a_scale, FLOAT32), a_zero_point=(a_zero_point, a_array.dtype)
    )
    b_scales, b_zero_points = call.by_line(
        "column", shape[-1], rank, b_scale=(b_scale, FLOAT32), b_zero_point=(b_zero_point, b_array.dtype)
    )
    output_scales, output_zero_points = call.by_line(
        "row", shape[-2], rank, output_scale=(output_scale, FLOAT32), output_zero_point=(output_zero_point, dtype)
    )
    arrays = {
        "a_tensor": a_array,
        "a_scale_tensor": a_scales,
        "a_zero_point_tensor": a_zero_points,
        "b_tensor": b_array,
        "b_scale_tensor": b_scales,
        "b_zero_point_tensor": b_zero_points,
        "output_scale_tensor": output_scales,
        "output_zero_point_tensor": output_zero_points,
        "output_tensor": new_array(shape, dtype, range(rank)) if out is None else out,
    }
    result: Result = call.run(arrays)
    return result


@operator_function(MatrixMultiplyIntegerToFloatOperatorDesc)
def matrix_multiply_integer_to_float(
    call: FunctionCall,
    a: Operand[Result],
    a_scale: Parameter[Result],
    a_zero_point: Parameter[Result],
    b: Operand[Result],
    b_scale: Parameter[Result],
    b_zero_point: Parameter[Result],
    bias: Parameter[Result] = None,
    *,
    out: Array | None = None,
    device: Device | None = None,
    output_data_type: TensorDataType | int | None = None,
) -> Result:
    """Return the floating product of quantized matrices (MATRIX_MULTIPLY_INTEGER_TO_FLOAT, from level 6_2).

    Args:
        a: Array {.., M, K} of 8-, 16- or 32-bit integers, of 2 to 4 dimensions.
        a_scale: A number, or an array of the output's type of one element, or of one for each row: {M} or {M, 1}.
        a_zero_point: None for 0, a number, or an array of a's type, shaped like a scale of a.
        b: Array {.., K, N} of integers; the batch axes of a and b broadcast against each other as in numpy.
        b_scale: A number, or an array of the output's type of one element, or of one for each column: {N}.
        b_zero_point: None for 0, a number, or an array of b's type, shaped like a scale of b.
        bias: None, a number, or an array of the output's type that broadcasts to the output's shape.
        out: The array to write; by default a new one.
        device: Where it runs; by default ``default_device()``.
        output_data_type: FLOAT32 or FLOAT16; by default that of ``out``, else of the first of ``a_scale``, ``b_scale``
            and ``bias`` that is an array, else FLOAT32.

    Raises:
        InvalidDescError, UnsupportedFeatureLevelError: Types or sizes that the operator does not have.
        BindingError: An argument is no array, its shape does not do, or a number does not fit its type.

    >>> a, b = np.uint8([[1, 2], [3, 4]]), np.int8([[1, -1], [2, 5]])
    >>> matrix_multiply_integer_to_float(a, 0.5, 1, b, 0.25, None, np.float32([0, 10]))
    array([[ 0.25 , 10.625],
           [ 1.   , 11.625]], dtype=float32)
    """
    a_array, b_array, shape = _matrices(call, a, b)
    rank = len(shape)
    given = [("a_scale", a_scale), ("b_scale", b_scale), ("bias", bias)]
    arrays_given = [(name, value) for name, value in given if value is not None and not are_numbers(value)]
    dtype = call.output_dtype(output_data_type, {"out": out}, arrays_given[0] if arrays_given else None, FLOAT32)
    a_scales, a_zero_points = call.by_line(
        "row", shape[-2], rank, a_scale=(a_scale, dtype), a_zero_point=(a_zero_point, a_array.dtype)
    )
    b_scales, b_zero_points = call.by_line(
        "column", shape[-1], rank, b_scale=(b_scale, dtype), b_zero_point=(b_zero_point, b_array.dtype)
    )
    arrays = {
        "a_tensor": a_array,
        "a_scale_tensor": a_scales,
        "a_zero_point_tensor": a_zero_points,
        "b_tensor": b_array,
        "b_scale_tensor": b_scales,
        "b_zero_point_tensor": b_zero_points,
        "bias_tensor": call.broadcast("bias", bias, dtype, shape),
        "output_tensor": new_array(shape, dtype, range(rank)) if out is None else out,
    }
    result: Result = call.run(arrays)
    return result


def _matrices(call: FunctionCall, a: Any, b: Any) -> tuple[Array, Array, tuple[int, ...]]:
    """Return the matrices with their batch axes broadcast against each other, by strides of 0, and the product's shape.

    Arrays that are no matrices stay as they are, for the checks to refuse.

    Raises:
        BindingError: One is no array, or the batch axes do not broadcast.
    """
    a_array, b_array = call.array("a", a), call.array("b", b)
    if a_array.ndim < 2 or b_array.ndim < 2:
        return a_array, b_array, (1, 1)
    try:
        batch = np.broadcast_shapes(a_array.shape[:-2], b_array.shape[:-2])
        a_array = np.broadcast_to(a_array, batch + a_array.shape[-2:])
        b_array = np.broadcast_to(b_array, batch + b_array.shape[-2:])
    except ValueError:
        expected = f"one whose batch axes broadcast with those of a's {a_array.shape}"
        raise call.error("b", f"shape {b_array.shape}", expected) from None
    return a_array, b_array, (*batch, a_array.shape[-2], b_array.shape[-1])
