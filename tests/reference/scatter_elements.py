"""SCATTER_ELEMENTS: updates of the elements that indices name along an axis, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reference.arithmetic import SubnormalWatch

__all__ = ["OUTPUTS", "scatter_elements"]

OUTPUTS = ("output_tensor",)


def scatter_elements(
    input: NDArray[Any],
    indices: NDArray[Any],
    updates: NDArray[Any],
    *,
    axis: Sequence[int],
    reduction: Sequence[int],
    output_data_type: DTypeLike,
    watch: SubnormalWatch | None = None,
) -> NDArray[Any]:
    """The input is no shorter than the indices along other axes."""
    result = input.astype(output_data_type)
    with np.errstate(all="ignore"):
        for place in np.ndindex(*indices.shape):
            named = (*place[: axis[0]], indices[place], *place[axis[0] + 1 :])
            a, update = result[named], updates[place]
            combined = (update, a + update, a * update, a if a > update else update, a if a < update else update)
            result[named] = combined[reduction[0]]
    return result
