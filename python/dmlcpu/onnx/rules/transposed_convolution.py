"""ConvTranspose on quantized operands: convolutions with stride 1, one for each phase of the output.

Along an axis with stride s, the kernel indices k that reach output o are those with ``o + padding - k * dilation``
divisible by s. So outputs r, r + s, r + 2 * s, ... (a phase) are a convolution of the input with those k, last first.
``docs/graphs.md`` tells how phases are put together.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from dmlcpu.onnx.lowering import Lowering, NotNative, Rule
from dmlcpu.onnx.nodes import Node
from dmlcpu.onnx.rules.operands import CODE_TYPES, present
from dmlcpu.onnx.rules.quantized_convolution import Filter, QuantizedConvolution, integer_bias, scaled_sums
from dmlcpu.onnx.rules.slices import VOLUME_RANK
from dmlcpu.onnx.rules.transposed_blocks import transposed_blocks
from dmlcpu.onnx.rules.windows import Window
from dmlcpu.onnx.values import Array, Deferred, Dequantized, Parameters, Table, Tensor, Value

__all__ = ["RULES", "are_cheaper_together", "phases_of"]

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


class TransposedConvolution(Deferred):
    """A transposed convolution of dequantized codes, plus a bias.

    The filter's codes are {output channels, input channels / groups, ...}, as a convolution has them.
    """

    def __init__(
        self,
        lowering: Lowering,
        x: Table,
        weights: Filter,
        bias: Array | None,
        phases: Sequence[Sequence[Phase]],
        groups: int,
    ) -> None:
        self._lowering, self._x, self._filter, self._bias, self._groups = lowering, x, weights, bias, groups
        self._leading, self._columns = phases[:-1], phases[-1]
        channels = weights.codes.shape[0]
        self.shape = (x.shape[0], channels, *(sum(phase.count for phase in axis) for axis in phases))
        # The channels of a group have to be neighbours.
        self._together = groups == 1 and len(self._columns) > 1 and are_cheaper_together(self._columns, channels)
        convolutions = math.prod(map(len, self._leading)) * (1 if self._together else len(self._columns))
        if convolutions > _MOST_CONVOLUTIONS:
            raise NotNative(f"it would be {convolutions} convolutions")

    def quantized(self, parameters: Parameters) -> Tensor:
        """Add quantized convolutions."""
        return self._assembled(lambda part: part.quantized(parameters))

    def floats(self) -> Tensor:
        """Add integer convolutions, and scale their sums."""
        assert self._x.parameters is not None
        sums = self._assembled(QuantizedConvolution.sums)
        return scaled_sums(self._lowering, sums, self._filter.unit(self._x.parameters), self._bias)

    def _assembled(self, compute: Callable[[QuantizedConvolution], Tensor]) -> Tensor:
        """Compute the phases, each in its place."""
        columns = [_with_common_window(self._columns)] if self._together else [[phase] for phase in self._columns]
        rows = []
        for leading in itertools.product(*self._leading):
            rows.append(self._interleaved([compute(self._convolution(leading, phases)) for phases in columns], -1))
        whole = self._interleaved(rows, 2)
        return self._spread(whole) if self._together else whole

    def _interleaved(self, parts: Sequence[Tensor], axis: int) -> Tensor:
        if len(parts) == 1:
            return parts[0]
        shape = list(parts[0].shape)
        shape[axis] = sum(part.shape[axis] for part in parts)
        return self._lowering.emit("INTERLEAVE", parts, parts[0].dtype, shape, {"axis": (axis % len(shape),)})

    def _spread(self, codes: Tensor) -> Tensor:
        """Make neighbours along the last axis of the channels of phases: {N, phases * C, ..., W} is {N, C, ..., W'}."""
        count, channels = len(self._columns), self.shape[1]
        batch, _, *leading, width = codes.shape
        rank = len(codes.shape) + 1
        apart = self._lowering.reshaped(codes, (batch, count, channels, *leading, width))
        permutation = (0, *range(2, rank), 1)
        shape = (batch, channels, *leading, width, count)
        last = self._lowering.emit("TRANSPOSE", [apart], codes.dtype, shape, {"permutation": permutation})
        whole = self._lowering.reshaped(last, (batch, channels, *leading, width * count))
        if whole.shape == self.shape:
            return whole
        attributes = {"starts": (0,) * (rank - 1), "steps": (1,) * (rank - 1)}
        return self._lowering.emit("SLICE", [whole], whole.dtype, self.shape, attributes)

    def _convolution(self, leading: Sequence[Phase], columns: Sequence[Phase]) -> QuantizedConvolution:
        """Return the convolution of a phase of each axis; of the last, of phases with the same taps."""
        axes = (*leading, columns[0])
        lengths = self._x.shape[2:]
        window = Window(
            kernel=tuple(len(phase.taps) for phase in axes),
            strides=(1,) * len(axes),
            dilations=tuple(phase.dilation for phase in axes),
            start_padding=tuple(max(-phase.first, 0) for phase in axes),
            end_padding=tuple(max(phase.end - length, 0) for phase, length in zip(axes, lengths, strict=True)),
            output=tuple(phase.count for phase in axes),
        )
        codes = np.concatenate([self._taps([*(phase.taps for phase in leading), phase.taps]) for phase in columns])

        def repeated(array: Array) -> Array:
            return array if array.size == 1 else np.tile(array, len(columns))

        weights = Filter(codes, repeated(self._filter.scale), repeated(self._filter.zero_point))
        bias = None if self._bias is None else np.tile(self._bias, len(columns))
        x = self._read([(max(phase.first, 0), phase.end) for phase in axes])
        return QuantizedConvolution(self._lowering, x, weights, bias, window, self._groups)

    def _taps(self, taps: Sequence[Sequence[int]]) -> Array:
        """Return a filter of these kernel indices of each axis; its zero point for NO_TAP."""
        codes = self._filter.codes
        nothing = self._filter.zero_point.reshape(-1, *(1,) * (codes.ndim - 1))
        for axis, of_axis in enumerate(taps, start=2):
            after_last = np.broadcast_to(nothing, (*codes.shape[:axis], 1, *codes.shape[axis + 1 :]))
            codes = np.concatenate([codes, after_last], axis)[(slice(None),) * axis + (list(of_axis),)]
        return codes

    def _read(self, places: Sequence[tuple[int, int]]) -> Table:
        """Return the input's elements from one place up to another along each spatial axis, as far as there are any."""
        spans = zip(places, self._x.shape[2:], strict=True)
        lengths = [max(min(end, length) - start, 0) for (start, end), length in spans]
        shape = (*self._x.shape[:2], *lengths)
        if shape == self._x.shape:
            return self._x
        attributes = {"starts": (0, 0, *(start for start, _ in places)), "steps": (1,) * len(shape)}
        codes = self._x.codes
        return replace(self._x, codes=self._lowering.emit("SLICE", [codes], codes.dtype, shape, attributes))


def _filter(value: Value | None, groups: int) -> Filter:
    """Return the filter {input channels, output channels / groups, ...} behind a value as a convolution has it.

    Raises:
        NotNative: It is no constant of 8-bit codes, or its scales are along another axis than the output channels'.
    """
    if not isinstance(value, Dequantized) or value.codes.dtype not in CODE_TYPES:
        raise NotNative("a filter that is no constant quantized to 8 bits")
    if groups < 1 or value.shape[0] % groups:
        raise NotNative(f"{groups} groups with a filter of shape {value.shape}")
    inputs, outputs = value.shape[0] // groups, value.shape[1]
    codes = value.codes.reshape(groups, inputs, outputs, *value.shape[2:]).swapaxes(1, 2)
    scale, zero_point = value.scale, value.zero_point
    if scale.size > 1:
        channels = np.arange(groups * outputs)
        if value.axis == 1:
            of_channels = channels % outputs
        elif value.axis == 0 and inputs == 1:
            of_channels = channels // outputs
        else:
            raise NotNative("a filter with scales along another axis than the output channels'")
        scale, zero_point = scale[of_channels], zero_point[of_channels]
    return Filter.of(Dequantized(codes.reshape(-1, inputs, *value.shape[2:]), scale, zero_point, axis=0))


def _phases(node: Node, spatial: Sequence[int], kernel: Sequence[int]) -> list[list[Phase]]:
    """Return the phases of each spatial axis.

    Raises:
        NotNative: The attributes do not fit the axes, or there are no outputs.
    """
    rank = len(spatial)
    strides, dilations = (tuple(node.attributes.get(name, (1,) * rank)) for name in ("strides", "dilations"))
    padding = tuple(node.attributes.get("pads", (0,) * 2 * rank))
    added = tuple(node.attributes.get("output_padding", ())) or (0,) * rank
    lengths = tuple(node.attributes.get("output_shape", ()))
    if not len(strides) == len(dilations) == len(added) == rank or len(padding) != 2 * rank:
        raise NotNative("attributes that do not fit the number of spatial axes")
    if len(lengths) not in (0, rank) or tuple(node.attributes.get("kernel_shape", kernel)) != tuple(kernel):
        raise NotNative("an output or a kernel shape that does not fit the operands")
    if min((*strides, *dilations, *kernel), default=0) < 1 or min((*padding, *added), default=0) < 0:
        raise NotNative("a stride, dilation or kernel below 1, or negative padding")
    if max(strides) > _MOST_CONVOLUTIONS:  # before any work that is in proportion to them
        raise NotNative(f"strides {strides}")
    if any(more >= max(steps) for more, *steps in zip(added, strides, dilations, strict=True)):
        raise NotNative("output padding as large as stride and dilation")
    kind = node.attributes.get("auto_pad", b"NOTSET")
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


def transposed_convolution(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """ConvTranspose; of floats, and of volumes, only where windows do not overlap."""
    value, of_codes = present(inputs[0]), isinstance(inputs[1], Dequantized) and isinstance(inputs[0], Table)
    if not of_codes or len(value.shape) == VOLUME_RANK:
        return transposed_blocks(lowering, node, inputs)
    x, bias = lowering.affine(value), (*inputs, None)[2]
    assert x.parameters is not None
    if len(x.shape) not in (3, 4):
        raise NotNative(f"a convolution of {len(x.shape)} dimensions")
    groups = int(node.attributes.get("group", 1))
    weights = _filter(inputs[1], groups)
    channels = weights.codes.shape[0]
    if weights.codes.ndim != len(x.shape) or weights.codes.shape[1] * groups != x.shape[1]:
        raise NotNative(f"{groups} groups of {x.shape[1]} channels with a filter of {weights.codes.shape[1]} for each")
    phases = _phases(node, x.shape[2:], weights.codes.shape[2:])
    codes_of_bias = integer_bias(bias, weights.unit(x.parameters), channels)
    return [TransposedConvolution(lowering, x, weights, codes_of_bias, phases, groups)]


RULES: Final[Mapping[tuple[str, str], Rule]] = {("", "ConvTranspose"): transposed_convolution}
