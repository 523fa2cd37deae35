"""The samples of the block-wise operators."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from block_shapes import CODE_TYPES, blocked_case
from dmlcpu import DequantizeOperatorDesc, QuantizationType, QuantizeOperatorDesc
from dmlcpu.schema import Check
from operator_case import OperatorCase
from operator_samples.sample import CaseMaker, OperatorSample, Recording, changed, tensor

__all__ = ["BLOCK_DEQUANTIZE", "BLOCK_QUANTIZE", "SAMPLES"]

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


def blockwise_cases(operator: str) -> CaseMaker:
    def make(rng: np.random.Generator, length: int) -> Iterator[OperatorCase]:
        """Two blocks a row, one a column, one an element, one in all."""
        sizes = (4, 2 * length)
        for codes, floats in itertools.product(CODE_TYPES, ("FLOAT32", "FLOAT16")):
            for blocks in ((4, 2), (2, 2 * length), sizes, (1, 1)):
                yield blocked_case(rng, operator, (codes, floats), sizes, blocks)

    return make


SAMPLES = (
    OperatorSample(
        number=173,
        documented={
            "6_3": "FLOAT32 FLOAT16 1-8 | FLOAT32 FLOAT16 1-8 | INT8 INT4 UINT8 UINT4 1-8 ? "
            "| INT8 INT4 UINT8 UINT4 1-8",
        },
        recording=Recording(352, refused_only_here={Check.OUTPUT_ADDRESSES: 2}, faults=17),
        desc=BLOCK_QUANTIZE,
        large=changed(
            BLOCK_QUANTIZE,
            input_tensor=tensor("FLOAT32", 512, 800),
            quantization_tensors=(tensor("FLOAT32", 512, 25), tensor("UINT4", 512, 25)),
            output_tensor=tensor("UINT4", 512, 800),
        ),
        others=(
            changed(
                BLOCK_QUANTIZE,
                input_tensor=tensor("FLOAT16", 3, 37),
                quantization_tensors=(tensor("FLOAT16", 3, 1), tensor("INT4", 3, 1)),
                output_tensor=tensor("INT4", 3, 37),
            ),
        ),
        families=("quantize",),
        cases=blockwise_cases("QUANTIZE"),
    ),
    OperatorSample(
        number=174,
        documented={
            "6_3": "INT8 INT4 UINT8 UINT4 1-8 | FLOAT32 FLOAT16 1-8 | INT8 INT4 UINT8 UINT4 1-8 ? "
            "| FLOAT32 FLOAT16 1-8",
        },
        recording=Recording(349, refused_only_here={Check.OUTPUT_ADDRESSES: 1}, faults=10),
        desc=BLOCK_DEQUANTIZE,
        large=changed(
            BLOCK_DEQUANTIZE,
            input_tensor=tensor("INT4", 512, 800),
            quantization_tensors=(tensor("FLOAT32", 16, 800), tensor("INT4", 16, 800)),
            output_tensor=tensor("FLOAT32", 512, 800),
        ),
        others=(
            changed(
                BLOCK_DEQUANTIZE,
                input_tensor=tensor("UINT4", 6, 64),
                quantization_tensors=(tensor("FLOAT16", 6, 2), tensor("UINT4", 6, 2)),
                output_tensor=tensor("FLOAT16", 6, 64),
            ),
            changed(
                BLOCK_DEQUANTIZE,
                input_tensor=tensor("INT4", 4, 3, 5),
                quantization_tensors=(tensor("FLOAT32", 2, 1, 5), tensor("INT4", 2, 1, 5)),
                output_tensor=tensor("FLOAT32", 4, 3, 5),
            ),
        ),
        families=("dequantize",),
        cases=blockwise_cases("DEQUANTIZE"),
    ),
)
