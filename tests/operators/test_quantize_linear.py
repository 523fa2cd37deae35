"""ELEMENT_WISE_QUANTIZE_LINEAR on random layouts and adversarial values, against the reference."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import dmlcpu
from dispatching import assert_equal, assert_matches_reference
from fills import INTEGERS, SCALES, input_fills
from operator_case import OperatorCase
from reference.quantize_linear import quantize_linear
from strategies import (
    BYTE_TYPES,
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

SCALE_TYPES = {"FLOAT32": "FLOAT32", "FLOAT16": "FLOAT16", "INT32": "FLOAT32"}


@st.composite
def cases(draw: st.DrawFn) -> OperatorCase:
    sizes = draw(tensor_sizes())
    input_type, output_type = draw(st.sampled_from(list(SCALE_TYPES))), draw(st.sampled_from(BYTE_TYPES))
    tensors = {
        "input_tensor": draw(input_tensors(input_type, sizes, input_fills(NUMPY_TYPES[input_type]))),
        "scale_tensor": draw(input_tensors(SCALE_TYPES[input_type], sizes, SCALES)),
        "zero_point_tensor": draw(optional_zero_points(output_type, sizes)),
        "output_tensor": draw(output_tensors(output_type, sizes)),
    }
    return OperatorCase("ELEMENT_WISE_QUANTIZE_LINEAR", tensors, {})


@given(runs(cases()))
def test_objects_equal_the_reference(devices: Devices, run: Run) -> None:
    assert_matches_reference(devices, run.case, owned=run.owned, shaped=run.shaped)


@given(st.data())
def test_function_equals_the_reference(devices: Devices, data: st.DataObject) -> None:
    shape, axis, parameter_shape, logical_shape = data.draw(shapes_of_parameters())
    input_type, output_type = data.draw(st.sampled_from(list(SCALE_TYPES))), data.draw(st.sampled_from(BYTE_TYPES))
    values = data.draw(arrays(NUMPY_TYPES[input_type], shape, input_fills(NUMPY_TYPES[input_type])))
    scale = data.draw(arrays(NUMPY_TYPES[SCALE_TYPES[input_type]], parameter_shape, SCALES))
    zero_point = data.draw(arrays(NUMPY_TYPES[output_type], parameter_shape, INTEGERS))
    expected = quantize_linear(
        values,
        scale.reshape(logical_shape),
        zero_point.reshape(logical_shape),
        output_data_type=NUMPY_TYPES[output_type],
    )
    for label, device in devices.items():
        result = dmlcpu.quantize_linear(values, scale, zero_point, axis=axis, device=device)
        assert_equal(result, expected, label)


def test_function_without_a_zero_point_gives_uint8(devices: Devices) -> None:
    values = np.array([-3.0, 0.5, 1.5, 300.0], np.float32)
    for label, device in devices.items():
        out = np.full(4, 7, np.uint8)
        assert dmlcpu.quantize_linear(values, 1.0, out=out, device=device) is out, label
        assert out.tolist() == [0, 0, 2, 255], label
        assert dmlcpu.quantize_linear(values, 1.0, device=device).dtype == np.uint8, label


def test_every_zero_point_with_every_tie(devices: Devices) -> None:
    """All ties of the range times all zero points: rounding after the zero point would fail half of them."""
    for dtype in (np.dtype(np.uint8), np.dtype(np.int8)):
        limits = np.iinfo(dtype)
        ties = np.arange(-260.5, 261, dtype=np.float32)
        values = np.broadcast_to(ties, (256, ties.size))
        zero_points = np.arange(limits.min, limits.max + 1).astype(dtype).reshape(-1, 1)
        expected = quantize_linear(values, np.ones((1, 1), np.float32), zero_points, output_data_type=dtype)
        for label, device in devices.items():
            result = dmlcpu.quantize_linear(values, 1.0, zero_points, device=device)
            assert_equal(result, expected, label)
