"""MAX_POOLING_INDICES: where in the whole input the maximum of each window is, the first of equal ones or of NaN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reference.arithmetic import SubnormalWatch

__all__ = ["OUTPUTS", "max_pooling_indices"]

OUTPUTS = ("output_tensor",)


def max_pooling_indices(
    input: NDArray[Any],
    *,
    strides: Sequence[int],
    dilations: Sequence[int],
    window_size: Sequence[int],
    start_padding: Sequence[int],
    end_padding: Sequence[int],
    storage_order: Sequence[int],
    output_data_type: DTypeLike,
    watch: SubnormalWatch | None = None,
) -> NDArray[Any]:
    """Input {N, C, ...}; the attributes of windows have an entry for each spatial axis."""
    planes = input.reshape(-1, *input.shape[2:])
    order = "F" if storage_order[0] else "C"
    places = np.arange(planes[0].size).reshape(planes.shape[1:], order=order)
    numbers = zip(planes.shape[1:], window_size, strides, dilations, start_padding, end_padding, strict=True)
    axes = [
        [[i * stride - start + tap * dilation for tap in range(window)] for i in range(positions)]
        for window, stride, dilation, start, positions in (
            (window, stride, dilation, start, (size + start + end - (window - 1) * dilation - 1) // stride + 1)
            for size, window, stride, dilation, start, end in numbers
        )
    ]
    output = np.zeros((len(planes), *map(len, axes)), output_data_type)
    for at in np.ndindex(*output.shape[1:]):
        taps = [
            [place for place in axis[i] if 0 <= place < size]
            for axis, i, size in zip(axes, at, planes.shape[1:], strict=True)
        ]
        inside = np.ix_(*taps)
        for number, plane in enumerate(planes):  # numpy's argmax is the first of NaN, too
            output[(number, *at)] = places[inside].reshape(-1)[np.argmax(plane[inside])] + number * plane.size
    return output.reshape(*input.shape[:2], *output.shape[1:])
