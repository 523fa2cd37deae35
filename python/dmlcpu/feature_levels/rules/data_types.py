"""Data types that go together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from dmlcpu.enums import TensorDataType
from dmlcpu.schema import Check, DescValues, Violation

__all__ = ["DataTypeFollows", "SameDataType", "ScaleDataType"]


@dataclass(frozen=True, slots=True)
class SameDataType:
    """Each of the others, where present, has the data type of the reference."""

    reference: str
    others: tuple[str, ...]
    check: ClassVar[Check] = Check.DATA_TYPE

    def violation(self, values: DescValues) -> Violation | None:
        """Return the first tensor of another data type."""
        data_type = values.tensors[self.reference].data_type
        for name, tensor in values.present(self.others):
            if tensor.data_type is not data_type:
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
