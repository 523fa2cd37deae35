"""WEIGHTED_GRID_SAMPLE: pixels of an image, or what is between four, where a grid says, times weights of the places."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reference.arithmetic import FloatArray
from reference.grid_sample import OUTPUTS, grid_sample

__all__ = ["OUTPUTS", "weighted_grid_sample"]


@np.errstate(all="ignore")
def weighted_grid_sample(input: FloatArray, grid: FloatArray, weights: FloatArray, **attributes: Any) -> NDArray[Any]:
    return np.asarray(grid_sample(input, grid, **attributes) * weights)
