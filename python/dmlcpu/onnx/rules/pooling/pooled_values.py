"""Averages, sums and extremes of windows of a value, from codes to codes where it is dequantized ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from dmlcpu.dtypes import CODE_TYPES
from dmlcpu.onnx.constant_arrays import Array, constant_by
from dmlcpu.onnx.lowering import Lowering
from dmlcpu.onnx.parameters import Parameters
from dmlcpu.onnx.rules.element_operators import on_floats
from dmlcpu.onnx.rules.movement.moved_values import Moved, reshaped, sliced_along, transposed
from dmlcpu.onnx.rules.native_functions import FloatBinary, Pooling
from dmlcpu.onnx.rules.operands import computed
from dmlcpu.onnx.rules.pooling.float_pooling import float_pooling
from dmlcpu.onnx.rules.windows import Window
from dmlcpu.onnx.values import AffineTable, Deferred, Operand, Table, Tensor, Value

__all__ = ["StackedSum", "averaged", "maximum", "minimum", "summed"]

_OTHER_SIGN: Final = np.arange(256, dtype=np.uint8) ^ np.uint8(0x80)
_REVERSED: Final = ~np.arange(256, dtype=np.uint8)  # from the last code to the first, with a sign or without

# DirectML's operator adds n floats one by one. Each is at most 255 units of the input's scale away from 0, so that the
# sum of k is wrong by the next addition by at most k * 255 / 2^24 of them, and the average of all by about n * 255 /
# 2^25: half a code here, if input and output have one scale, and less than a code up to twice the output's. Elements of
# one sign are wrong in proportion to their average, which is at most 255 units of the output's scale: by half a code,
# whatever the scales.
_MOST_ADDED_ONE_BY_ONE: Final = 1 << 16


class AveragePooling(Deferred):
    """The average of the dequantized codes of each window, or as many of it as a factor says."""

    def __init__(
        self, lowering: Lowering, x: AffineTable, window: Window, include_padding: bool, factor: int | None = None
    ) -> None:
        self._lowering, self._x, self._window, self._include_padding = lowering, x, window, include_padding
        self._factor = factor
        self.shape = (*x.shape[:2], *window.output)

    def quantized(self, parameters: Parameters) -> Tensor | None:
        """Add the pooling from codes to codes, but not of large windows: the sums of floats are closer."""
        if math.prod(self._window.kernel) > _MOST_ADDED_ONE_BY_ONE:
            return None
        ones = (1,) * len(self.shape)
        # The operator has one data type. INT8 codes are UINT8 ones less 128, the zero point too.
        dtype = self._x.codes.dtype
        zero_point = parameters.zero_point + int(np.iinfo(dtype).min) - int(np.iinfo(parameters.dtype).min)
        given = self._lowering.pair(self._x.parameters)
        wanted = self._lowering.pair(Parameters(parameters.scale, zero_point, dtype))
        scale: Operand = wanted[0].reshape(ones)
        if self._factor is not None:
            scale = constant_by(_scale_of_sums, parameters.scale, self._factor, len(ones))
        attributes = {
            **self._window.attributes(),
            "window_size": self._window.kernel,
            "include_padding": (int(self._include_padding),),
        }
        operands = [self._x.codes, *(array.reshape(ones) for array in given), scale, wanted[1].reshape(ones)]
        codes = self._lowering.emit("QUANTIZED_LINEAR_AVERAGE_POOLING", operands, dtype, self.shape, attributes)
        if dtype == parameters.dtype:
            return codes
        return self._lowering.emit("CODE_TABLE", [codes, _OTHER_SIGN], parameters.dtype, self.shape)

    def floats(self) -> Tensor:
        """Add the pooling of floats."""
        floats = self._lowering.floats(self._x)
        average = float_pooling(self._lowering, floats, self._window, Pooling.AVERAGES, self._include_padding)
        if self._factor is None:
            return average
        return on_floats(self._lowering, FloatBinary.MULTIPLY, average, constant_by(_as_float, self._factor))


class SumPooling(AveragePooling):
    """The sum of the dequantized codes of each window."""

    def __init__(self, lowering: Lowering, x: AffineTable, window: Window) -> None:
        super().__init__(lowering, x, window, include_padding=True, factor=math.prod(window.kernel))

    def floats(self) -> Tensor:
        """Add the pooling of floats."""
        return float_pooling(self._lowering, self._lowering.floats(self._x), self._window, Pooling.SUMS)


def _scale_of_sums(scale: np.float32, count: int, rank: int) -> Array:
    """Return the scale of averages whose codes are those of sums."""
    return np.full((1,) * rank, scale / np.float32(count), np.float32)


def _as_float(number: int) -> Array:
    return np.array(number, np.float32)


class StackedSum(Deferred):
    """The sum of dequantized codes along the second of five axes: of images that are stacked, or split by channels.

    Attributes:
        x: The codes.
    """

    def __init__(self, lowering: Lowering, x: AffineTable, floats: Callable[[], Tensor]) -> None:
        self._lowering, self.x, self._floats = lowering, x, floats
        self.shape = (x.shape[0], *x.shape[2:])

    def quantized(self, parameters: Parameters) -> Tensor:
        """Add the addition of two images' codes, or the pooling of more."""
        if self.x.shape[1] != 2:
            averages = self.averaged(Window.plain((1, 1), self.shape[2:]), False)
            return self._lowering.quantized(averages, parameters)
        operands: list[Operand] = []
        for index in range(2):
            part = self._sliced(index)
            operands += [part, *self._lowering.pair(self.x.parameters)]
        operands += self._lowering.pair(parameters)
        return self._lowering.emit("ELEMENT_WISE_QUANTIZED_LINEAR_ADD", operands, parameters.dtype, self.shape)

    def _sliced(self, index: int) -> Tensor:
        part = sliced_along(self._lowering, self.x.codes, 1, index, 1)
        return self._lowering.reshaped(computed(self._lowering, part), self.shape)

    def averaged(self, window: Window, include_padding: bool) -> Deferred:
        """Return the average of each window: those of the stack, as often as it has images."""
        stack = transposed(self._lowering, self.x, (0, 2, 1, 3, 4))
        assert isinstance(stack, AffineTable)
        depth = stack.shape[2]
        volume = Window.plain((depth,), (1,)).beside(window)
        pooled = AveragePooling(self._lowering, stack, volume, include_padding, depth)
        result = reshaped(self._lowering, pooled, (*self.shape[:2], *window.output))
        assert isinstance(result, Deferred)
        return result

    def floats(self) -> Tensor:
        """Add the sum of floats."""
        return self._floats()


