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
    DEQUANTIZE,
    DYNAMIC,
    QUANTIZE,
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
