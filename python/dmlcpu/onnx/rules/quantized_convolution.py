"""Convolutions of codes: what Conv, QLinearConv, ConvInteger and ConvTranspose become."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from dmlcpu.dtypes import CODE_TYPES
from dmlcpu.graph.lengths import told_unfit
from dmlcpu.onnx.constant_arrays import Array, Constant
from dmlcpu.onnx.lowering import Lowering
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.parameters import Parameters
from dmlcpu.onnx.refusals import NotFitting, NotNative
from dmlcpu.onnx.rules.element_operators import on_floats
from dmlcpu.onnx.rules.native_functions import FloatBinary
from dmlcpu.onnx.rules.operands import aligned, codes_of, constant, present
from dmlcpu.onnx.rules.windows import ConvolutionWindow, window_of
from dmlcpu.onnx.values import CONSTANTS, AffineTable, Deferred, Dequantized, Operand, Tensor, Value
from dmlcpu.shown_values import counted

__all__ = [
    "Filter",
    "QuantizedConvolution",
    "ScaledFilter",
    "convolution_of_computed",
    "filter_of",
    "for_channels",
    "is_better_in_floats",
    "window_of_convolution",
    "with_bias",
]

# A bias beyond it leaves less than half of INT32 to the sums that it is added to.
_LARGEST_BIAS: Final = 1 << 30
# So many products for an element take as long as to clip and quantize what has been written as floats.
_PRODUCTS_OF_FLOATS: Final = 64


@dataclass(frozen=True, slots=True, eq=False)
class ScaledFilter:
    """8-bit codes {output channels, ...} with one scale and zero point, or one for each output channel."""

    codes: Array | Tensor
    scale: Array
    zero_point: Array

    def parameters(self, rank: int) -> tuple[Array, Array | None]:
        """Return scales and zero points as {1, channels, 1, ...}; no zero points if all are 0."""
        shape = (1, self.scale.size, *(1,) * (rank - 2))
        return self.scale.reshape(shape), self.zero_point.reshape(shape) if np.count_nonzero(self.zero_point) else None

    def unit(self, input: Parameters) -> Array:
        """Return the unit of sums of products with codes: one, or one for each output channel."""
        return np.asarray(input.scale * self.scale)


@dataclass(frozen=True, slots=True, eq=False)
class Filter(ScaledFilter):
    """A filter whose codes are constant."""

    codes: Array

    @classmethod
    def of(cls, value: Value | None) -> Filter:
        """Return the filter behind a value, whose scales are one or along the first axis.

        Raises:
            NotNative: It is no constant of 8-bit codes, or its scales are of another type.
        """
        if not isinstance(value, Dequantized) or value.codes.dtype not in CODE_TYPES:
            raise NotNative("a filter that is no constant quantized to 8 bits")
        if value.scale.dtype != np.float32 or value.zero_point.dtype != value.codes.dtype:
            raise NotNative("filter scales that are not FLOAT32")
        return cls(value.codes, value.scale, value.zero_point)


def filter_of(value: Value | None) -> ScaledFilter:
    """Return the filter behind a value, constant or, as networks that modulate their filters have them, computed.

    Raises:
        NotNative: It is not quantized to 8 bits, or its scales are not FLOAT32.
    """
    if not isinstance(value, AffineTable):
        return Filter.of(value)
    own = value.parameters
    return ScaledFilter(value.codes, np.array([own.scale]), np.array([own.zero_point], own.dtype))


def with_bias(
    lowering: Lowering, bias: Value | None, scale: Array, channels: int, convolved: Callable[[Array | None], Value]
) -> Value:
    """Return a convolution with a bias, which is added in floats where its codes would be too large.

    So they are where the scale is next to nothing, as that of channels without weights.

    Args:
        lowering: Where operators are added.
        bias: Constant floats, or constant codes with a scale of their own.
        scale: The unit, input scale times filter scale: one, or one for each channel.
        channels: The output channels.
        convolved: Returns the convolution with a bias in INT32, in units of the scale, or without one.

    Raises:
        NotNative: It is computed, or there is not one value for each channel.
    """
    codes = None if bias is None else _integer_bias(bias, scale, channels)
    result = convolved(codes)
    if bias is None or codes is not None:
        return result
    floats = constant(bias, "a bias").astype(np.float32).reshape(-1, *(1,) * (len(result.shape) - 2))
    return on_floats(lowering, FloatBinary.ADD, result, Constant(floats))


def _integer_bias(bias: Value, scale: Array, channels: int) -> Array | None:
    """Return a bias as INT32 in units of a scale; None if it is too large."""
    if not isinstance(bias, CONSTANTS) or bias.shape != (channels,):
        raise NotNative("a bias that is no constant with a value for each channel")
    if isinstance(bias, Dequantized):
        # Quantizers write codes in this very unit; then the codes count, not their product with a rounded scale.
        is_unit = (np.abs(bias.scale - scale) <= 1e-5 * np.abs(scale)).all()
        if bias.codes.dtype == np.int32 and not bias.zero_point.any() and is_unit:
            return bias.codes
    floats = bias.array.astype(np.float64)
    codes = np.where(floats == 0, 0, np.rint(floats / scale.astype(np.float64)))  # of a scale of 0 as well
    if not np.all(np.abs(codes) <= _LARGEST_BIAS):  # nor NaN
        return None
    return codes.astype(np.int32)


def is_better_in_floats(lowering: Lowering, value: Value, weights: Sequence[int]) -> bool:
    """Return whether floats, made once, take less time than codes that are made again for each who reads others.

    Args:
        lowering: Knows who reads the value.
        value: What an operator with constant weights makes of codes.
        weights: The shape of these, output channels first.
    """
    return (lowering.forms(value) - 1) * math.prod(weights[1:]) >= _PRODUCTS_OF_FLOATS


class QuantizedConvolution(Deferred):
    """A convolution of dequantized codes with a filter, plus a bias."""

    def __init__(
        self,
        lowering: Lowering,
        x: AffineTable,
        weights: ScaledFilter,
        bias: Array | None,
        window: ConvolutionWindow,
    ) -> None:
        self._lowering, self._x, self._filter, self._bias, self._window = lowering, x, weights, bias, window
        self.shape = window.shape(x.shape[0], weights.codes.shape[0])

    @property
    def has_floats(self) -> bool:
        """Whether there are floats, or had better be."""
        return super().has_floats or is_better_in_floats(self._lowering, self, self._filter.codes.shape)

    def scaled(self, factor: Array, addend: Array) -> QuantizedConvolution | None:
        """Return the convolution times a factor plus an addend of each output channel: another of its kind.

        None if there is no unit to tell an addend in.
        """
        scale = (self._filter.scale * factor).astype(np.float32)
        bias = np.rint(addend / (scale.astype(np.float64) * np.float64(self._x.parameters.scale)))
        if self._bias is not None:
            bias += self._bias
        if not (np.isfinite(scale).all() and np.all(np.abs(bias) < 2.0**31)):  # nor NaN
            return None
        points = np.broadcast_to(self._filter.zero_point, scale.shape)
        weights = ScaledFilter(self._filter.codes, scale, points)
        return QuantizedConvolution(self._lowering, self._x, weights, bias.astype(np.int32), self._window)

    def quantized(self, parameters: Parameters) -> Tensor:
        """Add the quantized convolution."""
        rank = len(self.shape)
        filter_scale, filter_zero_point = self._filter.parameters(rank)
        bias = None if self._bias is None else self._bias.reshape(1, -1, *(1,) * (rank - 2))
        inputs: list[Operand] = [
            self._x.codes,
            *self._lowering.pair(self._x.parameters),
            self._filter.codes,
            filter_scale,
            filter_zero_point,
            bias,
            *self._lowering.pair(parameters),
        ]
        attributes = self._window.attributes()
        return self._lowering.emit("QUANTIZED_LINEAR_CONVOLUTION", inputs, parameters.dtype, self.shape, attributes)

    def floats(self) -> Tensor:
        """Add the convolution with its scaled sums."""
        shape = self.shape
        along = (1, -1, *(1,) * (len(shape) - 2))
        unit = self._filter.unit(self._x.parameters)
        _, zero_point = self._lowering.pair(self._x.parameters)
        _, filter_zero_point = self._filter.parameters(len(shape))
        bias = None if self._bias is None else (self._bias.astype(np.float32) * unit).reshape(along)
        inputs: list[Operand] = [
            self._x.codes, zero_point, self._filter.codes, filter_zero_point, unit.reshape(along), bias,
        ]  # fmt: skip
        attributes = self._window.attributes()
        return self._lowering.emit("CONVOLUTION_INTEGER_TO_FLOAT", inputs, np.float32, shape, attributes)


def window_of_convolution(node: Node, shape: Sequence[int], weights: Sequence[int]) -> ConvolutionWindow:
    """Return the window of a convolution of rows or images by a filter.

    Raises:
        NotNative: The input, the filter and the groups do not go together, or are neither of rows nor of images.
    """
    if len(shape) != len(weights):
        raise NotFitting(told_unfit(shape, weights))
    if len(shape) not in (3, 4):
        raise NotNative("3-D convolutions")
    groups = int(node.attributes.get("group", 1))
    if groups < 1 or weights[1] * groups != shape[1] or weights[0] % groups:
        raise NotFitting(f"{told_unfit(shape, weights)} in {counted(groups, 'group')}")
    return ConvolutionWindow(window_of(node, shape[2:], weights[2:]), groups)


def for_channels(lowering: Lowering, value: Value | None, channels: int, rank: int) -> Operand:
    """Return one value, or one for each output channel, as {1, channels, 1, ...}."""
    count = 1 if value is not None and math.prod(value.shape) == 1 else channels
    return aligned(lowering, value, (1, count, *(1,) * (rank - 2)), "scales")


def convolution_of_computed(lowering: Lowering, node: Node, x: Tensor, inputs: Sequence[Value | None]) -> Tensor:
    """Add a quantized convolution of which more than the input is computed."""
    _, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, bias = inputs
    weights = codes_of(w, "the filter")
    rank = len(x.shape)
    window = window_of_convolution(node, x.shape, weights.shape)
    ones, channels = (1,) * rank, weights.shape[0]
    output_zero_point = aligned(lowering, present(y_zero_point), ones, "a zero point")
    assert isinstance(output_zero_point, Tensor | np.ndarray)
    operands: list[Operand] = [
        x,
        aligned(lowering, x_scale, ones, "a scale"),
        aligned(lowering, x_zero_point, ones, "a zero point"),
        weights,
        for_channels(lowering, w_scale, channels, rank),
        for_channels(lowering, w_zero_point, channels, rank),
        aligned(lowering, bias, (1, channels, *ones[2:]), "a bias"),
        aligned(lowering, y_scale, ones, "a scale"),
        output_zero_point,
    ]
    shape, attributes = window.shape(x.shape[0], channels), window.attributes()
    return lowering.emit("QUANTIZED_LINEAR_CONVOLUTION", operands, output_zero_point.dtype, shape, attributes)
