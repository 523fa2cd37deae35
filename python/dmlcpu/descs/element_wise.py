"""The descs of the operators that work element by element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dmlcpu.descs.operator_desc import OperatorDesc
from dmlcpu.enums import OperatorType
from dmlcpu.tensor import TensorDesc

__all__ = [
    "DynamicQuantizeLinearOperatorDesc",
    "ElementWiseDequantizeLinearOperatorDesc",
    "ElementWiseQuantizeLinearOperatorDesc",
    "ElementWiseQuantizedLinearAddOperatorDesc",
]


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

    >>> from dmlcpu import TensorDataType
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

    >>> from dmlcpu import TensorDataType
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

    >>> from dmlcpu import TensorDataType
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

    >>> from dmlcpu import TensorDataType
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
