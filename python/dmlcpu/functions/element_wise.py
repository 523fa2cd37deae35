"""The functions of the operators that work element by element."""

from __future__ import annotations

from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike

from dmlcpu.descs.element_wise import (
    DynamicQuantizeLinearOperatorDesc,
    ElementWiseDequantizeLinearOperatorDesc,
    ElementWiseQuantizedLinearAddOperatorDesc,
    ElementWiseQuantizeLinearOperatorDesc,
)
from dmlcpu.device import Device
from dmlcpu.dtypes import FLOAT32
from dmlcpu.enums import TensorDataType
from dmlcpu.functions.arguments import Operand, Parameter, Result, code_type
from dmlcpu.functions.call import FunctionCall
from dmlcpu.functions.layout import Array, broadcast, new_like
from dmlcpu.functions.operator_function import operator_function
from dmlcpu.graph.builder import Expression
from dmlcpu.shown_values import counted

__all__ = ["dequantize_linear", "dynamic_quantize_linear", "quantize_linear", "quantized_linear_add"]


@operator_function(ElementWiseQuantizeLinearOperatorDesc)
def quantize_linear(
    call: FunctionCall,
    input: Operand[Result],
    scale: Parameter[Result],
    zero_point: Parameter[Result] = None,
    *,
    axis: int = 1,
    out: Array | None = None,
    device: Device | None = None,
    output_data_type: TensorDataType | int | None = None,
) -> Result:
    """Return ``clamp(round(input / scale) + zero_point)`` (ELEMENT_WISE_QUANTIZE_LINEAR, from level 1_0).

    Args:
        input: FLOAT32, FLOAT16 or INT32 array of 1 to 8 dimensions.
        scale: A number, or an array of the input's type (FLOAT32 for INT32): of one element, 1-D along ``axis``, or
            broadcastable to the input.
        zero_point: None for 0, a number, or an array of the output's type, shaped like a scale.
        axis: The axis of 1-D parameters, from minus the input's dimensions up; 1 may be left as it is where no
            parameter needs it.
        out: The array to write; by default a new one in the input's memory order.
        device: Where it runs; by default ``default_device()``.
        output_data_type: INT8 or UINT8; by default that of ``out``, else of ``zero_point``, else UINT8.

    Raises:
        InvalidDescError, UnsupportedFeatureLevelError: Types or sizes that the operator does not have.
        BindingError: An argument is no array, its shape does not do, or a number does not fit its type.

    >>> quantize_linear(np.float32([-1, 0, 0.25, 99]), 0.5, 128)
    array([126, 128, 128, 255], dtype=uint8)
    """
    x = call.array("input", input)
    axis = call.axis(axis, x.ndim)
    dtype = call.output_dtype(output_data_type, {"out": out}, ("zero_point", zero_point), code_type(x))
    scale_dtype = x.dtype if x.dtype.kind == "f" else FLOAT32  # of INT32; else the input is what is wrong
    arrays = {
        "input_tensor": x,
        "scale_tensor": call.along_axis("scale", scale, scale_dtype, x.shape, axis),
        "zero_point_tensor": call.along_axis("zero_point", zero_point, dtype, x.shape, axis),
        "output_tensor": new_like(dtype, x) if out is None else out,
    }
    output: Any = call.run(arrays)
    result: Result = output.reshape(x.shape) if out is None else output
    return result


