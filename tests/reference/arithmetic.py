"""float32 arithmetic shared by the reference operators: what IEEE 754 prescribes, denormals kept."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = [
    "FloatArray",
    "SubnormalWatch",
    "fused_multiply_add",
    "is_subnormal",
    "narrow",
    "quantized",
    "saturate",
    "widen",
    "wrap_to_int32",
    "zero_point_or_zero",
]

FloatArray = NDArray[np.float32]

SMALLEST_NORMAL = np.finfo(np.float32).smallest_normal
# Elements from which on they are computed in blocks, whose terms in float64 the level-2 cache holds.
MOST_AT_ONCE, BLOCK = 2**16, 2**13


def widen(values: NDArray[Any]) -> FloatArray:
    """To float32: exact for FLOAT16 and 8 and 16 bits, rounded half to even for 32-bit integers."""
    return values.astype(np.float32)


def zero_point_or_zero(zero_point: NDArray[Any] | None) -> FloatArray:
    return np.zeros((), np.float32) if zero_point is None else widen(zero_point)


@np.errstate(all="ignore")
def narrow(values: FloatArray, data_type: DTypeLike) -> NDArray[Any]:
    """A float32 result as the output's floating type, rounded half to even."""
    return values.astype(data_type)


@np.errstate(all="ignore")
def fused_multiply_add(a: FloatArray, b: FloatArray, c: FloatArray) -> FloatArray:
    """a * b + c with one rounding.

    The product of two 24-bit significands has at most 48 bits and an exponent far inside float64's range, so it is
    exact in float64. The sum is not: rounding it to float64 and then to float32 rounds twice. That matters only where
    the float64 sum is the midpoint of two float32 values while the exact one lies to a side of it: any other float64
    sum is on the exact one's side of every midpoint, as these are float64 values and rounding keeps order. A midpoint
    has at most 25 significant bits, hence 28 zeros at the end in float64. Of the sums that have them Knuth's two-sum
    gives the error of the first rounding exactly, and they are rounded to odd instead: of the two float64 neighbours
    around an inexact sum, the one with the odd significand, which is on the exact sum's side.

    A sum that float32 has is no midpoint. Infinite and NaN sums have no error term and pass through; a float64 sum of
    finite operands cannot overflow.
    """
    a, b, c = np.asarray(a), np.asarray(b), np.asarray(c)
    assert a.dtype == b.dtype == c.dtype == np.float32
    if max(a.size, b.size, c.size) <= MOST_AT_ONCE:
        return fused_at_once(a, b, c)
    uses = [["readonly"]] * 3 + [["writeonly", "allocate"]]
    flags: Any = ["external_loop", "buffered", "zerosize_ok"]
    blocks = np.nditer([a, b, c, None], flags, uses, [np.float32] * 4, buffersize=BLOCK)
    with blocks:
        for *operands, result in blocks:
            result[...] = fused_at_once(*operands)
        results: FloatArray = blocks.operands[3]
    return results


def fused_at_once(a: FloatArray, b: FloatArray, c: FloatArray) -> FloatArray:
    """The same with all terms in memory."""
    product = np.asarray(np.multiply(a, b, dtype=np.float64))
    total = np.asarray(product + c)
    result = np.asarray(total.astype(np.float32))
    may_be_midpoint = np.asarray((total.view(np.int64) & (2**28 - 1)) == 0)
    if may_be_midpoint.any():
        may_be_midpoint &= np.abs(total - result) > 0
        if may_be_midpoint.any():
            terms = (np.broadcast_to(values, total.shape)[may_be_midpoint] for values in (product, c))
            result[may_be_midpoint] = rounded_to_odd(total[may_be_midpoint], *terms)
    return result


def rounded_to_odd(
    total: NDArray[np.float64], product: NDArray[np.float64], addend: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The sum of two float64 values, of which the total is the one that is rounded half to even."""
    addend_part = total - product
    error = (product - (total - addend_part)) + (addend - addend_part)
    even = (total.view(np.int64) & 1) == 0
    to_be_moved = np.isfinite(total) & (error != 0) & even
    towards = np.where(error > 0, np.inf, -np.inf)
    return np.where(to_be_moved, np.nextafter(total, towards), total)


def saturate(values: FloatArray, data_type: DTypeLike) -> NDArray[Any]:
    """Clamped to an 8-bit type; NaN becomes the type's lowest value. The values are whole numbers, NaN or infinite."""
    limits = np.iinfo(data_type)
    clamped = np.clip(values, np.float32(limits.min), np.float32(limits.max))
    return np.where(np.isnan(values), np.float32(limits.min), clamped).astype(data_type)


def quantized(values: FloatArray, zero_point: FloatArray, data_type: DTypeLike) -> NDArray[Any]:
    """The way from a float32 value to a code: round half to even first, add the zero point after that, saturate."""
    return saturate(np.rint(values) + zero_point, data_type)


def wrap_to_int32(sums: NDArray[np.int64]) -> NDArray[np.int32]:
    """Reduced modulo 2^32 into the range of int32."""
    return ((sums + 2**31) % 2**32 - 2**31).astype(np.int32)


def is_subnormal(values: FloatArray) -> NDArray[np.bool_]:
    subnormal: NDArray[np.bool_] = (values != 0) & (np.abs(values) < SMALLEST_NORMAL)
    return subnormal


class SubnormalWatch:
    """Collects where the float values behind an output were subnormal, as a mask that broadcasts to the output.

    A recording made on a device that flushes denormals says nothing about those elements.
    """

    def __init__(self) -> None:
        self.mask: NDArray[np.bool_] = np.zeros((), np.bool_)

    def see(self, *values: FloatArray) -> None:
        """Values each of which concerns the output elements that it broadcasts to."""
        for value in values:
            self.mask = self.mask | is_subnormal(value)

    def see_reduction_of(self, values: FloatArray) -> None:
        """Values each of which concerns every output element."""
        self.mask = self.mask | np.any(is_subnormal(values))
