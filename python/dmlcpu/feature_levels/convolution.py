"""The tables of the convolutions."""

from __future__ import annotations

from typing import Final

from dmlcpu.enums import FeatureLevel, OperatorType
from dmlcpu.feature_levels.columns import FLOAT32_ALONE, INT32_ALONE, INTEGERS_8, input_field, output_field
from dmlcpu.feature_levels.rules.addresses import NoSharedAddresses
from dmlcpu.feature_levels.rules.channels import ChannelSizes, GroupedChannels
from dmlcpu.feature_levels.rules.data_types import SameDataType
from dmlcpu.feature_levels.rules.sizes import Axis, OneElement, SameDimensionCount, SameLength, SameSizes
from dmlcpu.feature_levels.rules.windows import ArrayLengths, OutputSizes, PositiveSteps, Window, WindowFits
from dmlcpu.schema import Field, FieldKind, OperatorSchema, TensorSupport

__all__ = ["CONVOLUTION_ARRAYS", "SCHEMAS"]

_CONVOLUTION_DATA = (
    TensorSupport(FeatureLevel.LEVEL_4_0, INTEGERS_8, 3, 4),
    TensorSupport(FeatureLevel.LEVEL_2_1, INTEGERS_8, 4, 4),
)
_CONVOLUTION_SCALE = (
    TensorSupport(FeatureLevel.LEVEL_4_0, FLOAT32_ALONE, 1, 4),
    TensorSupport(FeatureLevel.LEVEL_2_1, FLOAT32_ALONE, 4, 4),
)
_CONVOLUTION_ZERO_POINT = (
    TensorSupport(FeatureLevel.LEVEL_4_0, INTEGERS_8, 1, 4, optional=True),
    TensorSupport(FeatureLevel.LEVEL_2_1, INTEGERS_8, 4, 4, optional=True),
)
CONVOLUTION_ARRAYS = ("strides", "dilations", "start_padding", "end_padding")
_CONVOLUTION_ATTRIBUTES = (
    *(Field(name, FieldKind.UINT_ARRAY) for name in CONVOLUTION_ARRAYS),
    Field("group_count", FieldKind.UINT),
)
_CONVOLUTION_WINDOW = Window("input_tensor", "filter_tensor", "output_tensor")
_CONVOLUTION_RULES = (
    ArrayLengths(CONVOLUTION_ARRAYS, "input_tensor", exact=False),
    SameDimensionCount("input_tensor", ("filter_tensor", "output_tensor")),
    SameLength(Axis("input_tensor", 0), Axis("output_tensor", 0)),
    SameLength(Axis("filter_tensor", 0), Axis("output_tensor", 1)),
    GroupedChannels(Axis("input_tensor", 1), Axis("filter_tensor", 1), Axis("output_tensor", 1), "group_count"),
    SameDataType("input_tensor", ("input_zero_point_tensor",)),
    SameDataType("filter_tensor", ("filter_zero_point_tensor",)),
)
_CONVOLUTION_REFUSALS = (
    PositiveSteps(("strides", "dilations"), "input_tensor"),
    WindowFits(_CONVOLUTION_WINDOW),
    OutputSizes(_CONVOLUTION_WINDOW),
    NoSharedAddresses(("output_tensor",)),
)

_QUANTIZED_LINEAR_CONVOLUTION = OperatorSchema(
    OperatorType.QUANTIZED_LINEAR_CONVOLUTION,
    introduced=FeatureLevel.LEVEL_2_1,
    fields=(
        input_field("input_tensor", *_CONVOLUTION_DATA),
        input_field("input_scale_tensor", *_CONVOLUTION_SCALE),
        input_field("input_zero_point_tensor", *_CONVOLUTION_ZERO_POINT),
        input_field("filter_tensor", *_CONVOLUTION_DATA),
        input_field(
            "filter_scale_tensor",
            TensorSupport(FeatureLevel.LEVEL_5_2, FLOAT32_ALONE, 1, 4),
            TensorSupport(FeatureLevel.LEVEL_4_0, FLOAT32_ALONE, 3, 4),
            TensorSupport(FeatureLevel.LEVEL_2_1, FLOAT32_ALONE, 4, 4),
        ),
        input_field("filter_zero_point_tensor", *_CONVOLUTION_ZERO_POINT),
        input_field(
            "bias_tensor",
            TensorSupport(FeatureLevel.LEVEL_4_0, INT32_ALONE, 3, 4, optional=True),
            TensorSupport(FeatureLevel.LEVEL_2_1, INT32_ALONE, 4, 4, optional=True),
        ),
        input_field("output_scale_tensor", *_CONVOLUTION_SCALE),
        input_field("output_zero_point_tensor", *_CONVOLUTION_ZERO_POINT),
        output_field("output_tensor", *_CONVOLUTION_DATA),
        *_CONVOLUTION_ATTRIBUTES,
    ),
    rules=(
        *_CONVOLUTION_RULES,
        SameDataType("output_tensor", ("output_zero_point_tensor",)),
        OneElement(
            ("input_scale_tensor", "input_zero_point_tensor", "output_scale_tensor", "output_zero_point_tensor")
        ),
        ChannelSizes(
            ("filter_scale_tensor", "filter_zero_point_tensor"), Axis("output_tensor", 1), or_one_element=True
        ),
        ChannelSizes(("bias_tensor",), Axis("output_tensor", 1), or_one_element=False),
        SameSizes("input_scale_tensor", ("input_zero_point_tensor",)),
        SameSizes("filter_scale_tensor", ("filter_zero_point_tensor",)),
        SameSizes("output_scale_tensor", ("output_zero_point_tensor",)),
        *_CONVOLUTION_REFUSALS,
    ),
)

_CONVOLUTION_INTEGER = OperatorSchema(
    OperatorType.CONVOLUTION_INTEGER,
    introduced=FeatureLevel.LEVEL_2_1,
    fields=(
        input_field("input_tensor", *_CONVOLUTION_DATA),
        input_field("input_zero_point_tensor", *_CONVOLUTION_ZERO_POINT),
        input_field("filter_tensor", *_CONVOLUTION_DATA),
        input_field("filter_zero_point_tensor", *_CONVOLUTION_ZERO_POINT),
        output_field(
            "output_tensor",
            TensorSupport(FeatureLevel.LEVEL_4_0, INT32_ALONE, 3, 4),
            TensorSupport(FeatureLevel.LEVEL_2_1, INT32_ALONE, 4, 4),
        ),
        *_CONVOLUTION_ATTRIBUTES,
    ),
    rules=(
        *_CONVOLUTION_RULES,
        OneElement(("input_zero_point_tensor",)),
        ChannelSizes(("filter_zero_point_tensor",), Axis("output_tensor", 1), or_one_element=True),
        *_CONVOLUTION_REFUSALS,
    ),
)

SCHEMAS: Final = (_QUANTIZED_LINEAR_CONVOLUTION, _CONVOLUTION_INTEGER)
"""One for each operator."""
