"""The relations between fields that operator tables are made of: each a record of field names that can check itself.

Rules see only well-formed values: every size at least 1, every number within 32 bits, every tensor of a data type and
a dimension count that its table allows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from dmlcpu.enums import TensorDataType
from dmlcpu.overlap import elements_share_an_address
from dmlcpu.schema import Check, DescValues, Violation

__all__ = [
    "ArrayLengths",
    "Axis",
    "Boolean",
    "ChannelParameters",
    "ChannelSizes",
    "DataTypeFollows",
    "DividingSizes",
    "EntryCount",
    "GroupedChannels",
    "LineSizes",
    "MatrixSizes",
    "NoSharedAddresses",
    "OneElement",
    "OutputSizes",
    "PositiveSteps",
    "SameDataType",
    "SameDimensionCount",
    "SameLength",
    "SameSizes",
    "ScaleDataType",
    "Window",
    "WindowFits",
]


@dataclass(frozen=True, slots=True)
class SameDataType:
    """Each of the others, where present, has the data type of the reference."""

    reference: str
    others: tuple[str, ...]
    check: ClassVar[Check] = Check.DATA_TYPE

    def violation(self, values: DescValues) -> Violation | None:
        """Return the first tensor of another data type."""
        data_type = values.tensors[self.reference].data_type
        for name in self.others:
            tensor = values.tensors.get(name)
            if tensor is not None and tensor.data_type is not data_type:
                expected = f"{data_type.name}, as {self.reference}"
                return Violation(self.check, name, f"data type {tensor.data_type.name}", expected)
        return None


@dataclass(frozen=True, slots=True)
class ScaleDataType(SameDataType):
    """Each of the others, which are scales, has the data type of the reference, the output."""

    check: ClassVar[Check] = Check.SCALE_DATA_TYPE


@dataclass(frozen=True, slots=True)
class DataTypeFollows:
    """The data type of a tensor is the one listed for the data type of the reference."""

    reference: str
    name: str
    data_types: Mapping[TensorDataType, TensorDataType]
    check: ClassVar[Check] = Check.DATA_TYPE

    def violation(self, values: DescValues) -> Violation | None:
        """Return the tensor if its data type is not the listed one."""
        given, required = values.tensors[self.name].data_type, self.data_types[values.tensors[self.reference].data_type]
        if given is required:
            return None
        because = f"{self.reference} is {values.tensors[self.reference].data_type.name}"
        return Violation(self.check, self.name, f"data type {given.name}", f"{required.name} because {because}")


@dataclass(frozen=True, slots=True)
class SameDimensionCount:
    """Each of the others, where present, has as many dimensions as the reference."""

    reference: str
    others: tuple[str, ...]
    check: ClassVar[Check] = Check.DIMENSION_COUNT

    def violation(self, values: DescValues) -> Violation | None:
        """Return the first tensor of another dimension count."""
        rank = len(values.tensors[self.reference].sizes)
        for name in self.others:
            tensor = values.tensors.get(name)
            if tensor is not None and len(tensor.sizes) != rank:
                got = f"dimension count {len(tensor.sizes)}"
                return Violation(self.check, name, got, f"{rank}, as {self.reference}")
        return None


@dataclass(frozen=True, slots=True)
class SameSizes:
    """Each of the others, where present, has the sizes of the reference."""

    reference: str
    others: tuple[str, ...]
    check: ClassVar[Check] = Check.SIZES

    def violation(self, values: DescValues) -> Violation | None:
        """Return the first tensor of other sizes."""
        sizes = values.tensors[self.reference].sizes
        for name in self.others:
            tensor = values.tensors.get(name)
            if tensor is not None and tensor.sizes != sizes:
                return Violation(self.check, name, f"sizes {tensor.sizes}", f"{sizes}, as {self.reference}")
        return None


@dataclass(frozen=True, slots=True)
class OneElement:
    """Each of the tensors, where present, has one element."""

    names: tuple[str, ...]
    check: ClassVar[Check] = Check.SIZES

    def violation(self, values: DescValues) -> Violation | None:
        """Return the first tensor of more elements."""
        for name in self.names:
            tensor = values.tensors.get(name)
            if tensor is not None and max(tensor.sizes) > 1:
                return Violation(self.check, name, f"sizes {tensor.sizes}", "one element")
        return None


@dataclass(frozen=True, slots=True)
class DividingSizes:
    """Each size of each of the others, where present, divides that of the reference, whose rank they have."""

    reference: str
    others: tuple[str, ...]
    check: ClassVar[Check] = Check.SIZES

    def violation(self, values: DescValues) -> Violation | None:
        """Return the first tensor that cuts an axis of the reference into unequal blocks."""
        sizes = values.tensors[self.reference].sizes
        for name in self.others:
            tensor = values.tensors.get(name)
            if tensor is not None and any(size % blocks for size, blocks in zip(sizes, tensor.sizes, strict=True)):
                expected = f"divisors of {sizes}, the sizes of {self.reference}"
                return Violation(self.check, name, f"sizes {tensor.sizes}", expected)
        return None


@dataclass(frozen=True, slots=True)
class EntryCount:
    """An array of tensors has as many as the number of an enumeration's member says."""

    array: str
    enumeration: str
    check: ClassVar[Check] = Check.ARRAY_LENGTH

    def violation(self, values: DescValues) -> Violation | None:
        """Return the array if it has more or fewer."""
        given, member = values.numbers[self.array], values.numbers[self.enumeration]
        if given == member:
            return None
        expected = f"{int(member)}, as {self.enumeration} says"
        return Violation(self.check, self.array, f"{given} tensors", expected)


