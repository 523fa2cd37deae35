"""A convolution as data: its sizes and attributes, and the cases that tests make of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from filled_tensors import FilledTensors
from fills import Fill, any_integers, ordinary_scales
from operator_case import OperatorCase
from strided_tensor import blank_tensor

__all__ = ["ConvolutionShape", "ConvolutionTypes", "channels_last", "packed_case", "packed_integer_case"]


@dataclass(frozen=True)
class ConvolutionShape:
    """Channels of one group; `input` and `kernel` are spatial sizes, one or two of them."""

    channels_in: int
    channels_out: int
    input: tuple[int, ...]
    kernel: tuple[int, ...]
    batch: int = 1
    groups: int = 1
    strides: tuple[int, ...] = (1, 1)
    dilations: tuple[int, ...] = (1, 1)
    start_padding: tuple[int, ...] = (0, 0)
    end_padding: tuple[int, ...] = (0, 0)

    @property
    def input_sizes(self) -> tuple[int, ...]:
        return (self.batch, self.channels_in * self.groups, *self.input)

    @property
    def filter_sizes(self) -> tuple[int, ...]:
        return (self.channels_out * self.groups, self.channels_in, *self.kernel)

    @property
    def output_sizes(self) -> tuple[int, ...]:
        extents = [1 + (size - 1) * step for size, step in zip(self.kernel, self.dilations, strict=False)]
        padded = [sum(sizes) for sizes in zip(self.input, self.start_padding, self.end_padding, strict=False)]
        steps = zip(padded, extents, self.strides, strict=False)
        return (self.batch, self.filter_sizes[0], *((size - extent) // step + 1 for size, extent, step in steps))

    @property
    def attributes(self) -> dict[str, Any]:
        names = ("strides", "dilations", "start_padding", "end_padding")
        return {**{name: getattr(self, name) for name in names}, "group_count": self.groups}

    def __str__(self) -> str:
        sizes = ["x".join(map(str, part)) for part in (self.input_sizes, self.filter_sizes)]
        return f"{sizes[0]}-by-{sizes[1]}-groups{self.groups}-stride{self.strides[0]}-pad{self.start_padding[0]}"


@dataclass(frozen=True)
class ConvolutionTypes:
    input: str = "UINT8"
    filter: str = "INT8"
    output: str = "UINT8"


def channels_last(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Strides that put axis 1 innermost: NHWC of sizes in the order of NCHW."""
    order = [1, *range(len(sizes) - 1, 1, -1), 0]
    strides, step = [0] * len(sizes), 1
    for axis in order:
        strides[axis] = step
        step *= sizes[axis]
    return tuple(strides)


def packed_case(
    shape: ConvolutionShape,
    types: ConvolutionTypes,
    rng: np.random.Generator,
    *,
    is_channels_last: bool = False,
    operand_fill: Fill = any_integers,
) -> OperatorCase:
    """Everything present: per-channel scales and zero points, and a bias that makes sums wrap."""
    input_strides, output_strides = None, None
    if is_channels_last:
        input_strides, output_strides = channels_last(shape.input_sizes), channels_last(shape.output_sizes)
    ones = (1, 1, 1, 1)
    per_channel = (1, shape.filter_sizes[0], 1, 1)
    made = FilledTensors(rng)
    made.add("input", types.input, shape.input_sizes, operand_fill, input_strides)
    made.add("input_scale", "FLOAT32", ones, ordinary_scales)
    made.add("input_zero_point", types.input, ones, any_integers)
    made.add("filter", types.filter, shape.filter_sizes, operand_fill)
    made.add("filter_scale", "FLOAT32", per_channel, ordinary_scales)
    made.add("filter_zero_point", types.filter, per_channel, any_integers)
    made.add("bias", "INT32", per_channel, mixed_biases)
    # Large enough for a part of the results to fall between the ends of the range.
    depth = shape.channels_in * int(np.prod(shape.kernel))
    made.add("output_scale", "FLOAT32", ones, lambda rng, dtype, count: np.full(count, 40 * depth**0.5, dtype))
    made.add("output_zero_point", types.output, ones, any_integers)
    made.tensors["output_tensor"] = blank_tensor(types.output, shape.output_sizes, output_strides)
    return OperatorCase("QUANTIZED_LINEAR_CONVOLUTION", made.tensors, shape.attributes)


def packed_integer_case(
    shape: ConvolutionShape,
    types: ConvolutionTypes,
    rng: np.random.Generator,
    *,
    is_channels_last: bool = False,
    operand_fill: Fill = any_integers,
) -> OperatorCase:
    """The same convolution with its sums as the output."""
    made = packed_case(shape, types, rng, is_channels_last=is_channels_last, operand_fill=operand_fill).tensors
    names = ("input_tensor", "input_zero_point_tensor", "filter_tensor", "filter_zero_point_tensor")
    strides = channels_last(shape.output_sizes) if is_channels_last else None
    tensors = {name: made[name] for name in names} | {
        "output_tensor": blank_tensor("INT32", shape.output_sizes, strides)
    }
    return OperatorCase("CONVOLUTION_INTEGER", tensors, shape.attributes)


def mixed_biases(rng: np.random.Generator, dtype: np.dtype[Any], count: int) -> Any:
    """Most of the size of the sums, some at the ends of INT32."""
    limits = np.iinfo(dtype)
    ends = rng.choice(np.array([limits.min, limits.min + 1, limits.max - 1, limits.max], dtype), count)
    return np.where(rng.random(count) < 0.15, ends, rng.integers(-100_000, 100_000, count, dtype))
