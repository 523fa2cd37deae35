"""AveragePool, MaxPool and their kin."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from dmlcpu.dtypes import CODE_TYPES
from dmlcpu.onnx.constants.empty_arrays import has_no_elements, nothing
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.movement.channels_last import with_channels_last
from dmlcpu.onnx.rules.movement.moved_values import reshaped
from dmlcpu.onnx.rules.movement.padding import Margins, padded
from dmlcpu.onnx.rules.movement.volume_slices import VOLUME_RANK, pooled_by_slices
from dmlcpu.onnx.rules.operands import between_codes, in_order, present
from dmlcpu.onnx.rules.pooling.pooled_values import averaged, maximum
from dmlcpu.onnx.rules.windows import Window, automatic_padding, window_of
from dmlcpu.onnx.values import Tensor, Value

__all__ = ["RULES", "pooled_as_image", "window_of_pooling"]


def window_of_pooling(node: Node, spatial: Sequence[int]) -> Window:
    """Return the window of a pooling on spatial axes of these lengths: of a global one that which covers everything."""
    if not node.operator.startswith(("Global", "QLinearGlobal")):
        return window_of(node, spatial, node.attributes["kernel_shape"])
    return Window.plain(spatial, (1,) * len(spatial))


def _as_image(lowering: Lowering, value: Value) -> Value:
    """Return rows as images of height 1."""
    if len(value.shape) == 3:
        return reshaped(lowering, value, (*value.shape[:2], 1, value.shape[2]))
    if len(value.shape) not in (4, 5):
        raise NotNative(f"a pooling of {len(value.shape)} dimensions")
    return value


def pooled_as_image(lowering: Lowering, value: Value, window: Window, pool: Callable[[Value, Window], Value]) -> Value:
    """Return what a pooling of images, or volumes, makes of them or of rows, which are images of height 1."""
    shape = (*value.shape[:2], *window.output)
    if has_no_elements(shape):  # in the shape that others have: inference of types counts windows otherwise
        return nothing(value, shape)
    if has_no_elements(value.shape):
        raise NotNative("windows on padding alone, or on nothing")
    of_image = window if len(window.kernel) > 1 else Window.plain((1,), (1,)).beside(window)
    result = pool(_as_image(lowering, value), of_image)
    return reshaped(lowering, result, shape)


def _pooled_average(lowering: Lowering, node: Node, value: Value) -> Value:
    """Return what AveragePool, GlobalAveragePool and their kin from codes to codes make of a value."""
    window, include_padding = window_of_pooling(node, value.shape[2:]), False
    if not node.operator.endswith("GlobalAveragePool"):
        include_padding = bool(node.attributes.get("count_include_pad", 0))
        if include_padding and node.attributes.get("ceil_mode", 0) and not node.domain:
            # What ceil_mode adds behind the padding counts with QLinearAveragePool alone, of onnxruntime's own domain.
            # Of AveragePool the padding becomes part of the image.
            plain = Margins(*_given_padding(node, len(window.kernel)))
            if any((*plain.start, *plain.end)):
                value = padded(lowering, value, Margins((0, 0, *plain.start), (0, 0, *plain.end)), np.float32(0))
                window = _unpadded(window, value.shape[2:])
            include_padding = False
        if not include_padding:
            window = _inside(window, value.shape[2:])
    return pooled_as_image(
        lowering, value, window, lambda image, part: averaged(lowering, image, part, include_padding)
    )


def _unpadded(window: Window, spatial: Sequence[int]) -> Window:
    """Return a window with the same positions on axes that begin with its start padding and have these lengths."""
    lengths = zip(window.output, window.strides, window.kernel, window.dilations, spatial, strict=True)
    end = tuple(
        max((count - 1) * stride + (kernel - 1) * dilation + 1 - length, 0)
        for count, stride, kernel, dilation, length in lengths
    )
    return replace(window, start_padding=(0,) * len(end), end_padding=end)


def _inside(window: Window, spatial: Sequence[int]) -> Window:
    """Return a window that ends with the image where it has one position and would reach beyond.

    Exporters write the average of a whole image so, of any size: as a window of as many rows as there are channels.
    """
    kernel, end = list(window.kernel), list(window.end_padding)
    for axis, length in enumerate(spatial):
        if window.output[axis] == 1 and window.dilations[axis] == 1 and window.start_padding[axis] == 0:
            kernel[axis], end[axis] = min(kernel[axis], length), 0
    return replace(window, kernel=tuple(kernel), end_padding=tuple(end))


def _given_padding(node: Node, rank: int) -> tuple[Sequence[int], Sequence[int]]:
    if automatic_padding(node) is not None:
        raise NotNative("ceil_mode with automatic padding")
    padding = node.attributes.get("pads", (0,) * 2 * rank)
    return padding[:rank], padding[rank:]


def average_pool(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """AveragePool and GlobalAveragePool."""
    return [_pooled_average(lowering, node, present(inputs[0]))]


def max_pool(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """MaxPool, its indices too, and GlobalMaxPool; of a volume the maxima of slices, and then across them."""
    value = present(inputs[0])
    rank = len(value.shape)
    if rank not in (3, 4, VOLUME_RANK):
        raise NotNative(f"a pooling of {rank} dimensions")
    if rank == VOLUME_RANK and isinstance(value, Tensor) and value.dtype not in (*CODE_TYPES, np.float32):
        raise NotNative(f"a pooling of elements of type {value.dtype}")
    window = window_of_pooling(node, value.shape[2:])
    pooled = pooled_by_slices if rank == VOLUME_RANK and not has_no_elements(value.shape) else pooled_as_image
    results = [pooled(lowering, value, window, lambda image, part: maximum(lowering, image, part))]
    if len(node.outputs) > 1:
        results.append(_places_of_maxima(lowering, node, value, window))
    return results


def _places_of_maxima(lowering: Lowering, node: Node, value: Value, window: Window) -> Tensor:
    """Add the places of maxima in a whole tensor; of dequantized codes those of the codes, if these have the order."""
    if automatic_padding(node) == b"SAME_UPPER" and any(_ends_early(window, value.shape[2:])):
        raise NotNative("padding below 0")
    tensor = in_order(lowering, value)
    if tensor.dtype not in (*CODE_TYPES, np.float32):
        raise NotNative(f"the places of elements of type {tensor.dtype}")
    attributes = {
        **window.attributes(),
        "window_size": window.kernel,
        "storage_order": (int(node.attributes.get("storage_order", 0)),),
    }
    shape = (*tensor.shape[:2], *window.output)
    return lowering.emit("MAX_POOLING_INDICES", [tensor], np.int64, shape, attributes)


def _ends_early(window: Window, lengths: Sequence[int]) -> Iterator[bool]:
    """Yield for each axis whether the last position ends before the input does."""
    axes = zip(lengths, window.kernel, window.strides, window.dilations, window.output, strict=True)
    for length, taps, stride, dilation, count in axes:
        yield (count - 1) * stride + (taps - 1) * dilation + 1 < length


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("", "AveragePool"): average_pool,
    ("", "GlobalAveragePool"): average_pool,
    ("", "MaxPool"): max_pool,
    ("", "GlobalMaxPool"): max_pool,
    ("com.microsoft", "NhwcMaxPool"): with_channels_last(max_pool),
    **{
        ("com.microsoft", name): with_channels_last(between_codes(_pooled_average))
        for name in ("QLinearAveragePool", "QLinearGlobalAveragePool")
    },
}
