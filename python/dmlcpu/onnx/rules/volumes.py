"""Convolutions and maxima of volumes, {N, C, D, H, W}: convolutions and poolings of their slices, which are images.

A convolution sums over the taps along the depth as it does over channels: the slices that one output slice reads lie
side by side as channels of one image. That copies the input as often as there are such taps.

```
 depth 5, kernel 3, stride 1      channels of image 0: c of slice 0, c of slice 1, c of slice 2
                                                    1: c of slice 1, ...
```
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from dmlcpu.onnx.lowering import Lowering, NotNative, Rule
from dmlcpu.onnx.nodes import Node
from dmlcpu.onnx.rules.convolution import (
    Filter,
    QuantizedConvolution,
    Window,
    convolution,
    integer_bias,
    qlinear_conv,
    window_of,
)
from dmlcpu.onnx.rules.movement import join, reshaped, sliced, transposed
from dmlcpu.onnx.rules.operands import CODE_TYPES, constant, parameters_of, present
from dmlcpu.onnx.rules.padding import Margins, padded
from dmlcpu.onnx.rules.pooling import max_pool, maximum
from dmlcpu.onnx.values import Array, Table, Tensor, Value

__all__ = ["RULES"]

_RANK: Final = 5
# Slices that lie side by side: each is a node of the graph.
_MOST_TAPS: Final = 64
_SLICES_AS_IMAGES: Final = (0, 2, 1, 3, 4)  # and back again


def _part(window: Window, axes: slice) -> Window:
    """Return a window along some of its axes."""
    names = ("kernel", "strides", "dilations", "start_padding", "end_padding", "output")
    return Window(*(getattr(window, name)[axes] for name in names))


def _side_by_side(lowering: Lowering, x: Table, depth: Window, groups: int) -> Table:
    """Return the slices that each output slice reads as channels of an image: of a group those of one tap together."""
    [taps], [count], [stride], [dilation] = depth.kernel, depth.output, depth.strides, depth.dilations
    margins = Margins((0, 0, *depth.start_padding, 0, 0), (0, 0, *depth.end_padding, 0, 0))
    assert x.parameters is not None
    value = padded(lowering, x, margins, np.float32(0))
    images, channels, _, height, width = value.shape
    parts: list[Tensor | Array] = []
    for tap in range(taps):
        starts, shape = (0, 0, tap * dilation, 0, 0), (images, channels, count, height, width)
        part = transposed(lowering, sliced(lowering, value, starts, (1, 1, stride, 1, 1), shape), _SLICES_AS_IMAGES)
        grouped = (images, count, groups, 1, channels // groups, height, width)
        part = reshaped(lowering, part, grouped) if taps > 1 else part
        parts.append(lowering.affine(part).codes)
    codes = join(lowering, parts, 3) if taps > 1 else parts[0]
    assert isinstance(codes, Tensor)
    return replace(x, codes=lowering.reshaped(codes, (images * count, channels * taps, height, width)))


def _convolved(lowering: Lowering, node: Node, x: Table, weights: Filter, bias: Array | None) -> Value:
    """Return the convolution of a volume."""
    assert x.parameters is not None
    outputs, channels, taps, *kernel = weights.codes.shape
    groups = int(node.attributes.get("group", 1))
    if len(weights.codes.shape) != _RANK or groups < 1 or channels * groups != x.shape[1] or outputs % groups:
        raise NotNative(f"{groups} groups of {x.shape[1]} channels with a filter of shape {weights.codes.shape}")
    window = window_of(node, x.shape[2:], weights.codes.shape[2:])
    # The padding of slices that lie outside is the zero point, which is 0 as a float, if any scale makes it finite.
    if taps > _MOST_TAPS or not np.isfinite(x.parameters.scale):
        raise NotNative(f"a convolution of {taps} slices, with the scale {x.parameters.scale}")
    image = _side_by_side(lowering, x, _part(window, slice(0, 1)), groups)
    codes = weights.codes.transpose(0, 2, 1, 3, 4).reshape(outputs, taps * channels, *kernel)
    flat = Filter(np.ascontiguousarray(codes), weights.scale, weights.zero_point)
    plane = _part(window, slice(1, None))
    result = QuantizedConvolution(lowering, image, flat, bias, plane, groups)
    slices = reshaped(lowering, result, (x.shape[0], window.output[0], outputs, *plane.output))
    return transposed(lowering, slices, _SLICES_AS_IMAGES)


def volume_convolution(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Conv."""
    value = present(inputs[0])
    if len(value.shape) != _RANK:
        return convolution(lowering, node, inputs)
    x, weights = lowering.affine(value), Filter.of(inputs[1])
    assert x.parameters is not None
    bias = integer_bias((*inputs, None)[2], weights.unit(x.parameters), weights.codes.shape[0])
    return [_convolved(lowering, node, x, weights, bias)]


def volume_convolution_of_codes(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """QLinearConv."""
    x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, bias = (*inputs, None)[:9]
    if not isinstance(x, Tensor) or len(x.shape) != _RANK:
        return qlinear_conv(lowering, node, inputs)
    scales = constant(w_scale, "a scale").reshape(-1)
    points = np.broadcast_to(constant(w_zero_point, "a zero point").reshape(-1), scales.shape)
    weights = Filter(constant(w, "the filter"), scales, points)
    table = Table(x, parameters_of(x_scale, x_zero_point, x.dtype))
    biases = None if bias is None else constant(bias, "the bias")
    result = _convolved(lowering, node, table, weights, biases)
    codes = lowering.quantized(result, parameters_of(y_scale, y_zero_point))
    assert isinstance(codes, Tensor)
    return [codes]


def volume_maximum(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """MaxPool: the maxima of slices, and then across them."""
    value = present(inputs[0])
    if len(value.shape) != _RANK or node.attributes.get("storage_order", 0) or len(node.outputs) > 1:
        return max_pool(lowering, node, inputs)
    if isinstance(value, Tensor) and value.dtype not in (*CODE_TYPES, np.float32):
        raise NotNative(f"a pooling of elements of type {value.dtype}")
    window = window_of(node, value.shape[2:], node.attributes["kernel_shape"])
    images, channels, depth, *plane = value.shape
    slices = transposed(lowering, value, _SLICES_AS_IMAGES)
    slices = reshaped(lowering, slices, (images * depth, channels, *plane))
    slices = maximum(lowering, slices, _part(window, slice(1, None)))
    area = window.output[1] * window.output[2]
    slices = reshaped(lowering, slices, (images, depth, channels, area))
    one, none = (1,), (0,)
    across = Window(
        window.kernel[:1] + one,
        window.strides[:1] + one,
        window.dilations[:1] + one,
        window.start_padding[:1] + none,
        window.end_padding[:1] + none,
        (window.output[0], area),
    )
    result = maximum(lowering, transposed(lowering, slices, (0, 2, 1, 3)), across)
    return [reshaped(lowering, result, (images, channels, *window.output))]


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("", "Conv"): volume_convolution,
    ("", "QLinearConv"): volume_convolution_of_codes,
    ("", "MaxPool"): volume_maximum,
}
