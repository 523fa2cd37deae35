"""GRID_SAMPLE: pixels of images or elements of volumes, or what is between four or eight, where a grid says."""

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
    coordinates: Sequence[int],
    output_data_type: DTypeLike,
    watch: SubnormalWatch | None = None,
) -> NDArray[Any]:
    """What is no number is outside on the left, above, or before."""
    sizes = input.shape[2:]
    ordered = grid if coordinates[0] == 2 else grid[..., ::-1]
    places = [_places(ordered[..., axis], size, coordinates[0]) for axis, size in enumerate(sizes)]
    if interpolation[0] == 0:
        places = [np.rint(place) for place in places]
    places = [_bounded(place, size, padding[0]) for place, size in zip(places, sizes, strict=True)]
    wholes = [np.floor(place) for place in places]
    distances = [(place - whole)[:, None] for place, whole in zip(places, wholes, strict=True)]

    def elements(*sides: int) -> FloatArray:
        numbers = [whole.astype(np.int64) + side for whole, side in zip(wholes, sides, strict=True)]
        if padding[0] == 1:
            numbers = [np.minimum(number, size - 1) for number, size in zip(numbers, sizes, strict=True)]
        inside = np.all([(number >= 0) & (number < size) for number, size in zip(numbers, sizes, strict=True)], 0)
        within = [np.clip(number, 0, size - 1) for number, size in zip(numbers, sizes, strict=True)]
        taken = [image[(slice(None), *(number[index] for number in within))] for index, image in enumerate(input)]
        return np.where(inside[:, None], np.stack(taken), np.float32(0))

    def between(*sides: int) -> FloatArray:
        if len(sides) == len(sizes):
            return elements(*sides)
        distance = distances[len(sides)]
        return (ONE - distance) * between(*sides, 0) + distance * between(*sides, 1)

    return elements(*(0,) * len(sizes)) if interpolation[0] == 0 else between()


def _places(entries: FloatArray, size: int, coordinates: int) -> FloatArray:
    length = np.float32(size)
    if coordinates == 2:
        return entries
    if coordinates == 1:
        return (entries + ONE) / TWO * (length - ONE)
    return ((entries + ONE) * length - ONE) / TWO


def _bounded(places: FloatArray, size: int, at_border: int) -> FloatArray:
    lowest, highest = (0, size - 1) if at_border else (-2, size + 1)
    return np.where(places > lowest, np.minimum(places, np.float32(highest)), np.float32(lowest))
