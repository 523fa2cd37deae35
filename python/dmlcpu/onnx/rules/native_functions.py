"""The functions that native operators take by number, in the attribute ``function``."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["FloatBinary", "FloatUnary", "IntegerBinary", "Logical", "Pooling"]


class FloatBinary(IntEnum):
    """ELEMENT_WISE_BINARY's of floats: C++'s FloatBinary."""

    ADD = 0
    SUBTRACT = 1
    MULTIPLY = 2
    DIVIDE = 3
    MAXIMUM = 4
    MINIMUM = 5


class IntegerBinary(IntEnum):
    """ELEMENT_WISE_BINARY's of integers: C++'s IntegerBinary."""

    ADD = 0
    SUBTRACT = 1
    MULTIPLY = 2
    DIVIDE = 3
    MAXIMUM = 4
    MINIMUM = 5
    REMAINDER = 6
    MODULUS = 7
    BITWISE_AND = 8
    BITWISE_OR = 9
    BITWISE_XOR = 10


class FloatUnary(IntEnum):
    """ELEMENT_WISE_UNARY's: C++'s FloatUnary."""

    RELU = 0
    SIGMOID = 1
    TANH = 2
    EXPONENTIAL = 3
    SQUARE_ROOT = 4
    RECIPROCAL = 5
    ERROR_FUNCTION = 6
    HARD_SIGMOID = 7
    CLIP = 8
    LEAKY_RELU = 9
    IDENTITY = 10
    NEGATE = 11
    GELU = 12
    LOGARITHM = 13
    GATED = 14
    TANH_GELU = 15
    FLOOR = 16
    CEIL = 17
    ROUND = 18
    SINE = 19
    COSINE = 20
    QUANTIZED_TO_16_BITS = 21
    QUANTIZED_TO_FLOAT8_E4M3 = 22
    QUANTIZED_TO_FLOAT8_E5M2 = 23
    ABSOLUTE = 24
    SOFTSIGN = 25
    SOFTPLUS = 26
    MISH = 27
    ELU = 28
    HARD_SWISH = 29
    ARCTANGENT = 30
    ARCSINE = 31
    ARCCOSINE = 32
    HYPERBOLIC_SINE = 33
    HYPERBOLIC_COSINE = 34
    SIGN = 35
    CUBE = 36
    RECIPROCAL_SQUARE_ROOT = 37


class Logical(IntEnum):
    """ELEMENT_WISE_LOGICAL's; the last three are of conditions."""

    EQUALS = 0
    NOT_EQUALS = 1
    GREATER_THAN = 2
    GREATER_THAN_OR_EQUAL = 3
    LESS_THAN = 4
    LESS_THAN_OR_EQUAL = 5
    AND = 6
    OR = 7
    XOR = 8


class Pooling(IntEnum):
    """FLOAT_POOLING's."""

    AVERAGES = 0
    MAXIMA = 1
    MINIMA = 2
    SUMS = 3
