"""The tables of block-wise quantization."""

from __future__ import annotations

from typing import Final

from dmlcpu.enums import FeatureLevel, OperatorType, QuantizationType
from dmlcpu.feature_levels.columns import FLOATS, INTEGERS_4, INTEGERS_8, input_field, output_field
from dmlcpu.feature_levels.rules.addresses import NoSharedAddresses
from dmlcpu.feature_levels.rules.data_types import SameDataType
from dmlcpu.feature_levels.rules.sizes import DividingSizes, SameDimensionCount, SameSizes
from dmlcpu.feature_levels.rules.values import EntryCount
from dmlcpu.schema import Field, FieldKind, OperatorSchema, TensorSupport

__all__ = ["SCALE", "SCHEMAS", "ZERO_POINT"]

SCALE: Final = "quantization_tensors[0]"
ZERO_POINT: Final = "quantization_tensors[1]"

_CODES = (*INTEGERS_8, *INTEGERS_4)
_FLOAT_TENSOR = TensorSupport(FeatureLevel.LEVEL_6_3, FLOATS, 1, 8)
_CODE_TENSOR = TensorSupport(FeatureLevel.LEVEL_6_3, _CODES, 1, 8)
_PARAMETERS = (
    Field(
        "quantization_type",
        FieldKind.ENUMERATION,
        members=(QuantizationType.SCALE, QuantizationType.SCALE_ZERO_POINT),
    ),
    Field("quantization_tensors", FieldKind.INPUT_ARRAY),
    input_field(SCALE, _FLOAT_TENSOR),
    input_field(ZERO_POINT, TensorSupport(FeatureLevel.LEVEL_6_3, _CODES, 1, 8, optional=True)),
)
_SIZES = (
    EntryCount("quantization_tensors", "quantization_type"),
    SameSizes("input_tensor", ("output_tensor",)),
    SameDimensionCount("input_tensor", (SCALE, ZERO_POINT)),
    DividingSizes("input_tensor", (SCALE,)),
    SameSizes(SCALE, (ZERO_POINT,)),
    NoSharedAddresses(("output_tensor",)),
)

_QUANTIZE = OperatorSchema(
    OperatorType.QUANTIZE,
    introduced=FeatureLevel.LEVEL_6_3,
    fields=(
        input_field("input_tensor", _FLOAT_TENSOR),
        *_PARAMETERS,
        output_field("output_tensor", _CODE_TENSOR),
    ),
    rules=(
        SameDataType("input_tensor", (SCALE,)),
        SameDataType("output_tensor", (ZERO_POINT,)),
        *_SIZES,
    ),
)

_DEQUANTIZE = OperatorSchema(
    OperatorType.DEQUANTIZE,
    introduced=FeatureLevel.LEVEL_6_3,
    fields=(
        input_field("input_tensor", _CODE_TENSOR),
        *_PARAMETERS,
        output_field("output_tensor", _FLOAT_TENSOR),
    ),
    rules=(
        SameDataType("input_tensor", (ZERO_POINT,)),
        SameDataType(SCALE, ("output_tensor",)),
        *_SIZES,
    ),
)

SCHEMAS: Final = (_QUANTIZE, _DEQUANTIZE)
"""One for each operator."""
