"""Operators as a device creates them: descs that it has accepted."""

from __future__ import annotations

from dataclasses import dataclass

import dmlcpu  # not Device: its module needs this one
from dmlcpu.descs.operator_desc import OperatorDesc
from dmlcpu.enums import OperatorType
from dmlcpu.validation import validate

__all__ = ["Operator"]


@dataclass(frozen=True, slots=True)
class Operator:
    """A desc that a device has accepted (``IDMLOperator``). Made by ``Device.create_operator``.

    Attributes:
        device: What accepted it, and compiles it.
        desc: The desc.

    Raises:
        InvalidDescError, UnsupportedFeatureLevelError: As ``Device.create_operator``.
        TypeError: The device is none, or the desc is no operator's.

    >>> from dmlcpu import Device, ElementWiseDequantizeLinearOperatorDesc, TensorDataType, TensorDesc
    >>> operator = Device().create_operator(ElementWiseDequantizeLinearOperatorDesc(
    ...     input_tensor=TensorDesc(TensorDataType.UINT8, (3,)),
    ...     scale_tensor=TensorDesc(TensorDataType.FLOAT32, (3,), strides=(0,)),
    ...     output_tensor=TensorDesc(TensorDataType.FLOAT32, (3,))))
    >>> operator.type
    <OperatorType.ELEMENT_WISE_DEQUANTIZE_LINEAR: 34>
    """

    device: dmlcpu.Device
    desc: OperatorDesc

    def __post_init__(self) -> None:
        """Check the desc, however the operator is made."""
        if not isinstance(self.device, dmlcpu.Device):
            raise TypeError(f"expected a Device, got an object of type {type(self.device).__name__}")
        validate(self.desc, self.device.feature_level)

    @property
    def type(self) -> OperatorType:
        """Which operator it is."""
        return self.desc.operator_type
