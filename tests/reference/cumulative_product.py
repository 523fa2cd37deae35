"""CUMULATIVE_PRODUCT: products along an axis; of integers they wrap, of floats each is rounded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reference.arithmetic import SubnormalWatch

__all__ = ["OUTPUTS", "cumulative_product"]

OUTPUTS = ("output_tensor",)


def cumulative_product(
    input: NDArray[Any],
    *,
    axis: Sequence[int],
    axis_direction: Sequence[int],
    has_exclusive_product: Sequence[int],
    output_data_type: DTypeLike,
    watch: SubnormalWatch | None = None,
) -> NDArray[Any]:
    """Direction 1 is from the end; an exclusive product is without its own element, the first one 1."""
    rows = np.moveaxis(input, axis[0], 0)
    rows = rows[::-1] if axis_direction[0] else rows
    products = np.ones(rows.shape, output_data_type)
    total = np.ones(rows.shape[1:], output_data_type)
    with np.errstate(all="ignore"):
        for i, row in enumerate(rows):
            through = total * row
            products[i] = total if has_exclusive_product[0] else through
            total = through
    return np.moveaxis(products[::-1] if axis_direction[0] else products, 0, axis[0])
