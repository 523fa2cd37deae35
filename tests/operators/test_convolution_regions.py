"""Convolutions that leave taps in the padding out, a region of the output at a time, against the reference."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dmlcpu
from convolution_shapes import ConvolutionShape, ConvolutionTypes, packed_case
from dispatching import assert_matches_reference, operator_desc
from fills import Fill, any_integers, highest_integers, lowest_integers
from operator_case import OperatorCase

Devices = Mapping[str, dmlcpu.Device]

# In place from UINT8 input whose channels are whole steps of k, and from a copy.
TYPES = [ConvolutionTypes("UINT8", "INT8", "UINT8"), ConvolutionTypes("INT8", "UINT8", "INT8")]


def dilated(channels: tuple[int, int], size: int, dilation: int, **others: Any) -> ConvolutionShape:
    """A 3x3 filter that keeps the image's size."""
    steps = (dilation, dilation)
    window: dict[str, Any] = {"kernel": (3, 3), "dilations": steps, "start_padding": steps, "end_padding": steps}
    return ConvolutionShape(*channels, (size, size), **window, **others)


def region_shapes() -> list[ConvolutionShape]:
    # Taps leave on one side at a time, on both, and all but one or nine at once.
    shapes = [dilated((64, 32), 9, dilation) for dilation in (3, 4, 5, 8, 9, 12)]
    shapes += [dilated((64, channels), 11, 6) for channels in (1, 15, 33, 65)]
    shapes += [dilated((channels, 17), 11, 6) for channels in (3, 4, 16, 65)]
    shapes += [dilated((64, 24), 13, 7, batch=3), dilated((64, 33), 13, 7, groups=3), dilated((65, 5), 8, 6, groups=2)]
    # Tiles smaller than their regions: many pixels, and a long sum.
    shapes += [dilated((16, 8), 40, 18), dilated((2048, 33), 15, 7)]
    shapes += [
        ConvolutionShape(
            64, 33, (17, 14), (3, 3), strides=(2, 3), dilations=(7, 6), start_padding=(8, 9), end_padding=(9, 8)
        ),
        ConvolutionShape(64, 33, (12, 12), (2, 4), dilations=(9, 5), start_padding=(9, 0), end_padding=(0, 14)),
        ConvolutionShape(64, 33, (12, 30), (3, 1), dilations=(9, 1), start_padding=(9, 0), end_padding=(9, 0)),
        ConvolutionShape(64, 33, (40,), (5,), groups=2, dilations=(9, 9), start_padding=(18, 6), end_padding=(18, 6)),
        # Windows of one row or column, which leave out less.
        ConvolutionShape(64, 33, (17, 17), (7, 1), batch=2, start_padding=(3, 0), end_padding=(3, 0)),
        ConvolutionShape(96, 40, (8, 9), (3, 1), start_padding=(1, 0), end_padding=(1, 0)),
        # Windows that lie wholly in the padding, on all sides and between the taps.
        ConvolutionShape(64, 33, (3, 4), (2, 2), start_padding=(9, 9), end_padding=(8, 9)),
        ConvolutionShape(64, 33, (2, 3), (2, 2), dilations=(5, 6), start_padding=(7, 8), end_padding=(7, 8)),
    ]
    return shapes


def leaves_padding_out(device: dmlcpu.Device, case: OperatorCase) -> bool:
    compiled = device.compile_operator(device.create_operator(operator_desc(case)))
    return "\npadding: taps in it are left out" in compiled.describe()


@pytest.mark.parametrize("shape", region_shapes(), ids=str)
@pytest.mark.parametrize("types", TYPES, ids=lambda types: types.input)
@pytest.mark.parametrize("is_channels_last", [False, True], ids=["NCHW", "NHWC"])
def test_regions(
    devices: Devices,
    random_numbers: np.random.Generator,
    shape: ConvolutionShape,
    types: ConvolutionTypes,
    is_channels_last: bool,
) -> None:
    case = packed_case(shape, types, random_numbers, is_channels_last=is_channels_last)
    # Tiles of some instruction sets are too large for some of the regions.
    assert any(leaves_padding_out(device, case) for device in devices.values())
    assert_matches_reference(devices, case, owned={"filter_tensor"})


