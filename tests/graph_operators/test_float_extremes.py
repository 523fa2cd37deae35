"""Maxima and minima of FLOAT_POOLING where the order of what is compared tells: of equal zeros, and of NaN."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from graph_cases import assert_native_matches_reference, strides_of
from operator_case import OperatorCase
from strided_tensor import StridedTensor, blank_tensor, element_span

Devices = Mapping[str, dmlcpu.Device]

ATTRIBUTES = {"include_padding": (0,), "dilations": (1, 1)}

MAXIMA, MINIMA = 1, 2

FILLS = ("numbers", "zeros", "infinities", "not numbers")


def filled(random_numbers: np.random.Generator, count: int, fill: str, function: int) -> NDArray[np.float32]:
    """Return floats whose extremes are of one kind: zeros of both signs, say."""
    if function == MINIMA:
        return -filled(random_numbers, count, fill, MAXIMA)
    values = random_numbers.normal(size=count).astype(np.float32)
    if fill == "zeros":
        return np.where(random_numbers.random(count) < 0.02, np.float32(0) * values, -np.abs(values))
    if fill == "infinities":
        return np.full(count, -np.inf, np.float32)
    if fill == "not numbers":
        values[random_numbers.random(count) < 0.01] = np.nan
    return values


@pytest.mark.parametrize(
    ("spatial", "window", "stride", "padding"),
    [((13, 13), (5, 5), 1, 2), ((80, 121), (3, 3), 2, 1), ((60, 36), (3, 2), 2, 0), ((30, 40), (7, 2), 1, 0)],
    ids=str,
)
@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("function", [MAXIMA, MINIMA], ids=["maxima", "minima"])
def test_extremes_in_bands(
    devices: Devices,
    random_numbers: np.random.Generator,
    spatial: tuple[int, int],
    window: tuple[int, int],
    stride: int,
    padding: int,
    fill: str,
    function: int,
) -> None:
    """The last of equal zeros is that of the last row, not of the last column."""
    attributes = {
        **ATTRIBUTES,
        "function": (function,),
        "strides": (stride, stride),
        "window_size": window,
        "start_padding": (padding, padding),
        "end_padding": (padding, padding),
    }
    sizes = (2, 3, *spatial)
    values = filled(random_numbers, 6 * spatial[0] * spatial[1], fill, function)
    if fill == "zeros":  # several in each window
        values[::3] = np.copysign(np.float32(0), random_numbers.normal(size=values[::3].size))
    pooled = ((size + 2 * padding - w) // stride + 1 for size, w in zip(spatial, window, strict=True))
    tensors = {
        "input_tensor": StridedTensor("FLOAT32", sizes, None, values),
        "output_tensor": blank_tensor("FLOAT32", (2, 3, *pooled), None),
    }
    assert_native_matches_reference(devices, OperatorCase("FLOAT_POOLING", tensors, attributes))


@pytest.mark.parametrize(
    ("spatial", "padding"),
    [
        ((20, 30), 0),
        ((1, 200), 0),
        ((8, 16), 0),
        ((127, 1), 0),
        ((5, 150), 1),
        ((3, 131), 2),
        ((7, 7), 0),
        ((4, 33), 1),
        ((2, 9), 0),
    ],
    ids=str,
)
@pytest.mark.parametrize("gap", [0, 3])
@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("function", [MAXIMA, MINIMA], ids=["maxima", "minima"])
def test_extremes_of_whole_planes(
    devices: Devices,
    random_numbers: np.random.Generator,
    spatial: tuple[int, int],
    padding: int,
    gap: int,
    fill: str,
    function: int,
) -> None:
    """Of equal zeros the last one counts; a NaN, wherever it is, above all."""
    attributes = {
        **ATTRIBUTES,
        "function": (function,),
        "strides": (1, 1),
        "window_size": tuple(length + 2 * padding for length in spatial),
        "start_padding": (padding, padding),
        "end_padding": (padding, padding),
    }
    sizes = (2, 9, *spatial)
    strides = strides_of(sizes, "channels first", gap)
    values = filled(random_numbers, element_span(sizes, strides), fill, function)
    tensors = {
        "input_tensor": StridedTensor("FLOAT32", sizes, strides, values),
        "output_tensor": blank_tensor("FLOAT32", (2, 9, 1, 1), None),
    }
    assert_native_matches_reference(devices, OperatorCase("FLOAT_POOLING", tensors, attributes))
