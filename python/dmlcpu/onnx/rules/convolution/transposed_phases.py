"""The phases of transposed convolutions: convolutions with stride 1, and how these are put together.

Along an axis with stride s, the kernel indices k that reach output o are those with ``o + padding - k * dilation``
divisible by s. So outputs r, r + s, r + 2 * s, ... (a phase) are a convolution of the input with those k, last first.
``docs/onnx_operators.md`` tells how phases are put together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from dmlcpu.onnx.constant_arrays import Array
from dmlcpu.onnx.lowering import Lowering
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.movement.moved_values import sliced, sliced_along, transposed
from dmlcpu.onnx.rules.operands import computed
from dmlcpu.onnx.rules.windows import ConvolutionWindow, Window, automatic_padding, spatial_attributes
from dmlcpu.onnx.values import Tensor

__all__ = ["Phase", "PhasedConvolution", "are_cheaper_together", "phases_of", "phases_of_node", "taps_of"]

NO_TAP: Final = -1
_PANEL: Final = 32  # output channels
_MOST_CONVOLUTIONS: Final = 64


@dataclass(frozen=True, slots=True)
class Phase:
    """Every so many of the outputs along an axis, as a convolution with stride 1.

    Attributes:
        taps: The kernel index of each tap of its filter; NO_TAP for one that adds nothing.
        first: The input that the first tap of output 0 reads; below 0 or beyond the last in the padding.
        dilation: From tap to tap.
        count: Of its outputs.
    """

    taps: tuple[int, ...]
    first: int
    dilation: int
    count: int

    @property
    def end(self) -> int:
        """The end of what it reads of the input."""
        return self.first + (len(self.taps) - 1) * self.dilation + self.count

    def tap_at(self, place: int) -> int:
        """Return the kernel index of the tap that output 0 reads an input with."""
        index, rest = divmod(place - self.first, self.dilation)
        return self.taps[index] if rest == 0 and 0 <= index < len(self.taps) else NO_TAP


def phases_of(inputs: int, outputs: int, kernel: int, stride: int, dilation: int, padding: int) -> list[Phase]:
    """Return the phases of an axis: as many as the stride, but none without outputs."""
    phases = []
    for number in range(min(stride, outputs)):
        count = -(-(outputs - number) // stride)
        taps = tuple(tap for tap in reversed(range(kernel)) if (number + padding - tap * dilation) % stride == 0)
        # They are stride / gcd apart in the kernel, and so dilation / gcd in the input.
        step = dilation // math.gcd(stride, dilation)
        phase = Phase(taps, (number + padding - taps[0] * dilation) // stride, step, count) if taps else None
        # One that reads nothing but padding adds nothing; so every phase reads some of the input.
        reads = phase is not None and phase.first < inputs and phase.end > 0
        phases.append(phase if phase is not None and reads else Phase((NO_TAP,), 0, 1, count))
    return phases


def _common_window(phases: Sequence[Phase]) -> range:
    """Return the inputs that the first outputs of any phase read, at equal distances."""
    places = [
        phase.first + index * phase.dilation
        for phase in phases
        for index, tap in enumerate(phase.taps)
        if tap != NO_TAP
    ] or [0]
    first = min(places)
    return range(first, max(places) + 1, math.gcd(*(place - first for place in places)) or 1)


def _with_common_window(phases: Sequence[Phase]) -> list[Phase]:
    """Return phases that read the same inputs and have as many outputs: channels of one convolution."""
    window, count = _common_window(phases), phases[0].count  # none has more
    return [Phase(tuple(phase.tap_at(place) for place in window), window.start, window.step, count) for phase in phases]


def are_cheaper_together(phases: Sequence[Phase], channels: int) -> bool:
    """Return whether phases are cheaper as channels of one convolution than as one convolution each.

    Together they read the input once and write neighbouring outputs at once, but what any of them reads is multiplied
    with the filters of all. What counts is the taps for each panel of 32 channels, and half a tap for a convolution.
    Whole panels gain nothing by that; apart they can be written into a join.
    """
    if channels % _PANEL == 0:
        return False

    def cost(taps: int, channels: int) -> float:
        return taps * -(-channels // _PANEL) + 0.5

    together = cost(len(_common_window(phases)), len(phases) * channels)
    return together <= sum(cost(len(phase.taps), channels) for phase in phases)


@dataclass(frozen=True, slots=True, eq=False)
class PhasedConvolution:
    """How the phases of a transposed convolution are computed, and put together.

    Attributes:
        lowering: Where operators are added.
        lengths: Of the input's spatial axes.
        phases: Of each spatial axis.
        channels: Of the output.
        groups: Of channels.
    """

    lowering: Lowering
    lengths: Sequence[int]
    phases: Sequence[Sequence[Phase]]
    channels: int
    groups: int

    def __post_init__(self) -> None:
        """Check the number of convolutions."""
        count = math.prod(map(len, self.phases[:-1])) * (1 if self.is_together else len(self.phases[-1]))
        if count > _MOST_CONVOLUTIONS:
            raise NotNative(f"it would be {count} convolutions")

    @property
    def is_together(self) -> bool:
        """Whether the phases of columns are channels of one convolution; the channels of a group are neighbours."""
        columns = self.phases[-1]
        return self.groups == 1 and len(columns) > 1 and are_cheaper_together(columns, self.channels)

    @property
    def spatial(self) -> tuple[int, ...]:
        """The lengths of the output's spatial axes."""
        return tuple(sum(phase.count for phase in axis) for axis in self.phases)

    def assembled(self, convolved: Callable[[Sequence[Phase], Sequence[Phase]], Tensor]) -> Tensor:
        """Compute the phases, each in its place.

        Args:
            convolved: Adds the convolution of a phase of each leading axis and of phases of the last one, which have
                the same taps; their channels follow one another.
        """
        columns = [_with_common_window(self.phases[-1])] if self.is_together else [[each] for each in self.phases[-1]]
        whole = self._along((), columns, convolved)
        return self._spread(whole) if self.is_together else whole

    def _along(
        self,
        leading: tuple[Phase, ...],
        columns: Sequence[Sequence[Phase]],
        convolved: Callable[[Sequence[Phase], Sequence[Phase]], Tensor],
    ) -> Tensor:
        """Compute the phases of the axes behind the leading ones, of which one phase each is given."""
        axis = len(leading)
        if axis == len(self.phases) - 1:
            return self._interleaved([convolved(leading, phases) for phases in columns], -1)
        parts = [self._along((*leading, phase), columns, convolved) for phase in self.phases[axis]]
        return self._interleaved(parts, axis + 2)

    def _interleaved(self, parts: Sequence[Tensor], axis: int) -> Tensor:
        if len(parts) == 1:
            return parts[0]
        shape = list(parts[0].shape)
        shape[axis] = sum(part.shape[axis] for part in parts)
        return self.lowering.emit("INTERLEAVE", parts, parts[0].dtype, shape, {"axis": (axis % len(shape),)})

    def _spread(self, tensor: Tensor) -> Tensor:
        """Make neighbours along the last axis of the channels of phases: {N, phases * C, ..., W} is {N, C, ..., W'}."""
        count, channels = len(self.phases[-1]), self.channels
        batch, _, *leading, width = tensor.shape
        rank = len(tensor.shape) + 1
        apart = self.lowering.reshaped(tensor, (batch, count, channels, *leading, width))
        permutation = (0, *range(2, rank), 1)
        last = transposed(self.lowering, apart, permutation)
        whole = self.lowering.reshaped(last, (batch, channels, *leading, width * count))
        outputs = self.spatial[-1]
        if outputs == width * count:
            return whole
        return computed(self.lowering, sliced_along(self.lowering, whole, rank - 2, 0, outputs))

    def window(self, axes: Sequence[Phase]) -> ConvolutionWindow:
        """Return the window of the convolution of a phase of each axis, over what it reads of the input."""
        spatial = Window(
            kernel=tuple(len(phase.taps) for phase in axes),
            strides=(1,) * len(axes),
            dilations=tuple(phase.dilation for phase in axes),
            start_padding=tuple(max(-phase.first, 0) for phase in axes),
            end_padding=tuple(max(phase.end - length, 0) for phase, length in zip(axes, self.lengths, strict=True)),
            output=tuple(phase.count for phase in axes),
        )
        return ConvolutionWindow(spatial, self.groups)

    def read_by(self, axes: Sequence[Phase], x: Tensor) -> Tensor:
        """Return what the convolution of a phase of each axis reads of the input, as far as there is any."""
        starts = [max(phase.first, 0) for phase in axes]
        ends = [min(phase.end, length) for phase, length in zip(axes, self.lengths, strict=True)]
        shape = (*x.shape[:2], *(max(end - start, 0) for start, end in zip(starts, ends, strict=True)))
        if shape == x.shape:
            return x
        return computed(self.lowering, sliced(self.lowering, x, (0, 0, *starts), (1,) * len(shape), shape))


