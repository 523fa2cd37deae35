"""The exceptions of dmlcpu. Every one is a ``DmlError``, and every one pickles with its attributes."""

from __future__ import annotations

from typing import Final

from dmlcpu.enums import FeatureLevel, OperatorType

__all__ = [
    "BindingError",
    "DmlError",
    "InvalidDescError",
    "InvalidModelError",
    "UnsupportedFeatureLevelError",
    "UnsupportedIsaError",
]

# The attributes below have defaults so that an exception can be rebuilt from its message alone, which is what
# BaseException.__reduce__ does before it restores the attributes.


class DmlError(Exception):
    """The base of every exception that dmlcpu raises on purpose."""


class InvalidDescError(DmlError, ValueError):
    """A desc that no feature level accepts (``E_INVALIDARG`` of ``IDMLDevice::CreateOperator``).

    Attributes:
        hresult: Always 0x80070057.
        operator: The operator that the desc is for.
        field: The field at fault, such as ``"filter_scale_tensor"`` or ``"quantization_tensors[1]"``.
    """

    hresult: Final = 0x80070057

    def __init__(self, message: str, operator: OperatorType | None = None, field: str | None = None) -> None:
        super().__init__(message)
        self.operator = operator
        self.field = field


class UnsupportedFeatureLevelError(DmlError):
    """Something that a higher feature level has and this one has not.

    Attributes:
        operator: The operator that was asked for, or None where none was.
        field: The field that needs a higher level; None if the operator itself does.
        required_level: The lowest feature level that accepts the whole desc.
    """

    def __init__(
        self,
        message: str,
        operator: OperatorType | None = None,
        field: str | None = None,
        required_level: FeatureLevel | None = None,
    ) -> None:
        super().__init__(message)
        self.operator = operator
        self.field = field
        self.required_level = required_level


class UnsupportedIsaError(DmlError, ValueError):
    """An instruction set that is unknown, or that this CPU cannot run."""


class BindingError(DmlError, ValueError):
    """An array that does not fit the tensor it is bound to.

    Attributes:
        field: The tensor, such as ``"input_tensor"``, or None where no single one is at fault.
    """

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class InvalidModelError(DmlError, ValueError):
    """A model file that cannot be read, or that is not valid."""
