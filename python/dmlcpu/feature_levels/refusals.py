"""What DirectML.dll accepts and this package refuses."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from dmlcpu.enums import OperatorType
from dmlcpu.feature_levels.convolution import CONVOLUTION_ARRAYS
from dmlcpu.feature_levels.matrix_multiply import SCALES_TO_FLOAT
from dmlcpu.feature_levels.operators import OPERATORS
from dmlcpu.feature_levels.pooling import POOLING_ARRAYS, POOLING_PARAMETERS
from dmlcpu.feature_levels.quantization import SCALE, ZERO_POINT
from dmlcpu.schema import Check, DeliberateRefusal

__all__ = ["DELIBERATE_REFUSALS"]

_CONVOLUTIONS = (OperatorType.QUANTIZED_LINEAR_CONVOLUTION, OperatorType.CONVOLUTION_INTEGER)
_POOLING = OperatorType.QUANTIZED_LINEAR_AVERAGE_POOLING
_BLOCKWISE = (OperatorType.QUANTIZE, OperatorType.DEQUANTIZE)

DELIBERATE_REFUSALS: Final = (
    DeliberateRefusal(
        Check.PRESENCE,
        MappingProxyType(
            {
                OperatorType.ELEMENT_WISE_QUANTIZE_LINEAR: ("input_tensor", "scale_tensor"),
                OperatorType.QUANTIZED_LINEAR_CONVOLUTION: CONVOLUTION_ARRAYS,
                OperatorType.CONVOLUTION_INTEGER: CONVOLUTION_ARRAYS,
                _POOLING: POOLING_ARRAYS,
                **dict.fromkeys(_BLOCKWISE, ("input_tensor",)),
            }
        ),
        recorded="CreateOperator faults",
        reason="the operator is not defined without it",
    ),
    DeliberateRefusal(
        Check.DIMENSION_COUNT,
        MappingProxyType(dict.fromkeys(_BLOCKWISE, (SCALE, ZERO_POINT))),
        recorded="CreateOperator faults, if there are more dimensions than the input has",
        reason="each axis of a parameter cuts the same axis of the input into blocks",
    ),
    DeliberateRefusal(
        Check.FORM,
        MappingProxyType(dict.fromkeys(_BLOCKWISE, (SCALE, ZERO_POINT))),
        recorded="CreateOperator faults, if a size is 0",
        reason="there would be no parameter for any block",
    ),
    DeliberateRefusal(
        Check.PARAMETER_SIZES,
        MappingProxyType({_POOLING: POOLING_PARAMETERS}),
        recorded="accepted; CompileOperator fails",
        reason="its elements would belong to no channel",
    ),
    DeliberateRefusal(
        Check.BOOLEAN,
        MappingProxyType({_POOLING: ("include_padding",)}),
        recorded="accepted",
        reason="a boolean has no other values",
    ),
    DeliberateRefusal(
        Check.STEPS,
        MappingProxyType(
            {
                **dict.fromkeys(_CONVOLUTIONS, ("strides", "dilations")),
                _POOLING: ("strides", "window_size", "dilations"),
            }
        ),
        recorded="accepted",
        reason="the size of the output would not be defined",
    ),
    DeliberateRefusal(
        Check.WINDOW,
        MappingProxyType(
            {
                **dict.fromkeys(_CONVOLUTIONS, ("filter_tensor",)),
                _POOLING: ("window_size",),
            }
        ),
        recorded="accepted",
        reason="no position of the window lies inside the padded input",
    ),
    DeliberateRefusal(
        Check.OUTPUT_SIZES,
        MappingProxyType(dict.fromkeys((*_CONVOLUTIONS, _POOLING), ("output_tensor",))),
        recorded="accepted",
        reason="elements of the output would lie outside what the input defines, or be left out",
    ),
    DeliberateRefusal(
        Check.SCALE_DATA_TYPE,
        MappingProxyType({OperatorType.MATRIX_MULTIPLY_INTEGER_TO_FLOAT: SCALES_TO_FLOAT}),
        recorded="accepted, but not compiled or not computed by any formula",
        reason="the result is not defined",
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
