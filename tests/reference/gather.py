"""GATHER: what indices name along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reference.arithmetic import SubnormalWatch

__all__ = ["OUTPUTS", "gather"]

OUTPUTS = ("output_tensor",)


def gather(
    input: NDArray[Any],
    indices: NDArray[Any],
    *,
    axis: Sequence[int],
    output_data_type: DTypeLike,
    watch: SubnormalWatch | None = None,
) -> NDArray[Any]:
    """Indices below 0 count from the end, as numpy's do."""
    return np.take(input, indices, axis[0]).astype(output_data_type)
