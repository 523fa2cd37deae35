"""DeformConv: the pixels that each tap of a window is moved to, looked up between four, and a product of floats."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from dmlcpu.dtypes import FLOAT32
from dmlcpu.onnx.constant_arrays import Array, Constant, broadcast_to, constant_by
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.element_operators import on_floats
from dmlcpu.onnx.rules.movement.moved_values import transposed
from dmlcpu.onnx.rules.native_functions import FloatBinary
from dmlcpu.onnx.rules.operands import computed_floats, constant, present
from dmlcpu.onnx.rules.windows import Window, window_of
from dmlcpu.onnx.values import Operand, Tensor, Value

__all__ = ["RULES"]

_IN_PIXELS: Final = 2  # GRID_SAMPLE's coordinates, y before x


def _places(
    kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], padding: Sequence[int], *lengths: int
) -> Array:
    """Return y and x of each tap of windows before they are moved: FLOAT32 {1, taps, 2, rows * columns}."""
    along = [
        np.arange(taps)[:, None] * dilation + np.arange(length) * stride - start
        for taps, stride, dilation, start, length in zip(kernel, strides, dilations, padding, lengths, strict=True)
    ]
    shape = (*kernel, *lengths)
    y, x = np.broadcast_to(along[0][:, None, :, None], shape), np.broadcast_to(along[1][:, None, :], shape)
    places = np.stack([y.reshape(math.prod(kernel), -1), x.reshape(math.prod(kernel), -1)], 1)
    return places[np.newaxis].astype(np.float32)


def _samples(lowering: Lowering, x: Tensor, offsets: Tensor, mask: Tensor | None, window: Window, parts: int) -> Tensor:
    """Return what each tap of each window reads: {N, C, pixels, taps}.

    Channels are in so many parts, each of which has offsets of its own.
    """
    images, channels, rows, columns = x.shape
    if x.partition != lowering.partition.index:  # whose channels are planes, and are brought together once
        x = lowering.emit("COPY", [x], FLOAT32, x.shape)
    lengths = offsets.shape[2:]
    count, taps, pixels = images * parts, math.prod(window.kernel), math.prod(lengths)
    unmoved = constant_by(_places, window.kernel, window.strides, window.dilations, window.start_padding, *lengths)
    moved = lowering.reshaped(offsets, (count, taps, 2, pixels))
    grid = transposed(lowering, on_floats(lowering, FloatBinary.ADD, moved, unmoved), (0, 3, 1, 2))
    weights: Operand = broadcast_to(np.ones((), np.float32), (count, 1, pixels, taps))
    if mask is not None:
        weights = transposed(lowering, lowering.reshaped(mask, (count, 1, taps, pixels)), (0, 1, 3, 2))
    planes = lowering.reshaped(x, (count, channels // parts, rows, columns))
    attributes = {"interpolation": (1,), "padding": (0,), "coordinates": (_IN_PIXELS,)}
    shape = (count, channels // parts, pixels, taps)
    samples = lowering.emit("WEIGHTED_GRID_SAMPLE", [planes, grid, weights], FLOAT32, shape, attributes)
    return lowering.reshaped(samples, (images, channels, pixels, taps))


def _checked(
    node: Node, x: Tensor, weights: Array, offsets: Tensor, mask: Tensor | None, bias: Array | None
) -> tuple[int, int]:
    """Return how many groups a node has, of weights and of offsets.

    Raises:
        NotNative: Its operands do not fit together.
    """
    shapes = [x.shape, weights.shape, offsets.shape]
    if any(len(shape) != 4 for shape in shapes) or weights.dtype != FLOAT32:
        raise NotNative(f"operands of shapes {shapes}")
    groups, parts = (int(node.attributes.get(name, 1)) for name in ("group", "offset_group"))
    outputs, of_group, *kernel = weights.shape
    taps, channels = math.prod(kernel), x.shape[1]
    fits = min(groups, parts) > 0 and outputs % groups == 0 and channels == of_group * groups and channels % parts == 0
    if not fits or offsets.shape[:2] != (x.shape[0], 2 * parts * taps):
        raise NotNative(f"operands of shapes {shapes} in {groups} groups, and {parts} of offsets")
    if mask is not None and mask.shape != (x.shape[0], parts * taps, *offsets.shape[2:]):
        raise NotNative(f"a mask {mask.shape}")
    if bias is not None and (bias.shape != (outputs,) or bias.dtype != FLOAT32):
        raise NotNative(f"a bias {bias.dtype} {bias.shape}")
    return groups, parts


def deform_conv(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """DeformConv of images by constant weights."""
    bias, mask = (*inputs[3:], None, None)[:2]
    weights = constant(inputs[1], "the weights")
    biases = None if bias is None else constant(bias, "a bias")
    x, offsets = (computed_floats(lowering, present(value)) for value in (inputs[0], inputs[2]))
    masks = None if mask is None else computed_floats(lowering, mask)
    groups, parts = _checked(node, x, weights, offsets, masks, biases)
    images, (rows, columns) = x.shape[0], offsets.shape[2:]
    outputs, of_group, *kernel = weights.shape
    window = window_of(node, x.shape[2:], kernel)
    if window.output != offsets.shape[2:]:
        raise NotNative(f"offsets {offsets.shape} of windows at {window.output} places")
    samples = _samples(lowering, x, offsets, masks, window, parts)
    taps, pixels = math.prod(kernel), rows * columns
    terms = of_group * taps
    # Terms are in the order in which the samples of one part lie: channels innermost.
    inner = parts // groups if parts % groups == 0 else 1
    grouped = lowering.reshaped(samples, (images, groups, inner, of_group // inner, pixels, taps))
    left = lowering.reshaped(transposed(lowering, grouped, (0, 1, 4, 2, 5, 3)), (images, groups, pixels, terms))
    by_tap = weights.reshape(groups, outputs // groups, inner, of_group // inner, taps).transpose(0, 2, 4, 3, 1)
    right = np.ascontiguousarray(by_tap).reshape(1, groups, terms, -1)
    product = lowering.emit("FLOAT_PRODUCT", [left, right], FLOAT32, (images, groups, pixels, outputs // groups))
    result = lowering.reshaped(transposed(lowering, product, (0, 1, 3, 2)), (images, outputs, rows, columns))
    if biases is not None:
        result = on_floats(lowering, FloatBinary.ADD, result, Constant(biases.reshape(-1, 1, 1)))
    return [result]


RULES: Final[Mapping[tuple[str, str], Rule]] = {("", "DeformConv"): deform_conv}
