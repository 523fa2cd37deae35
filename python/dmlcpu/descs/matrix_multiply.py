"""The descs of the matrix products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dmlcpu.descs.operator_desc import OperatorDesc
from dmlcpu.enums import OperatorType
from dmlcpu.tensor import TensorDesc

__all__ = [
    "MatrixMultiplyIntegerOperatorDesc",
    "MatrixMultiplyIntegerToFloatOperatorDesc",
    "QuantizedLinearMatrixMultiplyOperatorDesc",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixMultiplyIntegerOperatorDesc(OperatorDesc):
    """Multiply quantized matrices into 32-bit sums (``DML_MATRIX_MULTIPLY_INTEGER_OPERATOR_DESC``).

    ``output = sum((a - a_zero_point) * (b - b_zero_point))`` over K in 32 bits, wrapping.

    ===================  ========  ===========  ==================================================
    tensor               kind      data types   sizes
    ===================  ========  ===========  ==================================================
    a_tensor             input     INT8, UINT8  {M, K} after up to two batch sizes
    a_zero_point_tensor  optional  a's          one element or {M, 1}, 1 to 4 dimensions
    b_tensor             input     INT8, UINT8  {K, N} after up to two batch sizes
    b_zero_point_tensor  optional  b's          one element or {N}, 1 to 4 dimensions
    output_tensor        output    INT32        {M, N} after up to two batch sizes
    ===================  ========  ===========  ==================================================

    Sizes are filled up with ones in front; then the batch sizes of a, b and the output are equal. Strides of 0 repeat a
    matrix. a and b may each have a data type of their own. Absent zero points are 0.

    First feature level: 2_1 (4 dimensions everywhere); 4_0 adds the others but for ``b_zero_point_tensor``, which has
    2 to 4 until 5_2.

    Raises at ``create_operator``: InvalidDescError, UnsupportedFeatureLevelError.

    >>> from dmlcpu import TensorDataType, TensorFlags
    >>> desc = MatrixMultiplyIntegerOperatorDesc(
    ...     a_tensor=TensorDesc(TensorDataType.UINT8, (128, 768)),
    ...     b_tensor=TensorDesc(TensorDataType.INT8, (768, 3072), flags=TensorFlags.OWNED_BY_DML),
    ...     output_tensor=TensorDesc(TensorDataType.INT32, (128, 3072)))
    >>> desc.a_zero_point_tensor is None
    True
    """

    operator_type: ClassVar[OperatorType] = OperatorType.MATRIX_MULTIPLY_INTEGER

    a_tensor: TensorDesc | None
    a_zero_point_tensor: TensorDesc | None = None
    b_tensor: TensorDesc | None
    b_zero_point_tensor: TensorDesc | None = None
    output_tensor: TensorDesc | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizedLinearMatrixMultiplyOperatorDesc(OperatorDesc):
    """Multiply quantized matrices, then quantize (``DML_QUANTIZED_LINEAR_MATRIX_MULTIPLY_OPERATOR_DESC``).

    ``accumulator = sum((a - a_zero_point) * (b - b_zero_point))`` over K in 32 bits, wrapping;
    ``output = clamp(round(accumulator * (b_scale * (a_scale / output_scale))) + output_zero_point)``, rounding half to
    even.

    ========================  ========  ============  ==================================================
    tensor                    kind      data types    sizes
    ========================  ========  ============  ==================================================
    a_tensor                  input     INT8, UINT8   {M, K} after up to two batch sizes
    a_scale_tensor            input     FLOAT32       one element or {M, 1}, 1 to 4 dimensions
    a_zero_point_tensor       optional  a's           a_scale_tensor's
    b_tensor                  input     INT8, UINT8   {K, N} after up to two batch sizes
    b_scale_tensor            input     FLOAT32       one element or {N}, 1 to 4 dimensions
    b_zero_point_tensor       optional  b's           b_scale_tensor's
    output_scale_tensor       input     FLOAT32       one element or {M, 1}, 1 to 4 dimensions
    output_zero_point_tensor  optional  the output's  output_scale_tensor's
    output_tensor             output    INT8, UINT8   {M, N} after up to two batch sizes
    ========================  ========  ============  ==================================================

    Sizes are filled up with ones in front; then the batch sizes of a, b and the output are equal. Strides of 0 repeat a
    matrix. a, b and the output may each have a data type of their own. Absent zero points are 0.

    First feature level: 2_1 (4 dimensions everywhere); 4_0 adds the others.

    Raises at ``create_operator``: InvalidDescError, UnsupportedFeatureLevelError.

    >>> from dmlcpu import TensorDataType
    >>> scale = TensorDesc(TensorDataType.FLOAT32, (1,))
    >>> desc = QuantizedLinearMatrixMultiplyOperatorDesc(
    ...     a_tensor=TensorDesc(TensorDataType.UINT8, (4, 8)), a_scale_tensor=scale,
    ...     b_tensor=TensorDesc(TensorDataType.INT8, (8, 16)), b_scale_tensor=TensorDesc(TensorDataType.FLOAT32, (16,)),
    ...     output_scale_tensor=scale, output_tensor=TensorDesc(TensorDataType.UINT8, (4, 16)))
    >>> desc.operator_type
    <OperatorType.QUANTIZED_LINEAR_MATRIX_MULTIPLY: 118>
    """

    operator_type: ClassVar[OperatorType] = OperatorType.QUANTIZED_LINEAR_MATRIX_MULTIPLY

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
class MatrixMultiplyIntegerToFloatOperatorDesc(OperatorDesc):
    """Multiply quantized matrices into floats (``DML_MATRIX_MULTIPLY_INTEGER_TO_FLOAT_OPERATOR_DESC``).

    Of 8-bit matrices, ``accumulator = sum((a - a_zero_point) * (b - b_zero_point))`` over K in 32 bits, wrapping;
    ``output = accumulator * (a_scale * b_scale) + bias``, the sum fused with the product. Of wider ones,
    ``output = sum((a - a_zero_point) * a_scale * ((b - b_zero_point) * b_scale)) + bias`` in FLOAT32, K in order. A
    FLOAT16 output is the FLOAT32 result rounded half to even.

    ===================  ========  ======================  ==================================================
    tensor               kind      data types              sizes
    ===================  ========  ======================  ==================================================
    a_tensor             input     8- to 32-bit integers   {M, K} after up to two batch sizes
    a_scale_tensor       input     the output's            one element or {M, 1}, 1 to 4 dimensions
    a_zero_point_tensor  optional  a's                     a_scale_tensor's
    b_tensor             input     8- to 32-bit integers   {K, N} after up to two batch sizes
    b_scale_tensor       input     the output's            one element or {N}, 1 to 4 dimensions
    b_zero_point_tensor  optional  b's                     b_scale_tensor's
    bias_tensor          optional  the output's            output_tensor's
    output_tensor        output    FLOAT32, FLOAT16        {M, N} after up to two batch sizes
    ===================  ========  ======================  ==================================================

    Sizes are filled up with ones in front; then the batch sizes of a, b and the output are equal. Strides of 0 repeat a
    matrix, or a row of the bias. a and b may each have a data type of their own. Absent zero points are 0.

    First feature level: 6_2.

    Raises at ``create_operator``: InvalidDescError, UnsupportedFeatureLevelError.

    >>> from dmlcpu import TensorDataType
    >>> scale = TensorDesc(TensorDataType.FLOAT32, (1,))
    >>> desc = MatrixMultiplyIntegerToFloatOperatorDesc(
    ...     a_tensor=TensorDesc(TensorDataType.UINT8, (4, 8)), a_scale_tensor=scale,
    ...     b_tensor=TensorDesc(TensorDataType.INT8, (8, 16)), b_scale_tensor=scale,
    ...     bias_tensor=TensorDesc(TensorDataType.FLOAT32, (4, 16), strides=(0, 1)),
    ...     output_tensor=TensorDesc(TensorDataType.FLOAT32, (4, 16)))
    >>> desc.bias_tensor.strides
    (0, 1)
    """

    operator_type: ClassVar[OperatorType] = OperatorType.MATRIX_MULTIPLY_INTEGER_TO_FLOAT

    a_tensor: TensorDesc | None
    a_scale_tensor: TensorDesc | None
    a_zero_point_tensor: TensorDesc | None = None
    b_tensor: TensorDesc | None
    b_scale_tensor: TensorDesc | None
    b_zero_point_tensor: TensorDesc | None = None
    bias_tensor: TensorDesc | None = None
    output_tensor: TensorDesc | None
