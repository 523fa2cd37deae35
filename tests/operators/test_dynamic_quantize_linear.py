"""DYNAMIC_QUANTIZE_LINEAR on random layouts and adversarial values, against the reference."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import dmlcpu
from code_ranges import LENGTHS, at_the_edge, extremes, ranges_beside_ties
from dispatching import assert_equal, assert_matches_reference
from fills import INPUT_FLOATS
from operator_case import OperatorCase
from reference.dynamic_quantize_linear import OUTPUTS, dynamic_quantize_linear
from strategies import BYTE_TYPES, Run, arrays, input_tensors, output_tensors, runs, tensor_sizes
from strided_tensor import NUMPY_TYPES, StridedTensor

Devices = Mapping[str, dmlcpu.Device]

INPUT_TYPES = ("FLOAT32", "FLOAT16")


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
    for values in extremes(random_numbers, length):
        assert_function_equals_the_reference(devices, values)


@at_the_edge
def test_ranges_at_the_edge(devices: Devices, values: list[float]) -> None:
    assert_function_equals_the_reference(devices, np.array(values, np.float32))


@pytest.mark.parametrize("output_type", BYTE_TYPES)
def test_zero_points_and_codes_beside_ties(
    devices: Devices, random_numbers: np.random.Generator, output_type: str
) -> None:
    for values in ranges_beside_ties(random_numbers):
        assert_function_equals_the_reference(devices, values, output_type)
