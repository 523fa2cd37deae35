"""The tables of the matrix products."""

from __future__ import annotations

from typing import Final

from dmlcpu.enums import FeatureLevel, OperatorType
from dmlcpu.feature_levels.columns import (
    FLOAT32_ALONE,
    FLOATS,
    INT32_ALONE,
    INTEGERS_8,
    INTEGERS_8_TO_32,
    input_field,
    output_field,
)
from dmlcpu.feature_levels.rules.addresses import NoSharedAddresses
from dmlcpu.feature_levels.rules.data_types import SameDataType, ScaleDataType
from dmlcpu.feature_levels.rules.matrices import LineSizes, MatrixSizes
from dmlcpu.feature_levels.rules.sizes import SameSizes
from dmlcpu.schema import OperatorSchema, TensorSupport

__all__ = ["SCALES_TO_FLOAT", "SCHEMAS"]

_MATRIX = (
    TensorSupport(FeatureLevel.LEVEL_4_0, INTEGERS_8, 2, 4),
    TensorSupport(FeatureLevel.LEVEL_2_1, INTEGERS_8, 4, 4),
)
_SCALE = (
    TensorSupport(FeatureLevel.LEVEL_4_0, FLOAT32_ALONE, 1, 4),
    TensorSupport(FeatureLevel.LEVEL_2_1, FLOAT32_ALONE, 4, 4),
)
_ZERO_POINT = (
    TensorSupport(FeatureLevel.LEVEL_4_0, INTEGERS_8, 1, 4, optional=True),
    TensorSupport(FeatureLevel.LEVEL_2_1, INTEGERS_8, 4, 4, optional=True),
)
_PRODUCT_RULES = (
    SameDataType("a_tensor", ("a_zero_point_tensor",)),
    SameDataType("b_tensor", ("b_zero_point_tensor",)),
    MatrixSizes("a_tensor", "b_tensor", "output_tensor"),
)
_OF_A = ("a_scale_tensor", "a_zero_point_tensor")
_OF_B = ("b_scale_tensor", "b_zero_point_tensor")
_OF_OUTPUT = ("output_scale_tensor", "output_zero_point_tensor")

_MATRIX_MULTIPLY_INTEGER = OperatorSchema(
    OperatorType.MATRIX_MULTIPLY_INTEGER,
    introduced=FeatureLevel.LEVEL_2_1,
    fields=(
        input_field("a_tensor", *_MATRIX),
        input_field("a_zero_point_tensor", *_ZERO_POINT),
        input_field("b_tensor", *_MATRIX),
        input_field(
            "b_zero_point_tensor",
            TensorSupport(FeatureLevel.LEVEL_5_2, INTEGERS_8, 1, 4, optional=True),
            TensorSupport(FeatureLevel.LEVEL_4_0, INTEGERS_8, 2, 4, optional=True),
            TensorSupport(FeatureLevel.LEVEL_2_1, INTEGERS_8, 4, 4, optional=True),
        ),
        output_field(
            "output_tensor",
            TensorSupport(FeatureLevel.LEVEL_4_0, INT32_ALONE, 2, 4),
            TensorSupport(FeatureLevel.LEVEL_2_1, INT32_ALONE, 4, 4),
        ),
    ),
    rules=(
        *_PRODUCT_RULES,
        LineSizes(_OF_A[1:], "a_tensor", of_rows=True),
        LineSizes(_OF_B[1:], "b_tensor", of_rows=False),
        NoSharedAddresses(("output_tensor",)),
    ),
)

_QUANTIZED_LINEAR_MATRIX_MULTIPLY = OperatorSchema(
    OperatorType.QUANTIZED_LINEAR_MATRIX_MULTIPLY,
    introduced=FeatureLevel.LEVEL_2_1,
    fields=(
        input_field("a_tensor", *_MATRIX),
        input_field("a_scale_tensor", *_SCALE),
        input_field("a_zero_point_tensor", *_ZERO_POINT),
        input_field("b_tensor", *_MATRIX),
        input_field("b_scale_tensor", *_SCALE),
        input_field("b_zero_point_tensor", *_ZERO_POINT),
        input_field("output_scale_tensor", *_SCALE),
        input_field("output_zero_point_tensor", *_ZERO_POINT),
        output_field("output_tensor", *_MATRIX),
    ),
    rules=(
        *_PRODUCT_RULES,
        SameDataType("output_tensor", ("output_zero_point_tensor",)),
        LineSizes(_OF_A, "a_tensor", of_rows=True),
        LineSizes(_OF_B, "b_tensor", of_rows=False),
        LineSizes(_OF_OUTPUT, "output_tensor", of_rows=True),
        SameSizes("a_scale_tensor", _OF_A[1:]),
        SameSizes("b_scale_tensor", _OF_B[1:]),
        SameSizes("output_scale_tensor", _OF_OUTPUT[1:]),
        NoSharedAddresses(("output_tensor",)),
    ),
)

SCALES_TO_FLOAT = ("a_scale_tensor", "b_scale_tensor")

_MATRIX_MULTIPLY_INTEGER_TO_FLOAT = OperatorSchema(
    OperatorType.MATRIX_MULTIPLY_INTEGER_TO_FLOAT,
    introduced=FeatureLevel.LEVEL_6_2,
    fields=(
        input_field("a_tensor", TensorSupport(FeatureLevel.LEVEL_6_2, INTEGERS_8_TO_32, 2, 4)),
        input_field("a_scale_tensor", TensorSupport(FeatureLevel.LEVEL_6_2, FLOATS, 1, 4)),
        input_field(
            "a_zero_point_tensor", TensorSupport(FeatureLevel.LEVEL_6_2, INTEGERS_8_TO_32, 1, 4, optional=True)
        ),
        input_field("b_tensor", TensorSupport(FeatureLevel.LEVEL_6_2, INTEGERS_8_TO_32, 2, 4)),
        input_field("b_scale_tensor", TensorSupport(FeatureLevel.LEVEL_6_2, FLOATS, 1, 4)),
        input_field(
            "b_zero_point_tensor", TensorSupport(FeatureLevel.LEVEL_6_2, INTEGERS_8_TO_32, 1, 4, optional=True)
        ),
        input_field("bias_tensor", TensorSupport(FeatureLevel.LEVEL_6_2, FLOATS, 2, 4, optional=True)),
        output_field("output_tensor", TensorSupport(FeatureLevel.LEVEL_6_2, FLOATS, 2, 4)),
    ),
    rules=(
        *_PRODUCT_RULES,
        SameDataType("output_tensor", ("bias_tensor",)),
        ScaleDataType("output_tensor", SCALES_TO_FLOAT),
        LineSizes(_OF_A, "a_tensor", of_rows=True),
        LineSizes(_OF_B, "b_tensor", of_rows=False),
        SameSizes("a_scale_tensor", _OF_A[1:]),
        SameSizes("b_scale_tensor", _OF_B[1:]),
        SameSizes("output_tensor", ("bias_tensor",)),
        NoSharedAddresses(("output_tensor",)),
    ),
)

SCHEMAS: Final = (
    _MATRIX_MULTIPLY_INTEGER,
    _QUANTIZED_LINEAR_MATRIX_MULTIPLY,
    _MATRIX_MULTIPLY_INTEGER_TO_FLOAT,
)
"""One for each operator."""