class StackedAverage(Deferred):
    """The average, or sum, of each window of a stacked sum."""

    def __init__(
        self,
        lowering: Lowering,
        source: StackedSum,
        window: Window,
        include_padding: bool,
        function: Pooling = Pooling.AVERAGES,
    ) -> None:
        self._lowering, self._source = lowering, source
        self._window, self._include_padding, self._function = window, include_padding, function
        self.shape = (*source.shape[:2], *window.output)

    def quantized(self, parameters: Parameters) -> Tensor:
        """Add the pooling of the stack, from codes to codes."""
        if self._function == Pooling.SUMS:
            count = np.float32(math.prod(self._window.kernel))
            parameters = replace(parameters, scale=parameters.scale / count)
        return self._lowering.quantized(self._source.averaged(self._window, self._include_padding), parameters)

    def floats(self) -> Tensor:
        """Add the sum of floats, and its pooling."""
        return float_pooling(
            self._lowering, self._source.computed(), self._window, self._function, self._include_padding
        )


def averaged(lowering: Lowering, value: Value, window: Window, include_padding: bool = False) -> Value:
    """Return the average of each window of an image: of codes where the value is dequantized, else of floats."""
    if isinstance(value, StackedSum):
        return StackedAverage(lowering, value, window, include_padding)
    if isinstance(value, AffineTable) and len(value.shape) in (4, 5):
        return AveragePooling(lowering, value, window, include_padding)
    return float_pooling(lowering, computed(lowering, value), window, Pooling.AVERAGES, include_padding)


def summed(lowering: Lowering, value: Value, window: Window) -> Value:
    """Return the sum of each window of an image without padding: of codes where the value is dequantized."""
    if isinstance(value, StackedSum):
        return StackedAverage(lowering, value, window, include_padding=False, function=Pooling.SUMS)
    if isinstance(value, AffineTable) and len(value.shape) in (4, 5):
        return SumPooling(lowering, value, window)
    return float_pooling(lowering, computed(lowering, value), window, Pooling.SUMS)


class Extreme(Moved):
    """The maximum, or minimum, of each window of what is to be quantized."""

    def quantized(self, parameters: Parameters) -> Tensor | None:
        """Take it of the codes, where these keep the order of floats."""
        return super().quantized(parameters) if parameters.keeps_order else None


def maximum(lowering: Lowering, value: Value, window: Window) -> Value:
    """Return the maximum of each window of an image.

    Of what is to be quantized it is that of the codes, where these keep the order.
    """
    return _extreme(lowering, value, window, lambda tensor: _pooled_maximum(lowering, tensor, window))


def minimum(lowering: Lowering, value: Value, window: Window) -> Value:
    """Return the minimum of each window of an image: of codes the maximum, where all order is reversed."""

    def move(tensor: Tensor) -> Tensor:
        if tensor.dtype not in CODE_TYPES:
            return float_pooling(lowering, tensor, window, Pooling.MINIMA)

        def reversed_order(codes: Tensor) -> Tensor:
            return lowering.code_table(codes, _REVERSED.view(codes.dtype))

        return reversed_order(_pooled_maximum(lowering, reversed_order(tensor), window))

    return _extreme(lowering, value, window, move)


def _pooled_maximum(lowering: Lowering, tensor: Tensor, window: Window) -> Tensor:
    if tensor.dtype not in CODE_TYPES:
        return float_pooling(lowering, tensor, window, Pooling.MAXIMA)
    attributes = {**window.attributes(), "window_size": window.kernel}
    return lowering.emit("MAX_POOLING", [tensor], tensor.dtype, (*tensor.shape[:2], *window.output), attributes)


def _extreme(lowering: Lowering, value: Value, window: Window, move: Callable[[Tensor], Tensor]) -> Value:
    """Return what is moved of floats, or of their codes, where these keep the order."""
    if isinstance(value, Table) and np.all(np.diff(_in_order(value)) >= 0):
        return replace(value, codes=move(value.codes))
    if isinstance(value, Table | Deferred):
        return Extreme(lowering, value, (*value.shape[:2], *window.output), move)
    return move(computed(lowering, value))


def _in_order(table: Table) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """Return the floats of a table from the lowest code to the highest."""
    return np.roll(table.floats, 128) if table.codes.dtype == np.int8 else table.floats
