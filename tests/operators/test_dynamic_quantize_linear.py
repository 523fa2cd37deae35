"""DYNAMIC_QUANTIZE_LINEAR on random layouts and adversarial values, against the reference."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import dmlcpu
from dispatching import assert_equal, assert_matches_reference
from fills import INPUT_FLOATS
from operator_case import OperatorCase
from reference.dynamic_quantize_linear import OUTPUTS, dynamic_quantize_linear
from strategies import BYTE_TYPES, Run, arrays, input_tensors, output_tensors, runs, tensor_sizes
from strided_tensor import NUMPY_TYPES, StridedTensor

Devices = Mapping[str, dmlcpu.Device]

INPUT_TYPES = ("FLOAT32", "FLOAT16")

# Where the range ends decides everything, so vectors, their tails and every thread have to see it.
LENGTHS = (1, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65, 129, 4099, 70001)


@st.composite
def cases(draw: st.DrawFn) -> OperatorCase:
    sizes = draw(tensor_sizes())
    ones = (1,) * len(sizes)
    input_type, output_type = draw(st.sampled_from(INPUT_TYPES)), draw(st.sampled_from(BYTE_TYPES))
    tensors: dict[str, StridedTensor | None] = {
        "input_tensor": draw(input_tensors(input_type, sizes, INPUT_FLOATS)),
        "output_tensor": draw(output_tensors(output_type, sizes)),
        "output_scale_tensor": draw(output_tensors("FLOAT32", ones)),
        "output_zero_point_tensor": draw(output_tensors(output_type, ones)),
    }
    return OperatorCase("DYNAMIC_QUANTIZE_LINEAR", tensors, {})


@given(runs(cases()))
def test_objects_equal_the_reference(devices: Devices, run: Run) -> None:
    assert_matches_reference(devices, run.case, owned=run.owned, shaped=run.shaped)


def assert_function_equals_the_reference(
    devices: Devices, values: NDArray[np.floating], output_type: str = "UINT8"
) -> None:
    expected = dynamic_quantize_linear(values, output_data_type=NUMPY_TYPES[output_type])
    output_data_type = dmlcpu.TensorDataType[output_type]
    for label, device in devices.items():
        results = dmlcpu.dynamic_quantize_linear(values, device=device, output_data_type=output_data_type)
        for field, result, wanted in zip(OUTPUTS, results, expected, strict=True):
            assert_equal(result.reshape(wanted.shape), wanted, f"{label}, {field}")


@given(st.data())
def test_function_equals_the_reference(devices: Devices, data: st.DataObject) -> None:
    dtype = NUMPY_TYPES[data.draw(st.sampled_from(INPUT_TYPES))]
    values = data.draw(arrays(dtype, data.draw(tensor_sizes(max_rank=4)), INPUT_FLOATS))
    assert_function_equals_the_reference(devices, values)


@pytest.mark.parametrize("length", LENGTHS)
def test_extremes_at_every_kind_of_place(devices: Devices, random_numbers: np.random.Generator, length: int) -> None:
    """The lowest and the highest value at the ends, in the middle and among NaN."""
    for place in {0, length // 2, length - 1}:
        for extreme in (1000.0, -1000.0, np.inf, -np.inf, np.nan):
            values = random_numbers.standard_normal(length).astype(np.float32)
            values[:: max(1, length // 5)] = np.nan
            values[place] = extreme
            assert_function_equals_the_reference(devices, values)


@pytest.mark.parametrize(
    "values",
    [
        [0.0, 0.0],
        [-0.0, -0.0],
        [np.nan, np.nan],
        [np.nan, -0.0],
        [1e-45, 0.0],
        [-1e-45, 1e-45],
        [3e38, -3e38],
        [np.inf, 1.0],
        [-np.inf, 1.0],
        [255.0, 0.5, 1.5, 2.5],
        [-127.5, 127.5, 0.5],
        [1e-38, -1e-38],
        [5.0],
        [-5.0],
    ],
    ids=str,
)
def test_ranges_at_the_edge(devices: Devices, values: list[float]) -> None:
    assert_function_equals_the_reference(devices, np.array(values, np.float32))


@pytest.mark.parametrize("output_type", BYTE_TYPES)
def test_zero_points_and_codes_beside_ties(
    devices: Devices, random_numbers: np.random.Generator, output_type: str
) -> None:
    """Ranges whose zero point lies in the middle of two codes but for the last bits, where each rounding tells."""
    for lowest in range(1, 510, 2):
        half_step = random_numbers.uniform(0.001, 1000)
        values = (np.arange(-lowest, 511 - lowest) * half_step).astype(np.float32)
        assert_function_equals_the_reference(devices, values, output_type)
