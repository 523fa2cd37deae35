"""The samples of pooling."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import numpy as np

from dmlcpu import QuantizedLinearAveragePoolingOperatorDesc, TensorDesc
from dmlcpu.schema import Check
from fills import SCALES
from operator_case import OperatorCase
from operator_samples.sample import OperatorSample, Recording, changed, tensor
from pooling_shapes import PoolingShape, pooling_case
from strategies import BYTE_TYPES

__all__ = ["POOLING", "SAMPLES"]

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


def pooling_cases(rng: np.random.Generator, length: int) -> Iterator[OperatorCase]:
    """The length as pixels of a row, of a plane, and up to 129 as channels."""
    made = [PoolingShape(3, (1, length), (1, 1)), PoolingShape(2, (1, length), (1, length))]
    if length <= 4099:
        padding: dict[str, Any] = {"start_padding": (1, 1), "end_padding": (1, 1)}
        made += [PoolingShape(3, (3, length), (3, 3), **padding), PoolingShape(20, (2, length), (2, 1))]
    if length <= 129:
        made += [PoolingShape(length, (4, 5), (4, 5)), PoolingShape(length, (4, 6), (2, 3), strides=(1, 2))]
    for shape in made:
        for data_type in BYTE_TYPES:
            for scales in SCALES:
                is_channels_last = bool(rng.integers(2))
                yield pooling_case(shape, data_type, rng, is_channels_last=is_channels_last, scale_fill=scales)


def elements_of_windows(tensors: Mapping[str, TensorDesc]) -> int:
    """No window reaches beyond the plane."""
    return prod(tensors["output_tensor"].sizes) * prod(tensors["input_tensor"].sizes[2:])


SAMPLES = (
    OperatorSample(
        number=169,
        documented={
            "6_2": "INT8 UINT8 4-5 | FLOAT32 1-5 | INT8 UINT8 1-5 ? | FLOAT32 1-5 | INT8 UINT8 1-5 ? | INT8 UINT8 4-5",
        },
        recording=Recording(
            459,
            refused_only_here={
                Check.PARAMETER_SIZES: 31,
                Check.OUTPUT_SIZES: 18,
                Check.STEPS: 3,
                Check.BOOLEAN: 2,
                Check.WINDOW: 2,
                Check.OUTPUT_ADDRESSES: 1,
            },
            faults=2,
        ),
        desc=POOLING,
        large=changed(
            POOLING,
            input_tensor=tensor("UINT8", 2, 48, 60, 60),
            input_scale_tensor=tensor("FLOAT32", 1, 48, 1, 1),
            input_zero_point_tensor=tensor("UINT8", 1, 48, 1, 1),
            output_tensor=tensor("UINT8", 2, 48, 60, 60),
            strides=(1, 1),
            dilations=(1, 1),
        ),
        others=(
            changed(
                POOLING,
                input_tensor=tensor("INT8", 2, 20, 5, 4, 6, strides=(2400, 1, 480, 120, 20)),
                input_scale_tensor=tensor("FLOAT32", 1, 20, 1, 1, 1),
                input_zero_point_tensor=tensor("INT8", 1, 20, 1, 1, 1),
                output_scale_tensor=tensor("FLOAT32", 1, 1, 1, 1, 1),
                output_zero_point_tensor=None,
                output_tensor=tensor("INT8", 2, 20, 4, 3, 6),
                strides=(1, 1, 1),
                window_size=(2, 2, 3),
                start_padding=(0, 0, 1),
                end_padding=(0, 0, 1),
                dilations=(1, 1, 1),
                include_padding=True,
            ),
        ),
        families=("pool",),
        products=elements_of_windows,
        cases=pooling_cases,
    ),
)
