"""QUANTIZED_LINEAR_CONVOLUTION by Winograd's algorithm: at the ends of its tiles, and of the sums that it recovers."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
import pytest

import dmlcpu
from convolution_shapes import ConvolutionShape, ConvolutionTypes, packed_case
from dispatching import assert_matches_reference, operator_desc
from filled_tensors import filled
from fills import Fill, highest_integers, lowest_integers
from operator_case import OperatorCase
from strategies import BYTE_TYPES
from tested_convolutions import winograd_shapes

Devices = Mapping[str, dmlcpu.Device]

TYPES = [ConvolutionTypes(*names) for names in itertools.product(BYTE_TYPES, repeat=3)][1::2]


def takes_winograd(device: dmlcpu.Device, case: OperatorCase) -> bool:
    return "\nalgorithm: Winograd's" in device.compile_operator(device.create_operator(operator_desc(case))).describe()


@pytest.mark.parametrize("shape", winograd_shapes(), ids=str)
def test_shapes_at_the_ends_of_winograd_tiles(
    devices: Devices, random_numbers: np.random.Generator, shape: ConvolutionShape
) -> None:
    """With the zero points of filters, which make parts of fewer channels, and without."""
    constants = {"filter_tensor", "filter_scale_tensor", "filter_zero_point_tensor", "bias_tensor"}
    for types, is_channels_last in zip(TYPES, itertools.cycle((True, False)), strict=False):
        case = packed_case(shape, types, random_numbers, is_channels_last=is_channels_last)
        assert_matches_reference(devices, case, owned=constants)
        assert any(takes_winograd(device, case) for device in devices.values())
        if types.filter == "INT8":
            tensors = {**case.tensors, "filter_zero_point_tensor": None}
            without = OperatorCase(case.operator, tensors, case.attributes)
            assert_matches_reference(devices, without, owned=constants - {"filter_zero_point_tensor"})


@pytest.mark.parametrize("channels", [112, 224, 240, 448])
@pytest.mark.parametrize("fills", list(itertools.product((lowest_integers, highest_integers), repeat=2)))
def test_the_largest_sums_that_winograd_transforms_recover(
    devices: Devices, random_numbers: np.random.Generator, channels: int, fills: tuple[Fill, Fill]
) -> None:
    """Every product at an end of its range, in as many channels as a part has, and in more."""
    shape = ConvolutionShape(channels, 64, (26, 26), (3, 3))
    for types in (ConvolutionTypes("UINT8", "INT8"), ConvolutionTypes("INT8", "UINT8")):
        case = packed_case(shape, types, random_numbers, operand_fill=fills[0])
        filters = filled(random_numbers, types.filter, shape.filter_sizes, fills[1])
        zero_points = filled(random_numbers, types.filter, (1, 64, 1, 1), lowest_integers)
        for of_filter in (zero_points, None):
            tensors = {**case.tensors, "filter_tensor": filters, "filter_zero_point_tensor": of_filter}
            extreme = OperatorCase(case.operator, tensors, case.attributes)
            assert_matches_reference(devices, extreme, owned={"filter_tensor"})
            takers = {device.isa for device in devices.values() if takes_winograd(device, extreme)}
            assert takers | {"amx_int8"} >= set(dmlcpu.available_isas())
