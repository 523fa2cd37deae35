"""The samples of the convolutions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import numpy as np

from convolution_shapes import ConvolutionShape, ConvolutionTypes, packed_case, packed_integer_case
from dmlcpu import ConvolutionIntegerOperatorDesc, QuantizedLinearConvolutionOperatorDesc, TensorDesc
from dmlcpu.schema import Check
from operator_case import OperatorCase
from operator_samples.sample import OperatorSample, Recording, changed, tensor
from strategies import BYTE_TYPES

__all__ = ["CONVOLUTION", "CONVOLUTION_INTEGER", "SAMPLES"]

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


def convolution_cases(rng: np.random.Generator, length: int) -> Iterator[OperatorCase]:
    """The length as pixels, and up to 129 as input channels, output channels, depthwise channels and groups."""
    made = [ConvolutionShape(5, 3, (1, length), (1, 1)), ConvolutionShape(3, 2, (length,), (1,))]
    if length <= 4099:
        padding: dict[str, Any] = {"start_padding": (1, 1), "end_padding": (1, 1)}
        made.append(ConvolutionShape(3, 5, (2, length), (3, 3), **padding))
    if length <= 129:
        made += [
            ConvolutionShape(length, 17, (3, 4), (1, 1)),
            ConvolutionShape(length, 5, (3, 4), (3, 2)),
            ConvolutionShape(9, length, (3, 4), (2, 2)),
            ConvolutionShape(1, 1, (4, 5), (3, 3), groups=length),
            *(ConvolutionShape(size, size, (3, 4), (2, 2), groups=length) for size in (4, 8, 16)),
        ]
    for shape in made:
        for code in range(8):
            types = ConvolutionTypes(*(BYTE_TYPES[code >> bit & 1] for bit in range(3)))
            yield packed_case(shape, types, rng, is_channels_last=bool(rng.integers(2)))


def integer_convolution_cases(rng: np.random.Generator, length: int) -> Iterator[OperatorCase]:
    made = [ConvolutionShape(5, 3, (1, length), (1, 1)), ConvolutionShape(3, 2, (length,), (1,))]
    if length <= 129:
        made += [ConvolutionShape(length, 17, (3, 4), (3, 2)), ConvolutionShape(9, length, (3, 4), (2, 2))]
        made += [ConvolutionShape(1, 1, (4, 5), (3, 3), groups=length)]
    for shape in made:
        for code in range(4):
            types = ConvolutionTypes(*(BYTE_TYPES[code >> bit & 1] for bit in range(2)))
            yield packed_integer_case(shape, types, rng, is_channels_last=bool(rng.integers(2)))


def products_of_filters(tensors: Mapping[str, TensorDesc]) -> int:
    return prod(tensors["output_tensor"].sizes) * prod(tensors["filter_tensor"].sizes[1:])


SAMPLES = (
    OperatorSample(
        number=120,
        documented={
            "5_2": "INT8 UINT8 3-4 | FLOAT32 1-4 | INT8 UINT8 1-4 ? | INT8 UINT8 3-4 | FLOAT32 1-4 | INT8 UINT8 1-4 ? "
            "| INT32 3-4 ? | FLOAT32 1-4 | INT8 UINT8 1-4 ? | INT8 UINT8 3-4",
            "4_0": "INT8 UINT8 3-4 | FLOAT32 1-4 | INT8 UINT8 1-4 ? | INT8 UINT8 3-4 | FLOAT32 3-4 | INT8 UINT8 1-4 ? "
            "| INT32 3-4 ? | FLOAT32 1-4 | INT8 UINT8 1-4 ? | INT8 UINT8 3-4",
            "2_1": "INT8 UINT8 4-4 | FLOAT32 4-4 | INT8 UINT8 4-4 ? | INT8 UINT8 4-4 | FLOAT32 4-4 | INT8 UINT8 4-4 ? "
            "| INT32 4-4 ? | FLOAT32 4-4 | INT8 UINT8 4-4 ? | INT8 UINT8 4-4",
        },
        recording=Recording(
            776,
            refused_only_here={Check.OUTPUT_SIZES: 25, Check.WINDOW: 4, Check.STEPS: 2, Check.OUTPUT_ADDRESSES: 2},
            faults=2,
        ),
        desc=CONVOLUTION,
        large=changed(
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
        others=(
            changed(
                CONVOLUTION,
                input_tensor=tensor("INT8", 2, 8, 5, strides=(40, 1, 8)),
                input_zero_point_tensor=None,
                filter_tensor=tensor("UINT8", 8, 1, 3),
                filter_scale_tensor=tensor("FLOAT32", 1),
                filter_zero_point_tensor=tensor("UINT8", 1),
                bias_tensor=tensor("INT32", 1, 8, 1),
                output_tensor=tensor("UINT8", 2, 8, 5),
                strides=(1,),
                dilations=(1,),
                start_padding=(1,),
                end_padding=(1,),
                group_count=8,
            ),
        ),
        families=("gemm",),
        products=products_of_filters,
        cases=convolution_cases,
    ),
    OperatorSample(
        number=119,
        documented={
            "4_0": "INT8 UINT8 3-4 | INT8 UINT8 1-4 ? | INT8 UINT8 3-4 | INT8 UINT8 1-4 ? | INT32 3-4",
            "2_1": "INT8 UINT8 4-4 | INT8 UINT8 4-4 ? | INT8 UINT8 4-4 | INT8 UINT8 4-4 ? | INT32 4-4",
        },
        recording=Recording(
            314, refused_only_here={Check.OUTPUT_SIZES: 26, Check.STEPS: 2, Check.OUTPUT_ADDRESSES: 2}, faults=2
        ),
        desc=CONVOLUTION_INTEGER,
        large=changed(
            CONVOLUTION_INTEGER,
            input_tensor=tensor("UINT8", 2, 32, 28, 28),
            filter_tensor=tensor("INT8", 96, 16, 3, 3),
            filter_zero_point_tensor=tensor("INT8", 1, 96, 1, 1),
            output_tensor=tensor("INT32", 2, 96, 28, 28),
            strides=(1, 1),
            dilations=(1, 1),
        ),
        families=("gemm",),
        products=products_of_filters,
        cases=integer_convolution_cases,
    ),
)
