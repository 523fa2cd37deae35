"""FLOAT_POOLING: the average, the sum or an extreme of every window, tap after tap, row by row, or half after half."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import DTypeLike, NDArray

from reference.arithmetic import FloatArray, SubnormalWatch

__all__ = ["OUTPUTS", "float_pooling"]

OUTPUTS = ("output_tensor",)


def float_pooling(
    input: NDArray[Any],
    *,
    function: Sequence[int],
    include_padding: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    window_size: Sequence[int],
    start_padding: Sequence[int],
    end_padding: Sequence[int],
    output_data_type: DTypeLike,
    watch: SubnormalWatch | None = None,
) -> NDArray[Any]:
    """Input {N, C, H, W}; function 0: average, 1: maximum, b unless a is larger or NaN, 2: minimum, 3: sum."""
    widths = [(0, 0), (0, 0), *zip(start_padding, end_padding, strict=True)]
    reaches = [(size - 1) * dilation + 1 for size, dilation in zip(window_size, dilations, strict=True)]

    def windows_of(values: NDArray[Any], padding: float) -> NDArray[Any]:
        """{N, C, rows, columns, rows of taps, columns of taps}."""
        windows = sliding_window_view(np.pad(values, widths, constant_values=padding), reaches, axis=(2, 3))
        return windows[:, :, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]

    with np.errstate(all="ignore"):
        # What adds nothing, and what no number is less or larger than, may be a tap of the padding.
        if function[0] == 1:
            return extremes(windows_of(input, -np.inf), np.greater)
        if function[0] == 2:
            return extremes(windows_of(input, np.inf), np.less)
        total = by_halves(windows_of(input, 0))
        if function[0] == 3:
            return total
        is_counted = windows_of(np.ones_like(input, bool), bool(include_padding[0]))
        return total / is_counted.sum((-2, -1)).astype(np.float32)


def extremes(windows: FloatArray, is_beyond: Callable[[FloatArray, FloatArray], NDArray[np.bool_]]) -> FloatArray:
    """Of two taps the later one, unless the earlier one is beyond it or NaN.

    Of all that is the first NaN, or the last of those that none is beyond, in whatever pairs neighbours are compared.
    """
    taps = windows.reshape(*windows.shape[:4], -1)
    while (count := taps.shape[-1]) > 1:
        earlier, later = taps[..., : count - 1 : 2], taps[..., 1::2]
        chosen = np.where(is_beyond(earlier, later) | np.isnan(earlier), earlier, later)
        taps = np.concatenate([chosen, taps[..., count - count % 2 :]], axis=-1)
    return taps[..., 0]


def by_halves(windows: FloatArray) -> FloatArray:
    """The sums of 1024 taps at most; of more than that those of their halves are added, of rows before those of one."""
    rows, columns = windows.shape[-2:]
    if rows * columns <= 1024:
        # One after the other, from +0 on: what is accumulated numpy does not reorder, as it does what it sums.
        taps = windows.reshape(*windows.shape[:4], -1)
        return np.add.accumulate(np.concatenate([np.zeros_like(taps[..., :1]), taps], axis=-1), axis=-1)[..., -1]
    if rows > 1:
        return by_halves(windows[..., : rows // 2, :]) + by_halves(windows[..., rows // 2 :, :])
    return by_halves(windows[..., : columns // 2]) + by_halves(windows[..., columns // 2 :])
