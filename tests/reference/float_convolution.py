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
    groups, batch = group_count[0], input.shape[0]
    in_groups = (1, groups, outputs // groups, *(1,) * axes)
    first = np.zeros(in_groups, np.float32) if bias is None else bias.reshape(in_groups)
    sums = np.broadcast_to(first, (batch, *in_groups[1:3], *sizes)).astype(np.float32)
    for tap in np.ndindex(*filter.shape[2:]):
        begins = [tap[axis] * dilations[axis] for axis in range(axes)]
        window = tuple(
            slice(begin, begin + (size - 1) * stride + 1, stride)
            for begin, size, stride in zip(begins, sizes, strides, strict=True)
        )
        taken = padded[(..., *window)].reshape(batch, groups, 1, channels, *sizes)
        for channel in range(channels):
            weights = filter[(slice(None), channel, *tap)].reshape(in_groups)
            sums = fused_multiply_add(taken[:, :, :, channel], weights, sums)
    return sums.reshape(batch, outputs, *sizes)
