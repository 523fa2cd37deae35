"""Numbers, and arrays of tensors, that may have some values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dmlcpu.schema import Check, DescValues, Violation
from dmlcpu.shown_values import counted

__all__ = ["Boolean", "EntryCount"]


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
        return Violation(self.check, self.array, counted(given, "tensor"), expected)
