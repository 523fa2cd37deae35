"""Element-wise float32 functions: the transcendental ones as fixed sequences of operations, each rounded once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from reference.arithmetic import FloatArray, fused_multiply_add

__all__ = [
    "BINARY",
    "UNARY",
    "arccosine",
    "arcsine",
    "arctangent",
    "cosine",
    "error_function",
    "exponential",
    "hyperbolic_cosine",
    "hyperbolic_sine",
    "hyperbolic_tangent",
    "logarithm",
    "logistic",
    "sine",
]

# Adding it and taking it away rounds a float below 2^22 to an integer, half to even.
ROUND_TO_INTEGER = np.float32(1.5 * 2**23)

LOG2_E = float.fromhex("0x1.715476p+0")
# log(2) in two parts; the first ends in zeros, so that its products with the integers of +-150 are exact.
LOG_2_HIGH, LOG_2_LOW = float.fromhex("0x1.62e4p-1"), float.fromhex("0x1.7f7d1cp-20")
EXPONENTIAL = ("0x1.6a3fb6p-10", "0x1.1239ep-7", "0x1.5558bep-5", "0x1.555492p-3", "0x1.fffffcp-2", "0x1p0", "0x1p0")

TANGENT_SPLIT = np.float32(0.625)
TANGENT = ("-0x1.752ea6p-8", "0x1.51fe82p-6", "-0x1.b83636p-5", "0x1.1106f8p-3", "-0x1.555532p-2")

ERROR_SPLIT, ERROR_IS_ONE = np.float32(0.9375), np.float32(4)
ERROR_NEAR_0 = (
    "-0x1.36ad44p-11",
    "0x1.466ba6p-8",
    "-0x1.b669c2p-6",
    "0x1.ce1858p-4",
    "-0x1.8126dcp-2",
    "0x1.06eba6p-3",
)
ERROR_FAR = (
    *("0x1.967436p-13", "-0x1.8c2a18p-9", "0x1.6ad222p-6", "-0x1.a902c6p-4"),
    *("-0x1.4655d8p-1", "-0x1.20a7f4p+0", "-0x1.d338fep-13"),
)

# The bits of the float32 nearest sqrt(1/2).
ROOT_OF_HALF = 0x3F3504F3
LOGARITHM = (
    *("-0x1.38b576p-4", "0x1.055b7p-3", "-0x1.0d8546p-3", "0x1.22da1cp-3"),
    *("-0x1.547244p-3", "0x1.99a008p-3", "-0x1.000226p-2", "0x1.555554p-2"),
)

# From here on angles are reduced by integers.
FAR = np.float32(2**17)
# pi / 2 in three parts, and 2 / pi.
RIGHT_ANGLE = tuple(float.fromhex(text) for text in ("0x1.921fb6p+0", "-0x1.777a5cp-25", "-0x1.ee59dap-50"))
TURNS = np.float32(float.fromhex("0x1.45f306p-1"))
SINE = ("-0x1.994e42p-13", "0x1.11076p-7", "-0x1.555546p-3")
ARCTANGENT = (
    *("-0x1.d62dbap-10", "0x1.65a52p-7", "-0x1.fed038p-6", "0x1.dac94ep-5", "-0x1.583464p-4"),
    *("0x1.c099eep-4", "-0x1.2421b4p-3", "0x1.9991fep-3", "-0x1.55553ep-2"),
)
ARCSINE = ("0x1.59dadp-5", "0x1.8ba25p-6", "0x1.748c66p-5", "0x1.33014ep-4", "0x1.5555cap-3")
HYPERBOLIC_SINE = ("0x1.7a267ep-19", "0x1.9ffe12p-13", "0x1.111136p-7", "0x1.555556p-3")
COSINE = ("0x1.9a01f4p-16", "-0x1.6c0c8ap-10", "0x1.55554ap-5")


def polynomial(x: FloatArray, coefficients: tuple[str, ...]) -> FloatArray:
    """Horner's rule, highest power first, every step one fused operation."""
    numbers = [np.float32(float.fromhex(text)) for text in coefficients]
    result = np.full_like(x, numbers[0])
    for number in numbers[1:]:
        result = fused_multiply_add(result, x, number)
    return result


