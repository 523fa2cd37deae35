"""The functions of pooling."""

from __future__ import annotations

from collections.abc import Sequence

from dmlcpu.descs.pooling import QuantizedLinearAveragePoolingOperatorDesc
from dmlcpu.device import Device
from dmlcpu.dtypes import FLOAT32
from dmlcpu.enums import TensorDataType
from dmlcpu.functions.arguments import Operand, Parameter, Result, code_type
from dmlcpu.functions.call import FunctionCall
from dmlcpu.functions.layout import Array
from dmlcpu.functions.operator_function import operator_function
from dmlcpu.functions.windows import window_attributes, windowed_output

__all__ = ["quantized_linear_average_pooling"]


@operator_function(QuantizedLinearAveragePoolingOperatorDesc)
def quantized_linear_average_pooling(
    call: FunctionCall,
    input: Operand[Result],
    input_scale: Parameter[Result],
    input_zero_point: Parameter[Result],
    output_scale: Parameter[Result],
    output_zero_point: Parameter[Result],
    *,
    window_size: int | Sequence[int],
    strides: int | Sequence[int] = 1,
    dilations: int | Sequence[int] = 1,
    start_padding: int | Sequence[int] = 0,
    end_padding: int | Sequence[int] = 0,
    include_padding: bool = False,
    out: Array | None = None,
    device: Device | None = None,
    output_data_type: TensorDataType | int | None = None,
) -> Result:
    """Return the quantized averages of a sliding window (QUANTIZED_LINEAR_AVERAGE_POOLING, from level 6_2).

    Args:
        input: INT8 or UINT8 array {N, C, H, W} or {N, C, D, H, W}, in any memory order.
        input_scale, output_scale: Numbers, or FLOAT32 arrays of one element, or of one for each channel: 1-D, or of a
            shape that broadcasts along the input's second axis.
        input_zero_point, output_zero_point: None for 0, numbers, or arrays of the input's type, shaped like a scale.
        window_size, strides, dilations: Of each spatial axis, or one number for all. The input's spatial sizes as
            ``window_size`` average whole planes.
        start_padding, end_padding: Elements of padding before and after each spatial axis, or one number for all. They
            have the real value 0, which is the code of the input's zero point.
        include_padding: Whether averages count the elements of the padding.
        out: The array to write; by default a new one in the input's memory order.
        device: Where it runs; by default ``default_device()``.
        output_data_type: INT8 or UINT8, the input's type; by default that of ``out``, else of ``output_zero_point``,
            else of ``input``.

    Raises:
        InvalidDescError, UnsupportedFeatureLevelError: Types or sizes that the operator does not have.
        BindingError: An argument is no array, its shape does not do, or a number does not fit its type.

    >>> import numpy as np
    >>> image = np.arange(16, dtype=np.uint8).reshape(1, 1, 4, 4)
    >>> quantized_linear_average_pooling(image, 1.0, 0, 0.5, 100, window_size=2, strides=2)
    array([[[[105, 109],
             [121, 125]]]], dtype=uint8)
    """
    x = call.array("input", input)
    rank = x.ndim
    channels = x.shape[1] if rank > 1 else 1
    windows = window_attributes(
        call,
        rank,
        strides=strides,
        window_size=window_size,
        start_padding=start_padding,
        end_padding=end_padding,
        dilations=dilations,
    )
    parameter = ("output_zero_point", output_zero_point)
    dtype = call.output_dtype(output_data_type, {"out": out}, parameter, code_type(x))
    input_scales, input_zero_points = call.by_channel(
        channels, rank, axes=(1,), input_scale=(input_scale, FLOAT32), input_zero_point=(input_zero_point, x.dtype)
    )
    output_scales, output_zero_points = call.by_channel(
        channels, rank, axes=(1,), output_scale=(output_scale, FLOAT32), output_zero_point=(output_zero_point, dtype)
    )
    arrays = {
        "input_tensor": x,
        "input_scale_tensor": input_scales,
        "input_zero_point_tensor": input_zero_points,
        "output_scale_tensor": output_scales,
        "output_zero_point_tensor": output_zero_points,
        "output_tensor": windowed_output(x, channels, windows["window_size"], windows, dtype) if out is None else out,
    }
    result: Result = call.run(arrays, include_padding=include_padding, **windows)
    return result
