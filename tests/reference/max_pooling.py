"""MAX_POOLING: the largest code of every window; what lies in the padding counts as the lowest."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reference.arithmetic import SubnormalWatch

__all__ = ["OUTPUTS", "max_pooling"]

OUTPUTS = ("output_tensor",)


def max_pooling(
    input: NDArray[Any],
    *,
    strides: Sequence[int],
    dilations: Sequence[int],
    window_size: Sequence[int],
    start_padding: Sequence[int],
    end_padding: Sequence[int],
    output_data_type: DTypeLike,
    watch: SubnormalWatch | None = None,
) -> NDArray[Any]:
    """Input {N, C, W} or {N, C, H, W}; the attributes have an entry for each spatial axis."""
    spatial = range(len(strides))
    widths = [(0, 0), (0, 0), *((start_padding[axis], end_padding[axis]) for axis in spatial)]
    padded = np.pad(input, widths, constant_values=np.iinfo(output_data_type).min)
    sizes = [
        (padded.shape[2 + axis] - (window_size[axis] - 1) * dilations[axis] - 1) // strides[axis] + 1
        for axis in spatial
    ]
    taps = []
    for tap in itertools.product(*(range(window_size[axis]) for axis in spatial)):
        begins = [tap[axis] * dilations[axis] for axis in spatial]
        places = [np.arange(sizes[axis]) * strides[axis] + begins[axis] for axis in spatial]
        taps.append(padded[(slice(None), slice(None), *np.ix_(*places))])
    result: NDArray[Any] = np.maximum.reduce(taps)
    return result