@np.errstate(all="ignore")
def exponential(x: FloatArray) -> FloatArray:
    bounded = np.where(x < -104, np.float32(-104), np.where(x > 89, np.float32(89), x))
    whole = fused_multiply_add(bounded, np.float32(LOG2_E), ROUND_TO_INTEGER) - ROUND_TO_INTEGER
    rest = fused_multiply_add(whole, np.float32(-LOG_2_HIGH), bounded)
    rest = fused_multiply_add(whole, np.float32(-LOG_2_LOW), rest)
    # Exact in float64, so the conversion is the only rounding.
    return (polynomial(rest, EXPONENTIAL) * np.exp2(whole.astype(np.float64))).astype(np.float32)


@np.errstate(all="ignore")
def logistic(x: FloatArray) -> FloatArray:
    power = exponential(-np.abs(x))
    return np.where(x < 0, power, np.float32(1)) / (np.float32(1) + power)


@np.errstate(all="ignore")
def hyperbolic_tangent(x: FloatArray) -> FloatArray:
    size, square = np.abs(x), x * x
    near_0 = fused_multiply_add(size * square, polynomial(square, TANGENT), size)
    far = np.float32(1) - np.float32(2) / (exponential(size + size) + np.float32(1))
    return np.copysign(np.where(size < TANGENT_SPLIT, near_0, far), x)


def halved_exponential(x: FloatArray) -> FloatArray:
    """Half of the exponential of what is at least 0, as if float32 had one exponent more."""
    bounded = np.where(x > np.float32(89.5), np.float32(89.5), x)
    whole = fused_multiply_add(bounded, np.float32(LOG2_E), ROUND_TO_INTEGER) - ROUND_TO_INTEGER
    rest = fused_multiply_add(whole, np.float32(-LOG_2_HIGH), bounded)
    rest = fused_multiply_add(whole, np.float32(-LOG_2_LOW), rest)
    return (polynomial(rest, EXPONENTIAL) * np.exp2(whole.astype(np.float64) - 1)).astype(np.float32)


@np.errstate(all="ignore")
def hyperbolic_sine(x: FloatArray) -> FloatArray:
    size, square = np.abs(x), x * x
    near_0 = fused_multiply_add(size * square, polynomial(square, HYPERBOLIC_SINE), size)
    half = halved_exponential(size)
    return np.copysign(np.where(size < 1, near_0, half - np.float32(0.25) / half), x)


@np.errstate(all="ignore")
def hyperbolic_cosine(x: FloatArray) -> FloatArray:
    half = halved_exponential(np.abs(x))
    return half + np.float32(0.25) / half


@np.errstate(all="ignore")
def error_function(x: FloatArray) -> FloatArray:
    size, square = np.abs(x), x * x
    near_0 = fused_multiply_add(polynomial(square, ERROR_NEAR_0), size, size)
    far = np.float32(1) - exponential(polynomial(np.where(size > ERROR_IS_ONE, ERROR_IS_ONE, size), ERROR_FAR))
    return np.copysign(np.where(size < ERROR_SPLIT, near_0, far), x)


@np.errstate(all="ignore")
def logarithm(x: FloatArray) -> FloatArray:
    scaled = np.where(x < np.float32(2.0**-126), x * np.float32(2.0**23), x)
    whole = (scaled.view(np.int32) - np.int32(ROOT_OF_HALF)) >> 23
    rest = (scaled.view(np.int32) - (whole << 23)).view(np.float32) - np.float32(1)
    exponent = whole.astype(np.float32) - np.where(x < np.float32(2.0**-126), np.float32(23), np.float32(0))
    square = rest * rest
    result = fused_multiply_add(exponent, np.float32(LOG_2_LOW), rest * square * polynomial(rest, LOGARITHM))
    result = rest + fused_multiply_add(square, np.float32(-0.5), result)
    result = fused_multiply_add(exponent, np.float32(LOG_2_HIGH), result)
    result = np.where(x > 0, np.where(x < np.inf, result, x), np.where(x == 0, -np.float32(np.inf), np.float32(np.nan)))
    return result.astype(np.float32)


def inverse_arctangent(number: int, scale: int) -> int:
    """arctan(1 / number) in units of 1 / scale, rounded down term by term."""
    total, power, divisor = 0, scale // number, 1
    while power:
        total += power // divisor * (1 if divisor % 4 == 1 else -1)
        power, divisor = power // number**2, divisor + 2
    return total


# 2 / pi by Machin's formula, its first 224 bits.
TURN_BITS = (2 << 600) // (4 * (4 * inverse_arctangent(5, 1 << 376) - inverse_arctangent(239, 1 << 376)))


