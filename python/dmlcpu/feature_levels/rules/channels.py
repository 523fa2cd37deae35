"""The channels of a tensor, its groups of them, and parameters with a value for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dmlcpu.feature_levels.rules.sizes import Axis
from dmlcpu.schema import Check, DescValues, Violation

__all__ = ["ChannelParameters", "ChannelSizes", "GroupedChannels"]


@dataclass(frozen=True, slots=True)
class ChannelSizes:
    """Each of the tensors, where present, has sizes {1, C} and then ones, or, if allowed, one element."""

    names: tuple[str, ...]
    channels: Axis
    or_one_element: bool
    check: ClassVar[Check] = Check.SIZES

    def violation(self, values: DescValues) -> Violation | None:
        """Return the first tensor of other sizes."""
        channels = self.channels.length(values)
        for name, tensor in values.present(self.names):
            if self.or_one_element and max(tensor.sizes) == 1:
                continue
            sizes = (1, channels, 1, 1, 1, 1, 1, 1)[: len(tensor.sizes)]
            if tensor.sizes != sizes:
                choice = "one element or " if self.or_one_element else ""
                expected = f"{choice}sizes {sizes}, a value for each channel, {self.channels} = {channels}"
                return Violation(self.check, name, f"sizes {tensor.sizes}", expected)
        return None


@dataclass(frozen=True, slots=True)
class ChannelParameters:
    """Each of the tensors, where present, has a reference's dimension count, and sizes {1, C} then ones, or ones."""

    names: tuple[str, ...]
    reference: str
    check: ClassVar[Check] = Check.PARAMETER_SIZES

    def violation(self, values: DescValues) -> Violation | None:
        """Return the first tensor of other sizes."""
        rank, channels = len(values.tensors[self.reference].sizes), values.tensors[self.reference].sizes[1]
        ones = (1,) * rank
        per_channel = (1, channels, *ones[2:])
        for name, tensor in values.present(self.names):
            if tensor.sizes not in (ones, per_channel):
                expected = f"{ones} or {per_channel}, a value for each channel of {self.reference}"
                return Violation(self.check, name, f"sizes {tensor.sizes}", expected)
        return None


@dataclass(frozen=True, slots=True)
class GroupedChannels:
    """The channels of the input and of the output divide into as many groups, and a filter spans one group."""

    input: Axis
    filter: Axis
    output: Axis
    group_count: str
    check: ClassVar[Check] = Check.GROUPS

    def violation(self, values: DescValues) -> Violation | None:
        """Return the group count if it does not divide the channels, the filter if it has too many or too few."""
        groups = values.numbers[self.group_count]
        if groups == 0:
            return Violation(self.check, self.group_count, "0", "at least 1")
        for axis in (self.input, self.output):
            if axis.length(values) % groups:
                expected = f"a divisor of {axis} = {axis.length(values)}"
                return Violation(self.check, self.group_count, str(groups), expected)
        given, required = self.filter.length(values), self.input.length(values) // groups
        if given == required:
            return None
        got = f"sizes[{self.filter.position}] = {given}"
        return Violation(self.check, self.filter.name, got, f"{required}, {self.input} / {self.group_count}")
