"""QUANTIZE_BY_RANGE on random layouts and values beside ties, against the reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import dmlcpu
from code_ranges import LENGTHS, at_the_edge, extremes, ranges_beside_ties
from dispatching import assert_equal_outputs, expected_storage
from fills import INPUT_FLOATS
from laid_out import packed
from native_operator import run_native
from reference.quantize_by_range import OUTPUTS, quantize_by_range
from strategies import input_tensors, output_tensors, tensor_sizes
from strided_tensor import StridedTensor, blank_tensor

Devices = Mapping[str, dmlcpu.Device]


def assert_matches_reference(devices: Devices, tensors: Mapping[str, StridedTensor]) -> None:
    results = quantize_by_range(tensors["input_tensor"].logical())
    expected = {name: expected_storage(tensors[name], values) for name, values in zip(OUTPUTS, results, strict=True)}
    for label, device in devices.items():
        actual: dict[str, Any] = run_native(device, "QUANTIZE_BY_RANGE", tensors, {}, outputs=OUTPUTS)
        assert_equal_outputs(actual, expected, label)


def assert_codes_of(devices: Devices, values: NDArray[np.float32]) -> None:
    tensors = {"input_tensor": packed(values)}
    for name, data_type, sizes in zip(OUTPUTS, ("UINT8", "FLOAT32", "UINT8"), (values.shape, (1,), (1,)), strict=True):
        tensors[name] = blank_tensor(data_type, sizes, None)
    assert_matches_reference(devices, tensors)


@given(st.data())
def test_random_layouts(devices: Devices, data: st.DataObject) -> None:
    sizes = data.draw(tensor_sizes())
    ones = (1,) * len(sizes)
    tensors = {"input_tensor": data.draw(input_tensors("FLOAT32", sizes, INPUT_FLOATS))}
    for name, data_type, own in zip(OUTPUTS, ("UINT8", "FLOAT32", "UINT8"), (sizes, ones, ones), strict=True):
        tensors[name] = data.draw(output_tensors(data_type, own))
    assert_matches_reference(devices, tensors)


@pytest.mark.parametrize("length", LENGTHS)
def test_extremes_at_every_kind_of_place(devices: Devices, random_numbers: np.random.Generator, length: int) -> None:
    for values in extremes(random_numbers, length):
        assert_codes_of(devices, values)


@at_the_edge
def test_ranges_at_the_edge(devices: Devices, values: list[float]) -> None:
    assert_codes_of(devices, np.array(values, np.float32))


def test_zero_points_and_codes_beside_ties(devices: Devices, random_numbers: np.random.Generator) -> None:
    for values in ranges_beside_ties(random_numbers):
        assert_codes_of(devices, values)
