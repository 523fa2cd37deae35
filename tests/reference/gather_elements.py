"""GATHER_ELEMENTS: for each element the one that an index names along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reference.arithmetic import SubnormalWatch

__all__ = ["OUTPUTS", "gather_elements"]

OUTPUTS = ("output_tensor",)


def gather_elements(
    input: NDArray[Any],
    indices: NDArray[Any],
    *,
    axis: Sequence[int],
    output_data_type: DTypeLike,
    watch: SubnormalWatch | None = None,
) -> NDArray[Any]:
    """The input is no shorter than the indices along other axes."""
    others = tuple(slice(None if along == axis[0] else size) for along, size in enumerate(indices.shape))
    return np.take_along_axis(input[others], indices, axis[0]).astype(output_data_type)
