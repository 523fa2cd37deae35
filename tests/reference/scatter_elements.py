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
    """The input is no shorter than the indices along other axes. Indices beside each other name different elements."""
    result = input.astype(output_data_type)
    along = axis[0]
    reached = result[tuple(slice(None if i == along else size) for i, size in enumerate(indices.shape))]
    with np.errstate(all="ignore"):
        for place in range(indices.shape[along]):
            named, update = np.take(indices, [place], along), np.take(updates, [place], along)
            a = np.take_along_axis(reached, named, along)
            combined = (
                update,
                a + update,
                a * update,
                np.where(a > update, a, update),
                np.where(a < update, a, update),
            )
            np.put_along_axis(reached, named, combined[reduction[0]], along)
    return result
