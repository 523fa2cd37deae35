"""The arithmetic under the reference operators, against exact rational numbers. Needs no built library."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from operator_case import canonical_bits
from reference.arithmetic import fused_multiply_add, narrow, quantized, saturate, wrap_to_int32

f32 = np.float32
MAXIMUM = float(np.finfo(f32).max)
SMALLEST_SUBNORMAL = 2.0**-149


def rounded_to_float32(exact: Fraction) -> float:
    """The float32 nearest to a rational number, ties to even, by integer arithmetic alone."""
    if exact == 0:
        return 0.0
    magnitude = abs(exact)
    exponent = math.floor(math.log2(magnitude.numerator) - math.log2(magnitude.denominator))
    # The logarithms are approximate, so one step in either direction may be missing.
    while magnitude >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while magnitude < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** max(exponent - 23, -149)
    # Fraction's round() is half to even.
    rounded = round(magnitude / unit) * unit
    value = math.inf if rounded >= Fraction(2) ** 128 else float(rounded)
    return math.copysign(value, exact)


def exact_sum(a: float, b: float, c: float) -> Fraction:
    return Fraction(a) * Fraction(b) + Fraction(c)


floats = st.floats(width=32, allow_nan=False, allow_infinity=False)
# Significands of few ones make sums that lie on ties of float32, or one unit of float64 beside them.
sparse_floats = st.builds(
    lambda sign, high, low, exponent: sign * (2**high + 2**low) * 2.0**exponent,
    st.sampled_from((-1, 1)),
    st.integers(0, 23),
    st.integers(0, 23),
    st.integers(-140, 60),
)
operands = floats | sparse_floats


def assert_fused(a: float, b: float, c: float) -> None:
    exact = exact_sum(a, b, c)
    if exact == 0:
        return  # The sign of an exact zero is not the rational numbers' to tell; see test_signs_of_zero.
    result = fused_multiply_add(f32(a), f32(b), f32(c))
    assert result.dtype == f32
    assert canonical_bits(result) == canonical_bits(np.asarray(f32(rounded_to_float32(exact))))


@given(operands, operands, operands)
@example(MAXIMUM, 1.0, MAXIMUM)
@example(SMALLEST_SUBNORMAL, 0.5, 0.0)
@example(SMALLEST_SUBNORMAL, 0.5, SMALLEST_SUBNORMAL)
def test_fused_multiply_add_rounds_once(a: float, b: float, c: float) -> None:
    assert_fused(a, b, c)


@given(
    st.sampled_from((3, 5, 7, 9, 11, 13)),
    st.floats(0, 1),
    st.integers(-60, 60),
    st.integers(-60, -30),
    st.sampled_from((-1, 1)),
)
def test_fused_multiply_add_beside_ties(
    divisor: int, position: float, product_exponent: int, distance_exponent: int, sign: int
) -> None:
    """A midpoint of two float32 values plus something below float64's reach: rounding twice would lose it."""
    # An odd number of 25 bits is a midpoint; it enters as a product because no operand has 25 bits.
    cofactor = (2**24 // divisor + int(position * (2**24 // divisor - 2))) | 1
    midpoint = cofactor * divisor
    assume(midpoint < 2**25)
    assert_fused(cofactor * 2.0**product_exponent, float(divisor), sign * 2.0 ** (product_exponent + distance_exponent))


def test_fused_multiply_add_where_rounding_twice_fails() -> None:
    """The exact sum lies 2^-100 above a tie. In float64 it is the tie, which would then go to even, downwards."""
    a, b, c = f32(2**24 + 2) / f32(2), f32(3), f32(2.0**-100)
    tie = float(a) * float(b)
    assert tie == 25165827.0
    assert fused_multiply_add(a, b, c) == f32(25165828)
    assert fused_multiply_add(a, b, -c) == f32(25165826)
    assert f32(np.float64(tie) + np.float64(-c)) == f32(25165828)


@pytest.mark.parametrize(
    ("a", "b", "c", "expected"),
    [
        (1.0, 0.0, 0.0, 0.0),
        (-1.0, 0.0, 0.0, 0.0),
        (-1.0, 0.0, -0.0, -0.0),
        (2.0, 3.0, -6.0, 0.0),
        (-(2.0**-149), 0.25, 0.0, -0.0),
        (2.0**-149, 0.25, -0.0, 0.0),
    ],
)
def test_signs_of_zero(a: float, b: float, c: float, expected: float) -> None:
    result = fused_multiply_add(f32(a), f32(b), f32(c))
    assert canonical_bits(result) == canonical_bits(np.asarray(f32(expected)))


@pytest.mark.parametrize(
    ("a", "b", "c", "expected"),
    [
        (math.inf, 0.0, 1.0, math.nan),
        (math.inf, 1.0, -math.inf, math.nan),
        (math.inf, -2.0, 1.0, -math.inf),
        (1.0, 1.0, math.inf, math.inf),
        (math.nan, 0.0, 0.0, math.nan),
        (MAXIMUM, MAXIMUM, -MAXIMUM, math.inf),
        (MAXIMUM, 2.0, -MAXIMUM, MAXIMUM),
    ],
)
def test_fused_multiply_add_of_infinities_and_overflow(a: float, b: float, c: float, expected: float) -> None:
    result = fused_multiply_add(f32(a), f32(b), f32(c))
    assert canonical_bits(result) == canonical_bits(np.asarray(f32(expected)))


def test_saturation() -> None:
    values = np.array([np.nan, -np.inf, np.inf, -129, 256, 127, 128, -0.0], f32)
    assert saturate(values, np.uint8).tolist() == [0, 0, 255, 0, 255, 127, 128, 0]
    assert saturate(values, np.int8).tolist() == [-128, -128, 127, -128, 127, 127, 127, 0]


def test_zero_point_is_added_after_rounding() -> None:
    """With an odd zero point every tie tells: 0.5 + 1 = 1.5 would round to 2."""
    ties = np.array([-1.5, -0.5, 0.5, 1.5, 2.5], f32)
    assert quantized(ties, f32(1), np.int8).tolist() == [-1, 1, 1, 3, 3]


def test_sums_wrap() -> None:
    sums = np.array([2**31, 2**31 - 1, -(2**31), -(2**31) - 1, 2**32 + 5, -(2**33)], np.int64)
    assert wrap_to_int32(sums).tolist() == [-(2**31), 2**31 - 1, -(2**31), 2**31 - 1, 5, 0]


def test_half_results_round_to_even_and_overflow() -> None:
    values = np.array([2049, 2051, 65519, 65520, 2.0**-25, 3 * 2.0**-25], f32)
    assert narrow(values, np.float16).tolist() == [2048, 2052, 65504, math.inf, 0, 2.0**-23]
