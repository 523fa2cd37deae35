"""The exceptions of dmlcpu's own, all ``DmlError``. Every one pickles with its attributes.

A wrong argument of Python, such as a number of threads, raises what Python does: ``ValueError``, ``TypeError``.
"""

from __future__ import annotations

from typing import Final

from dmlcpu.descriptions import Partition
from dmlcpu.enums import FeatureLevel, OperatorType

__all__ = [
    "BindingError",
    "DmlError",
    "InvalidDescError",
    "InvalidModelError",
    "MissingRuntimeError",
    "UnsupportedFeatureLevelError",
    "UnsupportedIsaError",
]

# The attributes below have defaults so that an exception can be rebuilt from its message alone, which is what
# BaseException.__reduce__ does before it restores the attributes.


class DmlError(Exception):
    """The base of what dmlcpu raises of operators, tensors, models and instruction sets that do not fit."""


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
    """Something that a higher feature level has and this one has not; or a level that there is not.

    Attributes:
        operator: The operator that was asked for, or None where none was.
        field: The field that needs a higher level; None if the operator itself does.
        required_level: The lowest feature level that accepts the whole desc; None where none was given.
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
        field: The tensor, such as ``"input_tensor"``: a field of the desc, whichever argument of a function it came
            from, or what a graph or a model calls it. An argument that is no tensor has its own name. None where no
            single one is at fault.
    """

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class InvalidModelError(DmlError, ValueError):
    """A model file that cannot be read, or that is not valid."""


class MissingRuntimeError(DmlError):
    """A model has nodes that no kernel computes, and onnxruntime is not installed, or has no such operator either.

    Attributes:
        partitions: Who would run what, as a session tells it, "nobody" what has no runtime; empty where that is not
            known.
    """

    def __init__(self, message: str, partitions: tuple[Partition, ...] = ()) -> None:
        super().__init__(message)
        self.partitions = partitions
