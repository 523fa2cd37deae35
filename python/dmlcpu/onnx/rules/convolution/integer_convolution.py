"""ConvInteger, whose sums become floats in the convolution itself where nothing else reads them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dmlcpu.dtypes import CODE_TYPES, FLOAT32
from dmlcpu.onnx.constant_arrays import Array, Constant
from dmlcpu.onnx.lowering import Lowering
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.operands import aligned, beside, codes_of, makes_floats
from dmlcpu.onnx.rules.quantized_convolution import for_channels, window_of_convolution
from dmlcpu.onnx.rules.windows import ConvolutionWindow
from dmlcpu.onnx.values import Deferred, Operand, Tensor, Value, element_type

__all__ = ["IntegerConvolution", "image_sums"]


class IntegerConvolution(Deferred):
    """Sums of products of codes, in INT32, until they are scaled."""

    dtype = np.dtype(np.int32)

    def __init__(
        self,
        lowering: Lowering,
        x: Tensor | Constant,
        weights: Tensor | Array,
        zero_points: Sequence[Value | None],
        window: ConvolutionWindow,
    ) -> None:
        """Take codes of images and of a filter, and the zero points of both, which may be computed or absent.

        Raises:
            NotNative: The zero points do not fit the codes.
        """
        points = aligned(lowering, zero_points[0], (1,) * len(x.shape), "a zero point")
        filter_points = for_channels(lowering, zero_points[1], weights.shape[0], len(x.shape))
        self.lowering = lowering
        self.operands: list[Operand] = [x, points, weights, filter_points]
        self.attributes = window.attributes()
        self.shape = window.shape(x.shape[0], weights.shape[0])

    def floats(self) -> Tensor:
        """Add the convolution that ends in sums."""
        return self.lowering.emit("CONVOLUTION_INTEGER", self.operands, np.int32, self.shape, self.attributes)

    def with_node(self, node: Node, inputs: Sequence[Value | None]) -> Value | None:
        """Become floats, in the convolution itself if nothing else reads the sums."""
        return _FloatSums(self) if makes_floats(node) else None


def image_sums(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Value:
    """Return the ConvInteger of rows or images.

    Raises:
        NotNative: Its operands are not of codes, or do not fit each other.
    """
    x, w, *zero_points = (*inputs, None, None)[:4]
    if not isinstance(x, Tensor | Constant) or x.dtype not in CODE_TYPES:  # positions are constants, mostly
        raise NotNative("an input that is no tensor of codes")
    weights = codes_of(w, "the filter")
    window = window_of_convolution(node, x.shape, weights.shape)
    return IntegerConvolution(lowering, x, weights, zero_points, window)


class _FloatSums(Deferred):
    """The sums as floats, which one scale follows, or one for each channel."""

    def __init__(self, sums: IntegerConvolution) -> None:
        self._sums = sums
        self.shape = sums.shape

    def floats(self) -> Tensor:
        """Convert the sums."""
        return self._sums.lowering.emit("CAST", [self._sums.computed()], FLOAT32, self.shape)

    def with_node(self, node: Node, inputs: Sequence[Value | None]) -> Value | None:
        """Take the scale, which may be computed."""
        scale = beside(self, inputs) if node.operator == "Mul" else None
        if not isinstance(scale, Tensor | Constant) or not _is_for_channels(scale, self.shape):
            return None
        return _ScaledSums(self._sums, scale, None)


class _ScaledSums(Deferred):
    """The sums times scales, plus a bias or without one."""

    def __init__(self, sums: IntegerConvolution, scale: Tensor | Constant, bias: Constant | None) -> None:
        self._sums, self._scale, self._bias = sums, scale, bias
        self.shape = sums.shape

    def floats(self) -> Tensor:
        """Add the convolution with its scaled sums."""
        sums = self._sums
        channels, rank = self.shape[1], len(self.shape)
        of_channels = (for_channels(sums.lowering, value, channels, rank) for value in (self._scale, self._bias))
        operands = [*sums.operands, *of_channels]
        return sums.lowering.emit("CONVOLUTION_INTEGER_TO_FLOAT", operands, FLOAT32, self.shape, sums.attributes)

    def with_node(self, node: Node, inputs: Sequence[Value | None]) -> Value | None:
        """Take a constant that is added as a bias."""
        bias = beside(self, inputs) if node.operator == "Add" and self._bias is None else None
        if not isinstance(bias, Constant) or not _is_for_channels(bias, self.shape):
            return None
        return _ScaledSums(self._sums, self._scale, bias)


def _is_for_channels(value: Tensor | Constant, shape: Sequence[int]) -> bool:
    """Whether a value is one float, or one for each channel of a shape that it is broadcast to."""
    if element_type(value) != np.float32 or len(value.shape) > len(shape):
        return False
    ones = [1] * len(shape)
    along = [*ones[: len(shape) - len(value.shape)], *value.shape]
    return along in (ones, [1, shape[1], *ones[2:]])
