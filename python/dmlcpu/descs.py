"""The operators' descs: one frozen dataclass for each ``DML_..._OPERATOR_DESC``, its fields in the same order.

Arguments are keywords. Constructors bring values to a canonical form (sequences become tuples, numpy's numbers become
integers) and check nothing; ``Device.create_operator`` does. An absent optional tensor is None; a required tensor
may be given as None too, and is refused there. ``DimensionCount`` is derived from the tensors and has no field.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from dmlcpu.coercion import coerce_integer, coerce_sequence
from dmlcpu.enums import OperatorType
from dmlcpu.tensor import TensorDesc

__all__ = [
    "DynamicQuantizeLinearOperatorDesc",
    "ElementWiseDequantizeLinearOperatorDesc",
    "ElementWiseQuantizeLinearOperatorDesc",
    "ElementWiseQuantizedLinearAddOperatorDesc",
    "OperatorDesc",
    "QuantizedLinearConvolutionOperatorDesc",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorDesc:
    """The base of every operator's desc; it cannot be made itself.

    Attributes:
        operator_type: The operator that the desc is for.
    """

    operator_type: ClassVar[OperatorType]

    def __post_init__(self) -> None:
        """Bring every value to its canonical form, so that equal descs compare and hash equal."""
        if not hasattr(self, "operator_type"):
            raise TypeError(f"{type(self).__name__} is the base of descs and describes no operator")
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and not isinstance(value, TensorDesc):
                object.__setattr__(self, field.name, _canonical(value))


def _canonical(value: Any) -> Any:
    return coerce_integer(coerce_sequence(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementWiseQuantizeLinearOperatorDesc(OperatorDesc):
    """``output = clamp(round(input / scale) + zero_point)`` (``DML_ELEMENT_WISE_QUANTIZE_LINEAR_OPERATOR_DESC``).

    Rounds half to even. A scale of 0 gives the ends of the output's range, and its lowest value for 0 / 0.

    ====================  ========  =======================  ==================================================
    tensor                kind      data types               sizes
    ====================  ========  =======================  ==================================================
    input_tensor          input     FLOAT32, FLOAT16, INT32  1 to 8 dimensions
    scale_tensor          input     FLOAT32, FLOAT16         the input's; repeat a value by strides of 0
    zero_point_tensor     optional  INT8, UINT8              the input's; 0 if absent
    output_tensor         output    INT8, UINT8              the input's
    ====================  ========  =======================  ==================================================

    The scale has the input's data type, FLOAT32 if that is INT32; the zero point has the output's.

    First feature level: 1_0 (FLOAT32 to UINT8, 4 dimensions); 2_1 adds INT32 and INT8, 3_0 the other dimensions, 6_0
    FLOAT16, and 6_2 makes the zero point optional.

    Raises at ``create_operator``: InvalidDescError, UnsupportedFeatureLevelError.

    >>> from dmlcpu.enums import TensorDataType
    >>> desc = ElementWiseQuantizeLinearOperatorDesc(
    ...     input_tensor=TensorDesc(TensorDataType.FLOAT32, (1, 3, 4, 4)),
    ...     scale_tensor=TensorDesc(TensorDataType.FLOAT32, (1, 3, 4, 4), strides=(0, 1, 0, 0)),
    ...     zero_point_tensor=None,
    ...     output_tensor=TensorDesc(TensorDataType.INT8, (1, 3, 4, 4)))
    >>> desc.operator_type.name
    'ELEMENT_WISE_QUANTIZE_LINEAR'
    """

    operator_type: ClassVar[OperatorType] = OperatorType.ELEMENT_WISE_QUANTIZE_LINEAR

    input_tensor: TensorDesc | None
    scale_tensor: TensorDesc | None
    zero_point_tensor: TensorDesc | None = None
    output_tensor: TensorDesc | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementWiseDequantizeLinearOperatorDesc(OperatorDesc):
    """``output = (input - zero_point) * scale`` (``DML_ELEMENT_WISE_DEQUANTIZE_LINEAR_OPERATOR_DESC``).

    Integers of 32 bits are converted to FLOAT32 before they are subtracted.

    ====================  ========  =====================================  ====================================
    tensor                kind      data types                             sizes
    ====================  ========  =====================================  ====================================
    input_tensor          input     INT32, INT16, INT8 and their unsigned  1 to 8 dimensions
    scale_tensor          input     FLOAT32, FLOAT16                       the input's; strides of 0 to repeat
    zero_point_tensor     optional  the input's                            the input's; 0 if absent
    output_tensor         output    the scale's                            the input's
    ====================  ========  =====================================  ====================================

    First feature level: 1_0 (UINT8 to FLOAT32, 4 dimensions); 2_1 adds the other integers, 3_0 the other dimensions,
    6_0 FLOAT16, and 6_2 makes the zero point optional.

    Raises at ``create_operator``: InvalidDescError, UnsupportedFeatureLevelError.

    >>> from dmlcpu.enums import TensorDataType
    >>> desc = ElementWiseDequantizeLinearOperatorDesc(
    ...     input_tensor=TensorDesc(TensorDataType.UINT8, (2, 5)),
    ...     scale_tensor=TensorDesc(TensorDataType.FLOAT32, (2, 5), strides=(1, 0)),
    ...     zero_point_tensor=TensorDesc(TensorDataType.UINT8, (2, 5), strides=(1, 0)),
    ...     output_tensor=TensorDesc(TensorDataType.FLOAT32, (2, 5)))
    >>> desc.scale_tensor.strides
    (1, 0)
    """

    operator_type: ClassVar[OperatorType] = OperatorType.ELEMENT_WISE_DEQUANTIZE_LINEAR

    input_tensor: TensorDesc | None
    scale_tensor: TensorDesc | None
    zero_point_tensor: TensorDesc | None = None
    output_tensor: TensorDesc | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementWiseQuantizedLinearAddOperatorDesc(OperatorDesc):
    """Dequantize A and B, add, quantize again (``DML_ELEMENT_WISE_QUANTIZED_LINEAR_ADD_OPERATOR_DESC``).

    ``output = clamp(round(((a - a_zero_point) * a_scale + (b - b_zero_point) * b_scale) / output_scale)
    + output_zero_point)``, rounding half to even.

    =========================  ========  =====================  ==============================================
    tensor                     kind      data types             sizes
    =========================  ========  =====================  ==============================================
    a_tensor                   input     INT8, UINT8            1 to 8 dimensions
    a_scale_tensor             input     FLOAT32                one element, as many dimensions as A
    a_zero_point_tensor        optional  A's                    one element, as many dimensions as A
    b_tensor                   input     INT8, UINT8            A's; repeat elements by strides of 0
    b_scale_tensor             input     FLOAT32                one element, as many dimensions as A
    b_zero_point_tensor        optional  B's                    one element, as many dimensions as A
    output_scale_tensor        input     FLOAT32                one element, as many dimensions as A
    output_zero_point_tensor   optional  the output's           one element, as many dimensions as A
    output_tensor              output    INT8, UINT8            A's
    =========================  ========  =====================  ==============================================

    A, B and the output may each have a data type of their own. Absent zero points are 0. First feature level: 4_0.

    Raises at ``create_operator``: InvalidDescError, UnsupportedFeatureLevelError.

    >>> from dmlcpu.enums import TensorDataType
    >>> scale = TensorDesc(TensorDataType.FLOAT32, (1, 1))
    >>> desc = ElementWiseQuantizedLinearAddOperatorDesc(
    ...     a_tensor=TensorDesc(TensorDataType.UINT8, (2, 3)),
    ...     a_scale_tensor=scale,
    ...     b_tensor=TensorDesc(TensorDataType.INT8, (2, 3), strides=(0, 1)),
    ...     b_scale_tensor=scale,
    ...     output_scale_tensor=scale,
    ...     output_tensor=TensorDesc(TensorDataType.INT8, (2, 3)))
    >>> desc.a_zero_point_tensor is None
    True
    """

    operator_type: ClassVar[OperatorType] = OperatorType.ELEMENT_WISE_QUANTIZED_LINEAR_ADD

    a_tensor: TensorDesc | None
    a_scale_tensor: TensorDesc | None
    a_zero_point_tensor: TensorDesc | None = None
    b_tensor: TensorDesc | None
    b_scale_tensor: TensorDesc | None
    b_zero_point_tensor: TensorDesc | None = None
    output_scale_tensor: TensorDesc | None
    output_zero_point_tensor: TensorDesc | None = None
    output_tensor: TensorDesc | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicQuantizeLinearOperatorDesc(OperatorDesc):
    """Find the range of the input, then quantize it (``DML_DYNAMIC_QUANTIZE_LINEAR_OPERATOR_DESC``).

    The scale is the range, widened to contain 0, times 1/255; the zero point is the code of 0.

    =========================  ======  ===================  ===================================================
    tensor                     kind    data types           sizes
    =========================  ======  ===================  ===================================================
    input_tensor               input   FLOAT32, FLOAT16     1 to 8 dimensions
    output_tensor              output  INT8, UINT8          the input's
    output_scale_tensor        output  FLOAT32              one element, as many dimensions as the input
    output_zero_point_tensor   output  the output tensor's  one element, as many dimensions as the input
    =========================  ======  ===================  ===================================================

    All four are required. First feature level: 4_0.

    Raises at ``create_operator``: InvalidDescError, UnsupportedFeatureLevelError.

    >>> from dmlcpu.enums import TensorDataType
    >>> desc = DynamicQuantizeLinearOperatorDesc(
    ...     input_tensor=TensorDesc(TensorDataType.FLOAT32, (4, 5)),
    ...     output_tensor=TensorDesc(TensorDataType.UINT8, (4, 5)),
    ...     output_scale_tensor=TensorDesc(TensorDataType.FLOAT32, (1, 1)),
    ...     output_zero_point_tensor=TensorDesc(TensorDataType.UINT8, (1, 1)))
    >>> desc.output_scale_tensor
    TensorDesc(TensorDataType.FLOAT32, (1, 1))
    """

    operator_type: ClassVar[OperatorType] = OperatorType.DYNAMIC_QUANTIZE_LINEAR

    input_tensor: TensorDesc | None
    output_tensor: TensorDesc | None
    output_scale_tensor: TensorDesc | None
    output_zero_point_tensor: TensorDesc | None


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

    >>> from dmlcpu.enums import TensorDataType, TensorFlags
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
