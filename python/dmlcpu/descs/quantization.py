"""The descs of block-wise quantization."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar

from dmlcpu.coercion import coerce_member
from dmlcpu.descs.operator_desc import OperatorDesc
from dmlcpu.enums import OperatorType, QuantizationType
from dmlcpu.shown_values import repr_of
from dmlcpu.tensor import TensorDesc

__all__ = ["DequantizeOperatorDesc", "QuantizeOperatorDesc"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class _BlockwiseOperatorDesc(OperatorDesc):
    """The fields that both directions have."""

    input_tensor: TensorDesc | None
    quantization_type: QuantizationType
    # A missing sequence is an InvalidDescError like an empty one, not a TypeError, hence the default.
    quantization_tensors: Sequence[TensorDesc | None] | None = None
    output_tensor: TensorDesc | None

    if TYPE_CHECKING:  # what is passed may have wider types than what is read

        def __init__(
            self,
            *,
            input_tensor: TensorDesc | None,
            quantization_type: QuantizationType | int,
            quantization_tensors: Sequence[TensorDesc | None] | None = None,
            output_tensor: TensorDesc | None,
        ) -> None: ...

    def __post_init__(self) -> None:
        OperatorDesc.__post_init__(self)
        object.__setattr__(self, "quantization_type", coerce_member(QuantizationType, self.quantization_type))

    def __repr__(self) -> str:
        """Return the call that makes an equal desc; a dataclass prints enumerations otherwise."""
        arguments = [f"{field.name}={repr_of(getattr(self, field.name))}" for field in fields(self)]
        return f"{type(self).__name__}({', '.join(arguments)})"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, init=False)
class QuantizeOperatorDesc(_BlockwiseOperatorDesc):
    """``output = clamp(round(input / scale) + zero_point)``, block-wise (``DML_QUANTIZE_OPERATOR_DESC``).

    Rounds half to even. A scale of 0 gives the ends of the output's range, and its lowest value for 0 / 0.

    =======================  ========  ========================  =================================================
    tensor                   kind      data types                sizes
    =======================  ========  ========================  =================================================
    input_tensor             input     FLOAT32, FLOAT16          1 to 8 dimensions
    quantization_tensors[0]  input     the input's               the scale: each size divides the input's
    quantization_tensors[1]  optional  the output's              the zero point: those of the scale
    output_tensor            output    INT8, INT4, UINT8, UINT4  the input's
    =======================  ========  ========================  =================================================

    On every axis a parameter holds for ``size / parameter size`` neighbours: 1 for a parameter an element, the size
    for one parameter in all, anything between for blocks.

    ``quantization_type`` is SCALE, with the scale alone, or SCALE_ZERO_POINT, with both. Without a zero point it is
    128 for UINT8, 8 for UINT4, and 0 for INT8 and INT4.

    Of 4-bit tensors two elements lie in a byte, the first in its low half, and strides count elements. Where an odd
    number of elements ends in the middle of a byte, its other half stays as it was.

    First feature level: 6_3.

    Raises at ``create_operator``: InvalidDescError, UnsupportedFeatureLevelError.

    >>> from dmlcpu import TensorDataType
    >>> desc = QuantizeOperatorDesc(
    ...     input_tensor=TensorDesc(TensorDataType.FLOAT32, (64, 128)),
    ...     quantization_type=QuantizationType.SCALE_ZERO_POINT,
    ...     quantization_tensors=[
    ...         TensorDesc(TensorDataType.FLOAT32, (64, 4)),
    ...         TensorDesc(TensorDataType.UINT4, (64, 4))],
    ...     output_tensor=TensorDesc(TensorDataType.UINT4, (64, 128)))
    >>> desc.quantization_tensors[1]
    TensorDesc(TensorDataType.UINT4, (64, 4))
    """

    operator_type: ClassVar[OperatorType] = OperatorType.QUANTIZE


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, init=False)
class DequantizeOperatorDesc(_BlockwiseOperatorDesc):
    """``output = (input - zero_point) * scale``, block-wise (``DML_DEQUANTIZE_OPERATOR_DESC``).

    =======================  ========  ========================  =================================================
    tensor                   kind      data types                sizes
    =======================  ========  ========================  =================================================
    input_tensor             input     INT8, INT4, UINT8, UINT4  1 to 8 dimensions
    quantization_tensors[0]  input     the output's              the scale: each size divides the input's
    quantization_tensors[1]  optional  the input's               the zero point: those of the scale
    output_tensor            output    FLOAT32, FLOAT16          the input's
    =======================  ========  ========================  =================================================

    On every axis a parameter holds for ``size / parameter size`` neighbours: 1 for a parameter an element, the size
    for one parameter in all, anything between for blocks.

    ``quantization_type`` is SCALE, with the scale alone, or SCALE_ZERO_POINT, with both. Without a zero point it is
    128 for UINT8, 8 for UINT4, and 0 for INT8 and INT4.

    Of 4-bit tensors two elements lie in a byte, the first in its low half, and strides count elements.

    First feature level: 6_3.

    Raises at ``create_operator``: InvalidDescError, UnsupportedFeatureLevelError.

    >>> from dmlcpu import TensorDataType
    >>> desc = DequantizeOperatorDesc(
    ...     input_tensor=TensorDesc(TensorDataType.INT4, (64, 128)),
    ...     quantization_type=1,
    ...     quantization_tensors=[TensorDesc(TensorDataType.FLOAT16, (64, 4))],
    ...     output_tensor=TensorDesc(TensorDataType.FLOAT16, (64, 128)))
    >>> desc.quantization_type
    <QuantizationType.SCALE: 1>
    """

    operator_type: ClassVar[OperatorType] = OperatorType.DEQUANTIZE
