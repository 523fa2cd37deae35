"""What the functions of sliding windows share: attributes of spatial axes, and the output that follows from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dmlcpu.functions.layout import Array, Layout, memory_order, new_array

__all__ = ["windowed_output"]


def windowed_output(
    input: Array, channels: int, window: Sequence[int], attributes: Mapping[str, Any], dtype: np.dtype[Any]
) -> Layout:
    """Return a new output in the input's memory order; of extent 1 where no size follows, for the checks to refuse.

    Args:
        input: The array that the window slides over.
        channels: The output's channels.
        window: The window's size along each spatial axis; an absent one counts as 1.
        attributes: ``strides``, ``dilations``, ``start_padding`` and ``end_padding``.
        dtype: The output's type.
    """
    spatial = []
    for axis, size in enumerate(input.shape[2:]):
        step, dilation, start, end = (
            _entry(attributes[name], axis) for name in ("strides", "dilations", "start_padding", "end_padding")
        )
        room = size + start + end - (_entry(window, axis, otherwise=1) - 1) * dilation - 1
        spatial.append(max(room // step + 1, 1) if step > 0 else 1)
    shape = ((*input.shape, 1)[0], channels, *spatial)
    return new_array(shape, dtype, memory_order(input) if len(shape) == input.ndim else range(len(shape)))


def _entry(values: Any, index: int, otherwise: int = 0) -> int:
    """Return an attribute of one axis, or another value where there is none that could be computed with."""
    value = values[index] if isinstance(values, tuple) and index < len(values) else otherwise
    return value if type(value) is int and 0 <= value < 2**32 else otherwise
