"""What tensors are filled with: functions of a generator, a numpy type and a count of elements.

Adversarial first: exact ties, saturation, NaN, infinities, zeros and subnormals come as often as ordinary numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "INPUT_FLOATS",
    "INTEGERS",
    "SCALES",
    "Fill",
    "any_integers",
    "extreme_integers",
    "few_numbers",
    "highest_integers",
    "input_fills",
    "lowest_integers",
    "ordinary_floats",
    "ordinary_scales",
    "special_floats",
    "special_scales",
    "tie_scales",
    "ties",
]

Fill = Callable[[np.random.Generator, np.dtype[Any], int], NDArray[Any]]


def any_integers(rng: np.random.Generator, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, count, dtype, endpoint=True)


def extreme_integers(rng: np.random.Generator, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    """The ends of the range, their neighbours, and the middle."""
    limits = np.iinfo(dtype)
    middle = (limits.max + limits.min + 1) // 2
    values = [limits.min, limits.min + 1, middle - 1, middle, middle + 1, limits.max - 1, limits.max]
    return rng.choice(np.array(values, dtype), count)


def few_numbers(rng: np.random.Generator, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    """0, 1 and 2, of any type: so few that two are often equal."""
    return rng.integers(0, 3, count).astype(dtype)


def highest_integers(rng: np.random.Generator, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    return np.full(count, np.iinfo(dtype).max, dtype)


def lowest_integers(rng: np.random.Generator, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    return np.full(count, np.iinfo(dtype).min, dtype)


def ordinary_floats(rng: np.random.Generator, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    return rng.normal(0, np.exp2(rng.uniform(-3, 7)), count).astype(dtype)


def ties(rng: np.random.Generator, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    """Odd multiples of half a power of two: ties under the scales of `tie_scales`. Exact in FLOAT16 too."""
    return ((rng.integers(-300, 300, count) + 0.5) * 2.0 ** rng.integers(-1, 2)).astype(dtype)


def special_floats(rng: np.random.Generator, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    ordinary = np.array([0.5, 1.5, -2.5, 100, -100], dtype)
    return rng.choice(np.concatenate([special_values(dtype), ordinary]), count)


def special_values(dtype: np.dtype[Any]) -> NDArray[Any]:
    limits = np.finfo(dtype)
    magnitudes = [0, limits.smallest_subnormal, limits.smallest_normal, limits.max, np.inf]
    positive = np.array(magnitudes, dtype)
    return np.concatenate([positive, -positive, np.array([np.nan], dtype)])


def huge_floats(rng: np.random.Generator, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    """Differences of two of them overflow, or nearly so."""
    return (rng.uniform(-1, 1, count) * float(np.finfo(dtype).max)).astype(dtype)


def subnormal_floats(rng: np.random.Generator, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    return (rng.integers(-200, 200, count) * float(np.finfo(dtype).smallest_subnormal)).astype(dtype)


def zeros_and_nan(rng: np.random.Generator, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    return rng.choice(np.array([0.0, -0.0, np.nan], dtype), count)


def tie_scales(rng: np.random.Generator, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    return (2.0 ** rng.integers(-1, 2, count)).astype(dtype)


def decimal_scales(rng: np.random.Generator, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    """Ratios of two are whole or half but for their last bits: results beside ties, where each rounding tells."""
    return rng.choice(np.array([0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 1.4], dtype), count)


def ordinary_scales(rng: np.random.Generator, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    return rng.uniform(0.004, 1.5, count).astype(dtype)


def special_scales(rng: np.random.Generator, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    """Zero, subnormal, infinite, NaN, negative, and the far ends of the type."""
    return rng.choice(np.concatenate([special_values(dtype), np.array([-0.25, -3, 1], dtype)]), count)


def wide_scales(rng: np.random.Generator, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    """Of every magnitude, so that products and quotients over- and underflow."""
    limits = np.finfo(dtype)
    exponents = rng.uniform(limits.minexp - 8, limits.maxexp - 0.01, count)
    return (rng.choice([-1.0, 1.0], count) * 2.0**exponents).astype(dtype)


INTEGERS: tuple[Fill, ...] = (any_integers, extreme_integers, highest_integers, lowest_integers)
INPUT_FLOATS: tuple[Fill, ...] = (
    ordinary_floats,
    ties,
    special_floats,
    huge_floats,
    subnormal_floats,
    zeros_and_nan,
)
SCALES: tuple[Fill, ...] = (ordinary_scales, tie_scales, decimal_scales, special_scales, wide_scales)


def input_fills(dtype: np.dtype[Any]) -> tuple[Fill, ...]:
    return INPUT_FLOATS if dtype.kind == "f" else INTEGERS
