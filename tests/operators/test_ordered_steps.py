"""Products by codes that are small but for some, whose steps AVX2 multiplies in an order of their own, once packed."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from convolution_shapes import ConvolutionShape, ConvolutionTypes, packed_case
from dispatching import assert_matches_reference
from filled_tensors import filled
from fills import Fill, highest_integers
from matrix_shapes import OPERATORS, MatrixShape, MatrixTypes, matrix_case
from operator_case import OperatorCase

Devices = Mapping[str, dmlcpu.Device]


def codes_of(bits: int) -> Fill:
    """Codes as networks have them, most of them far from the ends of their range."""

    def fill(rng: np.random.Generator, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
        limits, most = np.iinfo(dtype), 2 ** (bits - 1) - 1
        middle = (limits.max + limits.min + 1) // 2
        distances = np.clip(np.rint(rng.normal(0, most / 4, count)), -most, most).astype(np.int64)
        return (middle + distances).astype(dtype)

    return fill


# Pixels: one, few, as many as an order is looked for at each dispatch, and more; panels of 16 channels: half of one,
# and several, in groups; segments: one, and one for each row or tap of the window, of which regions leave some out.
SHAPES = [
    *(ConvolutionShape(132, channels, (1, pixels), (1, 1)) for channels in (5, 33) for pixels in (1, 2, 7, 23, 24, 30)),
    ConvolutionShape(6, 20, (5, 5), (1, 1)),
    ConvolutionShape(66, 21, (3, 4), (3, 3), start_padding=(1, 1), end_padding=(1, 1)),
    ConvolutionShape(72, 66, (6, 5), (2, 3), groups=2, batch=2),
    ConvolutionShape(64, 70, (1, 3), (1, 1), groups=2),
    ConvolutionShape(64, 33, (11, 11), (3, 3), dilations=(6, 6), start_padding=(6, 6), end_padding=(6, 6)),
    ConvolutionShape(24, 300, (2, 2), (1, 1)),
]
TYPES = [ConvolutionTypes("UINT8", "INT8", "UINT8"), ConvolutionTypes("INT8", "UINT8", "INT8")]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("bits", [7, 8])
def test_convolutions(
    devices: Devices, random_numbers: np.random.Generator, shape: ConvolutionShape, bits: int
) -> None:
    for types, is_channels_last in itertools.product(TYPES, (False, True)):
        case = packed_case(
            shape, types, random_numbers, operand_fill=highest_integers, is_channels_last=is_channels_last
        )
        filters = filled(random_numbers, types.filter, shape.filter_sizes, codes_of(bits))
        for has_large_codes in (False, True):
            if has_large_codes:  # the panel of the last channel has no order
                of_channel = int(np.prod(shape.filter_sizes[1:]))
                filters.buffer[-of_channel:] = np.iinfo(filters.buffer.dtype).max
            made = OperatorCase(case.operator, {**case.tensors, "filter_tensor": filters}, case.attributes)
            assert_matches_reference(devices, made, owned={"filter_tensor"})
            assert_matches_reference(devices, made)


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("bits", [7, 8])
@pytest.mark.parametrize(
    "shape",
    [
        *(MatrixShape(m, 140, 35) for m in (1, 2, 3, 8, 23, 24, 40)),
        MatrixShape(4, 66, 600, (2,)),
        MatrixShape(3, 10300, 17),
    ],
    ids=str,
)
def test_matrices(
    devices: Devices, random_numbers: np.random.Generator, operator: str, bits: int, shape: MatrixShape
) -> None:
    output = {OPERATORS[0]: "INT32", OPERATORS[2]: "FLOAT32"}.get(operator, "UINT8")
    for a_type, b_type, is_shared in (("UINT8", "INT8", False), ("INT8", "UINT8", True)):
        types = MatrixTypes(a_type, b_type, output)
        case = matrix_case(
            operator, shape, types, random_numbers, operand_fill=highest_integers, by_line=False, is_shared=is_shared
        )
        given = case.tensors["b_tensor"]
        assert given is not None
        codes = filled(random_numbers, b_type, given.sizes, codes_of(bits), given.strides)
        case = OperatorCase(case.operator, {**case.tensors, "b_tensor": codes}, case.attributes)
        constants = {field for field in case.inputs if field.startswith("b_")}
        assert_matches_reference(devices, case, owned=constants)
        assert_matches_reference(devices, case)
