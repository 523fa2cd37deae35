"""Convolutions of floats: sequences and images as they are, volumes as images."""

from __future__ import annotations

import numpy as np

from dmlcpu.onnx.constant_arrays import Array
from dmlcpu.onnx.lowering import Lowering
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.convolution.volumes import float_volume
from dmlcpu.onnx.rules.movement.volume_slices import VOLUME_RANK
from dmlcpu.onnx.rules.windows import ConvolutionWindow
from dmlcpu.onnx.values import Operand, Tensor

__all__ = ["float_convolution"]


def float_convolution(
    lowering: Lowering, x: Tensor, weights: Array | Tensor, bias: Array | None, window: ConvolutionWindow
) -> Tensor:
    """Add a convolution of floats; a computed filter is packed at each run.

    Raises:
        NotNative: It is one of volumes whose filter is computed or has too many slices.
    """

    def convolved(x: Tensor, weights: Array | Tensor, window: ConvolutionWindow) -> Tensor:
        shape = window.shape(x.shape[0], weights.shape[0])
        addends = None if bias is None else bias.reshape(1, -1, *(1,) * (len(shape) - 2))
        operands: list[Operand] = [x, weights, addends]
        return lowering.emit("FLOAT_CONVOLUTION", operands, np.float32, shape, window.attributes())

    if len(x.shape) != VOLUME_RANK:
        return convolved(x, weights, window)
    if isinstance(weights, Tensor):
        raise NotNative("a 3-D convolution with a computed filter")
    return float_volume(lowering, x, weights, window, convolved)
