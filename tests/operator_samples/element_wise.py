"""The samples of quantize, dequantize, add and dynamic quantize, element by element."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dmlcpu import (
    DynamicQuantizeLinearOperatorDesc,
    ElementWiseDequantizeLinearOperatorDesc,
    ElementWiseQuantizedLinearAddOperatorDesc,
    ElementWiseQuantizeLinearOperatorDesc,
)
from dmlcpu.schema import Check
from filled_tensors import filled
from fills import INPUT_FLOATS, SCALES, Fill, any_integers, input_fills
from operator_case import OperatorCase
from operator_samples.sample import OperatorSample, Recording, changed, tensor
from strategies import BYTE_TYPES
from strided_tensor import NUMPY_TYPES, StridedTensor, blank_tensor

__all__ = ["ADD", "DEQUANTIZE", "DYNAMIC", "QUANTIZE", "SAMPLES"]

IMAGE = (2, 3, 200, 400)
PER_CHANNEL = {"strides": (0, 1, 0, 0)}
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


# How parameters lie on tensors of 3 x length: one for all, one a row, one a column, one an element.
PARAMETER_STRIDES: dict[str, Callable[[int], tuple[int, int] | None]] = {
    "per tensor": lambda length: (0, 0),
    "per row": lambda length: (1, 0),
    "per column": lambda length: (0, 1),
    "per element": lambda length: None,
}


def mixed(fills: tuple[Fill, ...]) -> Fill:
    """Each of the fills on its share of the elements, in random order: vectors see them side by side."""

    def fill(rng: np.random.Generator, dtype: np.dtype[Any], count: int) -> Any:
        pieces = [one(rng, dtype, count // len(fills) + 1) for one in fills]
        return rng.permutation(np.concatenate(pieces))[:count]

    return fill


def quantize_cases(rng: np.random.Generator, length: int) -> Iterator[OperatorCase]:
    sizes = (3, length)
    for input_type, scale_type in (("FLOAT32", "FLOAT32"), ("FLOAT16", "FLOAT16"), ("INT32", "FLOAT32")):
        for output_type in BYTE_TYPES:
            for strides_of in PARAMETER_STRIDES.values():
                strides = strides_of(length)
                tensors = {
                    "input_tensor": filled(rng, input_type, sizes, mixed(input_fills(NUMPY_TYPES[input_type]))),
                    "scale_tensor": filled(rng, scale_type, sizes, mixed(SCALES), strides),
                    "zero_point_tensor": filled(rng, output_type, sizes, any_integers, strides),
                    "output_tensor": blank_tensor(output_type, sizes, None),
                }
                yield OperatorCase("ELEMENT_WISE_QUANTIZE_LINEAR", tensors, {})


def dequantize_cases(rng: np.random.Generator, length: int) -> Iterator[OperatorCase]:
    sizes = (3, length)
    for input_type in ("UINT8", "INT8", "UINT16", "INT16", "UINT32", "INT32"):
        for output_type in ("FLOAT32", "FLOAT16"):
            for strides_of in PARAMETER_STRIDES.values():
                strides = strides_of(length)
                tensors = {
                    "input_tensor": filled(rng, input_type, sizes, mixed(input_fills(NUMPY_TYPES[input_type]))),
                    "scale_tensor": filled(rng, output_type, sizes, mixed(SCALES), strides),
                    "zero_point_tensor": filled(rng, input_type, sizes, any_integers, strides),
                    "output_tensor": blank_tensor(output_type, sizes, None),
                }
                yield OperatorCase("ELEMENT_WISE_DEQUANTIZE_LINEAR", tensors, {})


def add_cases(rng: np.random.Generator, length: int) -> Iterator[OperatorCase]:
    """Every kind of scales with each mix of types."""
    sizes, ones = (3, length), (1, 1)
    for code in range(8):
        a_type, b_type, output_type = (BYTE_TYPES[code >> bit & 1] for bit in range(3))
        for scales in SCALES:
            tensors = {
                "a_tensor": filled(rng, a_type, sizes, any_integers),
                "a_scale_tensor": filled(rng, "FLOAT32", ones, scales),
                "a_zero_point_tensor": filled(rng, a_type, ones, any_integers),
                "b_tensor": filled(rng, b_type, sizes, any_integers),
                "b_scale_tensor": filled(rng, "FLOAT32", ones, scales),
                "b_zero_point_tensor": filled(rng, b_type, ones, any_integers),
                "output_scale_tensor": filled(rng, "FLOAT32", ones, scales),
                "output_zero_point_tensor": filled(rng, output_type, ones, any_integers),
                "output_tensor": blank_tensor(output_type, sizes, None),
            }
            yield OperatorCase("ELEMENT_WISE_QUANTIZED_LINEAR_ADD", tensors, {})


def dynamic_cases(rng: np.random.Generator, length: int) -> Iterator[OperatorCase]:
    """Each fill alone: beside an infinity everything is the lowest value, and tells nothing."""
    sizes, ones = (3, length), (1, 1)
    for input_type in ("FLOAT32", "FLOAT16"):
        for output_type in BYTE_TYPES:
            for fill in INPUT_FLOATS:
                tensors: dict[str, StridedTensor | None] = {
                    "input_tensor": filled(rng, input_type, sizes, fill),
                    "output_tensor": blank_tensor(output_type, sizes, None),
                    "output_scale_tensor": blank_tensor("FLOAT32", ones, None),
                    "output_zero_point_tensor": blank_tensor(output_type, ones, None),
                }
                yield OperatorCase("DYNAMIC_QUANTIZE_LINEAR", tensors, {})


SAMPLES = (
    OperatorSample(
        number=33,
        documented={
            "6_2": "FLOAT32 FLOAT16 INT32 1-8 | FLOAT32 FLOAT16 1-8 | INT8 UINT8 1-8 ? | INT8 UINT8 1-8",
            "6_0": "FLOAT32 FLOAT16 INT32 1-8 | FLOAT32 FLOAT16 1-8 | INT8 UINT8 1-8 | INT8 UINT8 1-8",
            "3_0": "FLOAT32 INT32 1-8 | FLOAT32 1-8 | INT8 UINT8 1-8 | INT8 UINT8 1-8",
            "2_1": "FLOAT32 INT32 4-4 | FLOAT32 4-4 | INT8 UINT8 4-4 | INT8 UINT8 4-4",
            "1_0": "FLOAT32 4-4 | FLOAT32 4-4 | UINT8 4-4 | UINT8 4-4",
        },
        recording=Recording(327, refused_only_here={Check.OUTPUT_ADDRESSES: 1}, faults=14),
        desc=QUANTIZE,
        large=changed(
            QUANTIZE,
            input_tensor=tensor("FLOAT32", *IMAGE),
            scale_tensor=tensor("FLOAT32", *IMAGE, **PER_CHANNEL),
            zero_point_tensor=tensor("UINT8", *IMAGE, **PER_CHANNEL),
            output_tensor=tensor("UINT8", *IMAGE),
        ),
        families=("quantize",),
        cases=quantize_cases,
    ),
    OperatorSample(
        number=34,
        documented={
            "6_2": "INT32 INT16 INT8 UINT32 UINT16 UINT8 1-8 | FLOAT32 FLOAT16 1-8 "
            "| INT32 INT16 INT8 UINT32 UINT16 UINT8 1-8 ? | FLOAT32 FLOAT16 1-8",
            "6_0": "INT32 INT16 INT8 UINT32 UINT16 UINT8 1-8 | FLOAT32 FLOAT16 1-8 "
            "| INT32 INT16 INT8 UINT32 UINT16 UINT8 1-8 | FLOAT32 FLOAT16 1-8",
            "3_0": "INT32 INT16 INT8 UINT32 UINT16 UINT8 1-8 | FLOAT32 1-8 "
            "| INT32 INT16 INT8 UINT32 UINT16 UINT8 1-8 | FLOAT32 1-8",
            "2_1": "INT32 INT16 INT8 UINT32 UINT16 UINT8 4-4 | FLOAT32 4-4 "
            "| INT32 INT16 INT8 UINT32 UINT16 UINT8 4-4 | FLOAT32 4-4",
            "1_0": "UINT8 4-4 | FLOAT32 4-4 | UINT8 4-4 | FLOAT32 4-4",
        },
        recording=Recording(296),
        desc=DEQUANTIZE,
        large=changed(
            DEQUANTIZE,
            input_tensor=tensor("UINT8", *IMAGE),
            scale_tensor=tensor("FLOAT32", *IMAGE, **PER_CHANNEL),
            zero_point_tensor=tensor("UINT8", *IMAGE, **PER_CHANNEL),
            output_tensor=tensor("FLOAT32", *IMAGE),
        ),
        others=(
            changed(
                DEQUANTIZE,
                input_tensor=tensor("INT32", 37),
                scale_tensor=tensor("FLOAT16", 37),
                zero_point_tensor=tensor("INT32", 37, strides=(0,)),
                output_tensor=tensor("FLOAT16", 37, strides=(2,)),
            ),
        ),
        families=("dequantize",),
        cases=dequantize_cases,
    ),
    OperatorSample(
        number=147,
        documented={
            "4_0": "INT8 UINT8 1-8 | FLOAT32 1-8 | INT8 UINT8 1-8 ? | INT8 UINT8 1-8 | FLOAT32 1-8 | INT8 UINT8 1-8 ? "
            "| FLOAT32 1-8 | INT8 UINT8 1-8 ? | INT8 UINT8 1-8",
        },
        recording=Recording(356),
        desc=ADD,
        large=changed(
            ADD,
            a_tensor=tensor("UINT8", 600, 800),
            b_tensor=tensor("INT8", 600, 800, strides=(1, 600)),
            output_tensor=tensor("INT8", 600, 800),
        ),
        families=("add",),
        cases=add_cases,
    ),
    OperatorSample(
        number=148,
        documented={
            "4_0": "FLOAT32 FLOAT16 1-8 | INT8 UINT8 1-8 | FLOAT32 1-8 | INT8 UINT8 1-8",
        },
        recording=Recording(483, refused_only_here={Check.OUTPUT_ADDRESSES: 2}),
        desc=DYNAMIC,
        large=changed(DYNAMIC, input_tensor=tensor("FLOAT32", 600, 801), output_tensor=tensor("UINT8", 600, 801)),
        others=(
            changed(DYNAMIC, input_tensor=tensor("FLOAT16", 4, 5, strides=(1, 4)), output_tensor=tensor("UINT8", 4, 5)),
        ),
        families=(
            "range",
            "quantize",
        ),
        cases=dynamic_cases,
    ),
)
