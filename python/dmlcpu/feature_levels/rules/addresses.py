"""Where the elements of an output lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dmlcpu.schema import Check, DescValues, Violation
from dmlcpu.shared_addresses import elements_share_an_address

__all__ = ["NoSharedAddresses"]


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
