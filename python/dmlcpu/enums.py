"""DirectML's enumerations, with DirectML's numeric values and without its prefixes."""

from __future__ import annotations

from enum import IntEnum, IntFlag

__all__ = [
    "ExecutionFlags",
    "FeatureLevel",
    "OperatorType",
    "QuantizationType",
    "TensorDataType",
    "TensorFlags",
]


class TensorDataType(IntEnum):
    """The type of one element of a tensor (``DML_TENSOR_DATA_TYPE``).

    >>> TensorDataType(5)
    <TensorDataType.UINT8: 5>
    >>> TensorDataType["INT4"].value
    13
    """

    UNKNOWN = 0
    FLOAT32 = 1
    FLOAT16 = 2
    UINT32 = 3
    UINT16 = 4
    UINT8 = 5
    INT32 = 6
    INT16 = 7
    INT8 = 8
    FLOAT64 = 9
    UINT64 = 10
    INT64 = 11
    UINT4 = 12
    INT4 = 13


class TensorFlags(IntFlag):
    """Who owns the contents of a tensor (``DML_TENSOR_FLAGS``).

    ``OWNED_BY_DML`` is for inputs only: the tensor is bound once, at ``initialize``, and copied.
    """

    NONE = 0
    OWNED_BY_DML = 1


class OperatorType(IntEnum):
    """The quantized operators (``DML_OPERATOR_TYPE``)."""

    ELEMENT_WISE_QUANTIZE_LINEAR = 33
    ELEMENT_WISE_DEQUANTIZE_LINEAR = 34
    MATRIX_MULTIPLY_INTEGER = 117
    QUANTIZED_LINEAR_MATRIX_MULTIPLY = 118
    CONVOLUTION_INTEGER = 119
    QUANTIZED_LINEAR_CONVOLUTION = 120
    ELEMENT_WISE_QUANTIZED_LINEAR_ADD = 147
    DYNAMIC_QUANTIZE_LINEAR = 148
    QUANTIZED_LINEAR_AVERAGE_POOLING = 169
    MATRIX_MULTIPLY_INTEGER_TO_FLOAT = 170
    QUANTIZE = 173
    DEQUANTIZE = 174


class FeatureLevel(IntEnum):
    """A generation of the DirectML API (``DML_FEATURE_LEVEL``); each accepts all that the lower ones accept.

    >>> FeatureLevel.LEVEL_5_2 < FeatureLevel.LEVEL_6_0
    True
    >>> hex(max(FeatureLevel))
    '0x6400'
    """

    LEVEL_1_0 = 0x1000
    LEVEL_2_0 = 0x2000
    LEVEL_2_1 = 0x2100
    LEVEL_3_0 = 0x3000
    LEVEL_3_1 = 0x3100
    LEVEL_4_0 = 0x4000
    LEVEL_4_1 = 0x4100
    LEVEL_5_0 = 0x5000
    LEVEL_5_1 = 0x5100
    LEVEL_5_2 = 0x5200
    LEVEL_6_0 = 0x6000
    LEVEL_6_1 = 0x6100
    LEVEL_6_2 = 0x6200
    LEVEL_6_3 = 0x6300
    LEVEL_6_4 = 0x6400


class ExecutionFlags(IntFlag):
    """How a compiled operator may run (``DML_EXECUTION_FLAGS``); no flag changes a result here."""

    NONE = 0
    ALLOW_HALF_PRECISION_COMPUTATION = 1
    DISABLE_META_COMMANDS = 2
    DESCRIPTORS_VOLATILE = 4


class QuantizationType(IntEnum):
    """Which parameters QUANTIZE and DEQUANTIZE take (``DML_QUANTIZATION_TYPE``)."""

    NONE = 0
    SCALE = 1
    SCALE_ZERO_POINT = 2
