"""PADDING: the input with a frame of one code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reference.arithmetic import SubnormalWatch

__all__ = ["OUTPUTS", "padding"]

OUTPUTS = ("output_tensor",)


def padding(
    input: NDArray[Any],
    *,
    start_padding: Sequence[int],
    end_padding: Sequence[int],
    value: Sequence[int],
    output_data_type: DTypeLike,
    watch: SubnormalWatch | None = None,
) -> NDArray[Any]:
    """An entry of the paddings for each axis; value has one entry, the raw byte."""
    code = np.array(value, np.uint8).view(output_data_type)[0]
    widths = list(zip(start_padding, end_padding, strict=True))
    return np.pad(input, widths, constant_values=code)