@pytest.mark.parametrize("fill", [any_integers, highest_integers, lowest_integers], ids=["any", "highest", "lowest"])
def test_zero_points(devices: Devices, random_numbers: np.random.Generator, fill: Fill) -> None:
    """What is left out of the offsets depends on both zero points and on the sums of each tap's codes."""
    for types in TYPES:
        case = packed_case(dilated((64, 33), 9, 5), types, random_numbers, is_channels_last=True, operand_fill=fill)
        for absent in itertools.product((False, True), repeat=2):
            missing = itertools.compress(("input_zero_point_tensor", "filter_zero_point_tensor"), absent)
            tensors = {**case.tensors, **dict.fromkeys(missing)}
            assert_matches_reference(devices, OperatorCase(case.operator, tensors, case.attributes))


@pytest.mark.parametrize("shape", [(17, 17, 7), (8, 8, 3), (16, 1, 5)], ids=str)
def test_runs_go_down_the_columns_of_windows_of_one_row(
    devices: Devices, random_numbers: np.random.Generator, shape: tuple[int, int, int]
) -> None:
    height, width, kernel = shape
    padding = (0, kernel // 2)
    window: dict[str, Any] = {"kernel": (1, kernel), "start_padding": padding, "end_padding": padding}
    for types in TYPES:
        row = ConvolutionShape(64, 33, (height, width), batch=2, **window)
        case = packed_case(row, types, random_numbers, is_channels_last=True)
        assert any(leaves_padding_out(device, case) for device in devices.values())
        assert_matches_reference(devices, case, owned={"filter_tensor"})


def test_same_padding_of_small_filters_multiplies_all_taps(
    devices: Devices, random_numbers: np.random.Generator
) -> None:
    for size in (7, 14, 56):
        case = packed_case(dilated((64, 64), size, 1), TYPES[0], random_numbers, is_channels_last=True)
        for label, device in devices.items():
            assert not leaves_padding_out(device, case), label


def test_windows_inside_the_image_multiply_all_taps(devices: Devices, random_numbers: np.random.Generator) -> None:
    shapes = [
        ConvolutionShape(256, 64, (56, 56), (1, 1)),
        ConvolutionShape(256, 64, (28, 28), (1, 1), strides=(2, 2)),
        ConvolutionShape(64, 64, (14, 14), (3, 3), dilations=(3, 3)),
    ]
    for shape, types, is_channels_last in itertools.product(shapes, TYPES, (False, True)):
        case = packed_case(shape, types, random_numbers, is_channels_last=is_channels_last)
        for label, device in devices.items():
            assert not leaves_padding_out(device, case), (label, shape)


@st.composite
def sparse_shapes(draw: st.DrawFn) -> ConvolutionShape:
    """Windows about as large as the padded image, of which much is padding."""
    lengths: dict[str, list[int]] = {"input": [], "kernel": [], "strides": [], "dilations": []}
    start_padding, end_padding = [], []
    for _ in range(2):
        kernel, stride, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 9))
        output, rest = draw(st.integers(1, 20)), draw(st.integers(0, stride - 1))
        padded = (output - 1) * stride + (kernel - 1) * dilation + 1 + rest
        size = draw(st.integers(1, padded))
        start = draw(st.integers(0, padded - size))
        for name, value in zip(lengths, (size, kernel, stride, dilation), strict=True):
            lengths[name].append(value)
        start_padding.append(start)
        end_padding.append(padded - size - start)
    return ConvolutionShape(
        channels_in=draw(st.sampled_from((3, 16, 64))),
        channels_out=draw(st.integers(1, 40)),
        batch=draw(st.integers(1, 2)),
        groups=draw(st.integers(1, 2)),
        start_padding=tuple(start_padding),
        end_padding=tuple(end_padding),
        **{name: tuple(values) for name, values in lengths.items()},  # type: ignore[arg-type]
    )


@given(sparse_shapes(), st.sampled_from(TYPES), st.booleans(), st.integers(0, 2**32 - 1))
def test_random_padding(
    devices: Devices, shape: ConvolutionShape, types: ConvolutionTypes, is_channels_last: bool, seed: int
) -> None:
    case = packed_case(shape, types, np.random.default_rng(seed), is_channels_last=is_channels_last)
    assert_matches_reference(devices, case)
