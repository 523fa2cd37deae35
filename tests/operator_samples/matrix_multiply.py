"""The samples of the matrix products."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

import numpy as np

from dmlcpu import (
    MatrixMultiplyIntegerOperatorDesc,
    MatrixMultiplyIntegerToFloatOperatorDesc,
    QuantizedLinearMatrixMultiplyOperatorDesc,
    TensorDesc,
)
from dmlcpu.schema import Check
from matrix_shapes import MatrixShape, MatrixTypes, matrix_case
from operator_case import OperatorCase
from operator_samples.sample import CaseMaker, OperatorSample, Recording, changed, tensor
from strategies import BYTE_TYPES

__all__ = ["MATRIX_MULTIPLY_INTEGER", "MATRIX_MULTIPLY_TO_FLOAT", "QUANTIZED_MATRIX_MULTIPLY", "SAMPLES"]

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


def matrix_cases(operator: str, output_types: tuple[str, ...]) -> CaseMaker:
    """The length as columns, and up to 129 as rows and as k."""

    def make(rng: np.random.Generator, length: int) -> Iterator[OperatorCase]:
        made = [MatrixShape(3, 5, length)]
        if length <= 4099:
            made += [MatrixShape(2, length, 6, (2,)), MatrixShape(length, 3, 5)]
        if length <= 129:
            made += [MatrixShape(length, 66, 34), MatrixShape(37, length, 18), MatrixShape(35, 12, length)]
        for shape in made:
            for code in range(4):
                a_type, b_type = (BYTE_TYPES[code >> bit & 1] for bit in range(2))
                types = MatrixTypes(a_type, b_type, output_types[code % len(output_types)])
                yield matrix_case(operator, shape, types, rng, by_line=code > 1, is_transposed=bool(rng.integers(2)))

    return make


def products_of_matrices(tensors: Mapping[str, TensorDesc]) -> int:
    return prod(tensors["output_tensor"].sizes) * tensors["a_tensor"].sizes[-1]


SAMPLES = (
    OperatorSample(
        number=117,
        documented={
            "5_2": "INT8 UINT8 2-4 | INT8 UINT8 1-4 ? | INT8 UINT8 2-4 | INT8 UINT8 1-4 ? | INT32 2-4",
            "4_0": "INT8 UINT8 2-4 | INT8 UINT8 1-4 ? | INT8 UINT8 2-4 | INT8 UINT8 2-4 ? | INT32 2-4",
            "2_1": "INT8 UINT8 4-4 | INT8 UINT8 4-4 ? | INT8 UINT8 4-4 | INT8 UINT8 4-4 ? | INT32 4-4",
        },
        recording=Recording(256, refused_only_here={Check.OUTPUT_ADDRESSES: 2}),
        desc=MATRIX_MULTIPLY_INTEGER,
        large=changed(
            MATRIX_MULTIPLY_INTEGER,
            a_tensor=tensor("UINT8", 2, 3, 50, 200),
            a_zero_point_tensor=tensor("UINT8", 50, 1),
            b_tensor=tensor("INT8", 2, 3, 200, 170, strides=(34000, 0, 1, 200)),
            b_zero_point_tensor=tensor("INT8", 170),
            output_tensor=tensor("INT32", 2, 3, 50, 170),
        ),
        families=("gemm",),
        products=products_of_matrices,
        cases=matrix_cases("MATRIX_MULTIPLY_INTEGER", ("INT32",)),
    ),
    OperatorSample(
        number=118,
        documented={
            "4_0": "INT8 UINT8 2-4 | FLOAT32 1-4 | INT8 UINT8 1-4 ? | INT8 UINT8 2-4 | FLOAT32 1-4 | INT8 UINT8 1-4 ? "
            "| FLOAT32 1-4 | INT8 UINT8 1-4 ? | INT8 UINT8 2-4",
            "2_1": "INT8 UINT8 4-4 | FLOAT32 4-4 | INT8 UINT8 4-4 ? | INT8 UINT8 4-4 | FLOAT32 4-4 | INT8 UINT8 4-4 ? "
            "| FLOAT32 4-4 | INT8 UINT8 4-4 ? | INT8 UINT8 4-4",
        },
        recording=Recording(394, refused_only_here={Check.OUTPUT_ADDRESSES: 3}),
        desc=QUANTIZED_MATRIX_MULTIPLY,
        large=changed(
            QUANTIZED_MATRIX_MULTIPLY,
            a_tensor=tensor("UINT8", 300, 200),
            a_scale_tensor=tensor("FLOAT32", 1),
            a_zero_point_tensor=tensor("UINT8", 1),
            b_tensor=tensor("INT8", 200, 170),
            b_scale_tensor=tensor("FLOAT32", 170),
            b_zero_point_tensor=tensor("INT8", 170),
            output_tensor=tensor("UINT8", 300, 170),
        ),
        families=("gemm",),
        products=products_of_matrices,
        cases=matrix_cases("QUANTIZED_LINEAR_MATRIX_MULTIPLY", BYTE_TYPES),
    ),
    OperatorSample(
        number=170,
        documented={
            "6_2": "INT32 INT16 INT8 UINT32 UINT16 UINT8 2-4 | FLOAT32 FLOAT16 1-4 "
            "| INT32 INT16 INT8 UINT32 UINT16 UINT8 1-4 ? | INT32 INT16 INT8 UINT32 UINT16 UINT8 2-4 "
            "| FLOAT32 FLOAT16 1-4 | INT32 INT16 INT8 UINT32 UINT16 UINT8 1-4 ? | FLOAT32 FLOAT16 2-4 ? "
            "| FLOAT32 FLOAT16 2-4",
        },
        recording=Recording(449, refused_only_here={Check.SCALE_DATA_TYPE: 6}),
        desc=MATRIX_MULTIPLY_TO_FLOAT,
        large=changed(
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
        others=(
            changed(
                MATRIX_MULTIPLY_TO_FLOAT,
                a_tensor=tensor("INT16", 3, 5, 7),
                a_zero_point_tensor=None,
                b_tensor=tensor("UINT32", 3, 7, 4, strides=(0, 1, 7)),
                b_zero_point_tensor=tensor("UINT32", 1, 1, 4),
            ),
        ),
        families=("gemm",),
        products=products_of_matrices,
        cases=matrix_cases("MATRIX_MULTIPLY_INTEGER_TO_FLOAT", ("FLOAT32", "FLOAT16")),
    ),
)
