"""ELEMENT_WISE_QUANTIZED_LINEAR_ADD on random layouts and adversarial values, against the reference."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import dmlcpu
from dispatching import assert_equal, assert_matches_reference, difference
from fills import INTEGERS, SCALES
from reference.quantized_linear_add import quantized_linear_add
from strategies import BYTE_TYPES, Run, arrays, binary_cases, runs, tensor_sizes
from strided_tensor import NUMPY_TYPES

Devices = Mapping[str, dmlcpu.Device]
Codes = NDArray[Any]


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
        assert_equal(result, expected, label)


def every_pair(a_type: str, b_type: str) -> tuple[Codes, Codes]:
    """All 65536 pairs of codes."""
    a_codes, b_codes = (np.arange(256).astype(np.uint8).view(NUMPY_TYPES[name]) for name in (a_type, b_type))
    a, b = np.broadcast_to(a_codes.reshape(-1, 1), (256, 256)), np.broadcast_to(b_codes, (256, 256))
    return a.reshape(1, 1, 256, 256).copy(), b.reshape(1, 1, 256, 256).copy()


@pytest.mark.parametrize(("a_type", "b_type", "output_type"), list(itertools.product(BYTE_TYPES, repeat=3)))
def test_every_pair_of_codes(
    devices: Devices, random_numbers: np.random.Generator, a_type: str, b_type: str, output_type: str
) -> None:
    """All 65536 pairs, half of their sums ties or, where the scales are no powers of two, beside ties."""
    a_codes, b_codes = (np.arange(256).astype(np.uint8).view(NUMPY_TYPES[name]) for name in (a_type, b_type))
    a, b = every_pair(a_type, b_type)
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
            assert_equal(result, expected, f"{label}, scales {scales}")


def drawn_bindings(random_numbers: np.random.Generator, a: Codes, b: Codes, output: Codes) -> dict[str, Codes]:
    """Tensors of a sum that saturates for some pairs; the scales are in no simple relation."""
    a_scale, b_scale = np.exp(random_numbers.uniform(np.log(0.01), np.log(0.1), 2)).astype(np.float32)
    output_scale = np.float32((a_scale + b_scale) * random_numbers.uniform(0.4, 1.0))
    bindings = {"output_tensor": output}
    for name, codes, scale in (("a", a, a_scale), ("b", b, b_scale), ("output", output, output_scale)):
        zero_point = random_numbers.integers(0, 256, 1, np.uint8).view(codes.dtype)
        bindings[f"{name}_scale_tensor"] = np.full((1, 1, 1, 1), scale)
        bindings[f"{name}_zero_point_tensor"] = zero_point.reshape(1, 1, 1, 1)
    return bindings | {"a_tensor": a, "b_tensor": b}


def compiled_sum(device: dmlcpu.Device, bindings: Mapping[str, Codes]) -> dmlcpu.CompiledOperator:
    """An operator for these tensors."""
    descs = {name: dmlcpu.TensorDesc.from_array(array) for name, array in bindings.items()}
    return device.compile_operator(device.create_operator(dmlcpu.ElementWiseQuantizedLinearAddOperatorDesc(**descs)))


def expected_sum(bindings: Mapping[str, Codes]) -> Codes:
    """What the reference makes of the tensors."""
    arguments = [bindings[f"{name}{part}_tensor"] for name in ("a", "b") for part in ("", "_scale", "_zero_point")]
    output = [bindings["output_scale_tensor"], bindings["output_zero_point_tensor"]]
    return quantized_linear_add(*arguments, *output, output_data_type=bindings["output_tensor"].dtype)


# So many dispatches of all pairs, and the operator has looked for integers that make the same codes.
LOOKS_AFTER = 4


@pytest.mark.parametrize(("a_type", "b_type", "output_type"), list(itertools.product(BYTE_TYPES, repeat=3)))
def test_repeated_parameters_make_the_same_codes(
    devices: Devices, random_numbers: np.random.Generator, a_type: str, b_type: str, output_type: str
) -> None:
    """Sums in integers, which most parameters have, equal the sums in floats before them."""
    a, b = every_pair(a_type, b_type)
    cases = [drawn_bindings(random_numbers, a, b, np.empty(a.shape, NUMPY_TYPES[output_type])) for _ in range(6)]
    expected = [expected_sum(bindings) for bindings in cases]
    for label, device in devices.items():
        compiled, in_integers = compiled_sum(device, cases[0]), 0
        for bindings, codes in zip(cases, expected, strict=True):
            for number in range(LOOKS_AFTER + 1):
                compiled.dispatch(**bindings)
                assert_equal(bindings["output_tensor"], codes, f"{label}, {number}")
                if number + 1 < LOOKS_AFTER:
                    assert "sums: in floats, until" in compiled.describe()
            in_integers += "sums: in integers" in compiled.describe()
        assert in_integers >= 3, label


def test_sums_at_ties_stay_in_floats(devices: Devices, random_numbers: np.random.Generator) -> None:
    """Half of the sums are at a tie, where roundings of single precision decide: no integers round like them."""
    a, b = every_pair("UINT8", "UINT8")
    bindings = drawn_bindings(random_numbers, a, b, np.empty_like(a))
    for name, scale in (("a", 0.1), ("b", 0.3), ("output", 0.2)):
        bindings[f"{name}_scale_tensor"] = np.full((1, 1, 1, 1), scale, np.float32)
    for label, device in devices.items():
        compiled = compiled_sum(device, bindings)
        for _ in range(LOOKS_AFTER + 1):
            compiled.dispatch(**bindings)
        assert_equal(bindings["output_tensor"], expected_sum(bindings), label)
        assert "sums: in floats, as" in compiled.describe(), label


def with_scales(bindings: Mapping[str, Codes], a: float, b: float, output: float) -> dict[str, Codes]:
    """The same tensors but for these scales."""
    scales = {"a": a, "b": b, "output": output}
    return {**bindings, **{f"{name}_scale_tensor": np.full((1, 1, 1, 1), scales[name], np.float32) for name in scales}}


def assert_repeated(devices: Devices, bindings: Mapping[str, Codes], words: str) -> None:
    """The codes are the reference's before and after integers have been looked for, and then added as the words say."""
    expected = expected_sum(bindings)
    for label, device in devices.items():
        compiled = compiled_sum(device, bindings)
        for number in range(LOOKS_AFTER + 1):
            bindings["output_tensor"].fill(number)
            compiled.dispatch(**bindings)
            assert_equal(bindings["output_tensor"], expected, f"{label}, {number}")
        assert f"sums: {words}" in compiled.describe(), label