def taps_of(filters: Array, nothing: Array, taps: Sequence[Sequence[int]]) -> Array:
    """Return a filter of some kernel indices of each axis.

    Args:
        filters: {output channels, input channels / groups, ...}.
        nothing: What adds nothing, for each output channel or for all: it stands for NO_TAP.
        taps: The kernel indices of each spatial axis.
    """
    nothing = nothing.reshape(-1, *(1,) * (filters.ndim - 1))
    for axis, of_axis in enumerate(taps, start=2):
        if NO_TAP in of_axis:
            after_last = np.broadcast_to(nothing, (*filters.shape[:axis], 1, *filters.shape[axis + 1 :]))
            filters = np.concatenate([filters, after_last], axis)
        filters = filters[(slice(None),) * axis + (_as_slice(of_axis),)]
    return np.ascontiguousarray(filters)


def _as_slice(indices: Sequence[int]) -> slice | list[int]:
    """Return indices as a slice, which copies nothing, if they are at one distance and NO_TAP is none of them."""
    step = indices[1] - indices[0] if len(indices) > 1 else 1
    if NO_TAP in indices or step == 0 or tuple(indices) != tuple(range(indices[0], indices[-1] + step, step)):
        return list(indices)
    end = indices[-1] + step
    return slice(indices[0], None if end < 0 else end, step)


