"""ELEMENT_WISE_LOGICAL: comparisons of numbers, and functions of conditions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reference.arithmetic import SubnormalWatch

__all__ = ["FUNCTIONS", "OUTPUTS", "logical"]

OUTPUTS = ("output_tensor",)

FUNCTIONS = (
    *(np.equal, np.not_equal, np.greater, np.greater_equal, np.less, np.less_equal),
    *(np.logical_and, np.logical_or, np.logical_xor),
)


def logical(
    a: NDArray[Any],
    b: NDArray[Any],
    *,
    function: Sequence[int],
    output_data_type: DTypeLike,
    watch: SubnormalWatch | None = None,
) -> NDArray[Any]:
    """1 where it holds, else 0."""
    return np.asarray(FUNCTIONS[function[0]](a, b)).astype(output_data_type)
