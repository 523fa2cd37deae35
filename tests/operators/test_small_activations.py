"""Convolutions of activations that are mostly small, which some kernels multiply otherwise than others."""

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
from fills import any_integers, highest_integers, lowest_integers
from operator_case import OperatorCase
from strategies import BYTE_TYPES

Devices = Mapping[str, dmlcpu.Device]

ALL_TYPES = [ConvolutionTypes(*names) for names in itertools.product(BYTE_TYPES, repeat=3)]


def mostly_small(rng: np.random.Generator, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    """Codes of the lower half of the type, a part of them at its end, and some above."""
    lowest = int(np.iinfo(dtype).min)
    codes = np.where(rng.random(count) < 0.5, 127, rng.integers(0, 128, count))
    codes = np.where(rng.random(count) < rng.choice([0.001, 0.02]), rng.integers(128, 256, count), codes)
    return (lowest + codes).astype(dtype)


@pytest.mark.parametrize(
    "shape",
    [
        ConvolutionShape(36, 40, (9, 11), (1, 1)),
        ConvolutionShape(72, 24, (7, 7), (1, 1), batch=2),
        ConvolutionShape(260, 64, (5, 5), (1, 1)),
        ConvolutionShape(128, 9, (3, 1), (1, 1)),
        ConvolutionShape(16, 33, (13, 9), (3, 3), strides=(2, 2), start_padding=(1, 1), end_padding=(1, 1)),
        ConvolutionShape(512, 17, (3, 3), (3, 3)),
        ConvolutionShape(513, 17, (6, 8), (3, 3)),
        ConvolutionShape(32, 20, (8, 8), (1, 1), groups=2),
    ],
    ids=str,
)
def test_small_activations(devices: Devices, random_numbers: np.random.Generator, shape: ConvolutionShape) -> None:
    """Activations of which few are in the upper half of their type, by filters of any codes."""
    for types, operand_fill in itertools.product(ALL_TYPES[::3], (any_integers, lowest_integers, highest_integers)):
        case = packed_case(shape, types, random_numbers, is_channels_last=True, operand_fill=operand_fill)
        given_input = case.tensors["input_tensor"]
        assert given_input is not None
        inputs = filled(random_numbers, types.input, shape.input_sizes, mostly_small, given_input.strides)
        tensors = {**case.tensors, "input_tensor": inputs}
        assert_matches_reference(
            devices, OperatorCase(case.operator, tensors, case.attributes), owned={"filter_tensor"}
        )
