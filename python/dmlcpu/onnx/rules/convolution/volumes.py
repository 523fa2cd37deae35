"""Convolutions of volumes, {N, C, D, H, W}, as convolutions of images.

Windows of one pixel of a slice are windows of one column of images that have a row for each slice. Depthwise ones whose
slices are windows that a kernel has read the slices where they are. All others are those of slices: a convolution sums
over the taps along the depth as it does over channels, and the slices that one output slice reads lie side by side as
channels of one image. That copies the input as often as there are such taps.

```
 depth 5, kernel 3, stride 1      channels of image 0: c of slice 0, c of slice 1, c of slice 2
                                                    1: c of slice 1, ...
```
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from dmlcpu.dtypes import CODE_TYPES
from dmlcpu.onnx.constant_arrays import Array
from dmlcpu.onnx.lowering import Lowering
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.convolution.integer_convolution import IntegerConvolution
from dmlcpu.onnx.rules.element_operators import broadcast
from dmlcpu.onnx.rules.movement.moved_values import join, reshaped, sliced_along, transposed
from dmlcpu.onnx.rules.movement.padding import Margins, padded
from dmlcpu.onnx.rules.movement.volume_slices import SLICES_AS_IMAGES, VOLUME_RANK
from dmlcpu.onnx.rules.operands import aligned, codes_of, computed
from dmlcpu.onnx.rules.quantized_convolution import Filter, QuantizedConvolution
from dmlcpu.onnx.rules.windows import ConvolutionWindow, DepthWindow, Window, window_of
from dmlcpu.onnx.values import AffineTable, Elements, Tensor, Value

__all__ = ["convolution_of_slices", "convolved_volume", "float_volume", "volume_sums", "volume_window"]

FloatConvolution = Callable[[Tensor, Array, ConvolutionWindow], Tensor]
"""Adds the convolution of floats by a filter, with a window."""

# Slices that lie side by side: each is a node of the graph.
_MOST_TAPS: Final = 64

# Depthwise convolutions of volumes that a kernel has: kernels/depthwise_window.
_PLANES_OF_KERNEL: Final = ((3, 3), (5, 5))
_MOST_STRIDE: Final = 2
_MOST_TAPS_OF_KERNEL: Final = 7
_LEAST_CHANNELS: Final = 32
_MOST_CHANNELS: Final = 4096


def volume_window(node: Node, shape: Sequence[int], weights: Sequence[int]) -> ConvolutionWindow:
    """Return the window of a volume's convolution.

    Raises:
        NotNative: The input, the filter and the groups do not go together.
    """
    groups = int(node.attributes.get("group", 1))
    if len(weights) != VOLUME_RANK or groups < 1 or weights[1] * groups != shape[1] or weights[0] % groups:
        raise NotNative(f"{groups} groups of {shape[1]} channels with a filter of shape {tuple(weights)}")
    return ConvolutionWindow(window_of(node, shape[2:], weights[2:]), groups)


def _side_by_side(lowering: Lowering, codes: Tensor, depth: Window, groups: int) -> Tensor:
    """Return the slices that each output slice reads as channels of an image: of a group those of one tap together.

    The codes are padded along the depth.
    """
    [taps], [count], [stride], [dilation] = depth.kernel, depth.output, depth.strides, depth.dilations
    images, channels, _, height, width = codes.shape
    parts: list[Tensor] = []
    for tap in range(taps):
        slices = computed(lowering, sliced_along(lowering, codes, 2, tap * dilation, count, stride))
        part = transposed(lowering, slices, SLICES_AS_IMAGES)
        grouped = (images, count, groups, 1, channels // groups, height, width)
        parts.append(lowering.reshaped(part, grouped) if taps > 1 else part)
    joined = join(lowering, parts, 3) if taps > 1 else parts[0]
    return lowering.reshaped(joined, (images * count, channels * taps, height, width))


def _of_slices(codes: Array) -> Array:
    """Return a filter whose taps along the depth are channels, as those of the slices."""
    outputs, channels, taps, *kernel = codes.shape
    return np.ascontiguousarray(codes.transpose(0, 2, 1, 3, 4).reshape(outputs, taps * channels, *kernel))


@dataclass(frozen=True, slots=True, eq=False)
class _ConvolvedImages:
    """A convolution of images that is one of volumes.

    Attributes:
        codes: The images, of codes or of floats.
        weights: Their filter.
        window: Of the images.
        volumes: Makes volumes of the result.
    """

    codes: Tensor
    weights: Array
    window: ConvolutionWindow
    volumes: Callable[[Value], Value]


def _has_kernel(shape: Sequence[int], weights: Sequence[int], plane: Window, groups: int) -> bool:
    """Whether a kernel convolves volumes by a filter as they are."""
    (outputs, _, taps, *_), channels = weights, shape[1]
    return (
        groups == outputs == channels
        and _LEAST_CHANNELS <= channels <= _MOST_CHANNELS
        and 1 < taps <= _MOST_TAPS_OF_KERNEL
        and plane.kernel in _PLANES_OF_KERNEL
        and plane.dilations == (1, 1)
        and max(plane.strides) <= _MOST_STRIDE
        and plane.output[1] > 1
    )


def _images(
    lowering: Lowering, codes: Tensor, weights: Array, window: ConvolutionWindow, padded: Callable[[Window], Tensor]
) -> _ConvolvedImages:
    """Return a convolution of volumes as one of images.

    Args:
        lowering: Where operators are added.
        codes: The volumes, of codes or of floats.
        weights: The filter.
        window: Of the volumes.
        padded: Pads the volumes along their depth, as its window says.

    Raises:
        NotNative: There are too many slices.
    """
    if weights.shape[2] > _MOST_TAPS:
        raise NotNative(f"a convolution of {weights.shape[2]} slices")
    depth, plane = window.spatial.along(slice(0, 1)), window.spatial.along(slice(1, None))
    groups = window.groups
    images, channels, slices, height, width = codes.shape
    outputs = weights.shape[0]

    def of_rows(result: Value) -> Value:
        return reshaped(lowering, result, (images, outputs, *depth.output, *plane.output))

    def of_slices(result: Value) -> Value:
        shape = (images, *depth.output, outputs, *plane.output)
        return transposed(lowering, reshaped(lowering, result, shape), SLICES_AS_IMAGES)

    if plane.kernel == plane.strides == (1, 1) and plane.output == (height, width):
        rows = lowering.reshaped(codes, (images, channels, slices, height * width))
        column = Window.plain((1,), (height * width,))
        return _ConvolvedImages(rows, weights[..., 0], ConvolutionWindow(depth.beside(column), groups), of_rows)
    taps_as_channels = _of_slices(weights)
    if codes.dtype in CODE_TYPES and _has_kernel(codes.shape, weights.shape, plane, groups):
        by_slices = transposed(lowering, codes, SLICES_AS_IMAGES)
        by_slices = lowering.reshaped(by_slices, (images * slices, channels, height, width))
        of_images = ConvolutionWindow(plane, groups, DepthWindow(slices, depth))
        return _ConvolvedImages(by_slices, taps_as_channels, of_images, of_slices)
    beside = _side_by_side(lowering, padded(depth), depth, groups)
    return _ConvolvedImages(beside, taps_as_channels, ConvolutionWindow(plane, groups), of_slices)


def _padded_with_zeros(lowering: Lowering, x: Value, depth: Window) -> Value:
    margins = Margins((0, 0, *depth.start_padding, 0, 0), (0, 0, *depth.end_padding, 0, 0))
    return padded(lowering, x, margins, np.float32(0))


def convolution_of_slices(
    lowering: Lowering, x: AffineTable, weights: Filter, bias: Array | None, window: ConvolutionWindow
) -> tuple[QuantizedConvolution, Callable[[Value], Value]]:
    """Return the convolution of images that one of volumes is, and what makes volumes of its result.

    Args:
        lowering: Where operators are added.
        x, weights, bias, window: Of the volumes.

    Raises:
        NotNative: The scale of the volume's codes is no finite number, or there are too many slices.
    """
    # The padding of slices that lie outside is the zero point, which is 0 as a float, if any scale makes it finite.
    if not np.isfinite(x.parameters.scale):
        raise NotNative(f"a convolution of slices with the scale {x.parameters.scale}")

    def with_padding(depth: Window) -> Tensor:
        return lowering.affine(_padded_with_zeros(lowering, x, depth)).codes

    images = _images(lowering, x.codes, weights.codes, window, with_padding)
    flat = Filter(images.weights, weights.scale, weights.zero_point)
    table = replace(x, codes=images.codes)
    return QuantizedConvolution(lowering, table, flat, bias, images.window), images.volumes


def convolved_volume(lowering: Lowering, node: Node, x: AffineTable, weights: Filter, bias: Array | None) -> Value:
    """Return the convolution of a volume.

    Raises:
        NotNative: The windows do not fit, or the scale of its codes is no finite number.
    """
    window = volume_window(node, x.shape, weights.codes.shape)
    convolution, volumes = convolution_of_slices(lowering, x, weights, bias, window)
    return volumes(convolution)


def float_volume(
    lowering: Lowering, x: Tensor, weights: Array, window: ConvolutionWindow, convolve: FloatConvolution
) -> Tensor:
    """Return the convolution of a volume of floats, of which ``convolve`` adds that of images.

    Raises:
        NotNative: There are too many slices.
    """

    def with_padding(depth: Window) -> Tensor:
        return computed(lowering, _padded_with_zeros(lowering, x, depth))

    images = _images(lowering, x, weights, window, with_padding)
    return computed(lowering, images.volumes(convolve(images.codes, images.weights, images.window)))


def _padded_with_computed(lowering: Lowering, x: Tensor, zero_point: Value | None, depth: Window) -> Tensor:
    """Return a volume with slices of a zero point, which may be computed, around it."""
    point = aligned(lowering, zero_point, (1,) * VOLUME_RANK, "a zero point")
    if point is None:
        point = np.zeros((1,) * VOLUME_RANK, x.dtype)
    assert isinstance(point, Tensor | np.ndarray)
    parts: list[Elements] = [x]
    for at_end, count in enumerate((*depth.start_padding, *depth.end_padding)):
        if count:
            shape = (*x.shape[:2], count, *x.shape[3:])
            parts.insert(len(parts) if at_end else 0, broadcast(lowering, point, shape))
    return join(lowering, parts, 2) if len(parts) > 1 else x


def volume_sums(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Value:
    """Return the ConvInteger of a volume; the input's zero point may be computed.

    Raises:
        NotNative: The input has no codes, the filter is computed, or the windows do not fit.
    """
    x, w, x_zero_point, w_zero_point = (*inputs, None, None)[:4]
    if not isinstance(x, Tensor) or x.dtype not in CODE_TYPES:
        raise NotNative("an input that is no tensor of codes")
    weights = codes_of(w, "the filter")
    if isinstance(weights, Tensor):
        raise NotNative("a 3-D convolution with a computed filter")
    window = volume_window(node, x.shape, weights.shape)

    def with_padding(depth: Window) -> Tensor:
        return _padded_with_computed(lowering, x, x_zero_point, depth)

    images = _images(lowering, x, weights, window, with_padding)
    points = x_zero_point, w_zero_point
    return images.volumes(IntegerConvolution(lowering, images.codes, images.weights, points, images.window))
