"""The tables of pooling."""

from __future__ import annotations

from typing import Final

from dmlcpu.enums import FeatureLevel, OperatorType
from dmlcpu.feature_levels.columns import FLOAT32_ALONE, INTEGERS_8, input_field, output_field
from dmlcpu.feature_levels.rules.addresses import NoSharedAddresses
from dmlcpu.feature_levels.rules.channels import ChannelParameters
from dmlcpu.feature_levels.rules.data_types import SameDataType
from dmlcpu.feature_levels.rules.sizes import Axis, SameDimensionCount, SameLength, SameSizes
from dmlcpu.feature_levels.rules.values import Boolean
from dmlcpu.feature_levels.rules.windows import ArrayLengths, OutputSizes, PositiveSteps, Window, WindowFits
from dmlcpu.schema import Field, FieldKind, OperatorSchema, TensorSupport

__all__ = ["POOLING_ARRAYS", "POOLING_PARAMETERS", "SCHEMAS"]

_POOLING_DATA = TensorSupport(FeatureLevel.LEVEL_6_2, INTEGERS_8, 4, 5)
_POOLING_SCALE = TensorSupport(FeatureLevel.LEVEL_6_2, FLOAT32_ALONE, 1, 5)
_POOLING_ZERO_POINT = TensorSupport(FeatureLevel.LEVEL_6_2, INTEGERS_8, 1, 5, optional=True)
POOLING_PARAMETERS = (
    "input_scale_tensor",
    "input_zero_point_tensor",
    "output_scale_tensor",
    "output_zero_point_tensor",
)
POOLING_ARRAYS = ("strides", "window_size", "start_padding", "end_padding", "dilations")
_POOLING_WINDOW = Window("input_tensor", "window_size", "output_tensor")

_QUANTIZED_LINEAR_AVERAGE_POOLING = OperatorSchema(
    OperatorType.QUANTIZED_LINEAR_AVERAGE_POOLING,
    introduced=FeatureLevel.LEVEL_6_2,
    fields=(
        input_field("input_tensor", _POOLING_DATA),
        input_field("input_scale_tensor", _POOLING_SCALE),
        input_field("input_zero_point_tensor", _POOLING_ZERO_POINT),
        input_field("output_scale_tensor", _POOLING_SCALE),
        input_field("output_zero_point_tensor", _POOLING_ZERO_POINT),
        output_field("output_tensor", _POOLING_DATA),
        *(Field(name, FieldKind.UINT_ARRAY) for name in POOLING_ARRAYS),
        Field("include_padding", FieldKind.BOOLEAN),
    ),
    rules=(
        ArrayLengths(POOLING_ARRAYS, "input_tensor", exact=True),
        SameDataType("input_tensor", ("input_zero_point_tensor", "output_zero_point_tensor", "output_tensor")),
        SameDimensionCount("input_tensor", ("output_tensor",)),
        SameLength(Axis("input_tensor", 0), Axis("output_tensor", 0)),
        SameLength(Axis("input_tensor", 1), Axis("output_tensor", 1)),
        SameSizes("input_scale_tensor", ("input_zero_point_tensor",)),
        SameSizes("output_scale_tensor", ("output_zero_point_tensor",)),
        ChannelParameters(POOLING_PARAMETERS, "input_tensor"),
        Boolean(("include_padding",)),
        PositiveSteps(("strides", "window_size", "dilations"), "input_tensor"),
        WindowFits(_POOLING_WINDOW),
        OutputSizes(_POOLING_WINDOW),
        NoSharedAddresses(("output_tensor",)),
    ),
)

SCHEMAS: Final = (_QUANTIZED_LINEAR_AVERAGE_POOLING,)
"""One for each operator."""
