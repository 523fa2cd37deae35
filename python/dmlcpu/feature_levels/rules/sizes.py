"""Dimension counts and sizes that go together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from dmlcpu.schema import Check, DescValues, Violation

__all__ = ["Axis", "DividingSizes", "OneElement", "SameDimensionCount", "SameLength", "SameSizes"]


@dataclass(frozen=True, slots=True)
class SameDimensionCount:
    """Each of the others, where present, has as many dimensions as the reference."""

    reference: str
    others: tuple[str, ...]
    check: ClassVar[Check] = Check.DIMENSION_COUNT

    def violation(self, values: DescValues) -> Violation | None:
        """Return the first tensor of another dimension count."""
        rank = len(values.tensors[self.reference].sizes)
        for name, tensor in values.present(self.others):
            if len(tensor.sizes) != rank:
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
        for name, tensor in values.present(self.others):
            if tensor.sizes != sizes:
                expected = f"{sizes}, as {self.reference}"
                if set(tensor.sizes) == {1}:
                    expected += "; with strides of 0 these repeat one element"
                return Violation(self.check, name, f"sizes {tensor.sizes}", expected)
        return None


@dataclass(frozen=True, slots=True)
class OneElement:
    """Each of the tensors, where present, has one element."""

    names: tuple[str, ...]
    check: ClassVar[Check] = Check.SIZES

    def violation(self, values: DescValues) -> Violation | None:
        """Return the first tensor of more elements."""
        for name, tensor in values.present(self.names):
            if max(tensor.sizes) > 1:
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
        for name, tensor in values.present(self.others):
            if any(size % blocks for size, blocks in zip(sizes, tensor.sizes, strict=True)):
                expected = f"divisors of {sizes}, the sizes of {self.reference}"
                return Violation(self.check, name, f"sizes {tensor.sizes}", expected)
        return None


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
