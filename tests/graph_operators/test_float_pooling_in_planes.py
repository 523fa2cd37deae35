"""FLOAT_POOLING of {N, C, H, W} memory: planes in bands, by themselves, or transposed."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
import pytest

import dmlcpu
from float_windows import ATTRIBUTES, FUNCTIONS, output_sizes, planes_apart
from graph_cases import assert_native_matches_reference, strides_of
from native_operator import bind_native
from operator_case import OperatorCase
from strided_tensor import StridedTensor, blank_tensor, element_span

Devices = Mapping[str, dmlcpu.Device]


@pytest.mark.parametrize(("function", "include_padding"), FUNCTIONS)
@pytest.mark.parametrize("output_layout", ["channels first", "channels last"])
@pytest.mark.parametrize(
    ("spatial", "window", "stride", "dilation", "padding"),
    [
        ((70, 60), 3, 1, 1, 1),
        ((13, 13), 5, 1, 1, 2),
        ((80, 121), 3, 2, 1, 1),
        ((75, 34), 2, 2, 1, 0),
        ((64, 33), 3, 1, 2, 2),
        ((40, 50), 4, 2, 3, 5),
        ((30, 260), 2, 2, 1, 0),
        ((9, 2000), 3, 1, 1, 1),
        ((40, 192), 3, 1, 1, 1),
        ((40, 193), 3, 1, 1, 1),
        ((50, 224), 3, 2, 1, 1),
        ((50, 225), 3, 2, 1, 1),
        ((60, 120), 2, 1, 28, 0),
        ((60, 65), 3, 3, 1, 1),
    ],
    ids=str,
)
def test_planes(
    devices: Devices,
    random_numbers: np.random.Generator,
    function: int,
    include_padding: int,
    output_layout: str,
    spatial: tuple[int, int],
    window: int,
    stride: int,
    dilation: int,
    padding: int,
) -> None:
    """Rows of several bands, by themselves where these are too long, and of elements that are skipped."""
    attributes = {
        "function": (function,),
        "include_padding": (include_padding,),
        "strides": (stride, stride),
        "dilations": (dilation, dilation),
        "window_size": (window, window),
        "start_padding": (padding, padding),
        "end_padding": (padding, padding),
    }
    sizes = (2, 3, *spatial)
    strides, pooled = strides_of(sizes, "channels first", 5), output_sizes(sizes, attributes)
    values = random_numbers.normal(size=element_span(sizes, strides)).astype(np.float32)
    values[random_numbers.random(len(values)) < 0.3] *= np.float32(0)
    tensors = {
        "input_tensor": StridedTensor("FLOAT32", sizes, strides, values),
        "output_tensor": blank_tensor("FLOAT32", pooled, strides_of(pooled, output_layout, 3)),
    }
    assert_native_matches_reference(devices, OperatorCase("FLOAT_POOLING", tensors, attributes))


@pytest.mark.parametrize("function", [0, 1, 2, 3])
@pytest.mark.parametrize("spatial", [(1, 7), (1, 12), (2, 9), (1, 33), (8, 8), (1, 64), (5, 13)], ids=str)
@pytest.mark.parametrize("gap", [0, 3])
@pytest.mark.parametrize("channels", [3, 4, 15, 131])
def test_planes_of_few_elements(
    devices: Devices,
    random_numbers: np.random.Generator,
    function: int,
    spatial: tuple[int, int],
    gap: int,
    channels: int,
) -> None:
    """Windows that are planes, of which many are transposed together."""
    attributes = {
        **ATTRIBUTES,
        "function": (function,),
        "window_size": spatial,
        "start_padding": (0, 0),
        "end_padding": (0, 0),
    }
    sizes = (2, channels, *spatial)
    strides = strides_of(sizes, "channels first", gap)
    values = random_numbers.normal(size=element_span(sizes, strides)).astype(np.float32)
    values[random_numbers.random(len(values)) < 0.3] *= np.float32(0)
    tensors = {
        "input_tensor": StridedTensor("FLOAT32", sizes, strides, values),
        "output_tensor": blank_tensor("FLOAT32", (2, channels, 1, 1), None),
    }
    assert_native_matches_reference(devices, OperatorCase("FLOAT_POOLING", tensors, attributes))


@pytest.mark.parametrize(("function", "include_padding"), FUNCTIONS)
@pytest.mark.parametrize("layouts", [*itertools.product(["channels first", "channels last"], repeat=2)], ids=str)
@pytest.mark.parametrize("gap", [0, 3])
@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("columns", [3, 12, 33, 64, 100, 1500])
def test_rows_that_are_windows(
    devices: Devices,
    random_numbers: np.random.Generator,
    function: int,
    include_padding: int,
    layouts: tuple[str, str],
    gap: int,
    padding: int,
    columns: int,
) -> None:
    """Of planes each row is one by itself, where planes follow one another as rows do."""
    attributes = {
        "function": (function,),
        "include_padding": (include_padding,),
        "strides": (1, 1),
        "dilations": (1, 1),
        "window_size": (1, columns + 2 * padding),
        "start_padding": (0, padding),
        "end_padding": (0, padding),
    }
    sizes = (2, 3, 13, columns)
    strides = strides_of(sizes, layouts[0], gap)
    values = random_numbers.normal(size=element_span(sizes, strides)).astype(np.float32)
    values[random_numbers.random(len(values)) < 0.3] *= np.float32(0)
    tensors = {
        "input_tensor": StridedTensor("FLOAT32", sizes, strides, values),
        "output_tensor": blank_tensor("FLOAT32", (2, 3, 13, 1), strides_of((2, 3, 13, 1), layouts[1], gap)),
    }
    assert_native_matches_reference(devices, OperatorCase("FLOAT_POOLING", tensors, attributes))


@pytest.mark.parametrize(("function", "include_padding"), [(0, 0), (0, 1), (1, 0), (2, 1)])
@pytest.mark.parametrize("gaps", [(0, 0), (3, 5)], ids=str)
@pytest.mark.parametrize("channels", [8, 38])
@pytest.mark.parametrize(
    ("spatial", "window", "strides", "dilations", "padding"),
    [
        ((14, 14), (3, 3), (2, 2), (1, 1), (1, 1)),
        ((13, 12), (3, 3), (2, 2), (1, 1), (0, 0)),
        ((7, 9), (3, 3), (1, 1), (1, 1), (1, 1)),
        ((6, 31), (2, 5), (3, 2), (2, 3), (1, 6)),
        ((32, 32), (3, 3), (2, 2), (1, 1), (1, 1)),
        ((2, 2), (5, 5), (1, 1), (1, 1), (3, 3)),
    ],
    ids=str,
)
def test_small_planes(
    devices: Devices,
    random_numbers: np.random.Generator,
    function: int,
    include_padding: int,
    gaps: tuple[int, int],
    channels: int,
    spatial: tuple[int, int],
    window: tuple[int, int],
    strides: tuple[int, int],
    dilations: tuple[int, int],
    padding: tuple[int, int],
) -> None:
    """As many as a vector has lanes are transposed together, in several tasks, of which the last has fewer."""
    attributes = {
        "function": (function,),
        "include_padding": (include_padding,),
        "strides": strides,
        "dilations": dilations,
        "window_size": window,
        "start_padding": padding,
        "end_padding": padding,
    }
    sizes = (2, channels, *spatial)
    pooled = output_sizes(sizes, attributes)
    input_strides = planes_apart(sizes, gaps[0])
    values = random_numbers.normal(size=element_span(sizes, input_strides)).astype(np.float32)
    values[random_numbers.random(len(values)) < 0.3] *= np.float32(0)
    values[random_numbers.random(len(values)) < 0.01] = np.inf
    tensors = {
        "input_tensor": StridedTensor("FLOAT32", sizes, input_strides, values),
        "output_tensor": blank_tensor("FLOAT32", pooled, planes_apart(pooled, gaps[1])),
    }
    assert_native_matches_reference(devices, OperatorCase("FLOAT_POOLING", tensors, attributes))


@pytest.mark.parametrize(
    ("function", "channels", "spatial", "window", "stride", "are_transposed"),
    [
        (0, 16, (14, 14), 3, 2, True),
        (0, 24, (14, 14), 3, 2, True),
        (0, 9, (14, 14), 3, 2, False),  # many lanes without a plane
        (1, 16, (9, 112), 3, 2, True),
        (1, 16, (9, 113), 3, 2, False),  # long rows
        (2, 16, (17, 17), 2, 2, True),
        (2, 16, (18, 18), 2, 2, False),  # pairs, read in place
        (2, 16, (14, 14), 2, 2, True),
        (2, 16, (15, 15), 1, 2, False),
        (1, 16, (16, 16), 3, 1, True),
        (1, 16, (17, 17), 3, 1, False),
        (1, 16, (16, 16), 5, 1, True),
        (1, 16, (16, 16), 7, 1, False),  # taps that windows share are compared once in bands
        (0, 16, (112, 9), 7, 1, True),
        (0, 16, (9, 112), 7, 1, True),
        (0, 16, (16, 16), 9, 1, False),  # many taps
    ],
)
def test_tells_of_transposed_planes(
    devices: Devices,
    function: int,
    channels: int,
    spatial: tuple[int, int],
    window: int,
    stride: int,
    are_transposed: bool,
) -> None:
    attributes = {
        **ATTRIBUTES,
        "function": (function,),
        "strides": (stride, stride),
        "window_size": (window, window),
        "start_padding": (window // 2, window // 2),
        "end_padding": (window // 2, window // 2),
    }
    sizes = (1, channels, *spatial)
    tensors = {
        "input_tensor": blank_tensor("FLOAT32", sizes, None),
        "output_tensor": blank_tensor("FLOAT32", output_sizes(sizes, attributes), None),
    }
    for device in devices.values():
        told = bind_native(device, "FLOAT_POOLING", tensors, attributes).describe()
        assert ("at a time, transposed" in told) == (are_transposed and device.isa != "scalar"), told
