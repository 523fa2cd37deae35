"""Every ISA with every thread count writes the bits that `scalar` with one thread writes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest

import dmlcpu
from convolution_shapes import ConvolutionShape, ConvolutionTypes, packed_case, packed_integer_case
from dispatching import assert_equal_outputs, dispatch
from fills import INPUT_FLOATS, SCALES, Fill, any_integers, input_fills
from matrix_shapes import MatrixShape, MatrixTypes, matrix_case
from operator_case import OperatorCase
from pooling_shapes import PoolingShape, pooling_case
from strategies import BYTE_TYPES
from strided_tensor import NUMPY_TYPES, StridedTensor, blank_tensor, element_span
from test_blockwise import CODE_TYPES, blocked_case

# Around the widths of vectors and of unrolled loops; the last one is worth two threads.
LENGTHS = (1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 4099, 65_539)

# How parameters lie on tensors of 3 x length: one for all, one a row, one a column, one an element.
PARAMETER_STRIDES: dict[str, Callable[[int], tuple[int, int] | None]] = {
    "per tensor": lambda length: (0, 0),
    "per row": lambda length: (1, 0),
    "per column": lambda length: (0, 1),
    "per element": lambda length: None,
}

CaseMaker = Callable[[np.random.Generator, int], Iterator[OperatorCase]]


def tensor(
    rng: np.random.Generator,
    data_type: str,
    sizes: tuple[int, ...],
    fill: Fill,
    strides: tuple[int, ...] | None = None,
) -> StridedTensor:
    buffer = fill(rng, NUMPY_TYPES[data_type], element_span(sizes, strides))
    return StridedTensor(data_type, sizes, strides, buffer)


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
                    "input_tensor": tensor(rng, input_type, sizes, mixed(input_fills(NUMPY_TYPES[input_type]))),
                    "scale_tensor": tensor(rng, scale_type, sizes, mixed(SCALES), strides),
                    "zero_point_tensor": tensor(rng, output_type, sizes, any_integers, strides),
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
                    "input_tensor": tensor(rng, input_type, sizes, mixed(input_fills(NUMPY_TYPES[input_type]))),
                    "scale_tensor": tensor(rng, output_type, sizes, mixed(SCALES), strides),
                    "zero_point_tensor": tensor(rng, input_type, sizes, any_integers, strides),
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
                "a_tensor": tensor(rng, a_type, sizes, any_integers),
                "a_scale_tensor": tensor(rng, "FLOAT32", ones, scales),
                "a_zero_point_tensor": tensor(rng, a_type, ones, any_integers),
                "b_tensor": tensor(rng, b_type, sizes, any_integers),
                "b_scale_tensor": tensor(rng, "FLOAT32", ones, scales),
                "b_zero_point_tensor": tensor(rng, b_type, ones, any_integers),
                "output_scale_tensor": tensor(rng, "FLOAT32", ones, scales),
                "output_zero_point_tensor": tensor(rng, output_type, ones, any_integers),
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
                    "input_tensor": tensor(rng, input_type, sizes, fill),
                    "output_tensor": blank_tensor(output_type, sizes, None),
                    "output_scale_tensor": blank_tensor("FLOAT32", ones, None),
                    "output_zero_point_tensor": blank_tensor(output_type, ones, None),
                }
                yield OperatorCase("DYNAMIC_QUANTIZE_LINEAR", tensors, {})


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


def blockwise_cases(operator: str) -> CaseMaker:
    def make(rng: np.random.Generator, length: int) -> Iterator[OperatorCase]:
        """Two blocks a row, one a column, one an element, one in all."""
        sizes = (4, 2 * length)
        for codes, floats in itertools.product(CODE_TYPES, ("FLOAT32", "FLOAT16")):
            for blocks in ((4, 2), (2, 2 * length), sizes, (1, 1)):
                yield blocked_case(rng, operator, (codes, floats), sizes, blocks)

    return make


CASE_MAKERS: dict[str, CaseMaker] = {
    "quantize_linear": quantize_cases,
    "dequantize_linear": dequantize_cases,
    "quantized_linear_add": add_cases,
    "dynamic_quantize_linear": dynamic_cases,
    "quantized_linear_convolution": convolution_cases,
    "quantized_linear_average_pooling": pooling_cases,
    "convolution_integer": integer_convolution_cases,
    "matrix_multiply_integer": matrix_cases("MATRIX_MULTIPLY_INTEGER", ("INT32",)),
    "quantized_linear_matrix_multiply": matrix_cases("QUANTIZED_LINEAR_MATRIX_MULTIPLY", BYTE_TYPES),
    "matrix_multiply_integer_to_float": matrix_cases("MATRIX_MULTIPLY_INTEGER_TO_FLOAT", ("FLOAT32", "FLOAT16")),
    "quantize": blockwise_cases("QUANTIZE"),
    "dequantize": blockwise_cases("DEQUANTIZE"),
}


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("operator", list(CASE_MAKERS))
def test_every_device_writes_the_bits_of_scalar(
    devices: Mapping[str, dmlcpu.Device], random_numbers: np.random.Generator, operator: str, length: int
) -> None:
    scalar = dmlcpu.Device(isa="scalar", num_threads=1)
    for case in CASE_MAKERS[operator](random_numbers, length):
        expected = dispatch(scalar, case)
        layout = {field: (made.data_type, made.strides) for field, made in case.tensors.items() if made is not None}
        for label, device in devices.items():
            assert_equal_outputs(dispatch(device, case), expected, f"{label}, {layout}")
