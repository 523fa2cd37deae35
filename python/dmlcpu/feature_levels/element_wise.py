"""The tables of the operators that work element by element."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from dmlcpu.enums import FeatureLevel, OperatorType, TensorDataType
from dmlcpu.feature_levels.columns import (
    FLOAT32_ALONE,
    FLOATS,
    INT32_ALONE,
    INTEGERS_8,
    INTEGERS_8_TO_32,
    UINT8_ALONE,
    input_field,
    output_field,
)
from dmlcpu.feature_levels.rules.addresses import NoSharedAddresses
from dmlcpu.feature_levels.rules.data_types import DataTypeFollows, SameDataType
from dmlcpu.feature_levels.rules.sizes import OneElement, SameDimensionCount, SameSizes
from dmlcpu.schema import OperatorSchema, TensorSupport

__all__ = ["SCHEMAS"]

# Of a scale, and of what dequantize gives, which has the scale's data type.
_SCALE = (
    TensorSupport(FeatureLevel.LEVEL_6_0, FLOATS, 1, 8),
    TensorSupport(FeatureLevel.LEVEL_3_0, FLOAT32_ALONE, 1, 8),
    TensorSupport(FeatureLevel.LEVEL_1_0, FLOAT32_ALONE, 4, 4),
)

_QUANTIZE_LINEAR = OperatorSchema(
    OperatorType.ELEMENT_WISE_QUANTIZE_LINEAR,
    introduced=FeatureLevel.LEVEL_1_0,
    fields=(
        input_field(
            "input_tensor",
            TensorSupport(FeatureLevel.LEVEL_6_0, (*FLOATS, *INT32_ALONE), 1, 8),
            TensorSupport(FeatureLevel.LEVEL_3_0, (*FLOAT32_ALONE, *INT32_ALONE), 1, 8),
            TensorSupport(FeatureLevel.LEVEL_2_1, (*FLOAT32_ALONE, *INT32_ALONE), 4, 4),
            TensorSupport(FeatureLevel.LEVEL_1_0, FLOAT32_ALONE, 4, 4),
        ),
        input_field("scale_tensor", *_SCALE),
        input_field(
            "zero_point_tensor",
            TensorSupport(FeatureLevel.LEVEL_6_2, INTEGERS_8, 1, 8, optional=True),
            TensorSupport(FeatureLevel.LEVEL_3_0, INTEGERS_8, 1, 8),
            TensorSupport(FeatureLevel.LEVEL_2_1, INTEGERS_8, 4, 4),
            TensorSupport(FeatureLevel.LEVEL_1_0, UINT8_ALONE, 4, 4),
        ),
        output_field(
            "output_tensor",
            TensorSupport(FeatureLevel.LEVEL_3_0, INTEGERS_8, 1, 8),
            TensorSupport(FeatureLevel.LEVEL_2_1, INTEGERS_8, 4, 4),
            TensorSupport(FeatureLevel.LEVEL_1_0, UINT8_ALONE, 4, 4),
        ),
    ),
    rules=(
        DataTypeFollows(
            "input_tensor",
            "scale_tensor",
            MappingProxyType(
                {
                    TensorDataType.FLOAT32: TensorDataType.FLOAT32,
                    TensorDataType.FLOAT16: TensorDataType.FLOAT16,
                    TensorDataType.INT32: TensorDataType.FLOAT32,
                }
            ),
        ),
        SameDataType("output_tensor", ("zero_point_tensor",)),
        SameSizes("input_tensor", ("scale_tensor", "zero_point_tensor", "output_tensor")),
        NoSharedAddresses(("output_tensor",)),
    ),
)

_DEQUANTIZE_LINEAR = OperatorSchema(
    OperatorType.ELEMENT_WISE_DEQUANTIZE_LINEAR,
    introduced=FeatureLevel.LEVEL_1_0,
    fields=(
        input_field(
            "input_tensor",
            TensorSupport(FeatureLevel.LEVEL_3_0, INTEGERS_8_TO_32, 1, 8),
            TensorSupport(FeatureLevel.LEVEL_2_1, INTEGERS_8_TO_32, 4, 4),
            TensorSupport(FeatureLevel.LEVEL_1_0, UINT8_ALONE, 4, 4),
        ),
        input_field("scale_tensor", *_SCALE),
        input_field(
            "zero_point_tensor",
            TensorSupport(FeatureLevel.LEVEL_6_2, INTEGERS_8_TO_32, 1, 8, optional=True),
            TensorSupport(FeatureLevel.LEVEL_3_0, INTEGERS_8_TO_32, 1, 8),
            TensorSupport(FeatureLevel.LEVEL_2_1, INTEGERS_8_TO_32, 4, 4),
            TensorSupport(FeatureLevel.LEVEL_1_0, UINT8_ALONE, 4, 4),
        ),
        output_field("output_tensor", *_SCALE),
    ),
    rules=(
        SameDataType("input_tensor", ("zero_point_tensor",)),
        SameDataType("scale_tensor", ("output_tensor",)),
        SameSizes("input_tensor", ("scale_tensor", "zero_point_tensor", "output_tensor")),
        NoSharedAddresses(("output_tensor",)),
    ),
)

_ADD_QUANTIZED = TensorSupport(FeatureLevel.LEVEL_4_0, INTEGERS_8, 1, 8)
_ADD_SCALE = TensorSupport(FeatureLevel.LEVEL_4_0, FLOAT32_ALONE, 1, 8)
_ADD_ZERO_POINT = TensorSupport(FeatureLevel.LEVEL_4_0, INTEGERS_8, 1, 8, optional=True)
_ADD_PARAMETERS = (
    "a_scale_tensor",
    "a_zero_point_tensor",
    "b_scale_tensor",
    "b_zero_point_tensor",
    "output_scale_tensor",
    "output_zero_point_tensor",
)

_QUANTIZED_LINEAR_ADD = OperatorSchema(
    OperatorType.ELEMENT_WISE_QUANTIZED_LINEAR_ADD,
    introduced=FeatureLevel.LEVEL_4_0,
    fields=(
        input_field("a_tensor", _ADD_QUANTIZED),
        input_field("a_scale_tensor", _ADD_SCALE),
        input_field("a_zero_point_tensor", _ADD_ZERO_POINT),
        input_field("b_tensor", _ADD_QUANTIZED),
        input_field("b_scale_tensor", _ADD_SCALE),
        input_field("b_zero_point_tensor", _ADD_ZERO_POINT),
        input_field("output_scale_tensor", _ADD_SCALE),
        input_field("output_zero_point_tensor", _ADD_ZERO_POINT),
        output_field("output_tensor", _ADD_QUANTIZED),
    ),
    rules=(
        SameDataType("a_tensor", ("a_zero_point_tensor",)),
        SameDataType("b_tensor", ("b_zero_point_tensor",)),
        SameDataType("output_tensor", ("output_zero_point_tensor",)),
        SameSizes("a_tensor", ("b_tensor", "output_tensor")),
        SameDimensionCount("a_tensor", _ADD_PARAMETERS),
        OneElement(_ADD_PARAMETERS),
        NoSharedAddresses(("output_tensor",)),
    ),
)

_DYNAMIC_QUANTIZE_LINEAR = OperatorSchema(
    OperatorType.DYNAMIC_QUANTIZE_LINEAR,
    introduced=FeatureLevel.LEVEL_4_0,
    fields=(
        input_field("input_tensor", TensorSupport(FeatureLevel.LEVEL_4_0, FLOATS, 1, 8)),
        output_field("output_tensor", TensorSupport(FeatureLevel.LEVEL_4_0, INTEGERS_8, 1, 8)),
        output_field("output_scale_tensor", TensorSupport(FeatureLevel.LEVEL_4_0, FLOAT32_ALONE, 1, 8)),
        output_field("output_zero_point_tensor", TensorSupport(FeatureLevel.LEVEL_4_0, INTEGERS_8, 1, 8)),
    ),
    rules=(
        SameDataType("output_tensor", ("output_zero_point_tensor",)),
        SameSizes("input_tensor", ("output_tensor",)),
        SameDimensionCount("input_tensor", ("output_scale_tensor", "output_zero_point_tensor")),
        OneElement(("output_scale_tensor", "output_zero_point_tensor")),
        NoSharedAddresses(("output_tensor", "output_scale_tensor", "output_zero_point_tensor")),
    ),
)

SCHEMAS: Final = (_QUANTIZE_LINEAR, _DEQUANTIZE_LINEAR, _QUANTIZED_LINEAR_ADD, _DYNAMIC_QUANTIZE_LINEAR)
"""One for each operator."""
