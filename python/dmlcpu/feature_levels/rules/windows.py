"""Windows that slide over the spatial axes of an input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from dmlcpu.schema import Check, DescValues, Violation
from dmlcpu.shown_values import counted

__all__ = ["ArrayLengths", "OutputSizes", "PositiveSteps", "Window", "WindowFits"]


@dataclass(frozen=True, slots=True)
class ArrayLengths:
    """The arrays are equally long and have an entry for each spatial axis of a tensor; more are allowed or not."""

    names: tuple[str, ...]
    spatial: str
    exact: bool
    check: ClassVar[Check] = Check.ARRAY_LENGTH

    def violation(self, values: DescValues) -> Violation | None:
        """Return the first array that is too short or too long; which is longer, where they differ, is too long."""
        needed = len(values.tensors[self.spatial].sizes) - 2
        lengths = {name: len(values.arrays[name]) for name in self.names}
        are_equal = len({*lengths.values()}) == 1
        for name, given in lengths.items():
            if given < needed or (given > needed and (self.exact or not are_equal)):
                bound = "at least " if given < needed and not self.exact else ""
                expected = f"{bound}{needed}, one for each spatial axis of {self.spatial}"
                return Violation(self.check, name, counted(given, "entry", "entries"), expected)
        return None


class SpatialAxis(NamedTuple):
    """The numbers of a window sliding along one spatial axis."""

    input: int
    window: int
    stride: int
    dilation: int
    padding: int

    @property
    def extent(self) -> int:
        """The length of input that the dilated window covers."""
        return (self.window - 1) * self.dilation + 1

    @property
    def padded(self) -> int:
        """The length of the input with the padding at both ends."""
        return self.input + self.padding

    @property
    def output(self) -> int:
        """The number of positions of the window."""
        return (self.padded - self.extent) // self.stride + 1


@dataclass(frozen=True, slots=True)
class Window:
    """The fields that describe a window sliding over the spatial axes, those after the first two, of an input."""

    input: str
    window: str
    output: str
    strides: str = "strides"
    dilations: str = "dilations"
    start_padding: str = "start_padding"
    end_padding: str = "end_padding"

    def axes(self, values: DescValues) -> Iterator[SpatialAxis]:
        """Yield each spatial axis; surplus entries of the arrays are left over."""
        arrays = values.arrays
        # The window is the spatial part of a filter, or an array of its own.
        sizes = values.tensors[self.window].sizes[2:] if self.window in values.tensors else arrays[self.window]
        names = (self.strides, self.dilations, self.start_padding, self.end_padding)
        columns = zip(values.tensors[self.input].sizes[2:], sizes, *(arrays[name] for name in names), strict=False)
        for length, window, stride, dilation, start, end in columns:
            yield SpatialAxis(length, window, stride, dilation, start + end)


@dataclass(frozen=True, slots=True)
class PositiveSteps:
    """Of each array, the entries for the spatial axes of a tensor are not 0."""

    names: tuple[str, ...]
    spatial: str
    check: ClassVar[Check] = Check.STEPS

    def violation(self, values: DescValues) -> Violation | None:
        """Return the first array with a 0."""
        used = len(values.tensors[self.spatial].sizes) - 2
        for name in self.names:
            entries = values.arrays[name][:used]
            if 0 in entries:
                return Violation(self.check, name, f"0 along spatial axis {entries.index(0)}", "at least 1")
        return None


@dataclass(frozen=True, slots=True)
class WindowFits:
    """The dilated window is no larger than the padded input."""

    window: Window
    check: ClassVar[Check] = Check.WINDOW

    def violation(self, values: DescValues) -> Violation | None:
        """Return the window if it is larger."""
        for axis, numbers in enumerate(self.window.axes(values)):
            if numbers.extent > numbers.padded:
                got = f"{numbers.extent} elements with dilation along spatial axis {axis}"
                return Violation(self.check, self.window.window, got, f"at most {numbers.padded}, the padded input")
        return None


@dataclass(frozen=True, slots=True)
class OutputSizes:
    """The spatial sizes of the output are the numbers of positions of the window."""

    window: Window
    check: ClassVar[Check] = Check.OUTPUT_SIZES

    def violation(self, values: DescValues) -> Violation | None:
        """Return the output if it has other sizes. Needs PositiveSteps and WindowFits to hold."""
        sizes = values.tensors[self.window.output].sizes
        required = (*sizes[:2], *(numbers.output for numbers in self.window.axes(values)))
        if sizes == required:
            return None
        formula = "(padded input - dilated window) // stride + 1 on each spatial axis"
        return Violation(self.check, self.window.output, f"sizes {sizes}", f"{required}: {formula}")
