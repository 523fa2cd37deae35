"""QUANTIZED_LINEAR_AVERAGE_POOLING on random layouts, tile edges and adversarial values, against the reference."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dmlcpu
from dispatching import assert_equal, assert_matches_reference
from fills import (
    INTEGERS,
    SCALES,
    Fill,
    extreme_integers,
    highest_integers,
    lowest_integers,
    special_scales,
    tie_scales,
)
from operator_case import OperatorCase
from pooling_shapes import PoolingShape, pooling_case
from reference.quantized_linear_average_pooling import quantized_linear_average_pooling
from strategies import BYTE_TYPES, Run, arrays, drawn_input, drawn_output, drawn_zero_points, runs
from strided_tensor import NUMPY_TYPES

Devices = Mapping[str, dmlcpu.Device]

EDGE_CHANNELS = (1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40, 63, 64, 65, 80, 127, 128, 129)


def edge_shapes() -> list[PoolingShape]:
    """Channels at the edges of vectors and strips; windows that overlap, and that do not."""
    shapes = []
    ones, twos = (1, 1), (2, 2)
    for channels in EDGE_CHANNELS:
        shapes.append(PoolingShape(channels, (7, 7), (7, 7), batch=2))
        shapes.append(PoolingShape(channels, (5, 6), (2, 2), strides=twos))
        shapes.append(PoolingShape(channels, (5, 7), (3, 3), start_padding=ones, end_padding=ones))
        shapes.append(PoolingShape(channels, (7, 6), (3, 3), strides=twos, start_padding=ones, include_padding=True))
        shapes.append(PoolingShape(channels, (3, 4, 5), (2, 2, 3), end_padding=(1, 0, 2)))
    shapes += [
        # Pixels alone, columns, rows.
        PoolingShape(70, (1, 1), (1, 1)),
        PoolingShape(5, (19, 1), (4, 1), strides=(3, 1), batch=3),
        PoolingShape(5, (1, 19), (1, 4), start_padding=(0, 3), end_padding=(0, 2)),
        # Bands of rows that keep some of the last band's rows, all but one of them, or none.
        PoolingShape(66, (40, 33), (3, 3), start_padding=ones, end_padding=ones),
        PoolingShape(33, (90, 21), (5, 2), strides=(1, 1)),
        PoolingShape(20, (64, 60), (2, 2), strides=(1, 3), dilations=(7, 1)),
        PoolingShape(20, (65, 40), (4, 4), strides=(5, 1)),
        PoolingShape(3, (70, 90), (3, 3), start_padding=twos, end_padding=(1, 3)),
        PoolingShape(1, (50, 100), (2, 5), strides=(2, 1), dilations=(3, 4)),
        # Depth: several slices, some outside.
        PoolingShape(18, (6, 20, 20), (3, 3, 3), start_padding=(2, 1, 1), end_padding=(1, 1, 1)),
        PoolingShape(18, (7, 9, 8), (2, 2, 2), strides=(2, 2, 2), dilations=(3, 2, 1)),
        # Windows larger than the image, and windows of padding alone.
        PoolingShape(17, (2, 3), (6, 5), start_padding=(4, 4), end_padding=(5, 3)),
        PoolingShape(17, (2, 3), (2, 2), strides=(2, 1), start_padding=(5, 6), end_padding=(4, 7)),
        PoolingShape(65, (2, 2, 2), (1, 2, 1), start_padding=(2, 3, 1), end_padding=(1, 3, 2)),
        # Most of the input is never read.
        PoolingShape(20, (30, 31), (1, 1), strides=(9, 9)),
        PoolingShape(20, (30, 31), (2, 2), strides=(9, 9)),
        # A sum of many elements, each of which rounds.
        PoolingShape(4, (40, 50), (40, 50)),
        # Planes as large as are averaged as they lie, and larger ones.
        PoolingShape(2, (256, 256), (256, 256)),
        PoolingShape(2, (257, 256), (257, 256)),
    ]
    return shapes


@pytest.mark.parametrize("shape", edge_shapes(), ids=str)
def test_shapes_at_tile_edges(devices: Devices, random_numbers: np.random.Generator, shape: PoolingShape) -> None:
    for data_type, is_channels_last, per_channel in itertools.product(BYTE_TYPES, (False, True), (False, True)):
        layout: dict[str, bool] = {"is_channels_last": is_channels_last, "per_channel": per_channel}
        assert_matches_reference(devices, pooling_case(shape, data_type, random_numbers, **layout))


@pytest.mark.parametrize("include_padding", [False, True], ids=["inside", "whole"])
@pytest.mark.parametrize("scale_fill", SCALES, ids=lambda fill: fill.__name__)
def test_scales_of_every_kind(
    devices: Devices, random_numbers: np.random.Generator, scale_fill: Fill, include_padding: bool
) -> None:
    """Ties, quotients beside ties, infinities and NaN, in windows of any part of the padding."""
    shape = PoolingShape(80, (5, 6), (3, 3), start_padding=(4, 2), end_padding=(1, 4), include_padding=include_padding)
    for data_type, per_channel, code_fill in itertools.product(BYTE_TYPES, (False, True), INTEGERS):
        for _ in range(4):
            fills: dict[str, Fill] = {"code_fill": code_fill, "scale_fill": scale_fill}
            case = pooling_case(shape, data_type, random_numbers, per_channel=per_channel, **fills)
            assert_matches_reference(devices, case)


@pytest.mark.parametrize("scale_fill", SCALES, ids=lambda fill: fill.__name__)
@pytest.mark.parametrize("size", [(4, 8), (5, 19), (8, 12), (23, 24), (3, 16, 16), (70, 70)], ids=str)
def test_planes(devices: Devices, random_numbers: np.random.Generator, size: tuple[int, ...], scale_fill: Fill) -> None:
    """Averages of all of a plane, also beside ties, of more channels than are taken at once, with padding around."""
    ones, twos = (1,) * len(size), (2,) * len(size)
    padded = tuple(length + 3 for length in size)
    for data_type, code_fill in itertools.product(BYTE_TYPES, INTEGERS):
        fills: dict[str, Fill] = {"code_fill": code_fill, "scale_fill": scale_fill}
        for shape in (
            PoolingShape(37, size, size, batch=2),
            PoolingShape(9, size, padded, start_padding=ones, end_padding=twos, include_padding=True),
        ):
            assert_matches_reference(devices, pooling_case(shape, data_type, random_numbers, **fills))


@pytest.mark.parametrize("window", [(1, 2), (1, 3), (2, 3), (1, 7), (7, 7), (3, 11), (1, 255), (16, 16)], ids=str)
def test_quotients_by_the_number_of_elements(
    devices: Devices, random_numbers: np.random.Generator, window: tuple[int, int]
) -> None:
    """Sums of a scale that is no power of two, divided twice: each quotient is rounded by itself."""
    for scale in (0.1, 0.7, 1 / 3, 1e-30, 3e30):
        size = (window[0] + 5, window[1] + 6)
        case = pooling_case(PoolingShape(16, size, window), "UINT8", random_numbers, is_channels_last=True)
        for name in ("input_scale_tensor", "output_scale_tensor"):
            tensor = case.tensors[name]
            assert tensor is not None
            tensor.buffer[...] = scale
        assert_matches_reference(devices, case)


@st.composite
def shapes(draw: st.DrawFn) -> PoolingShape:
    """Made from the output's sizes, so that every draw is a pooling."""
    columns: list[tuple[int, ...]] = []
    for _ in range(draw(st.sampled_from((2, 2, 3)))):
        window, stride, dilation = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
        output, rest = draw(st.integers(1, 6)), draw(st.integers(0, stride - 1))
        padded = (output - 1) * stride + (window - 1) * dilation + 1 + rest
        start = draw(st.integers(0, min(5, padded - 1)))
        end = draw(st.integers(0, min(5, padded - 1 - start)))
        columns.append((padded - start - end, window, stride, dilation, start, end))
    input_sizes, window_sizes, strides, dilations, start_padding, end_padding = zip(*columns, strict=True)
    return PoolingShape(
        channels=draw(st.integers(1, 35) | st.sampled_from((63, 64, 65))),
        input=input_sizes,
        window=window_sizes,
        batch=draw(st.integers(1, 3)),
        strides=strides,
        dilations=dilations,
        start_padding=start_padding,
        end_padding=end_padding,
        include_padding=draw(st.booleans()),
    )


