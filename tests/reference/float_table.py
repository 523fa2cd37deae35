"""FLOAT_TABLE: the float that the table has for each byte."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reference.arithmetic import SubnormalWatch

__all__ = ["OUTPUTS", "float_table"]

OUTPUTS = ("output_tensor",)


def float_table(
    input: NDArray[Any],
    table: NDArray[np.float32],
    *,
    output_data_type: DTypeLike,
    watch: SubnormalWatch | None = None,
) -> NDArray[Any]:
    """The table has 256 elements, in any shape."""
    return table.reshape(-1)[input.astype(np.uint8)].astype(output_data_type)
