"""The functions of the convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from dmlcpu.descs.convolution import ConvolutionIntegerOperatorDesc, QuantizedLinearConvolutionOperatorDesc
from dmlcpu.device import Device
from dmlcpu.dtypes import FLOAT32, INT32
from dmlcpu.enums import TensorDataType
from dmlcpu.functions.arguments import Operand, Parameter, Result, code_type
from dmlcpu.functions.call import FunctionCall
from dmlcpu.functions.layout import Array
from dmlcpu.functions.operator_function import operator_function
from dmlcpu.functions.windows import window_attributes, windowed_output

__all__ = ["convolution_integer", "quantized_linear_convolution"]


@operator_function(QuantizedLinearConvolutionOperatorDesc)
def quantized_linear_convolution(
    call: FunctionCall,
    input: Operand[Result],
    input_scale: Parameter[Result],
    input_zero_point: Parameter[Result],
    filter: Operand[Result],
    filter_scale: Parameter[Result],
    filter_zero_point: Parameter[Result],
    bias: Parameter[Result],
    output_scale: Parameter[Result],
    output_zero_point: Parameter[Result],
    *,
    strides: int | Sequence[int] = 1,
    dilations: int | Sequence[int] = 1,
    start_padding: int | Sequence[int] = 0,
    end_padding: int | Sequence[int] = 0,
    group_count: int = 1,
    out: Array | None = None,
    device: Device | None = None,
    output_data_type: TensorDataType | int | None = None,
) -> Result:
    """Return the quantized convolution of quantized tensors (QUANTIZED_LINEAR_CONVOLUTION, from level 2_1).

    Args:
        input: INT8 or UINT8 array {N, C, H, W} or {N, C, W}, in any memory order.
        input_scale, output_scale: Numbers, or FLOAT32 arrays of one element.
        input_zero_point, output_zero_point: None for 0, numbers, or arrays of one element.
        filter: INT8 or UINT8 array {output channels, C / group_count, kernel height, kernel width}.
        filter_scale: A number, or a FLOAT32 array of one element, or of one for each output channel: 1-D, or along the
            channels' axis of the filter or of the output.
        filter_zero_point: None for 0, a number, or an array of the filter's type, shaped like a filter scale.
        bias: None, or INT32, one for each output channel; its scale is input_scale * filter_scale.
        strides, dilations: Of each spatial axis, or one number for all.
        start_padding, end_padding: Elements of padding before and after each spatial axis, or one number for all. They
            have the real value 0, which is the code of the input's zero point.
        group_count: Groups of channels; as many as input channels is a depthwise convolution.
        out: The array to write; by default a new one in the input's memory order.
        device: Where it runs; by default ``default_device()``.
        output_data_type: INT8 or UINT8; by default that of ``out``, else of ``output_zero_point``, else of ``input``.

    Raises:
        InvalidDescError, UnsupportedFeatureLevelError: Types or sizes that the operator does not have.
        BindingError: An argument is no array, its shape does not do, or a number does not fit its type.

    >>> import numpy as np
    >>> image = np.arange(9, dtype=np.uint8).reshape(1, 1, 3, 3)
    >>> box = np.ones((1, 1, 2, 2), np.int8)
    >>> quantized_linear_convolution(image, 1.0, 0, box, 1.0, None, None, 2.0, 0)
    array([[[[ 4,  6],
             [10, 12]]]], dtype=uint8)
    """
    x, w = call.array("input", input), call.array("filter", filter)
    rank, channels = x.ndim, w.shape[0] if w.ndim else 1
    windows = window_attributes(
        call, rank, strides=strides, dilations=dilations, start_padding=start_padding, end_padding=end_padding
    )
    parameter = ("output_zero_point", output_zero_point)
    dtype = call.output_dtype(output_data_type, {"out": out}, parameter, code_type(x))
    filter_scales, filter_zero_points = call.by_channel(
        channels, rank, filter_scale=(filter_scale, FLOAT32), filter_zero_point=(filter_zero_point, w.dtype)
    )
    arrays = {
        "input_tensor": x,
        "input_scale_tensor": call.single("input_scale", input_scale, FLOAT32, rank),
        "input_zero_point_tensor": call.single("input_zero_point", input_zero_point, x.dtype, rank),
        "filter_tensor": w,
        "filter_scale_tensor": filter_scales,
        "filter_zero_point_tensor": filter_zero_points,
        "bias_tensor": call.bias(bias, channels, rank),
        "output_scale_tensor": call.single("output_scale", output_scale, FLOAT32, rank),
        "output_zero_point_tensor": call.single("output_zero_point", output_zero_point, dtype, rank),
        "output_tensor": windowed_output(x, channels, w.shape[2:], windows, dtype) if out is None else out,
    }
    result: Result = call.run(arrays, group_count=group_count, **windows)
    return result


@operator_function(ConvolutionIntegerOperatorDesc)
def convolution_integer(
    call: FunctionCall,
    input: Operand[Result],
    input_zero_point: Parameter[Result],
    filter: Operand[Result],
    filter_zero_point: Parameter[Result],
    *,
    strides: int | Sequence[int] = 1,
    dilations: int | Sequence[int] = 1,
    start_padding: int | Sequence[int] = 0,
    end_padding: int | Sequence[int] = 0,
    group_count: int = 1,
    out: Array | None = None,
    device: Device | None = None,
) -> Result:
    """Return the convolution of quantized tensors as 32-bit sums, which wrap (CONVOLUTION_INTEGER, from level 2_1).

    Args:
        input: INT8 or UINT8 array {N, C, H, W} or {N, C, W}, in any memory order.
        input_zero_point: None for 0, a number, or an array of one element of the input's type.
        filter: INT8 or UINT8 array {output channels, C / group_count, kernel height, kernel width}.
        filter_zero_point: None for 0, a number, or an array of the filter's type of one element, or of one for each
            output channel: 1-D, or along the channels' axis of the filter or of the output.
        strides, dilations: Of each spatial axis, or one number for all.
        start_padding, end_padding: Elements of padding before and after each spatial axis, or one number for all. They
            have the real value 0, which is the code of the input's zero point.
        group_count: Groups of channels; as many as input channels is a depthwise convolution.
        out: The INT32 array to write; by default a new one in the input's memory order.
        device: Where it runs; by default ``default_device()``.

    Raises:
        InvalidDescError, UnsupportedFeatureLevelError: Types or sizes that the operator does not have.
        BindingError: An argument is no array, its shape does not do, or a number does not fit its type.

    >>> import numpy as np
    >>> image = np.arange(9, dtype=np.uint8).reshape(1, 1, 3, 3)
    >>> convolution_integer(image, 4, np.ones((1, 1, 2, 2), np.int8), None)
    array([[[[-8, -4],
             [ 4,  8]]]], dtype=int32)
    """
    x, w = call.array("input", input), call.array("filter", filter)
    rank, channels = x.ndim, w.shape[0] if w.ndim else 1
    windows = window_attributes(
        call, rank, strides=strides, dilations=dilations, start_padding=start_padding, end_padding=end_padding
    )
    [filter_zero_points] = call.by_channel(channels, rank, filter_zero_point=(filter_zero_point, w.dtype))
    arrays = {
        "input_tensor": x,
        "input_zero_point_tensor": call.single("input_zero_point", input_zero_point, x.dtype, rank),
        "filter_tensor": w,
        "filter_zero_point_tensor": filter_zero_points,
        "output_tensor": windowed_output(x, channels, w.shape[2:], windows, INT32) if out is None else out,
    }
    result: Result = call.run(arrays, group_count=group_count, **windows)
    return result
