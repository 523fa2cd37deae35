"""The descs of pooling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dmlcpu.descs.operator_desc import OperatorDesc
from dmlcpu.enums import OperatorType
from dmlcpu.tensor import TensorDesc

__all__ = ["QuantizedLinearAveragePoolingOperatorDesc"]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizedLinearAveragePoolingOperatorDesc(OperatorDesc):
    """Average the elements of a sliding window (``DML_QUANTIZED_LINEAR_AVERAGE_POOLING_OPERATOR_DESC``).

    ``sum = sum((input - input_zero_point) * input_scale)`` over the window, in FLOAT32, one element after the other;
    ``output = clamp(round(sum / count / output_scale) + output_zero_point)``, rounding half to even. Padding adds
    nothing to the sum. ``count`` is the size of the window, or without ``include_padding`` the number of its elements
    that are not padding; a window of padding alone then has 0 / 0, which becomes the output's lowest value.

    =========================  ========  ============  ========================================================
    tensor                     kind      data types    sizes
    =========================  ========  ============  ========================================================
    input_tensor               input     INT8, UINT8   {N, C, H, W} or {N, C, D, H, W}
    input_scale_tensor         input     FLOAT32       one element or {1, C, 1, 1[, 1]}, the input's dimensions
    input_zero_point_tensor    optional  the input's   input_scale_tensor's
    output_scale_tensor        input     FLOAT32       one element or {1, C, 1, 1[, 1]}, the input's dimensions
    output_zero_point_tensor   optional  the input's   output_scale_tensor's
    output_tensor              output    the input's   {N, C, OutH, OutW} or {N, C, OutD, OutH, OutW}
    =========================  ========  ============  ========================================================

    Absent zero points are 0.

    ``strides``, ``window_size``, ``start_padding``, ``end_padding`` and ``dilations`` have exactly one entry for each
    spatial axis. Every spatial size of the output follows from the input:
    ``(size + start_padding + end_padding - ((window_size - 1) * dilation + 1)) // stride + 1``. ``include_padding`` is
    a boolean, 0 or 1.

    First feature level: 6_2.

    Raises at ``create_operator``: InvalidDescError, UnsupportedFeatureLevelError.

    >>> from dmlcpu import TensorDataType
    >>> scale = TensorDesc(TensorDataType.FLOAT32, (1, 1, 1, 1))
    >>> desc = QuantizedLinearAveragePoolingOperatorDesc(
    ...     input_tensor=TensorDesc(TensorDataType.UINT8, (1, 2048, 7, 7)),
    ...     input_scale_tensor=scale,
    ...     output_scale_tensor=scale,
    ...     output_tensor=TensorDesc(TensorDataType.UINT8, (1, 2048, 1, 1)),
    ...     strides=[1, 1], window_size=[7, 7], start_padding=[0, 0], end_padding=[0, 0], dilations=[1, 1],
    ...     include_padding=False)
    >>> desc.window_size, desc.include_padding
    ((7, 7), 0)
    """

    operator_type: ClassVar[OperatorType] = OperatorType.QUANTIZED_LINEAR_AVERAGE_POOLING

    input_tensor: TensorDesc | None
    input_scale_tensor: TensorDesc | None
    input_zero_point_tensor: TensorDesc | None = None
    output_scale_tensor: TensorDesc | None
    output_zero_point_tensor: TensorDesc | None = None
    output_tensor: TensorDesc | None
    # A missing array is an InvalidDescError like an empty one, not a TypeError, hence the defaults.
    strides: Sequence[int] | None = None
    window_size: Sequence[int] | None = None
    start_padding: Sequence[int] | None = None
    end_padding: Sequence[int] | None = None
    dilations: Sequence[int] | None = None
    include_padding: bool | int