@operator_function(ElementWiseDequantizeLinearOperatorDesc)
def dequantize_linear(
    call: FunctionCall,
    input: Operand[Result],
    scale: Parameter[Result],
    zero_point: Parameter[Result] = None,
    *,
    axis: int = 1,
    out: Array | None = None,
    device: Device | None = None,
    output_data_type: TensorDataType | int | None = None,
) -> Result:
    """Return ``(input - zero_point) * scale`` (ELEMENT_WISE_DEQUANTIZE_LINEAR, from level 1_0).

    Args:
        input: Array of 8-, 16- or 32-bit integers, of 1 to 8 dimensions.
        scale: A number, or an array of the output's type: of one element, 1-D along ``axis``, or broadcastable to the
            input.
        zero_point: None for 0, a number, or an array of the input's type, shaped like a scale.
        axis: The axis of 1-D parameters, from minus the input's dimensions up; 1 may be left as it is where no
            parameter needs it.
        out: The array to write; by default a new one in the input's memory order.
        device: Where it runs; by default ``default_device()``.
        output_data_type: FLOAT32 or FLOAT16; by default that of ``out``, else of ``scale``, else FLOAT32.

    Raises:
        InvalidDescError, UnsupportedFeatureLevelError: Types or sizes that the operator does not have.
        BindingError: An argument is no array, its shape does not do, or a number does not fit its type.

    >>> dequantize_linear(np.uint8([126, 128, 255]), 0.5, 128)
    array([-1. ,  0. , 63.5], dtype=float32)
    """
    x = call.array("input", input)
    axis = call.axis(axis, x.ndim)
    dtype = call.output_dtype(output_data_type, {"out": out}, ("scale", scale), FLOAT32)
    arrays = {
        "input_tensor": x,
        "scale_tensor": call.along_axis("scale", scale, dtype, x.shape, axis),
        "zero_point_tensor": call.along_axis("zero_point", zero_point, x.dtype, x.shape, axis),
        "output_tensor": new_like(dtype, x) if out is None else out,
    }
    output: Any = call.run(arrays)
    result: Result = output.reshape(x.shape) if out is None else output
    return result


class DynamicQuantizeLinearOutputs(NamedTuple):
    """The outputs of DYNAMIC_QUANTIZE_LINEAR, by the fields of its desc."""

    output_tensor: Array
    output_scale_tensor: Array
    output_zero_point_tensor: Array


class DynamicQuantizeLinearExpressions(NamedTuple):
    """The outputs of DYNAMIC_QUANTIZE_LINEAR in a graph."""

    output_tensor: Expression
    output_scale_tensor: Expression
    output_zero_point_tensor: Expression


@overload
def dynamic_quantize_linear(
    input: Expression,
    *,
    out: None = None,
    device: Device | None = None,
    output_data_type: TensorDataType | int | None = None,
) -> DynamicQuantizeLinearExpressions: ...


@overload
def dynamic_quantize_linear(
    input: ArrayLike,
    *,
    out: tuple[Array | None, Array | None, Array | None] | None = None,
    device: Device | None = None,
    output_data_type: TensorDataType | int | None = None,
) -> DynamicQuantizeLinearOutputs: ...


@operator_function(DynamicQuantizeLinearOperatorDesc)
def dynamic_quantize_linear(
    call: FunctionCall,
    input: ArrayLike | Expression,
    *,
    out: tuple[Array | None, Array | None, Array | None] | None = None,
    device: Device | None = None,
    output_data_type: TensorDataType | int | None = None,
) -> DynamicQuantizeLinearOutputs | DynamicQuantizeLinearExpressions:
    """Return codes, scale and zero point that span the range of the input (DYNAMIC_QUANTIZE_LINEAR, from level 4_0).

    Args:
        input: FLOAT32 or FLOAT16 array of 1 to 8 dimensions.
        out: Three arrays to write: codes, scale (FLOAT32, one element), zero point (one element); None for a new one.
        device: Where it runs; by default ``default_device()``.
        output_data_type: INT8 or UINT8; by default that of the codes or the zero point in ``out``, else UINT8.

    Returns:
        A named tuple, as of a dispatch: ``output_tensor``, the codes in the input's shape and memory order, and 0-d
        arrays ``output_scale_tensor`` and ``output_zero_point_tensor``. Of an expression it has expressions
        (``DynamicQuantizeLinearExpressions``).

    Raises:
        InvalidDescError, UnsupportedFeatureLevelError: Types or sizes that the operator does not have.
        BindingError: An argument is no array.

    >>> codes, scale, zero_point = dynamic_quantize_linear(np.float32([-1, 0, 254]))
    >>> codes, scale, zero_point
    (array([  0,   1, 255], dtype=uint8), array(1., dtype=float32), array(1, dtype=uint8))
    >>> dynamic_quantize_linear(np.float32([-1, 0, 254])).output_scale_tensor
    array(1., dtype=float32)
    """
    x = call.array("input", input)
    given = (None, None, None) if out is None else out
    if not isinstance(given, tuple | list) or len(given) != 3:
        got = f"an object of type {type(out).__name__}"
        if isinstance(given, tuple | list):
            got = counted(len(given), "entry", "entries")
        raise call.error("out", got, "a tuple of three arrays, or None in their places")
    given_codes, given_scale, given_zero_point = given
    outs = {"out[0]": given_codes, "out[2]": given_zero_point}
    dtype = call.output_dtype(output_data_type, outs, None, code_type(x))
    rank = max(x.ndim, 1)
    arrays = {
        "input_tensor": x,
        "output_tensor": new_like(dtype, x) if given_codes is None else given_codes,
        "output_scale_tensor": call.single_output("out[1]", given_scale, FLOAT32, rank),
        "output_zero_point_tensor": call.single_output("out[2]", given_zero_point, dtype, rank),
    }
    codes, scale, zero_point = call.run(arrays)
    results: tuple[Any, Any, Any] = (
        codes.reshape(x.shape) if given_codes is None else given_codes,
        scale.reshape(()) if given_scale is None else given_scale,
        zero_point.reshape(()) if given_zero_point is None else given_zero_point,
    )
    is_graph = isinstance(codes, Expression)
    return DynamicQuantizeLinearExpressions(*results) if is_graph else DynamicQuantizeLinearOutputs(*results)


