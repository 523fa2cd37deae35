"""FLOAT_CONVOLUTION: a chain of fused multiply-adds over the window, begun at the bias; zeros in the padding count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reference.arithmetic import FloatArray, SubnormalWatch, fused_multiply_add

__all__ = ["OUTPUTS", "float_convolution"]

OUTPUTS = ("output_tensor",)


@np.errstate(all="ignore")
def float_convolution(
    input: FloatArray,
    filter: FloatArray,
    bias: FloatArray | None,
    *,
    strides: Sequence[int],
    dilations: Sequence[int],
    start_padding: Sequence[int],
    end_padding: Sequence[int],
    group_count: Sequence[int],
    output_data_type: DTypeLike,
    watch: SubnormalWatch | None = None,
) -> NDArray[Any]:
    """input {N, C, H, W} or {N, C, W}; channels innermost in the chain, then columns, then rows."""
    axes, outputs, channels = input.ndim - 2, filter.shape[0], filter.shape[1]
    padded = np.pad(input, [(0, 0), (0, 0), *zip(start_padding, end_padding, strict=True)])
    sizes = [
        (padded.shape[2 + axis] - (filter.shape[2 + axis] - 1) * dilations[axis] - 1) // strides[axis] + 1
        for axis in range(axes)
    ]
    along = (1, outputs, *(1,) * axes)
    first = np.zeros(along, np.float32) if bias is None else bias.reshape(along)
    sums = np.broadcast_to(first, (input.shape[0], outputs, *sizes)).astype(np.float32)
    # The input channel of each output channel that is the first of its group.
    begins = np.arange(outputs) // (outputs // group_count[0]) * channels
    for tap in np.ndindex(*filter.shape[2:]):
        places = [np.arange(sizes[axis]) * strides[axis] + tap[axis] * dilations[axis] for axis in range(axes)]
        for channel in range(channels):
            chosen = (slice(None), *np.ix_(begins + channel, *places))
            sums = fused_multiply_add(padded[chosen], filter[(slice(None), channel, *tap)].reshape(along), sums)
    return sums