def turned_far(size: float) -> tuple[np.float32, np.float32]:
    """The angle and the quarter turns modulo 4 of a large number, of 96 bits of 2 / pi."""
    bits = int(np.float32(size).view(np.uint32))
    significand, place = bits & 0x7FFFFF | 0x800000, (bits >> 23) - 120
    turned = significand * (TURN_BITS >> (160 - place) & (1 << 96) - 1) >> 32 & (1 << 64) - 1
    nearest = (turned + (1 << 61) & (1 << 64) - 1) >> 62
    rest = turned - (nearest << 62)
    rest -= (1 << 64) if rest >= 1 << 63 else 0
    return np.float32(float(rest) * float.fromhex("0x1.921fb54442d18p-62")), np.float32(nearest)


@np.errstate(all="ignore")
def turned(size: FloatArray) -> tuple[FloatArray, FloatArray]:
    whole = fused_multiply_add(size, TURNS, ROUND_TO_INTEGER) - ROUND_TO_INTEGER
    angle = size
    for part in RIGHT_ANGLE:
        angle = fused_multiply_add(whole, np.float32(-part), angle)
    quarters = whole - np.float32(4) * np.floor(whole * np.float32(0.25))
    for index in np.argwhere((size >= FAR) & (size < np.inf)):
        angle[tuple(index)], quarters[tuple(index)] = turned_far(size[tuple(index)])
    return angle, quarters


@np.errstate(all="ignore")
def sine_after(angle: FloatArray, quarters: FloatArray) -> FloatArray:
    square = angle * angle
    sines = fused_multiply_add(angle * square, polynomial(square, SINE), angle)
    near_1 = fused_multiply_add(square, np.float32(-0.5), np.float32(1))
    cosines = fused_multiply_add(square * square, polynomial(square, COSINE), near_1)
    values = np.where(np.isin(quarters, (1, 3)), cosines, sines)
    return np.where(np.isin(quarters, (2, 3)), -values, values)


def sine(x: FloatArray) -> FloatArray:
    return np.copysign(np.float32(1), x) * sine_after(*turned(np.abs(x)))


def cosine(x: FloatArray) -> FloatArray:
    angle, quarters = turned(np.abs(x))
    return sine_after(angle, (quarters + np.float32(1)) % np.float32(4))


def taken_from(right_angles: int, angle: FloatArray) -> FloatArray:
    """So many right angles, of which each has two parts, less an angle."""
    count = np.float32(right_angles)
    return count * np.float32(RIGHT_ANGLE[0]) - (angle - count * np.float32(RIGHT_ANGLE[1]))


@np.errstate(all="ignore")
def arctangent(x: FloatArray) -> FloatArray:
    size = np.abs(x)
    quotient = np.where(size > 1, np.float32(1) / size, size)
    square = quotient * quotient
    angle = fused_multiply_add(quotient * square, polynomial(square, ARCTANGENT), quotient)
    return np.copysign(np.where(size > 1, taken_from(1, angle), angle), x)


def small_arcsine(root: FloatArray, square: FloatArray) -> FloatArray:
    return fused_multiply_add(root * square, polynomial(square, ARCSINE), root)


@np.errstate(all="ignore")
def arcsine(x: FloatArray) -> FloatArray:
    size = np.abs(x)
    rest = (np.float32(1) - size) * np.float32(0.5)
    twice = np.float32(2) * np.sqrt(rest)
    less = fused_multiply_add(-twice * rest, polynomial(rest, ARCSINE), np.float32(RIGHT_ANGLE[1]))
    nearly = np.float32(RIGHT_ANGLE[0]) - twice
    far = nearly + (less + (np.float32(RIGHT_ANGLE[0]) - nearly - twice))
    return np.copysign(np.where(size < 0.5, small_arcsine(size, size * size), far), x)


@np.errstate(all="ignore")
def arccosine(x: FloatArray) -> FloatArray:
    rest = (np.float32(1) - np.abs(x)) * np.float32(0.5)
    far = np.float32(2) * small_arcsine(np.sqrt(rest), rest)
    near_0 = taken_from(1, small_arcsine(x, x * x))
    return np.where(np.abs(x) < 0.5, near_0, np.where(x < 0, taken_from(2, far), far))


def clip(x: FloatArray, lowest: FloatArray, highest: FloatArray) -> FloatArray:
    raised = np.where(x < lowest, lowest, x)
    return np.where(raised > highest, highest, raised)


