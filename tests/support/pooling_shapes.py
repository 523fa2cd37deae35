"""A pooling as data: its sizes and attributes, the cases that tests make of it, and windows of any size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from convolution_shapes import channels_last
from filled_tensors import filled
from fills import Fill, any_integers, ordinary_scales
from operator_case import OperatorCase
from strided_tensor import blank_tensor

__all__ = ["PoolingShape", "pooling_case", "window_axes"]


@dataclass(frozen=True)
class PoolingShape:
    """`input` and `window` are spatial sizes, two or three of them; an empty tuple is 1 or 0 on each axis."""

    channels: int
    input: tuple[int, ...]
    window: tuple[int, ...]
    batch: int = 1
    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    start_padding: tuple[int, ...] = ()
    end_padding: tuple[int, ...] = ()
    include_padding: bool = False

    @property
    def attributes(self) -> dict[str, Any]:
        ones, zeros = (1,) * len(self.input), (0,) * len(self.input)
        return {
            "strides": self.strides or ones,
            "window_size": self.window,
            "start_padding": self.start_padding or zeros,
            "end_padding": self.end_padding or zeros,
            "dilations": self.dilations or ones,
            "include_padding": int(self.include_padding),
        }

    @property
    def input_sizes(self) -> tuple[int, ...]:
        return (self.batch, self.channels, *self.input)

    @property
    def output_sizes(self) -> tuple[int, ...]:
        names = ("strides", "window_size", "start_padding", "end_padding", "dilations")
        columns = zip(self.input, *(self.attributes[name] for name in names), strict=True)
        spatial = [
            (size + start + end - (window - 1) * dilation - 1) // stride + 1
            for size, stride, window, start, end, dilation in columns
        ]
        return (self.batch, self.channels, *spatial)

    def __str__(self) -> str:
        sizes = ["x".join(map(str, part)) for part in (self.input_sizes, self.window)]
        values = self.attributes
        return f"{sizes[0]}-by-{sizes[1]}-stride{values['strides'][-1]}-pad{values['start_padding'][-1]}"


def pooling_case(
    shape: PoolingShape,
    data_type: str,
    rng: np.random.Generator,
    *,
    is_channels_last: bool = False,
    per_channel: bool = True,
    code_fill: Fill = any_integers,
    scale_fill: Fill = ordinary_scales,
) -> OperatorCase:
    """Everything present, in packed memory of either order."""
    parameters = (1, shape.channels if per_channel else 1, *(1 for _ in shape.input))
    input_strides = channels_last(shape.input_sizes) if is_channels_last else None
    output_strides = channels_last(shape.output_sizes) if is_channels_last else None
    tensors = {
        "input_tensor": filled(rng, data_type, shape.input_sizes, code_fill, input_strides),
        "input_scale_tensor": filled(rng, "FLOAT32", parameters, scale_fill),
        "input_zero_point_tensor": filled(rng, data_type, parameters, any_integers),
        "output_scale_tensor": filled(rng, "FLOAT32", parameters, scale_fill),
        "output_zero_point_tensor": filled(rng, data_type, parameters, any_integers),
        "output_tensor": blank_tensor(data_type, shape.output_sizes, output_strides),
    }
    return OperatorCase("QUANTIZED_LINEAR_AVERAGE_POOLING", tensors, shape.attributes)


@st.composite
def window_axes(draw: st.DrawFn) -> tuple[int, ...]:
    """(input size, window, stride, dilation, start padding, end padding), every window with an element inside."""
    window = draw(st.integers(1, 6))
    dilation = draw(st.integers(1, 3))
    reach = (window - 1) * dilation
    size = draw(st.integers(1, 19))
    start, end = draw(st.integers(0, reach)), draw(st.integers(0, reach))
    assume(size + start + end > reach and (dilation <= size or window == 1))
    stride = draw(st.integers(1, 4))
    last = (size + start + end - reach - 1) // stride * stride - start
    assume(last < size)
    return size, window, stride, dilation, start, end