def phases_of_node(node: Node, spatial: Sequence[int], kernel: Sequence[int]) -> list[list[Phase]]:
    """Return the phases of each spatial axis.

    Raises:
        NotNative: The attributes do not fit the axes, or there are no outputs.
    """
    rank = len(spatial)
    strides, dilations, padding = spatial_attributes(node, kernel, rank)
    added = tuple(node.attributes.get("output_padding", ())) or (0,) * rank
    lengths = tuple(node.attributes.get("output_shape", ()))
    if len(added) != rank or min(added, default=0) < 0:
        raise NotNative("output padding that does not fit the number of spatial axes, or is negative")
    if len(lengths) not in (0, rank):
        raise NotNative("an output shape that does not fit the operands")
    if max(strides) > _MOST_CONVOLUTIONS:  # before any work that is in proportion to them
        raise NotNative(f"strides {strides}")
    if any(more >= max(steps) for more, *steps in zip(added, strides, dilations, strict=True)):
        raise NotNative("output padding as large as stride and dilation")
    kind = automatic_padding(node)
    phases = []
    for axis, length in enumerate(spatial):
        written = (length - 1) * strides[axis] + added[axis] + (kernel[axis] - 1) * dilations[axis] + 1
        start, end = padding[axis], padding[rank + axis]
        if lengths or kind in (b"SAME_UPPER", b"SAME_LOWER"):
            total = max(written - (lengths[axis] if lengths else length * strides[axis]), 0)
            start = (total + (kind != b"SAME_UPPER")) // 2
            end = total - start
        elif kind == b"VALID":
            start = end = 0
        outputs = lengths[axis] if lengths else written - start - end
        if not 1 <= outputs <= written:
            raise NotNative(f"{outputs} outputs along an axis where {written} are written")
        phases.append(phases_of(length, outputs, kernel[axis], strides[axis], dilations[axis], start))
    return phases
