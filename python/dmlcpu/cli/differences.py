"""How far two arrays of what should be the same are apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dmlcpu.errors import DmlError

__all__ = ["LIMITS", "Difference", "difference"]

_MOST_CODES: Final = 1
# A part of the largest float: what other orders of adding floats come to, and far below a step between codes.
_FLOAT_TOLERANCE: Final = 1e-4
LIMITS: Final = f"{_MOST_CODES} code; {_FLOAT_TOLERANCE:.0e} of the largest float".replace("e-0", "e-")


@dataclass(frozen=True, slots=True)
class Difference:
    """How far apart two arrays are.

    Attributes:
        largest: In codes of integers; of floats as a part of the largest finite magnitude expected.
        in_codes: Which of these it is.
        share: Of elements that differ.
        first: Index of the first of them; None if there is none.
    """

    largest: float
    in_codes: bool
    share: float
    first: tuple[int, ...] | None

    @property
    def is_large(self) -> bool:
        """Whether it is above 1 code, or above what rounding of floats explains."""
        return not self.largest <= (_MOST_CODES if self.in_codes else _FLOAT_TOLERANCE)

    def __str__(self) -> str:
        """Tell the largest, and its unit where that is not codes."""
        return f"{self.largest:.0f}" if self.in_codes or not self.largest else f"{self.largest:.1e} of max"


def difference(got: NDArray[Any], expected: NDArray[Any], name: str = "output") -> Difference:
    """Compare two arrays; NaN equals NaN, and differs from all else without bounds.

    Raises:
        DmlError: They differ in type or shape.

    >>> difference(np.uint8([1, 2, 250]), np.uint8([1, 3, 0]))
    Difference(largest=250.0, in_codes=True, share=0.6666666666666666, first=(1,))
    """
    if got.dtype != expected.dtype or got.shape != expected.shape:
        raise DmlError(f"{name!r}: got {got.dtype}{got.shape} and {expected.dtype}{expected.shape}")
    in_codes = got.dtype.kind in "iub"
    if got.dtype.kind not in "iubf":
        raise DmlError(f"{name!r}: elements of type {got.dtype} are not compared")
    differing = got != expected
    if not in_codes:
        differing &= ~(np.isnan(got) & np.isnan(expected))
    if not differing.any():
        return Difference(0.0, in_codes, 0.0, None)
    wide = np.float64 if not in_codes else np.int64
    a, b = got[differing].astype(wide), expected[differing].astype(wide)
    largest = float(np.nan_to_num(np.abs(a - b).astype(np.float64), nan=np.inf).max())
    if not in_codes:
        finite = np.abs(expected[np.isfinite(expected)].astype(np.float64))
        magnitude = float(finite.max()) if finite.size else 0.0
        largest = largest / magnitude if magnitude else np.inf
    first = tuple(int(index) for index in np.unravel_index(int(np.argmax(differing)), got.shape))
    return Difference(float(largest), in_codes, float(differing.mean()), first)
