"""Products and sums with one constant for each channel, and BatchNormalization, which is both."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from dmlcpu.graph.lengths import broadcast_shapes
from dmlcpu.onnx.constant_arrays import Array, Constant
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.parameters import Parameters
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.element_operators import on_floats
from dmlcpu.onnx.rules.movement.moved_values import reshaped, transposed
from dmlcpu.onnx.rules.native_functions import FloatBinary
from dmlcpu.onnx.rules.operands import constant, present, trains
from dmlcpu.onnx.rules.quantized_convolution import Filter, QuantizedConvolution
from dmlcpu.onnx.rules.windows import ConvolutionWindow, Window
from dmlcpu.onnx.values import CONSTANTS, AffineTable, Deferred, Table, Tensor, Value

__all__ = ["RULES", "channel_affine", "channel_constant", "number_for_channels"]

# The factor of a code in the sums; the more, the finer the steps in which the addend is told.
_FACTOR: Final = 128
# Floats that are this part of the largest off a straight line lie on it.
_STRAIGHT: Final = 2.0**-20


ChannelNumbers: TypeAlias = Callable[[], tuple[Array, Array]]
"""Returns a factor and an addend for each channel. It is called only where codes are wanted, since it may bind lengths
that these follow from."""


class ChannelAffine(Deferred):
    """A function of codes, ``code * slope + intercept``, with numbers of their own for each channel.

    In codes it is a depthwise convolution by a filter of one element, 128. The intercept becomes a bias in steps of
    1/128 of an input code, so that a result that lies on the edge of rounding may be one code off.
    """

    def __init__(
        self,
        lowering: Lowering,
        codes: Tensor,
        axis: int,
        line: ChannelNumbers,
        floats: Callable[[], Tensor],
        before: Value,
    ) -> None:
        """Keep what it is a function of.

        Args:
            lowering: Where operators are added.
            codes: The codes.
            axis: Of the channels.
            line: Returns slopes and intercepts.
            floats: Computes it in floating point.
            before: What that is computed of.
        """
        self._lowering, self._floats, self.before = lowering, floats, before
        self.codes, self.axis, self.line = codes, axis, line
        self.shape = codes.shape

    def quantized(self, parameters: Parameters) -> Tensor | None:
        """Add the convolution, if the intercepts can be told in its steps."""
        slope, intercept = self.line()
        scale = (slope / _FACTOR).astype(np.float32)
        bias = np.rint(intercept / scale.astype(np.float64))
        if not (np.isfinite(scale).all() and np.all(np.abs(bias) < 2.0**30)):  # nor NaN
            return None
        channels = scale.size
        own = Parameters(np.float32(1), 0, self.codes.dtype)
        # With channels innermost this is a view of the codes.
        before, behind = self.shape[: self.axis], self.shape[self.axis + 1 :]
        value: Value = AffineTable(self.codes, own)
        if not behind:
            value = transposed(
                self._lowering, reshaped(self._lowering, value, (1, 1, math.prod(before), channels)), (0, 3, 1, 2)
            )
        else:
            value = reshaped(self._lowering, value, (math.prod(before), channels, *_rows_and_columns(behind)))
        assert isinstance(value, AffineTable)
        codes = np.full((channels, 1, 1, 1), _FACTOR, np.uint8)
        weights = Filter(codes, scale, np.zeros(1, np.uint8))
        window = ConvolutionWindow(Window.plain((1, 1), value.shape[2:]), channels)
        result = QuantizedConvolution(self._lowering, value, weights, bias.astype(np.int32), window)
        image: Value = result.quantized(parameters)
        if not behind:
            image = transposed(self._lowering, image, (0, 2, 3, 1))
        tensor = reshaped(self._lowering, image, self.shape)
        assert isinstance(tensor, Tensor)
        return tensor

    def floats(self) -> Tensor:
        """Compute it in floating point, operator by operator."""
        return self._floats()


class ScaledConvolution(Deferred):
    """A convolution's result times a factor plus an addend for each channel; in codes, another convolution's."""

    def __init__(
        self, lowering: Lowering, source: QuantizedConvolution, floats: Callable[[], Tensor], before: Value
    ) -> None:
        self._lowering = lowering
        self.source, self._floats, self.before = source, floats, before
        self.shape = source.shape

    def quantized(self, parameters: Parameters) -> Tensor:
        """Add the other convolution."""
        return self._lowering.quantized(self.source, parameters)

    def floats(self) -> Tensor:
        """Compute it in floating point, operator by operator: the addends are not rounded."""
        return self._floats()


def _rows_and_columns(lengths: Sequence[int]) -> tuple[int, int]:
    return lengths[0] if len(lengths) > 1 else 1, math.prod(lengths[1:]) if len(lengths) > 1 else lengths[0]


def _line(value: Value) -> tuple[Tensor, float, float] | None:
    """Return codes, slope and intercept of a value that is an affine function of codes; None if it is none."""
    if not isinstance(value, Table):
        return None
    numbers = np.arange(256, dtype=np.uint8).view(value.codes.dtype).astype(np.float64)
    floats = value.floats.astype(np.float64)
    lowest, highest = int(np.argmin(numbers)), int(np.argmax(numbers))
    slope = (floats[highest] - floats[lowest]) / 255
    intercept = floats[lowest] - slope * numbers[lowest]
    deviation = np.abs(floats - (numbers * slope + intercept)).max()
    if not deviation <= _STRAIGHT * np.abs(floats).max():  # nor NaN
        return None
    return value.codes, float(slope), float(intercept)


def channel_affine(
    lowering: Lowering, value: Value, axis: int, numbers: ChannelNumbers, floats: Callable[[], Tensor]
) -> Deferred | None:
    """Return a value times a factor plus an addend for each index of an axis.

    None if it is neither the result of a convolution nor an affine function of codes.

    Args:
        lowering: Where operators are added.
        value: Any.
        axis: Of the value.
        numbers: Returns the factors and the addends, 1-D along the axis.
        floats: Computes the same in floating point.
    """
    source = value.source if isinstance(value, ScaledConvolution) else value
    if isinstance(source, QuantizedConvolution) and axis == 1:
        scaled = source.scaled(*numbers())
        if scaled is None:
            return None
        lowering.goes_on(source, scaled)
        return ScaledConvolution(lowering, scaled, floats, value)
    if isinstance(value, ChannelAffine) and value.axis == axis:
        return ChannelAffine(lowering, value.codes, axis, _followed(value.line, numbers), floats, value)
    line = _line(value)
    if line is None:
        return None
    codes, slope, intercept = line
    of_all = np.float64(slope), np.float64(intercept)
    return ChannelAffine(lowering, codes, axis, _followed(lambda: of_all, numbers), floats, value)


def _followed(line: Callable[[], tuple[Any, Any]], numbers: ChannelNumbers) -> ChannelNumbers:
    """Return slopes and intercepts of a line, times factors, plus addends."""

    def composed() -> tuple[Array, Array]:
        (slope, intercept), (factor, addend) = line(), numbers()
        return slope * factor, intercept * factor + addend

    return composed


def channel_constant(value: Value, numbers: Value) -> tuple[int, Callable[[], Array]] | None:
    """Return the axis along which a constant changes when it is broadcast to a value, and what tells its floats.

    None if the value is none of those that ``channel_affine`` takes.
    """
    if not isinstance(value, QuantizedConvolution | ScaledConvolution | ChannelAffine | Table):
        return None
    if not isinstance(numbers, CONSTANTS) or len(numbers.shape) > len(value.shape):
        return None
    lengths = (*(1,) * (len(value.shape) - len(numbers.shape)), *numbers.shape)
    axes = [axis for axis, length in enumerate(lengths) if length > 1]
    if len(axes) != 1 or lengths[axes[0]] != value.shape[axes[0]]:
        return None
    if isinstance(numbers, Constant) and numbers.dtype != np.float32:
        return None

    def floats() -> Array:
        return constant(numbers, "a number for each channel").reshape(-1).astype(np.float64)

    return axes[0], floats


def number_for_channels(value: Value, number: Value) -> tuple[int, Callable[[], Array]] | None:
    """Return a constant of one element as one for each channel of what a convolution computes.

    Functions of codes are tables of any number.
    """
    if not isinstance(value, QuantizedConvolution | ScaledConvolution | ChannelAffine):
        return None
    if not isinstance(number, CONSTANTS) or math.prod(number.shape) != 1 or len(number.shape) > 4:
        return None
    axis = value.axis if isinstance(value, ChannelAffine) else 1
    if isinstance(number, Constant) and number.dtype != np.float32:
        return None
    if len(broadcast_shapes(value.shape, number.shape)) != len(value.shape):
        return None
    return axis, lambda: np.full(value.shape[axis], constant(number, "a number").reshape(()), np.float64)


def batch_normalization(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """BatchNormalization with constant statistics."""
    value = present(inputs[0])
    if trains(node) or any(node.outputs[1:]) or len(value.shape) < 2:
        raise NotNative("training")
    names = ("the scale", "the bias", "the mean", "the variance")
    scale, bias, mean, variance = (
        constant(each, name).astype(np.float64) for each, name in zip(inputs[1:5], names, strict=True)
    )
    if any(array.shape != (value.shape[1],) for array in (scale, bias, mean, variance)):
        raise NotNative("statistics that are not those of the channels")
    factor = scale / np.sqrt(variance + node.attributes.get("epsilon", 1e-5))
    addend = bias - mean * factor
    along = (1, -1, *(1,) * (len(value.shape) - 2))

    def floats() -> Tensor:
        product = on_floats(lowering, FloatBinary.MULTIPLY, value, Constant(factor.astype(np.float32).reshape(along)))
        return on_floats(lowering, FloatBinary.ADD, product, Constant(addend.astype(np.float32).reshape(along)))

    result = channel_affine(lowering, value, 1, lambda: (factor, addend), floats)
    return [floats() if result is None else result]


RULES: Final[Mapping[tuple[str, str], Rule]] = {("", "BatchNormalization"): batch_normalization}