class Axis(NamedTuple):
    """One axis of a tensor."""

    name: str
    position: int

    def length(self, values: DescValues) -> int:
        """Return the size of the tensor along this axis."""
        return values.tensors[self.name].sizes[self.position]

    def __str__(self) -> str:
        """Spell it as a user would index it."""
        return f"{self.name}.sizes[{self.position}]"


@dataclass(frozen=True, slots=True)
class SameLength:
    """Two axes are equally long."""

    reference: Axis
    other: Axis
    check: ClassVar[Check] = Check.SIZES

    def violation(self, values: DescValues) -> Violation | None:
        """Return the tensor of the other axis if they differ."""
        given, required = self.other.length(values), self.reference.length(values)
        if given == required:
            return None
        got = f"sizes[{self.other.position}] = {given}"
        return Violation(self.check, self.other.name, got, f"{required}, as {self.reference}")


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
        for name in self.names:
            tensor = values.tensors.get(name)
            if tensor is None or (self.or_one_element and max(tensor.sizes) == 1):
                continue
            rank = len(tensor.sizes)
            if tensor.sizes != (1, channels, 1, 1, 1, 1, 1, 1)[:rank]:
                choice = "one element or " if self.or_one_element else ""
                expected = f"{choice}sizes (1, {channels}, 1, ...), a value for each channel of {self.channels}"
                return Violation(self.check, name, f"sizes {tensor.sizes}", expected)
        return None


_MATRIX_RANK = 4


