"""ELEMENT_WISE_QUANTIZED_LINEAR_ADD on random layouts and adversarial values, against the reference."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dmlcpu
from dispatching import assert_matches_reference, difference
from fills import INTEGERS, SCALES
from reference.quantized_linear_add import quantized_linear_add
from strategies import BYTE_TYPES, Run, arrays, binary_cases, runs, tensor_sizes
from strided_tensor import NUMPY_TYPES

Devices = Mapping[str, dmlcpu.Device]


@given(runs(binary_cases("ELEMENT_WISE_QUANTIZED_LINEAR_ADD")))
def test_objects_equal_the_reference(devices: Devices, run: Run) -> None:
    assert_matches_reference(devices, run.case, owned=run.owned, shaped=run.shaped)


@given(st.data())
def test_function_equals_the_reference(devices: Devices, data: st.DataObject) -> None:
    shape = data.draw(tensor_sizes(max_rank=4))
    arguments = []
    for field in ("a", "b", "output"):
        dtype = NUMPY_TYPES[data.draw(st.sampled_from(BYTE_TYPES), label=f"{field} type")]
        if field != "output":
            arguments.append(data.draw(arrays(dtype, shape, INTEGERS)))
        arguments.append(data.draw(arrays(np.dtype(np.float32), (1,), SCALES)))
        arguments.append(data.draw(arrays(dtype, (1,), INTEGERS)))
    expected = quantized_linear_add(*arguments, output_data_type=arguments[-1].dtype)
    for label, device in devices.items():
        result = dmlcpu.quantized_linear_add(*arguments, device=device)
        assert (found := difference(result, expected)) is None, f"{label}: {found}"


@pytest.mark.parametrize(("a_type", "b_type", "output_type"), list(itertools.product(BYTE_TYPES, repeat=3)))
def test_every_pair_of_codes(
    devices: Devices, random_numbers: np.random.Generator, a_type: str, b_type: str, output_type: str
) -> None:
    """All 65536 pairs, half of their sums ties or, where the scales are no powers of two, beside ties."""
    a_codes, b_codes = (np.arange(256).astype(np.uint8).view(NUMPY_TYPES[name]) for name in (a_type, b_type))
    a, b = np.broadcast_to(a_codes.reshape(-1, 1), (256, 256)), np.broadcast_to(b_codes, (256, 256))
    output_dtype = NUMPY_TYPES[output_type]
    for base in (0.5, 0.1, random_numbers.uniform(0.01, 1)):
        scales = (base, 3 * base, 2 * base)
        a_scale, b_scale, output_scale = (np.float32(scale).reshape(1) for scale in scales)
        zero_points = [codes[random_numbers.integers(256)].reshape(1) for codes in (a_codes, b_codes)]
        output_zero_point = np.array([np.iinfo(output_dtype).min + 129], output_dtype)
        arguments = (a, a_scale, zero_points[0], b, b_scale, zero_points[1], output_scale, output_zero_point)
        expected = quantized_linear_add(*arguments, output_data_type=output_dtype)
        for label, device in devices.items():
            result = dmlcpu.quantized_linear_add(*arguments, device=device)
            assert (found := difference(result, expected)) is None, f"{label}, scales {scales}: {found}"


@pytest.mark.parametrize(("b", "expected"), [(1, 101), (-1, 100)])
def test_sum_is_rounded_once(devices: Devices, b: int, expected: int) -> None:
    """The sum lies 2^-100 beside the middle of 25165826 and 25165828, whose quotients round to different codes.

    A float64 cannot hold that distance, so a sum that passes through one rounds like the middle itself: up, to even.
    """
    a_scale, b_scale, output_scale = np.float32(2**23 + 1), np.float32(2.0**-100), np.float32(250406.234375)
    # Long enough for vectors and their tail.
    a, b_codes = np.full(67, 3, np.int8), np.full(67, b, np.int8)
    for label, device in devices.items():
        result = dmlcpu.quantized_linear_add(
            a, a_scale, None, b_codes, b_scale, None, output_scale, None, device=device
        )
        assert result.tolist() == [expected] * 67, label
