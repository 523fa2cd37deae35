"""What cases of several operators share: codes that follow from a seed, their memory, and calls ready to run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["CODE_TYPES", "Layout", "PreparedCall", "in_layout", "random_codes"]

Layout = Literal["NCHW", "NHWC"]

# Types of both operands, such as input and filter, by the name that an option gives them.
CODE_TYPES = {
    name: (np.dtype(np.uint8 if name[0] == "u" else np.int8), np.dtype(np.uint8 if name[2] == "u" else np.int8))
    for name in ("u8s8", "s8s8", "u8u8", "s8u8")
}


@dataclass(frozen=True)
class PreparedCall:
    """An operator ready to run: ``run()`` writes ``output``, which has its axes in the operator's order."""

    run: Callable[[], object]
    output: NDArray[Any]


def random_codes(dtype: np.dtype[Any], sizes: tuple[int, ...], seed: tuple[int, int]) -> NDArray[Any]:
    """Return codes from the whole range of their type."""
    limits = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(limits.min, limits.max + 1, sizes).astype(dtype)


def in_layout(array: NDArray[Any], layout: Layout) -> NDArray[Any]:
    """Return a copy of an {N, C, H, W} array in the memory of a layout, seen as {N, C, H, W}."""
    if layout == "NCHW":
        return np.ascontiguousarray(array)
    last: NDArray[Any] = np.ascontiguousarray(array.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    return last