def quantized_to_16_bits(x: FloatArray, scale: FloatArray, lowest: FloatArray) -> FloatArray:
    quotient = x / scale
    raised = np.where(quotient > lowest, quotient, lowest)
    highest = lowest + np.float32(65535)
    bounded = np.where(raised < highest, raised, highest)
    return (bounded + ROUND_TO_INTEGER - ROUND_TO_INTEGER) * scale


def quantized_to_float8(
    x: FloatArray, scale: FloatArray, mantissa_bits: int, least_exponent: int, largest: float
) -> FloatArray:
    """The nearest multiple of the distance between numbers of the type, half to even; exact but for the quotient."""
    quotient = x / scale
    exponent = np.frexp(quotient)[1] - 1
    unit = np.ldexp(np.float32(1), np.maximum(exponent, least_exponent) - mantissa_bits)
    rounded = np.copysign(np.rint(quotient / unit) * unit, quotient)
    return np.clip(rounded, np.float32(-largest), np.float32(largest)) * scale


def softplus(x: FloatArray) -> FloatArray:
    return maximum(x, np.float32(0)) + logarithm(exponential(-np.abs(x)) + np.float32(1))


def mish(x: FloatArray) -> FloatArray:
    power = exponential(minimum(x, np.float32(20)))
    product = power * (power + np.float32(2))
    return x * (product / (product + np.float32(2)))


def elu(x: FloatArray, alpha: FloatArray, divisor: FloatArray) -> FloatArray:
    curve = exponential(minimum(x, np.float32(0)) / divisor) - np.float32(1)
    return maximum(x, np.float32(0)) + curve * alpha


def maximum(a: FloatArray, b: FloatArray) -> FloatArray:
    return np.where((a > b) | np.isnan(a), a, b)


def minimum(a: FloatArray, b: FloatArray) -> FloatArray:
    return np.where((a < b) | np.isnan(a), a, b)


# By function number: of (a, b), and of (x, alpha, beta).
BINARY: tuple[Callable[[FloatArray, FloatArray], FloatArray], ...] = (
    np.add,
    np.subtract,
    np.multiply,
    np.divide,
    maximum,
    minimum,
)
UNARY: tuple[Callable[[FloatArray, FloatArray, FloatArray], FloatArray], ...] = (
    lambda x, alpha, beta: np.where(x < 0, np.float32(0), x),
    lambda x, alpha, beta: logistic(x),
    lambda x, alpha, beta: hyperbolic_tangent(x),
    lambda x, alpha, beta: exponential(x),
    lambda x, alpha, beta: np.sqrt(x),
    lambda x, alpha, beta: np.float32(1) / x,
    lambda x, alpha, beta: error_function(x),
    lambda x, alpha, beta: clip(x * alpha + beta, np.float32(0), np.float32(1)),
    lambda x, alpha, beta: clip(x, alpha, beta),
    lambda x, alpha, beta: np.where(x < 0, x * alpha, x),
    lambda x, alpha, beta: x,
    lambda x, alpha, beta: -x,
    lambda x, alpha, beta: x * np.float32(0.5) * (error_function(x / alpha) + np.float32(1)),
    lambda x, alpha, beta: logarithm(x),
    lambda x, alpha, beta: x * logistic(x * alpha),
    lambda x, alpha, beta: x * logistic(x * (x * beta * x + alpha)),
    lambda x, alpha, beta: np.floor(x),
    lambda x, alpha, beta: np.ceil(x),
    lambda x, alpha, beta: np.rint(x),
    lambda x, alpha, beta: sine(x),
    lambda x, alpha, beta: cosine(x),
    quantized_to_16_bits,
    lambda x, alpha, beta: quantized_to_float8(x, alpha, 3, -6, 448),
    lambda x, alpha, beta: quantized_to_float8(x, alpha, 2, -14, 57344),
    lambda x, alpha, beta: np.abs(x),
    lambda x, alpha, beta: x / (np.abs(x) + np.float32(1)),
    lambda x, alpha, beta: softplus(x),
    lambda x, alpha, beta: mish(x),
    elu,
    lambda x, alpha, beta: x * clip(x * alpha + beta, np.float32(0), np.float32(1)),
    lambda x, alpha, beta: arctangent(x),
    lambda x, alpha, beta: arcsine(x),
    lambda x, alpha, beta: arccosine(x),
    lambda x, alpha, beta: hyperbolic_sine(x),
    lambda x, alpha, beta: hyperbolic_cosine(x),
    lambda x, alpha, beta: np.where(x == 0, x, np.sign(x)),
    lambda x, alpha, beta: x * x * x,
    lambda x, alpha, beta: np.float32(1) / np.sqrt(x),
)
