"""ConvInteger, whose sums become floats in the convolution itself where nothing else reads them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dmlcpu.dtypes import CODE_TYPES, FLOAT32
from dmlcpu.onnx.constant_arrays import Constant
from dmlcpu.onnx.lowering import Lowering
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.operands import aligned, beside, codes_of, makes_floats
from dmlcpu.onnx.rules.quantized_convolution import for_channels, groups_of
from dmlcpu.onnx.rules.windows import DepthWindow, window_of
from dmlcpu.onnx.values import Deferred, Operand, Tensor, Value, element_type

__all__ = ["IntegerConvolution"]


class IntegerConvolution(Deferred):
    """Sums of products of codes, in INT32, until they are scaled."""

    dtype = np.dtype(np.int32)

    def __init__(
        self, lowering: Lowering, node: Node, inputs: Sequence[Value | None], depth: DepthWindow | None = None
    ) -> None:
        """Take the ConvInteger of an image; the input's zero point may be computed.

        Raises:
            NotNative: Its operands are not of codes, or do not fit each other.
        """
        x, w, x_zero_point, w_zero_point = (*inputs, None, None)[:4]
        if not isinstance(x, Tensor | Constant) or x.dtype not in CODE_TYPES:  # positions are constants, mostly
            raise NotNative("an input that is no tensor of codes")
        weights = codes_of(w, "the filter")
        channels = weights.shape[1] if depth is None else 1
        groups = groups_of(node, x.shape, (weights.shape[0], channels, *weights.shape[2:]))
        window = window_of(node, x.shape[2:], weights.shape[2:])
        points = aligned(lowering, x_zero_point, (1,) * len(x.shape), "a zero point")
        filter_points = for_channels(lowering, w_zero_point, weights.shape[0], len(x.shape))
        self.lowering = lowering
        self.operands: list[Operand] = [x, points, weights, filter_points]
        self.attributes = {
            **window.attributes(),
            "group_count": (groups,),
            **({} if depth is None else depth.attributes()),
        }
        images = x.shape[0] if depth is None else depth.images(x.shape[0])
        self.shape = (images, weights.shape[0], *window.output)

    def floats(self) -> Tensor:
        """Add the convolution that ends in sums."""
        return self.lowering.emit("CONVOLUTION_INTEGER", self.operands, np.int32, self.shape, self.attributes)

    def with_node(self, node: Node, inputs: Sequence[Value | None]) -> Value | None:
        """Become floats, in the convolution itself if nothing else reads the sums."""
        return _UnscaledConvolution(self) if makes_floats(node) else None


class _UnscaledConvolution(Deferred):
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
        return _ScaledConvolution(self._sums, scale, None)


class _ScaledConvolution(Deferred):
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
        return _ScaledConvolution(self._sums, self._scale, bias)


def _is_for_channels(value: Tensor | Constant, shape: Sequence[int]) -> bool:
    """Whether a value is one float, or one for each channel of a shape that it is broadcast to."""
    if element_type(value) != np.float32 or len(value.shape) > len(shape):
        return False
    ones = [1] * len(shape)
    along = [*ones[: len(shape) - len(value.shape)], *value.shape]
    return along in (ones, [1, shape[1], *ones[2:]])
