"""One quantized convolution with its data, as dmlcpu and its peers are given it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dmlcpu
from bench.operands import CODE_TYPES, Layout, PreparedCall, in_layout, random_codes
from bench.shapes import ConvolutionShape
from dmlcpu import Device, TensorDataType, TensorDesc, TensorFlags

__all__ = ["ConvolutionCase"]


@dataclass(frozen=True)
class ConvolutionCase:
    """A shape, the types of input and filter, and data that follow from a seed.

    The output has the input's type. Scales are one for each output channel, such that the output's codes spread over
    their range; the bias is one for each channel; zero points are in the middle of unsigned types and 0 of signed ones,
    but for the input's and the output's, which are off it. Filters of 7 bits have codes from -64 to 63 around their
    zero point: what libraries whose sums saturate without VNNI ask of their users.
    """

    shape: ConvolutionShape
    types: str
    filter_bits: int = 8
    seed: int = 1

    @property
    def input_type(self) -> np.dtype[Any]:
        """The type of input and output."""
        return CODE_TYPES[self.types][0]

    @property
    def filter_type(self) -> np.dtype[Any]:
        """The type of the filter."""
        return CODE_TYPES[self.types][1]

    @cached_property
    def input(self) -> NDArray[Any]:
        """Codes, {N, C, H, W}."""
        return random_codes(self.input_type, (self.shape.batch, self.shape.channels, *self.shape.size), (self.seed, 0))

    @cached_property
    def filter(self) -> NDArray[Any]:
        """Codes, {filters, C / groups, kernel height, kernel width}."""
        channels = self.shape.channels // self.shape.groups
        codes = random_codes(self.filter_type, (self.shape.filters, channels, *self.shape.kernel), (self.seed, 1))
        middle = self.filter_zero_point
        return codes if self.filter_bits == 8 else ((codes.astype(np.int16) - middle) // 2 + middle).astype(codes.dtype)

    input_scale = np.float32(0.02)
    output_scale = np.float32(0.05)

    @property
    def input_zero_point(self) -> int:
        """A little off the middle."""
        return 131 if self.input_type == np.uint8 else 3

    @property
    def filter_zero_point(self) -> int:
        """The middle of the type."""
        return 128 if self.filter_type == np.uint8 else 0

    @property
    def output_zero_point(self) -> int:
        """A little off the middle."""
        return 120 if self.input_type == np.uint8 else -8

    @cached_property
    def filter_scale(self) -> NDArray[np.float32]:
        """Such that an output is off its zero point by about 40 codes."""
        terms = self.filter[0].size
        filter_deviation = 74.0 / 2 ** (8 - self.filter_bits)
        deviation = 74.0 * filter_deviation * np.sqrt(terms) * float(self.input_scale) / float(self.output_scale)
        spread = np.random.default_rng((self.seed, 2)).uniform(0.7, 1.3, self.shape.filters)
        scales: NDArray[np.float32] = (spread * 40.0 / deviation).astype(np.float32)
        return scales

    @cached_property
    def bias(self) -> NDArray[np.int32]:
        """Up to about a tenth of the sums."""
        return np.random.default_rng((self.seed, 3)).integers(-5000, 5000, self.shape.filters).astype(np.int32)

    def empty_output(self, layout: Layout) -> NDArray[Any]:
        """Return an output of {N, C, H, W} in the layout's memory."""
        height, width = self.shape.output_size
        sizes = (self.shape.batch, self.shape.filters, height, width)
        return in_layout(np.empty(sizes, self.input_type), layout)

    def prepare(self, device: Device, layout: Layout) -> PreparedCall:
        """Compile dmlcpu's operator with the filter, its scales and the bias owned, and bind input and output."""
        x, output = in_layout(self.input, layout), self.empty_output(layout)
        desc = self.desc(x, output)
        compiled = device.compile_operator(device.create_operator(desc))
        compiled.initialize(
            filter_tensor=self.filter.reshape(-1),
            filter_scale_tensor=self.filter_scale,
            filter_zero_point_tensor=np.full(self.shape.filters, self.filter_zero_point, self.filter_type),
            bias_tensor=self.bias,
        )
        bindings: dict[str, Any] = {
            "input_tensor": x,
            "input_scale_tensor": self.input_scale,
            "input_zero_point_tensor": self.input_type.type(self.input_zero_point),
            "output_scale_tensor": self.output_scale,
            "output_zero_point_tensor": self.input_type.type(self.output_zero_point),
            "output_tensor": output,
        }
        return PreparedCall(lambda: compiled.dispatch(**bindings), output)

    def desc(self, x: NDArray[Any], output: NDArray[Any]) -> dmlcpu.QuantizedLinearConvolutionOperatorDesc:
        """Return the desc for an input and an output as they lie in memory."""
        one, by_channel = (1, 1, 1, 1), (1, self.shape.filters, 1, 1)
        owned = TensorFlags.OWNED_BY_DML
        codes, filter_codes = (TensorDataType[dtype.name.upper()] for dtype in (self.input_type, self.filter_type))
        return dmlcpu.QuantizedLinearConvolutionOperatorDesc(
            input_tensor=TensorDesc.from_array(x),
            input_scale_tensor=TensorDesc(TensorDataType.FLOAT32, one),
            input_zero_point_tensor=TensorDesc(codes, one),
            filter_tensor=TensorDesc.from_array(self.filter, flags=owned),
            filter_scale_tensor=TensorDesc(TensorDataType.FLOAT32, by_channel, flags=owned),
            filter_zero_point_tensor=TensorDesc(filter_codes, by_channel, flags=owned),
            bias_tensor=TensorDesc(TensorDataType.INT32, by_channel, flags=owned),
            output_scale_tensor=TensorDesc(TensorDataType.FLOAT32, one),
            output_zero_point_tensor=TensorDesc(codes, one),
            output_tensor=TensorDesc.from_array(output),
            strides=self.shape.strides,
            dilations=self.shape.dilations,
            start_padding=self.shape.padding,
            end_padding=self.shape.padding,
            group_count=self.shape.groups,
        )
