"""A valid desc of each operator, accepted from the operator's first level on, to be changed; and recorded descs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from dmlcpu import (
    ConvolutionIntegerOperatorDesc,
    DequantizeOperatorDesc,
    DynamicQuantizeLinearOperatorDesc,
    ElementWiseDequantizeLinearOperatorDesc,
    ElementWiseQuantizedLinearAddOperatorDesc,
    ElementWiseQuantizeLinearOperatorDesc,
    MatrixMultiplyIntegerOperatorDesc,
    MatrixMultiplyIntegerToFloatOperatorDesc,
    QuantizedLinearAveragePoolingOperatorDesc,
    QuantizedLinearConvolutionOperatorDesc,
    QuantizedLinearMatrixMultiplyOperatorDesc,
    QuantizeOperatorDesc,
)
from dmlcpu.descs.operator_desc import OperatorDesc
from dmlcpu.enums import OperatorType, QuantizationType, TensorDataType
from dmlcpu.schema import place_of
from dmlcpu.tensor import TensorDesc
from operator_case import gathered

__all__ = [
    "ADD",
    "BLOCK_DEQUANTIZE",
    "BLOCK_QUANTIZE",
    "CONVOLUTION",
    "CONVOLUTION_INTEGER",
    "DEQUANTIZE",
    "DYNAMIC",
    "MATRIX_MULTIPLY_INTEGER",
    "MATRIX_MULTIPLY_TO_FLOAT",
    "POOLING",
    "QUANTIZE",
    "QUANTIZED_MATRIX_MULTIPLY",
    "VALID_DESCS",
    "changed",
    "desc_of",
    "tensor",
]


def tensor(data_type: str, *sizes: int, **others: Any) -> TensorDesc:
    """tensor("UINT8", 2, 3, flags=1)."""
    return TensorDesc(TensorDataType[data_type], sizes, **others)


def changed(desc: OperatorDesc, **changes: Any) -> OperatorDesc:
    """The same desc with other values; `name[1]` is an entry of an array of tensors, which ends before a None."""
    for name in [name for name in changes if "[" in name]:
        attribute, entry = place_of(name)
        entries = list(changes.get(attribute, getattr(desc, attribute)))
        value = changes.pop(name)
        entries[entry : None if value is None else entry + 1] = [] if value is None else [value]
        changes[attribute] = tuple(entries)
    return replace(desc, **changes)


QUANTIZE = ElementWiseQuantizeLinearOperatorDesc(
    input_tensor=tensor("FLOAT32", 2, 3, 4, 5),
    scale_tensor=tensor("FLOAT32", 2, 3, 4, 5, strides=(0, 1, 0, 0)),
    zero_point_tensor=tensor("UINT8", 2, 3, 4, 5, strides=(0, 0, 0, 0)),
    output_tensor=tensor("UINT8", 2, 3, 4, 5),
)
DEQUANTIZE = ElementWiseDequantizeLinearOperatorDesc(
    input_tensor=tensor("UINT8", 2, 3, 4, 5),
    scale_tensor=tensor("FLOAT32", 2, 3, 4, 5, strides=(0, 1, 0, 0)),
    zero_point_tensor=tensor("UINT8", 2, 3, 4, 5, strides=(0, 0, 0, 0)),
    output_tensor=tensor("FLOAT32", 2, 3, 4, 5),
)
ADD = ElementWiseQuantizedLinearAddOperatorDesc(
    a_tensor=tensor("UINT8", 2, 3),
    a_scale_tensor=tensor("FLOAT32", 1, 1),
    a_zero_point_tensor=tensor("UINT8", 1, 1),
    b_tensor=tensor("INT8", 2, 3),
    b_scale_tensor=tensor("FLOAT32", 1, 1),
    b_zero_point_tensor=tensor("INT8", 1, 1),
    output_scale_tensor=tensor("FLOAT32", 1, 1),
    output_zero_point_tensor=tensor("INT8", 1, 1),
    output_tensor=tensor("INT8", 2, 3),
)
DYNAMIC = DynamicQuantizeLinearOperatorDesc(
    input_tensor=tensor("FLOAT32", 4, 5),
    output_tensor=tensor("UINT8", 4, 5),
    output_scale_tensor=tensor("FLOAT32", 1, 1),
    output_zero_point_tensor=tensor("UINT8", 1, 1),
)
CONVOLUTION = QuantizedLinearConvolutionOperatorDesc(
    input_tensor=tensor("UINT8", 1, 6, 9, 8),
    input_scale_tensor=tensor("FLOAT32", 1, 1, 1, 1),
    input_zero_point_tensor=tensor("UINT8", 1, 1, 1, 1),
    filter_tensor=tensor("INT8", 4, 3, 3, 3),
    filter_scale_tensor=tensor("FLOAT32", 1, 4, 1, 1),
    filter_zero_point_tensor=tensor("INT8", 1, 4, 1, 1),
    bias_tensor=tensor("INT32", 1, 4, 1, 1),
    output_scale_tensor=tensor("FLOAT32", 1, 1, 1, 1),
    output_zero_point_tensor=tensor("UINT8", 1, 1, 1, 1),
    output_tensor=tensor("UINT8", 1, 4, 5, 6),
    strides=(2, 1),
    dilations=(1, 2),
    start_padding=(1, 1),
    end_padding=(1, 1),
    group_count=2,
)
CONVOLUTION_INTEGER = ConvolutionIntegerOperatorDesc(
    input_tensor=tensor("UINT8", 1, 6, 9, 8),
    input_zero_point_tensor=tensor("UINT8", 1, 1, 1, 1),
    filter_tensor=tensor("INT8", 4, 3, 3, 3),
    filter_zero_point_tensor=tensor("INT8", 1, 4, 1, 1),
    output_tensor=tensor("INT32", 1, 4, 5, 6),
    strides=(2, 1),
    dilations=(1, 2),
    start_padding=(1, 1),
    end_padding=(1, 1),
    group_count=2,
)
MATRIX_MULTIPLY_INTEGER = MatrixMultiplyIntegerOperatorDesc(
    a_tensor=tensor("UINT8", 2, 3, 5, 7),
    a_zero_point_tensor=tensor("UINT8", 1, 1, 5, 1),
    b_tensor=tensor("INT8", 2, 3, 7, 4, strides=(28, 0, 4, 1)),
    b_zero_point_tensor=tensor("INT8", 1, 1, 1, 4),
    output_tensor=tensor("INT32", 2, 3, 5, 4),
)
QUANTIZED_MATRIX_MULTIPLY = QuantizedLinearMatrixMultiplyOperatorDesc(
    a_tensor=tensor("UINT8", 2, 3, 5, 7),
    a_scale_tensor=tensor("FLOAT32", 1, 1, 5, 1),
    a_zero_point_tensor=tensor("UINT8", 1, 1, 5, 1),
    b_tensor=tensor("INT8", 2, 3, 7, 4),
    b_scale_tensor=tensor("FLOAT32", 1, 1, 1, 4),
    b_zero_point_tensor=tensor("INT8", 1, 1, 1, 4),
    output_scale_tensor=tensor("FLOAT32", 1, 1, 1, 1),
    output_zero_point_tensor=tensor("UINT8", 1, 1, 1, 1),
    output_tensor=tensor("UINT8", 2, 3, 5, 4),
)
MATRIX_MULTIPLY_TO_FLOAT = MatrixMultiplyIntegerToFloatOperatorDesc(
    a_tensor=tensor("UINT8", 3, 5, 7),
    a_scale_tensor=tensor("FLOAT32", 1, 5, 1),
    a_zero_point_tensor=tensor("UINT8", 1, 5, 1),
    b_tensor=tensor("INT8", 3, 7, 4),
    b_scale_tensor=tensor("FLOAT32", 1, 1, 4),
    b_zero_point_tensor=tensor("INT8", 1, 1, 4),
    bias_tensor=tensor("FLOAT32", 3, 5, 4, strides=(0, 0, 1)),
    output_tensor=tensor("FLOAT32", 3, 5, 4),
)
POOLING = QuantizedLinearAveragePoolingOperatorDesc(
    input_tensor=tensor("UINT8", 2, 3, 9, 8),
    input_scale_tensor=tensor("FLOAT32", 1, 3, 1, 1),
    input_zero_point_tensor=tensor("UINT8", 1, 3, 1, 1),
    output_scale_tensor=tensor("FLOAT32", 1, 1, 1, 1),
    output_zero_point_tensor=tensor("UINT8", 1, 1, 1, 1),
    output_tensor=tensor("UINT8", 2, 3, 5, 6),
    strides=(2, 1),
    window_size=(3, 3),
    start_padding=(1, 1),
    end_padding=(1, 1),
    dilations=(1, 2),
    include_padding=False,
)
BLOCK_QUANTIZE = QuantizeOperatorDesc(
    input_tensor=tensor("FLOAT32", 4, 12),
    quantization_type=QuantizationType.SCALE_ZERO_POINT,
    quantization_tensors=(tensor("FLOAT32", 2, 3), tensor("INT8", 2, 3)),
    output_tensor=tensor("INT8", 4, 12),
)
BLOCK_DEQUANTIZE = DequantizeOperatorDesc(
    input_tensor=tensor("UINT8", 4, 12),
    quantization_type=QuantizationType.SCALE_ZERO_POINT,
    quantization_tensors=(tensor("FLOAT32", 4, 3), tensor("UINT8", 4, 3)),
    output_tensor=tensor("FLOAT32", 4, 12),
)

VALID_DESCS: Mapping[OperatorType, OperatorDesc] = {
    desc.operator_type: desc
    for desc in (
        QUANTIZE,
        DEQUANTIZE,
        ADD,
        DYNAMIC,
        CONVOLUTION,
        CONVOLUTION_INTEGER,
        MATRIX_MULTIPLY_INTEGER,
        QUANTIZED_MATRIX_MULTIPLY,
        MATRIX_MULTIPLY_TO_FLOAT,
        POOLING,
        BLOCK_QUANTIZE,
        BLOCK_DEQUANTIZE,
    )
}


# Counts follow from what they count, and are no fields.
COUNTS = ("dimension_count", "quantization_tensor_count")


def desc_of(record: Mapping[str, Any]) -> OperatorDesc:
    """The desc of a recorded line; golden/VALIDATION.md describes it."""
    desc_type = type(VALID_DESCS[OperatorType[record["operator"]]])
    attributes = {name: value for name, value in record.get("attributes", {}).items() if name not in COUNTS}
    return desc_type(**gathered(dict(_tensors_of(record))), **attributes)


def _tensors_of(record: Mapping[str, Any]) -> Iterator[tuple[str, TensorDesc | None]]:
    for name, stored in record["tensors"].items():
        others = {key: value for key, value in (stored or {}).items() if key not in ("data_type", "sizes")}
        yield name, stored and tensor(stored["data_type"], *stored["sizes"], **others)
