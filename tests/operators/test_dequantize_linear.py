"""ELEMENT_WISE_DEQUANTIZE_LINEAR on random layouts and adversarial values, against the reference."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dmlcpu
from dispatching import assert_equal, assert_matches_reference
from fills import INTEGERS, SCALES
from operator_case import OperatorCase
from reference.dequantize_linear import dequantize_linear
from strategies import (
    Run,
    arrays,
    input_tensors,
    optional_zero_points,
    output_tensors,
    runs,
    shapes_of_parameters,
    tensor_sizes,
)
from strided_tensor import NUMPY_TYPES

Devices = Mapping[str, dmlcpu.Device]

INPUT_TYPES = ("UINT8", "INT8", "UINT16", "INT16", "UINT32", "INT32")
OUTPUT_TYPES = ("FLOAT32", "FLOAT16")


@st.composite
def cases(draw: st.DrawFn) -> OperatorCase:
    sizes = draw(tensor_sizes())
    input_type, output_type = draw(st.sampled_from(INPUT_TYPES)), draw(st.sampled_from(OUTPUT_TYPES))
    tensors = {
        "input_tensor": draw(input_tensors(input_type, sizes, INTEGERS)),
        "scale_tensor": draw(input_tensors(output_type, sizes, SCALES)),
        "zero_point_tensor": draw(optional_zero_points(input_type, sizes)),
        "output_tensor": draw(output_tensors(output_type, sizes)),
    }
    return OperatorCase("ELEMENT_WISE_DEQUANTIZE_LINEAR", tensors, {})


@given(runs(cases()))
def test_objects_equal_the_reference(devices: Devices, run: Run) -> None:
    assert_matches_reference(devices, run.case, owned=run.owned, shaped=run.shaped)


@given(st.data())
def test_function_equals_the_reference(devices: Devices, data: st.DataObject) -> None:
    shape, axis, parameter_shape, logical_shape = data.draw(shapes_of_parameters())
    input_type, output_type = data.draw(st.sampled_from(INPUT_TYPES)), data.draw(st.sampled_from(OUTPUT_TYPES))
    values = data.draw(arrays(NUMPY_TYPES[input_type], shape, INTEGERS))
    scale = data.draw(arrays(NUMPY_TYPES[output_type], parameter_shape, SCALES))
    zero_point = data.draw(arrays(NUMPY_TYPES[input_type], parameter_shape, INTEGERS))
    expected = dequantize_linear(
        values,
        scale.reshape(logical_shape),
        zero_point.reshape(logical_shape),
        output_data_type=NUMPY_TYPES[output_type],
    )
    for label, device in devices.items():
        result = dmlcpu.dequantize_linear(values, scale, zero_point, axis=axis, device=device)
        assert_equal(result, expected, label)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_every_code_with_every_zero_point(devices: Devices, dtype: type[np.integer]) -> None:
    limits = np.iinfo(dtype)
    codes = np.arange(limits.min, limits.max + 1).astype(dtype)
    values, zero_points = np.broadcast_to(codes, (256, 256)), codes.reshape(-1, 1)
    scale = np.full((1, 1), 0.1, np.float32)
    expected = dequantize_linear(values, scale, zero_points, output_data_type=np.float32)
    for label, device in devices.items():
        result = dmlcpu.dequantize_linear(values, 0.1, zero_points, device=device)
        assert_equal(result, expected, label)


def test_wide_integers_round_before_the_subtraction(devices: Devices) -> None:
    """2^24 + 1 is no float32: converted first it is 2^24, so the difference is 0, not 1."""
    values, zero_point = np.array([2**24 + 1], np.int32), np.array([2**24], np.int32)
    for label, device in devices.items():
        assert dmlcpu.dequantize_linear(values, 1.0, zero_point, axis=0, device=device).tolist() == [0.0], label
