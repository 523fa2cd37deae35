"""QUANTIZED_LINEAR_CONVOLUTION with groups of few channels, which products of whole cache lines have together."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import dmlcpu
from convolution_shapes import ConvolutionShape, ConvolutionTypes, packed_case
from dispatching import assert_matches_reference, operator_desc
from fills import highest_integers
from operator_case import OperatorCase
from strategies import BYTE_TYPES

Devices = Mapping[str, dmlcpu.Device]

TYPES = [ConvolutionTypes(*names) for names in itertools.product(BYTE_TYPES, repeat=3)]
# Input and output channels of a group, and groups: that fill a step of 64 codes together, a part of one, or a step and
# a part alone; output channels that are whole panels of 16, or begin amid one.
GROUPS = [(16, 16, 4), (16, 3, 12), (32, 32, 2), (32, 40, 4), (32, 16, 3), (24, 24, 4), (20, 17, 6), (17, 5, 9)]
GROUPS += [(40, 8, 3), (48, 48, 2), (72, 33, 2), (16, 40, 8), (20, 50, 6)]


def windows() -> list[dict[str, Any]]:
    """Windows in place, in padded copies, in the regions that dilations leave, and gathered."""
    same: dict[str, Any] = {"start_padding": (1, 1), "end_padding": (1, 1)}
    return [
        {"input": (12, 11), "kernel": (3, 3), "batch": 2, **same},
        {"input": (23, 24), "kernel": (3, 3), "strides": (2, 2), **same},
        {"input": (5, 8), "kernel": (1, 1)},
        {"input": (7, 9), "kernel": (1, 1), "strides": (2, 2), "batch": 2},
        {"input": (14, 20), "kernel": (2, 5)},
        {"input": (12, 13), "kernel": (3, 3), "dilations": (4, 4), "start_padding": (4, 4), "end_padding": (4, 4)},
        {"input": (40,), "kernel": (17,), "start_padding": (8, 0), "end_padding": (8, 0)},
        {"input": (3, 70), "kernel": (9, 2), "start_padding": (4, 0), "end_padding": (4, 0)},
    ]


SHAPES = [
    ConvolutionShape(channels, filters, groups=groups, **window)
    for (channels, filters, groups), window in itertools.product(GROUPS, windows())
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_groups_of_few_channels(devices: Devices, random_numbers: np.random.Generator, shape: ConvolutionShape) -> None:
    """With zero points of filters, for which one group is multiplied after the other, and without."""
    constants = {"filter_tensor", "filter_scale_tensor", "bias_tensor"}
    for types, is_channels_last in zip(TYPES, itertools.cycle((True, False, False, True)), strict=False):
        case = packed_case(shape, types, random_numbers, is_channels_last=is_channels_last)
        assert_matches_reference(devices, case, owned=constants | {"filter_zero_point_tensor"})
        if types.filter == "INT8":
            tensors = {**case.tensors, "filter_zero_point_tensor": None}
            assert_matches_reference(devices, OperatorCase(case.operator, tensors, case.attributes), owned=constants)


@pytest.mark.parametrize("threads", [1, 2])
def test_groups_of_many_pixels_at_the_ends_of_codes(random_numbers: np.random.Generator, threads: int) -> None:
    """More pixels than a tile has, and more channels than a block, of codes whose sums are the largest."""
    same: dict[str, Any] = {"start_padding": (1, 1), "end_padding": (1, 1)}
    shape = ConvolutionShape(32, 48, (45, 40), (3, 3), groups=8, **same)
    devices = {isa: dmlcpu.Device(isa=isa, num_threads=threads) for isa in dmlcpu.available_isas()}
    for types in TYPES[::3]:
        case = packed_case(shape, types, random_numbers, operand_fill=highest_integers, is_channels_last=True)
        assert_matches_reference(devices, case, owned={"filter_tensor"})


def test_what_is_joined_is_described(random_numbers: np.random.Generator) -> None:
    if "amx_int8" not in dmlcpu.available_isas():
        pytest.skip("the processor has no AMX")
    device = dmlcpu.Device(isa="amx_int8")
    for channels, joined in ((16, 4), (24, 2), (32, 2)):
        case = packed_case(ConvolutionShape(channels, 24, (30, 30), (3, 3), groups=8), TYPES[0], random_numbers)
        text = device.compile_operator(device.create_operator(operator_desc(case))).describe()
        assert f"each made of {joined} of the operator's" in text
