"""A desc of each operator that is worth several threads."""

from __future__ import annotations

from collections.abc import Mapping

import dmlcpu
from dmlcpu.enums import OperatorType
from valid_descs import (
    ADD,
    BLOCK_DEQUANTIZE,
    BLOCK_QUANTIZE,
    CONVOLUTION,
    CONVOLUTION_INTEGER,
    DEQUANTIZE,
    DYNAMIC,
    MATRIX_MULTIPLY_INTEGER,
    MATRIX_MULTIPLY_TO_FLOAT,
    POOLING,
    QUANTIZE,
    QUANTIZED_MATRIX_MULTIPLY,
    changed,
    tensor,
)

__all__ = ["LARGE_DESCS"]

IMAGE = (2, 3, 200, 400)
PER_CHANNEL = {"strides": (0, 1, 0, 0)}

LARGE_DESCS: Mapping[OperatorType, dmlcpu.OperatorDesc] = {
    desc.operator_type: desc
    for desc in (
        changed(
            QUANTIZE,
            input_tensor=tensor("FLOAT32", *IMAGE),
            scale_tensor=tensor("FLOAT32", *IMAGE, **PER_CHANNEL),
            zero_point_tensor=tensor("UINT8", *IMAGE, **PER_CHANNEL),
            output_tensor=tensor("UINT8", *IMAGE),
        ),
        changed(
            DEQUANTIZE,
            input_tensor=tensor("UINT8", *IMAGE),
            scale_tensor=tensor("FLOAT32", *IMAGE, **PER_CHANNEL),
            zero_point_tensor=tensor("UINT8", *IMAGE, **PER_CHANNEL),
            output_tensor=tensor("FLOAT32", *IMAGE),
        ),
        changed(
            ADD,
            a_tensor=tensor("UINT8", 600, 800),
            b_tensor=tensor("INT8", 600, 800, strides=(1, 600)),
            output_tensor=tensor("INT8", 600, 800),
        ),
        changed(DYNAMIC, input_tensor=tensor("FLOAT32", 600, 801), output_tensor=tensor("UINT8", 600, 801)),
        changed(
            CONVOLUTION,
            input_tensor=tensor("UINT8", 2, 32, 28, 28),
            filter_tensor=tensor("INT8", 96, 16, 3, 3),
            filter_scale_tensor=tensor("FLOAT32", 1, 96, 1, 1),
            filter_zero_point_tensor=tensor("INT8", 1, 96, 1, 1),
            bias_tensor=tensor("INT32", 1, 96, 1, 1),
            output_tensor=tensor("UINT8", 2, 96, 28, 28),
            strides=(1, 1),
            dilations=(1, 1),
        ),
        changed(
            CONVOLUTION_INTEGER,
            input_tensor=tensor("UINT8", 2, 32, 28, 28),
            filter_tensor=tensor("INT8", 96, 16, 3, 3),
            filter_zero_point_tensor=tensor("INT8", 1, 96, 1, 1),
            output_tensor=tensor("INT32", 2, 96, 28, 28),
            strides=(1, 1),
            dilations=(1, 1),
        ),
        changed(
            MATRIX_MULTIPLY_INTEGER,
            a_tensor=tensor("UINT8", 2, 3, 50, 200),
            a_zero_point_tensor=tensor("UINT8", 50, 1),
            b_tensor=tensor("INT8", 2, 3, 200, 170, strides=(34000, 0, 1, 200)),
            b_zero_point_tensor=tensor("INT8", 170),
            output_tensor=tensor("INT32", 2, 3, 50, 170),
        ),
        changed(
            QUANTIZED_MATRIX_MULTIPLY,
            a_tensor=tensor("UINT8", 300, 200),
            a_scale_tensor=tensor("FLOAT32", 1),
            a_zero_point_tensor=tensor("UINT8", 1),
            b_tensor=tensor("INT8", 200, 170),
            b_scale_tensor=tensor("FLOAT32", 170),
            b_zero_point_tensor=tensor("INT8", 170),
            output_tensor=tensor("UINT8", 300, 170),
        ),
        changed(
            MATRIX_MULTIPLY_TO_FLOAT,
            a_tensor=tensor("UINT8", 7, 300),
            a_scale_tensor=tensor("FLOAT32", 7, 1),
            a_zero_point_tensor=tensor("UINT8", 7, 1),
            b_tensor=tensor("INT8", 300, 900),
            b_scale_tensor=tensor("FLOAT32", 900),
            b_zero_point_tensor=tensor("INT8", 900),
            bias_tensor=tensor("FLOAT32", 7, 900, strides=(0, 1)),
            output_tensor=tensor("FLOAT32", 7, 900),
        ),
        changed(
            POOLING,
            input_tensor=tensor("UINT8", 2, 48, 60, 60),
            input_scale_tensor=tensor("FLOAT32", 1, 48, 1, 1),
            input_zero_point_tensor=tensor("UINT8", 1, 48, 1, 1),
            output_tensor=tensor("UINT8", 2, 48, 60, 60),
            strides=(1, 1),
            dilations=(1, 1),
        ),
        changed(
            BLOCK_QUANTIZE,
            input_tensor=tensor("FLOAT32", 512, 800),
            quantization_tensors=(tensor("FLOAT32", 512, 25), tensor("UINT4", 512, 25)),
            output_tensor=tensor("UINT4", 512, 800),
        ),
        changed(
            BLOCK_DEQUANTIZE,
            input_tensor=tensor("INT4", 512, 800),
            quantization_tensors=(tensor("FLOAT32", 16, 800), tensor("INT4", 16, 800)),
            output_tensor=tensor("FLOAT32", 512, 800),
        ),
    )
}
