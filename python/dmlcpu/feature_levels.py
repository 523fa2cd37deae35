"""The tables: what each operator's desc holds, what every feature level allows of it, and what is refused on purpose.

Sources: for the levels below 6_4 the pages of DirectML's operator descs; for 6_4, and for the relations between
fields, what CreateOperator of DirectML.dll 1.15.4 accepted and refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from dmlcpu.enums import FeatureLevel, OperatorType, TensorDataType
from dmlcpu.rules import (
    ArrayLengths,
    Axis,
    ChannelSizes,
    DataTypeFollows,
    GroupedChannels,
    NoSharedAddresses,
    OneElement,
    OutputSizes,
    PositiveSteps,
    SameDataType,
    SameDimensionCount,
    SameLength,
    SameSizes,
    Window,
    WindowFits,
)
from dmlcpu.schema import Check, DeliberateRefusal, Field, FieldKind, OperatorSchema, TensorSupport

__all__ = ["DELIBERATE_REFUSALS", "OPERATORS"]

_FLOAT32 = (TensorDataType.FLOAT32,)
_FLOATS = (TensorDataType.FLOAT32, TensorDataType.FLOAT16)
_UINT8 = (TensorDataType.UINT8,)
_INT32 = (TensorDataType.INT32,)
_INTEGERS_8 = (TensorDataType.INT8, TensorDataType.UINT8)
_INTEGERS_8_TO_32 = (
    TensorDataType.INT32,
    TensorDataType.INT16,
    TensorDataType.INT8,
    TensorDataType.UINT32,
    TensorDataType.UINT16,
    TensorDataType.UINT8,
)


def _input(name: str, *history: TensorSupport) -> Field:
    return Field(name, FieldKind.INPUT, history)


def _output(name: str, *history: TensorSupport) -> Field:
    return Field(name, FieldKind.OUTPUT, history)


_QUANTIZE_LINEAR = OperatorSchema(
    OperatorType.ELEMENT_WISE_QUANTIZE_LINEAR,
    introduced=FeatureLevel.LEVEL_1_0,
    fields=(
        _input(
            "input_tensor",
            TensorSupport(FeatureLevel.LEVEL_6_0, (*_FLOATS, *_INT32), 1, 8),
            TensorSupport(FeatureLevel.LEVEL_3_0, (*_FLOAT32, *_INT32), 1, 8),
            TensorSupport(FeatureLevel.LEVEL_2_1, (*_FLOAT32, *_INT32), 4, 4),
            TensorSupport(FeatureLevel.LEVEL_1_0, _FLOAT32, 4, 4),
        ),
        _input(
            "scale_tensor",
            TensorSupport(FeatureLevel.LEVEL_6_0, _FLOATS, 1, 8),
            TensorSupport(FeatureLevel.LEVEL_3_0, _FLOAT32, 1, 8),
            TensorSupport(FeatureLevel.LEVEL_1_0, _FLOAT32, 4, 4),
        ),
        _input(
            "zero_point_tensor",
            TensorSupport(FeatureLevel.LEVEL_6_2, _INTEGERS_8, 1, 8, optional=True),
            TensorSupport(FeatureLevel.LEVEL_3_0, _INTEGERS_8, 1, 8),
            TensorSupport(FeatureLevel.LEVEL_2_1, _INTEGERS_8, 4, 4),
            TensorSupport(FeatureLevel.LEVEL_1_0, _UINT8, 4, 4),
        ),
        _output(
            "output_tensor",
            TensorSupport(FeatureLevel.LEVEL_3_0, _INTEGERS_8, 1, 8),
            TensorSupport(FeatureLevel.LEVEL_2_1, _INTEGERS_8, 4, 4),
            TensorSupport(FeatureLevel.LEVEL_1_0, _UINT8, 4, 4),
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
        _input(
            "input_tensor",
            TensorSupport(FeatureLevel.LEVEL_3_0, _INTEGERS_8_TO_32, 1, 8),
            TensorSupport(FeatureLevel.LEVEL_2_1, _INTEGERS_8_TO_32, 4, 4),
            TensorSupport(FeatureLevel.LEVEL_1_0, _UINT8, 4, 4),
        ),
        _input(
            "scale_tensor",
            TensorSupport(FeatureLevel.LEVEL_6_0, _FLOATS, 1, 8),
            TensorSupport(FeatureLevel.LEVEL_3_0, _FLOAT32, 1, 8),
            TensorSupport(FeatureLevel.LEVEL_1_0, _FLOAT32, 4, 4),
        ),
        _input(
            "zero_point_tensor",
            TensorSupport(FeatureLevel.LEVEL_6_2, _INTEGERS_8_TO_32, 1, 8, optional=True),
            TensorSupport(FeatureLevel.LEVEL_3_0, _INTEGERS_8_TO_32, 1, 8),
            TensorSupport(FeatureLevel.LEVEL_2_1, _INTEGERS_8_TO_32, 4, 4),
            TensorSupport(FeatureLevel.LEVEL_1_0, _UINT8, 4, 4),
        ),
        _output(
            "output_tensor",
            TensorSupport(FeatureLevel.LEVEL_6_0, _FLOATS, 1, 8),
            TensorSupport(FeatureLevel.LEVEL_3_0, _FLOAT32, 1, 8),
            TensorSupport(FeatureLevel.LEVEL_1_0, _FLOAT32, 4, 4),
        ),
    ),
    rules=(
        SameDataType("input_tensor", ("zero_point_tensor",)),
        SameDataType("scale_tensor", ("output_tensor",)),
        SameSizes("input_tensor", ("scale_tensor", "zero_point_tensor", "output_tensor")),
        NoSharedAddresses(("output_tensor",)),
    ),
)

_ADD_QUANTIZED = TensorSupport(FeatureLevel.LEVEL_4_0, _INTEGERS_8, 1, 8)
_ADD_SCALE = TensorSupport(FeatureLevel.LEVEL_4_0, _FLOAT32, 1, 8)
_ADD_ZERO_POINT = TensorSupport(FeatureLevel.LEVEL_4_0, _INTEGERS_8, 1, 8, optional=True)
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
        _input("a_tensor", _ADD_QUANTIZED),
        _input("a_scale_tensor", _ADD_SCALE),
        _input("a_zero_point_tensor", _ADD_ZERO_POINT),
        _input("b_tensor", _ADD_QUANTIZED),
        _input("b_scale_tensor", _ADD_SCALE),
        _input("b_zero_point_tensor", _ADD_ZERO_POINT),
        _input("output_scale_tensor", _ADD_SCALE),
        _input("output_zero_point_tensor", _ADD_ZERO_POINT),
        _output("output_tensor", _ADD_QUANTIZED),
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
        _input("input_tensor", TensorSupport(FeatureLevel.LEVEL_4_0, _FLOATS, 1, 8)),
        _output("output_tensor", TensorSupport(FeatureLevel.LEVEL_4_0, _INTEGERS_8, 1, 8)),
        _output("output_scale_tensor", TensorSupport(FeatureLevel.LEVEL_4_0, _FLOAT32, 1, 8)),
        _output("output_zero_point_tensor", TensorSupport(FeatureLevel.LEVEL_4_0, _INTEGERS_8, 1, 8)),
    ),
    rules=(
        SameDataType("output_tensor", ("output_zero_point_tensor",)),
        SameSizes("input_tensor", ("output_tensor",)),
        SameDimensionCount("input_tensor", ("output_scale_tensor", "output_zero_point_tensor")),
        OneElement(("output_scale_tensor", "output_zero_point_tensor")),
        NoSharedAddresses(("output_tensor", "output_scale_tensor", "output_zero_point_tensor")),
    ),
)

_CONVOLUTION_DATA = (
    TensorSupport(FeatureLevel.LEVEL_4_0, _INTEGERS_8, 3, 4),
    TensorSupport(FeatureLevel.LEVEL_2_1, _INTEGERS_8, 4, 4),
)
_CONVOLUTION_SCALE = (
    TensorSupport(FeatureLevel.LEVEL_4_0, _FLOAT32, 1, 4),
    TensorSupport(FeatureLevel.LEVEL_2_1, _FLOAT32, 4, 4),
)
_CONVOLUTION_ZERO_POINT = (
    TensorSupport(FeatureLevel.LEVEL_4_0, _INTEGERS_8, 1, 4, optional=True),
    TensorSupport(FeatureLevel.LEVEL_2_1, _INTEGERS_8, 4, 4, optional=True),
)
_CONVOLUTION_ARRAYS = ("strides", "dilations", "start_padding", "end_padding")
_CONVOLUTION_ATTRIBUTES = (
    *(Field(name, FieldKind.UINT_ARRAY) for name in _CONVOLUTION_ARRAYS),
    Field("group_count", FieldKind.UINT),
)
_CONVOLUTION_WINDOW = Window("input_tensor", "filter_tensor", "output_tensor")
_CONVOLUTION_RULES = (
    ArrayLengths(_CONVOLUTION_ARRAYS, "input_tensor", exact=False),
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
        _input("input_tensor", *_CONVOLUTION_DATA),
        _input("input_scale_tensor", *_CONVOLUTION_SCALE),
        _input("input_zero_point_tensor", *_CONVOLUTION_ZERO_POINT),
        _input("filter_tensor", *_CONVOLUTION_DATA),
        _input(
            "filter_scale_tensor",
            TensorSupport(FeatureLevel.LEVEL_5_2, _FLOAT32, 1, 4),
            TensorSupport(FeatureLevel.LEVEL_4_0, _FLOAT32, 3, 4),
            TensorSupport(FeatureLevel.LEVEL_2_1, _FLOAT32, 4, 4),
        ),
        _input("filter_zero_point_tensor", *_CONVOLUTION_ZERO_POINT),
        _input(
            "bias_tensor",
            TensorSupport(FeatureLevel.LEVEL_4_0, _INT32, 3, 4, optional=True),
            TensorSupport(FeatureLevel.LEVEL_2_1, _INT32, 4, 4, optional=True),
        ),
        _input("output_scale_tensor", *_CONVOLUTION_SCALE),
        _input("output_zero_point_tensor", *_CONVOLUTION_ZERO_POINT),
        _output("output_tensor", *_CONVOLUTION_DATA),
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

OPERATORS: Final[Mapping[OperatorType, OperatorSchema]] = MappingProxyType(
    {
        schema.operator_type: schema
        for schema in (
            _QUANTIZE_LINEAR,
            _DEQUANTIZE_LINEAR,
            _QUANTIZED_LINEAR_ADD,
            _DYNAMIC_QUANTIZE_LINEAR,
            _QUANTIZED_LINEAR_CONVOLUTION,
        )
    }
)
"""The schema of each operator."""

DELIBERATE_REFUSALS: Final = (
    DeliberateRefusal(
        Check.PRESENCE,
        MappingProxyType(
            {
                OperatorType.ELEMENT_WISE_QUANTIZE_LINEAR: ("input_tensor", "scale_tensor"),
                OperatorType.QUANTIZED_LINEAR_CONVOLUTION: _CONVOLUTION_ARRAYS,
            }
        ),
        recorded="CreateOperator faults",
        reason="the operator is not defined without it",
    ),
    DeliberateRefusal(
        Check.STEPS,
        MappingProxyType({OperatorType.QUANTIZED_LINEAR_CONVOLUTION: ("strides", "dilations")}),
        recorded="accepted",
        reason="the size of the output would not be defined",
    ),
    DeliberateRefusal(
        Check.WINDOW,
        MappingProxyType({OperatorType.QUANTIZED_LINEAR_CONVOLUTION: ("filter_tensor",)}),
        recorded="accepted",
        reason="no position of the filter lies inside the padded input",
    ),
    DeliberateRefusal(
        Check.OUTPUT_SIZES,
        MappingProxyType({OperatorType.QUANTIZED_LINEAR_CONVOLUTION: ("output_tensor",)}),
        recorded="accepted",
        reason="elements of the output would lie outside what the input defines, or be left out",
    ),
    DeliberateRefusal(
        Check.OUTPUT_ADDRESSES,
        MappingProxyType(
            {schema.operator_type: tuple(field.name for field in schema.outputs) for schema in OPERATORS.values()}
        ),
        recorded="accepted, unless a stride is 0, two are equal, or the buffer is shorter than the elements",
        reason="the result would depend on the order of writing",
    ),
)
"""Every kind of desc on which DirectML.dll 1.15.4 and this package differ."""
