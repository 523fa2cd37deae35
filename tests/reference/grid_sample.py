"""GRID_SAMPLE: pixels of an image, or what is between four of them, where a grid says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reference.arithmetic import FloatArray, SubnormalWatch

__all__ = ["OUTPUTS", "grid_sample"]

OUTPUTS = ("output_tensor",)
ONE, TWO = np.float32(1), np.float32(2)


@np.errstate(all="ignore")
def grid_sample(
    input: FloatArray,
    grid: FloatArray,
    *,
    interpolation: Sequence[int],
    padding: Sequence[int],
    align_corners: Sequence[int],
    output_data_type: DTypeLike,
    watch: SubnormalWatch | None = None,
) -> NDArray[Any]:
    """What is no number is outside on the left, or above."""
    height, width = input.shape[2:]
    x, y = (_places(grid[..., i], size, align_corners[0]) for i, size in ((0, width), (1, height)))
    if interpolation[0] == 0:
        x, y = np.rint(x), np.rint(y)
    x, y = (_bounded(place, size, padding[0]) for place, size in ((x, width), (y, height)))
    left, top = np.floor(x), np.floor(y)
    u, v = (x - left)[:, None], (y - top)[:, None]

    def pixels(right: int, down: int) -> FloatArray:
        columns, rows = left.astype(np.int64) + right, top.astype(np.int64) + down
        if padding[0] == 1:
            columns, rows = np.minimum(columns, width - 1), np.minimum(rows, height - 1)
        inside = (columns >= 0) & (columns < width) & (rows >= 0) & (rows < height)
        taken = [
            image[:, np.clip(of_rows, 0, height - 1), np.clip(of_columns, 0, width - 1)]
            for image, of_rows, of_columns in zip(input, rows, columns, strict=True)
        ]
        return np.where(inside[:, None], np.stack(taken), np.float32(0))

    if interpolation[0] == 0:
        return pixels(0, 0)
    above = (ONE - u) * pixels(0, 0) + u * pixels(1, 0)
    below = (ONE - u) * pixels(0, 1) + u * pixels(1, 1)
    return (ONE - v) * above + v * below


def _places(entries: FloatArray, size: int, is_aligned: int) -> FloatArray:
    length = np.float32(size)
    if is_aligned:
        return (entries + ONE) / TWO * (length - ONE)
    return ((entries + ONE) * length - ONE) / TWO


def _bounded(places: FloatArray, size: int, at_border: int) -> FloatArray:
    lowest, highest = (0, size - 1) if at_border else (-2, size + 1)
    return np.where(places > lowest, np.minimum(places, np.float32(highest)), np.float32(lowest))
