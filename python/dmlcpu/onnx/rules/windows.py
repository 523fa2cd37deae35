"""Windows of convolutions and poolings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative, NotValid

__all__ = ["ConvolutionWindow", "DepthWindow", "Window", "automatic_padding", "spatial_attributes", "window_of"]


@dataclass(frozen=True, slots=True)
class Window:
    """A window that slides over the spatial axes.

    Attributes:
        kernel, strides, dilations, start_padding, end_padding: An entry for each axis.
        output: The number of its positions on each axis.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    output: tuple[int, ...]

    @classmethod
    def plain(cls, kernel: Sequence[int], output: Sequence[int]) -> Window:
        """Return a window that moves by single steps, neither dilated nor over padding."""
        ones, zeros = (1,) * len(kernel), (0,) * len(kernel)
        return cls(tuple(kernel), ones, ones, zeros, zeros, tuple(output))

    def along(self, axes: slice) -> Window:
        """Return the window along some of its axes."""
        return Window(*(getattr(self, name)[axes] for name in self.__slots__))

    def beside(self, other: Window) -> Window:
        """Return the window along its axes and then those of another."""
        return Window(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))

    def attributes(self) -> dict[str, tuple[int, ...]]:
        """Return the attributes of a convolution or a pooling."""
        return {name: getattr(self, name) for name in ("strides", "dilations", "start_padding", "end_padding")}


@dataclass(frozen=True, slots=True)
class DepthWindow:
    """A depthwise convolution's window along the depth of volumes whose slices are images, those of each together.

    The filter has its taps along the depth where others have the input channels of a group.

    Attributes:
        input: Slices of a volume.
        window: The window along this axis alone.
    """

    input: int
    window: Window

    def images(self, count: int) -> int:
        """Return how many slices come of so many."""
        return count // self.input * self.window.output[0]

    def attributes(self) -> dict[str, tuple[int, ...]]:
        """Return the attributes of a convolution that it adds to those of the slices."""
        along = self.window
        return {
            "depth_window": (self.input, *along.output, *along.strides, *along.dilations, *along.start_padding),
        }


@dataclass(frozen=True, slots=True)
class ConvolutionWindow:
    """Where the filter of a convolution lies.

    Attributes:
        spatial: The window along the spatial axes.
        groups: Of channels.
        depth: Along the depth of volumes whose slices are the images; None where images are no slices.
    """

    spatial: Window
    groups: int
    depth: DepthWindow | None = None

    def shape(self, images: int, channels: int) -> tuple[int, ...]:
        """Return the shape of what becomes of so many images, with so many output channels."""
        return (images if self.depth is None else self.depth.images(images), channels, *self.spatial.output)

    def attributes(self) -> dict[str, tuple[int, ...]]:
        """Return the attributes of a convolution."""
        depth = {} if self.depth is None else self.depth.attributes()
        return {**self.spatial.attributes(), "group_count": (self.groups,), **depth}


def automatic_padding(node: Node) -> bytes | None:
    """Return how a node pads by itself: SAME_UPPER, SAME_LOWER or VALID; None where it is told how much."""
    kind = node.attributes.get("auto_pad", b"NOTSET")
    return None if kind in (b"NOTSET", b"") else kind


def spatial_attributes(
    node: Node, kernel: Sequence[int], rank: int
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return the strides and the dilations of so many spatial axes, and their padding, all starts before all ends.

    Raises:
        NotValid: They are not as many as the axes, or another kernel is told.
        NotNative: They are out of range, or the kernel is.
    """
    given, ones = node.attributes, (1,) * rank
    strides, dilations = tuple(given.get("strides", ones)), tuple(given.get("dilations", ones))
    padding = tuple(given.get("pads", (0,) * 2 * rank))
    if not len(kernel) == len(strides) == len(dilations) == rank or len(padding) != 2 * rank:
        raise NotValid("got attributes that do not fit the number of its spatial axes")
    if tuple(given.get("kernel_shape", kernel)) != tuple(kernel):
        raise NotValid(f"got kernel_shape {tuple(given['kernel_shape'])}, expected the filter's {tuple(kernel)}")
    if min((*strides, *dilations, *kernel), default=0) < 1 or min(padding, default=0) < 0:
        raise NotNative("a stride, dilation or kernel below 1, or negative padding")
    return strides, dilations, padding


def window_of(node: Node, spatial: Sequence[int], kernel: Sequence[int]) -> Window:
    """Return the window of a convolution or pooling on spatial axes of these lengths.

    Where a last position that is only partly inside counts too (``ceil_mode``), the end padding reaches as far as it.

    Raises:
        NotNative: It is no window that lies inside the padded input.
    """
    rank = len(spatial)
    strides, dilations, padding = spatial_attributes(node, kernel, rank)
    start, end = list(padding[:rank]), list(padding[rank:])
    extents = [(window - 1) * dilation + 1 for window, dilation in zip(kernel, dilations, strict=True)]
    kind = automatic_padding(node)
    if kind is not None:
        for axis in range(rank):
            wanted = 0
            if kind in (b"SAME_UPPER", b"SAME_LOWER"):
                positions = -(-spatial[axis] // strides[axis])
                wanted = max((positions - 1) * strides[axis] + extents[axis] - spatial[axis], 0)
            start[axis] = (wanted + (kind == b"SAME_LOWER")) // 2
            end[axis] = wanted - start[axis]
    room = [length + a + b - extent for length, a, b, extent in zip(spatial, start, end, extents, strict=True)]
    rounded_up = bool(node.attributes.get("ceil_mode", 0))
    # Rounded up, there is a position as soon as less than a stride is missing for it.
    if any(length < (1 - stride if rounded_up else 0) for length, stride in zip(room, strides, strict=True)):
        raise NotNative("a window that is larger than the padded input")
    if rounded_up:
        for axis, (length, stride) in enumerate(zip(room, strides, strict=True)):
            inside = spatial[axis] + start[axis]  # the last position begins before this
            last = min(-(-length // stride), (inside - 1) // stride) * stride
            end[axis] = max(last + extents[axis] - inside, 0)
            room[axis] = inside + end[axis] - extents[axis]
    output = tuple(length // stride + 1 for length, stride in zip(room, strides, strict=True))
    return Window(tuple(kernel), strides, dilations, tuple(start), tuple(end), output)