@st.composite
def cases(draw: st.DrawFn) -> OperatorCase:
    shape, data_type = draw(shapes()), draw(st.sampled_from(BYTE_TYPES))
    ones = (1,) * len(shape.input)
    choices = st.sampled_from(((1, 1, *ones), (1, shape.channels, *ones)))
    input_parameters, output_parameters = draw(choices), draw(choices)
    tensors = {
        "input_tensor": drawn_input(draw, data_type, shape.input_sizes, INTEGERS),
        "input_scale_tensor": drawn_input(draw, "FLOAT32", input_parameters, SCALES),
        "input_zero_point_tensor": drawn_zero_points(draw, data_type, input_parameters),
        "output_scale_tensor": drawn_input(draw, "FLOAT32", output_parameters, SCALES),
        "output_zero_point_tensor": drawn_zero_points(draw, data_type, output_parameters),
        "output_tensor": drawn_output(draw, data_type, shape.output_sizes),
    }
    return OperatorCase("QUANTIZED_LINEAR_AVERAGE_POOLING", tensors, shape.attributes)


@given(runs(cases()))
def test_objects_equal_the_reference(devices: Devices, run: Run) -> None:
    assert_matches_reference(devices, run.case, owned=run.owned, shaped=run.shaped)


@given(st.data())
def test_function_equals_the_reference(devices: Devices, data: st.DataObject) -> None:
    shape, dtype = data.draw(shapes()), NUMPY_TYPES[data.draw(st.sampled_from(BYTE_TYPES))]
    forms = st.sampled_from([(1,), (shape.channels,)])
    input_form, output_form = data.draw(forms), data.draw(forms)
    arguments: tuple[Any, ...] = (
        data.draw(arrays(dtype, shape.input_sizes, INTEGERS)),
        data.draw(arrays(np.dtype(np.float32), input_form, SCALES)),
        data.draw(arrays(dtype, input_form, INTEGERS)),
        data.draw(arrays(np.dtype(np.float32), output_form, SCALES)),
        data.draw(arrays(dtype, output_form, INTEGERS)),
    )
    expected = quantized_linear_average_pooling(*arguments, **shape.attributes, output_data_type=dtype)
    for label, device in devices.items():
        result = dmlcpu.quantized_linear_average_pooling(*arguments, **shape.attributes, device=device)
        assert_equal(result, expected, label)


