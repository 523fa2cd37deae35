"""Floats whose range decides the scale, the zero point and the codes that they get when they are quantized by it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray

__all__ = ["LENGTHS", "at_the_edge", "extremes", "ranges_beside_ties"]

Floats = NDArray[np.float32]

LENGTHS: Final = (1, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65, 129, 4099, 70001)
"""Where the range ends decides everything, so vectors, their tails and every thread have to see it."""

at_the_edge = pytest.mark.parametrize(
    "values",
    [
        [0.0, 0.0],
        [-0.0, -0.0],
        [np.nan, np.nan],
        [np.nan, -0.0],
        [1e-45, 0.0],
        [-1e-45, 1e-45],
        [3e38, -3e38],
        [np.inf, 1.0],
        [-np.inf, 1.0],
        [255.0, 0.5, 1.5, 2.5],
        [-127.5, 127.5, 0.5],
        [1e-38, -1e-38],
        [5.0],
        [-5.0],
    ],
    ids=str,
)


def extremes(rng: np.random.Generator, length: int) -> Iterator[Floats]:
    """The lowest and the highest value at the ends, in the middle and among NaN."""
    for place in {0, length // 2, length - 1}:
        for extreme in (1000.0, -1000.0, np.inf, -np.inf, np.nan):
            values = rng.standard_normal(length).astype(np.float32)
            values[:: max(1, length // 5)] = np.nan
            values[place] = extreme
            yield values


def ranges_beside_ties(rng: np.random.Generator) -> Iterator[Floats]:
    """Their zero point lies in the middle of two codes but for the last bits, where each rounding tells."""
    for lowest in range(1, 510, 2):
        half_step = rng.uniform(0.001, 1000)
        yield (np.arange(-lowest, 511 - lowest) * half_step).astype(np.float32)
