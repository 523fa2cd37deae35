"""The descs of the convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dmlcpu.descs.operator_desc import OperatorDesc
from dmlcpu.enums import OperatorType
from dmlcpu.tensor import TensorDesc

__all__ = ["ConvolutionIntegerOperatorDesc", "QuantizedLinearConvolutionOperatorDesc"]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizedLinearConvolutionOperatorDesc(OperatorDesc):
    """Convolve quantized tensors, then quantize the result (``DML_QUANTIZED_LINEAR_CONVOLUTION_OPERATOR_DESC``).

    ``accumulator = sum((input - input_zero_point) * (filter - filter_zero_point)) + bias`` in 32 bits, wrapping;
    ``output = clamp(round(accumulator * (input_scale * filter_scale / output_scale)) + output_zero_point)``, rounding
    half to even. Padding adds nothing to the sum. G is ``group_count``.

    =========================  ========  ============  ========================================================
    tensor                     kind      data types    sizes
    =========================  ========  ============  ========================================================
    input_tensor               input     INT8, UINT8   {N, C, H, W} or {N, C, W}
    input_scale_tensor         input     FLOAT32       one element, 1 to 4 dimensions
    input_zero_point_tensor    optional  the input's   input_scale_tensor's
    filter_tensor              input     INT8, UINT8   {K, C / G, FilterH, FilterW} or {K, C / G, FilterW}
    filter_scale_tensor        input     FLOAT32       one element, or {1, K} and up to two more ones
    filter_zero_point_tensor   optional  the filter's  filter_scale_tensor's
    bias_tensor                optional  INT32         {1, K, 1, 1} or {1, K, 1}
    output_scale_tensor        input     FLOAT32       one element, 1 to 4 dimensions
    output_zero_point_tensor   optional  the output's  output_scale_tensor's
    output_tensor              output    INT8, UINT8   {N, K, OutH, OutW} or {N, K, OutW}
    =========================  ========  ============  ========================================================

    The input, the filter and the output may each have a data type of their own. Absent zero points are 0.

    ``strides``, ``dilations``, ``start_padding`` and ``end_padding`` are equally long and have an entry for each
    spatial axis; surplus entries are ignored. Every size of the output follows from the input:
    ``(size + start_padding + end_padding - ((filter_size - 1) * dilation + 1)) // stride + 1``. ``group_count``
    divides C and K.

    First feature level: 2_1 (4 dimensions everywhere); 4_0 adds the others but for ``filter_scale_tensor``, which has
    3 or 4 until 5_2.

    Raises at ``create_operator``: InvalidDescError, UnsupportedFeatureLevelError.

    >>> from dmlcpu import TensorDataType, TensorFlags
    >>> scale = TensorDesc(TensorDataType.FLOAT32, (1, 1, 1, 1))
    >>> desc = QuantizedLinearConvolutionOperatorDesc(
    ...     input_tensor=TensorDesc(TensorDataType.UINT8, (1, 64, 56, 56), strides=(200704, 1, 3584, 64)),
    ...     input_scale_tensor=scale,
    ...     filter_tensor=TensorDesc(TensorDataType.INT8, (32, 64, 3, 3), flags=TensorFlags.OWNED_BY_DML),
    ...     filter_scale_tensor=TensorDesc(TensorDataType.FLOAT32, (1, 32, 1, 1), flags=TensorFlags.OWNED_BY_DML),
    ...     output_scale_tensor=scale,
    ...     output_tensor=TensorDesc(TensorDataType.UINT8, (1, 32, 28, 28)),
    ...     strides=[2, 2], dilations=[1, 1], start_padding=[1, 1], end_padding=[1, 1], group_count=1)
    >>> desc.strides
    (2, 2)
    """

    operator_type: ClassVar[OperatorType] = OperatorType.QUANTIZED_LINEAR_CONVOLUTION

    input_tensor: TensorDesc | None
    input_scale_tensor: TensorDesc | None
    input_zero_point_tensor: TensorDesc | None = None
    filter_tensor: TensorDesc | None
    filter_scale_tensor: TensorDesc | None
    filter_zero_point_tensor: TensorDesc | None = None
    bias_tensor: TensorDesc | None = None
    output_scale_tensor: TensorDesc | None
    output_zero_point_tensor: TensorDesc | None = None
    output_tensor: TensorDesc | None
    # A missing array is an InvalidDescError like an empty one, not a TypeError, hence the defaults.
    strides: Sequence[int] | None = None
    dilations: Sequence[int] | None = None
    start_padding: Sequence[int] | None = None
    end_padding: Sequence[int] | None = None
    group_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionIntegerOperatorDesc(OperatorDesc):
    """Convolve quantized tensors into 32-bit sums (``DML_CONVOLUTION_INTEGER_OPERATOR_DESC``).

    ``output = sum((input - input_zero_point) * (filter - filter_zero_point))`` in 32 bits, wrapping. Padding adds
    nothing to the sum. G is ``group_count``.

    =========================  ========  ============  ========================================================
    tensor                     kind      data types    sizes
    =========================  ========  ============  ========================================================
    input_tensor               input     INT8, UINT8   {N, C, H, W} or {N, C, W}
    input_zero_point_tensor    optional  the input's   one element, 1 to 4 dimensions
    filter_tensor              input     INT8, UINT8   {K, C / G, FilterH, FilterW} or {K, C / G, FilterW}
    filter_zero_point_tensor   optional  the filter's  one element, or {1, K} and up to two more ones
    output_tensor              output    INT32         {N, K, OutH, OutW} or {N, K, OutW}
    =========================  ========  ============  ========================================================

    The input and the filter may each have a data type of their own. Absent zero points are 0. The attributes are those
    of ``QuantizedLinearConvolutionOperatorDesc``.

    First feature level: 2_1 (4 dimensions everywhere); 4_0 adds the others.

    Raises at ``create_operator``: InvalidDescError, UnsupportedFeatureLevelError.

    >>> from dmlcpu import TensorDataType
    >>> desc = ConvolutionIntegerOperatorDesc(
    ...     input_tensor=TensorDesc(TensorDataType.UINT8, (1, 3, 8, 8)),
    ...     filter_tensor=TensorDesc(TensorDataType.INT8, (4, 3, 3, 3)),
    ...     output_tensor=TensorDesc(TensorDataType.INT32, (1, 4, 6, 6)),
    ...     strides=[1, 1], dilations=[1, 1], start_padding=[0, 0], end_padding=[0, 0], group_count=1)
    >>> desc.input_zero_point_tensor is None
    True
    """

    operator_type: ClassVar[OperatorType] = OperatorType.CONVOLUTION_INTEGER

    input_tensor: TensorDesc | None
    input_zero_point_tensor: TensorDesc | None = None
    filter_tensor: TensorDesc | None
    filter_zero_point_tensor: TensorDesc | None = None
    output_tensor: TensorDesc | None
    # A missing array is an InvalidDescError like an empty one, not a TypeError, hence the defaults.
    strides: Sequence[int] | None = None
    dilations: Sequence[int] | None = None
    start_padding: Sequence[int] | None = None
    end_padding: Sequence[int] | None = None
    group_count: int
