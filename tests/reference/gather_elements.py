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
    result = np.empty(indices.shape, output_data_type)
    for place in np.ndindex(*indices.shape):
        result[place] = input[(*place[: axis[0]], indices[place], *place[axis[0] + 1 :])]
    return result