def _as_matrices(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return sizes with ones before them, up to the rank of two batch axes, rows and columns."""
    return (1,) * (_MATRIX_RANK - len(sizes)) + tuple(sizes)


def _at_rank(sizes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Return sizes without the ones before them, as far as they are more than a rank."""
    surplus = max(len(sizes) - rank, 0)
    ones = next((axis for axis, size in enumerate(sizes[:surplus]) if size != 1), surplus)
    return sizes[ones:]


@dataclass(frozen=True, slots=True)
class MatrixSizes:
    """Two tensors are matrices that can be multiplied, and a third has the product's sizes; ranks may differ."""

    a: str
    b: str
    output: str
    check: ClassVar[Check] = Check.SIZES

    def violation(self, values: DescValues) -> Violation | None:
        """Return the second matrix if it does not go with the first, else the output if it is not their product's."""
        a, b, output = (_as_matrices(values.tensors[name].sizes) for name in (self.a, self.b, self.output))
        if b[:-1] != (*a[:-2], a[-1]):
            sizes = values.tensors[self.b].sizes
            required = _at_rank((*a[:-2], a[-1], b[-1]), len(sizes))
            expected = f"{required}: the batch of {self.a}, and as many rows as it has columns"
            return Violation(self.check, self.b, f"sizes {sizes}", expected)
        if output != (*a[:-1], b[-1]):
            sizes = values.tensors[self.output].sizes
            required = _at_rank((*a[:-1], b[-1]), len(sizes))
            return Violation(self.check, self.output, f"sizes {sizes}", f"{required}, the product's")
        return None


@dataclass(frozen=True, slots=True)
class LineSizes:
    """Each of the tensors, where present, has one element, or one for each row {M, 1} or column {N} of a matrix."""

    names: tuple[str, ...]
    matrix: str
    of_rows: bool
    check: ClassVar[Check] = Check.SIZES

    def violation(self, values: DescValues) -> Violation | None:
        """Return the first tensor of other sizes."""
        rows, columns = values.tensors[self.matrix].sizes[-2:]
        line = (rows, 1) if self.of_rows else (columns,)
        for name in self.names:
            tensor = values.tensors.get(name)
            if tensor is None or max(tensor.sizes) == 1 or _as_matrices(tensor.sizes) == _as_matrices(line):
                continue
            what = "row" if self.of_rows else "column"
            expected = f"one element or sizes {line} after any ones, a value for each {what} of {self.matrix}"
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
        for name in self.names:
            tensor = values.tensors.get(name)
            if tensor is not None and tensor.sizes not in (ones, per_channel):
                expected = f"{ones} or {per_channel}, a value for each channel of {self.reference}"
                return Violation(self.check, name, f"sizes {tensor.sizes}", expected)
        return None


@dataclass(frozen=True, slots=True)
class Boolean:
    """Each of the numbers is 0 or 1."""

    names: tuple[str, ...]
    check: ClassVar[Check] = Check.BOOLEAN

    def violation(self, values: DescValues) -> Violation | None:
        """Return the first number that is neither."""
        for name in self.names:
            if values.numbers[name] > 1:
                return Violation(self.check, name, str(values.numbers[name]), "0 or 1")
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


@dataclass(frozen=True, slots=True)
class ArrayLengths:
    """The arrays are equally long and have an entry for each spatial axis of a tensor; more are allowed or not."""

    names: tuple[str, ...]
    spatial: str
    exact: bool
    check: ClassVar[Check] = Check.ARRAY_LENGTH

    def violation(self, values: DescValues) -> Violation | None:
        """Return the first array that is too short, too long, or not as long as the first."""
        needed = len(values.tensors[self.spatial].sizes) - 2
        first = len(values.arrays[self.names[0]])
        for name in self.names:
            given = len(values.arrays[name])
            if given < needed or (self.exact and given > needed):
                bound = "" if self.exact else "at least "
                expected = f"{bound}{needed}, one for each spatial axis of {self.spatial}"
                return Violation(self.check, name, f"{given} entries", expected)
            if given != first:
                return Violation(self.check, name, f"{given} entries", f"{first}, as {self.names[0]}")
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
            entries = values.arrays[name]
            if 0 in entries[:used]:
                return Violation(self.check, name, f"{entries}", "entries of at least 1")
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


@dataclass(frozen=True, slots=True)
class NoSharedAddresses:
    """No two elements of an output share an address."""

    names: tuple[str, ...]
    check: ClassVar[Check] = Check.OUTPUT_ADDRESSES

    def violation(self, values: DescValues) -> Violation | None:
        """Return the first tensor of which two elements do."""
        for name in self.names:
            tensor = values.tensors[name]
            if tensor.strides is not None and elements_share_an_address(tensor.sizes, tensor.strides):
                got = f"strides {tensor.strides} of sizes {tensor.sizes}"
                return Violation(self.check, name, got, "strides that give each element an address of its own")
        return None
