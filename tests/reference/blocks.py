"""What the block-wise operators share: parameters of blocks, and the codes of each data type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reference.arithmetic import FloatArray, widen

__all__ = ["LIMITS", "parameters_of"]

# The lowest and the highest code.
LIMITS = {"UINT8": (0, 255), "INT8": (-128, 127), "UINT4": (0, 15), "INT4": (-8, 7)}

# Where there is none; not 0 for unsigned codes.
ABSENT_ZERO_POINTS = {"UINT8": 128, "INT8": 0, "UINT4": 8, "INT4": 0}


def parameters_of(
    tensors: Sequence[NDArray[Any]], sizes: tuple[int, ...], code_data_type: str
) -> tuple[FloatArray, FloatArray]:
    """The scale and the zero point of every element."""
    scale, *zero_points = (widen(expanded(tensor, sizes)) for tensor in tensors)
    return scale, zero_points[0] if zero_points else np.full(sizes, ABSENT_ZERO_POINTS[code_data_type], np.float32)


def expanded(parameters: NDArray[Any], sizes: tuple[int, ...]) -> NDArray[Any]:
    """The parameter of every element: the one of index // (size / parameter size) on each axis."""
    indices = [np.arange(size) // (size // blocks) for size, blocks in zip(sizes, parameters.shape, strict=True)]
    elements: NDArray[Any] = parameters[np.ix_(*indices)]
    return elements