@operator_function(ElementWiseQuantizedLinearAddOperatorDesc)
def quantized_linear_add(
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
    """Return the quantized sum of two quantized tensors (ELEMENT_WISE_QUANTIZED_LINEAR_ADD, from level 4_0).

    Args:
        a, b: INT8 or UINT8 arrays of 1 to 8 dimensions; they broadcast against each other as in numpy.
        a_scale, b_scale, output_scale: Numbers, or FLOAT32 arrays of one element.
        a_zero_point, b_zero_point, output_zero_point: None for 0, numbers, or arrays of one element of the type of
            ``a``, ``b`` and the output.
        out: The array to write; by default a new one in the memory order of the operands.
        device: Where it runs; by default ``default_device()``.
        output_data_type: INT8 or UINT8; by default that of ``out``, else of ``output_zero_point``, else of ``a``.

    Raises:
        InvalidDescError, UnsupportedFeatureLevelError: Types or sizes that the operator does not have.
        BindingError: An argument is no array, arrays do not broadcast, or a number does not fit its type.

    >>> quantized_linear_add(np.uint8([10, 20]), 0.5, 0, np.uint8([1, 2]), 1.0, 0, 0.5, 128)
    array([140, 152], dtype=uint8)
    """
    a_array, b_array = call.array("a", a), call.array("b", b)
    try:
        shape = a_array.shape if a_array.shape == b_array.shape else np.broadcast_shapes(a_array.shape, b_array.shape)
        a_array, b_array = broadcast(a_array, shape), broadcast(b_array, shape)
    except ValueError:
        raise call.error("b", f"shape {b_array.shape}", f"one that broadcasts with a's {a_array.shape}") from None
    parameter = ("output_zero_point", output_zero_point)
    dtype = call.output_dtype(output_data_type, {"out": out}, parameter, code_type(a_array))
    rank = max(len(shape), 1)
    arrays = {
        "a_tensor": a_array,
        "a_scale_tensor": call.single("a_scale", a_scale, FLOAT32, rank),
        "a_zero_point_tensor": call.single("a_zero_point", a_zero_point, a_array.dtype, rank),
        "b_tensor": b_array,
        "b_scale_tensor": call.single("b_scale", b_scale, FLOAT32, rank),
        "b_zero_point_tensor": call.single("b_zero_point", b_zero_point, b_array.dtype, rank),
        "output_scale_tensor": call.single("output_scale", output_scale, FLOAT32, rank),
        "output_zero_point_tensor": call.single("output_zero_point", output_zero_point, dtype, rank),
        "output_tensor": new_like(dtype, a_array, b_array) if out is None else out,
    }
    output: Any = call.run(arrays)
    result: Result = output.reshape(shape) if out is None else output
    return result