def test_rounding_ties_with_odd_zero_points(devices: Devices) -> None:
    """The average of two codes: every odd sum is a tie."""
    values = np.arange(256, dtype=np.uint8).reshape(1, 1, 1, 256).repeat(16, axis=1)
    for zero_point in (1, 127, 255):
        arguments = (values, 1.0, np.uint8(128), 1.0, np.uint8(zero_point))
        halves = np.rint((2 * values[..., :-1].astype(np.float32) + 1) / 2 - 128) + zero_point
        expected = np.clip(halves, 0, 255).astype(np.uint8)
        for label, device in devices.items():
            result = dmlcpu.quantized_linear_average_pooling(*arguments, window_size=(1, 2), device=device)
            assert result.tolist() == expected.tolist(), label


@pytest.mark.parametrize("data_type", BYTE_TYPES)
def test_windows_of_padding_alone(devices: Devices, data_type: str) -> None:
    """0 / 0 is the lowest value; counted, the padding is 0, the zero point. An infinite scale makes no NaN of it."""
    dtype = NUMPY_TYPES[data_type]
    codes = np.full((1, 20, 1, 1), 9, dtype)
    for scale in (0.5, np.inf):
        arguments = (codes, scale, dtype.type(7), 0.5, dtype.type(3))
        attributes: dict[str, Any] = {"window_size": 1, "start_padding": (0, 2), "end_padding": (0, 1)}
        for label, device in devices.items():
            plain = dmlcpu.quantized_linear_average_pooling(*arguments, **attributes, device=device)
            whole = dmlcpu.quantized_linear_average_pooling(
                *arguments, **attributes, include_padding=True, device=device
            )
            lowest, inside = np.iinfo(dtype).min, 5 if scale == 0.5 else np.iinfo(dtype).max
            assert plain[0, 0, 0].tolist() == [lowest, lowest, inside, lowest], label
            assert whole[0, 0, 0].tolist() == [3, 3, inside, 3], label


@pytest.mark.parametrize("fill", [highest_integers, lowest_integers, extreme_integers], ids=lambda fill: fill.__name__)
def test_large_sums(devices: Devices, random_numbers: np.random.Generator, fill: Fill) -> None:
    """Scales whose sums overflow, or whose quotients saturate, in every lane."""
    for scales in (special_scales, tie_scales):
        for is_channels_last in (False, True):
            case = pooling_case(
                PoolingShape(70, (9, 9), (4, 4), strides=(2, 2)),
                "INT8",
                random_numbers,
                is_channels_last=is_channels_last,
                code_fill=fill,
                scale_fill=scales,
            )
            assert_matches_reference(devices, case)
