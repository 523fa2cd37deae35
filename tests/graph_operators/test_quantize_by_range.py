"""QUANTIZE_BY_RANGE on random layouts and values beside ties, against the reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import dmlcpu
from dispatching import assert_equal_outputs, expected_storage
from fills import INPUT_FLOATS
from laid_out import packed
from native_operator import run_native
from reference.quantize_by_range import OUTPUTS, quantize_by_range
from strategies import input_tensors, output_tensors, tensor_sizes
from strided_tensor import StridedTensor, blank_tensor

Devices = Mapping[str, dmlcpu.Device]
# Where the range ends decides everything, so vectors, their tails and every thread have to see it.
LENGTHS: Final = (1, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65, 129, 4099, 70001)


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
    for place in {0, length // 2, length - 1}:
        for extreme in (1000.0, -1000.0, np.inf, -np.inf, np.nan):
            values = random_numbers.standard_normal(length).astype(np.float32)
            values[:: max(1, length // 5)] = np.nan
            values[place] = extreme
            assert_codes_of(devices, values)


@pytest.mark.parametrize(
    "values",
    [
        [0, 0], [-0.0, -0.0], [np.nan, np.nan], [np.nan, -0.0], [1e-45, 0], [-1e-45, 1e-45], [3e38, -3e38],
        [np.inf, 1], [-np.inf, 1], [255, 0.5, 1.5, 2.5], [-127.5, 127.5, 0.5], [1e-38, -1e-38], [5], [-5],
    ],
    ids=str,
)  # fmt: skip
def test_ranges_at_the_edge(devices: Devices, values: list[float]) -> None:
    assert_codes_of(devices, np.array(values, np.float32))


def test_zero_points_and_codes_beside_ties(devices: Devices, random_numbers: np.random.Generator) -> None:
    """Ranges whose zero point lies in the middle of two codes but for the last bits, where each rounding tells."""
    for lowest in range(1, 510, 2):
        half_step = random_numbers.uniform(0.001, 1000)
        assert_codes_of(devices, (np.arange(-lowest, 511 - lowest) * half_step).astype(np.float32))
