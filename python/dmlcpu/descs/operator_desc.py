"""The base of every operator's desc."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

from dmlcpu.coercion import coerce_integer, coerce_sequence
from dmlcpu.enums import OperatorType
from dmlcpu.tensor import TensorDesc

__all__ = ["OperatorDesc"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorDesc:
    """The base of every operator's desc; it cannot be made itself.

    Attributes:
        operator_type: The operator that the desc is for.

    >>> from dmlcpu import QuantizeOperatorDesc
    >>> issubclass(QuantizeOperatorDesc, OperatorDesc), QuantizeOperatorDesc.operator_type.name
    (True, 'QUANTIZE')
    """

    operator_type: ClassVar[OperatorType]

    def __post_init__(self) -> None:
        """Bring every value to its canonical form, so that equal descs compare and hash equal."""
        if not hasattr(self, "operator_type"):
            raise TypeError(f"{type(self).__name__} is the base of descs and describes no operator")
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and not isinstance(value, TensorDesc):
                object.__setattr__(self, field.name, _canonical(value))


def _canonical(value: Any) -> Any:
    return coerce_integer(coerce_sequence(value))