@pytest.mark.parametrize("scales", [(0.25, 0.25, 0.5), (1.5, 0.5, 2.0), (2.0**-5, 2.0**-7, 2.0**-6)], ids=str)
@pytest.mark.parametrize("is_odd", [False, True])
def test_ties_of_exact_sums(
    devices: Devices, random_numbers: np.random.Generator, scales: tuple[float, float, float], is_odd: bool
) -> None:
    """They are rounded to even in integers as well, before an even zero point is added, not before an odd one."""
    a, b = every_pair("UINT8", "INT8")
    bindings = with_scales(drawn_bindings(random_numbers, a, b, np.empty_like(a)), *scales)
    bindings["output_zero_point_tensor"][...] = 2 * random_numbers.integers(50, 75) + is_odd
    assert_repeated(devices, bindings, "in floats, as" if is_odd else "in integers")


@pytest.mark.parametrize("steps", [1.0, 2.0**-8, 2.0**-13, 1e-5])
def test_sums_of_small_steps(devices: Devices, random_numbers: np.random.Generator, steps: float) -> None:
    """Factors are smaller where the multiplier would become too small, until there are none."""
    a, b = every_pair("UINT8", "UINT8")
    bindings = with_scales(drawn_bindings(random_numbers, a, b, np.empty_like(a)), steps / 2, steps / 2, 1.0)
    bindings["output_zero_point_tensor"].fill(128)
    assert_repeated(devices, bindings, "in integers" if steps > 1e-4 else "in floats, as")


@pytest.mark.parametrize(("largest", "words"), [(126.5, "in integers"), (127.5, "in floats, as")])
@pytest.mark.parametrize("points", [(0, 0, 255), (255, 255, 0)], ids=str)
def test_sums_far_beyond_the_codes(
    devices: Devices, random_numbers: np.random.Generator, largest: float, words: str, points: tuple[int, int, int]
) -> None:
    """16 bits hold the largest of them, or integers are not looked for."""
    a, b = every_pair("UINT8", "UINT8")
    bindings = with_scales(drawn_bindings(random_numbers, a, b, np.empty_like(a)), 1.0, largest - 1.0, 1.0)
    for name, point in zip(("a", "b", "output"), points, strict=True):
        bindings[f"{name}_zero_point_tensor"].fill(point)
    assert_repeated(devices, bindings, words)


@pytest.mark.parametrize("scale", [0.0, -0.03, 1e-44, 3e38, np.inf, np.nan], ids=str)
@pytest.mark.parametrize("name", ["a", "b", "output"])
def test_scales_without_integers(
    devices: Devices, random_numbers: np.random.Generator, name: str, scale: float
) -> None:
    """Of which float32 arithmetic makes something."""
    a, b = every_pair("UINT8", "INT8")
    bindings = drawn_bindings(random_numbers, a, b, np.empty(a.shape, np.int8))
    bindings[f"{name}_scale_tensor"].fill(scale)
    assert_repeated(devices, bindings, "in floats")  # NaN never comes again


def test_threads_with_parameters_of_their_own(devices: Devices, random_numbers: np.random.Generator) -> None:
    """Integers that one thread finds are not used for the parameters of another."""
    a, b = every_pair("UINT8", "INT8")
    cases = [drawn_bindings(random_numbers, a, b, np.empty_like(a)) for _ in range(2)]
    expected = [expected_sum(bindings) for bindings in cases]
    for label, device in devices.items():
        compiled = compiled_sum(device, cases[0])

        def repeat(number: int, compiled: dmlcpu.CompiledOperator = compiled) -> int:
            bindings = cases[number] | {"output_tensor": np.empty_like(a)}
            wrong = 0
            for _ in range(3 * LOOKS_AFTER):
                compiled.dispatch(**bindings)
                wrong += difference(bindings["output_tensor"], expected[number]) is not None
            return wrong

        with ThreadPoolExecutor(2) as threads:
            assert list(threads.map(repeat, range(2))) == [0, 0], label


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
