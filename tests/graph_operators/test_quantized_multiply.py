"""QUANTIZED_MULTIPLY on random layouts, broadcasts and adversarial values, against the reference."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dmlcpu
from dispatching import assert_equal
from graph_cases import assert_native_matches_reference, random_tensor, strides_of
from native_operator import bind_native, run_native
from operator_case import OperatorCase
from strategies import BYTE_TYPES, binary_cases
from strided_tensor import StridedTensor, blank_tensor

Devices = Mapping[str, dmlcpu.Device]


def one_float(value: float) -> StridedTensor:
    return StridedTensor("FLOAT32", (1,), None, np.array([value], np.float32))


def case_on(
    rng: np.random.Generator,
    types: tuple[str, str, str],
    scales: tuple[float, float, float],
    a: StridedTensor,
    b: StridedTensor,
    output: StridedTensor,
) -> OperatorCase:
    zero_points = [random_tensor(rng, data_type, (1,)) for data_type in types]
    a_scale, b_scale, output_scale = (one_float(scale) for scale in scales)
    tensors = {
        "a_tensor": a,
        "a_scale_tensor": a_scale,
        "a_zero_point_tensor": zero_points[0],
        "b_tensor": b,
        "b_scale_tensor": b_scale,
        "b_zero_point_tensor": zero_points[1],
        "output_scale_tensor": output_scale,
        "output_zero_point_tensor": zero_points[2],
        "output_tensor": output,
    }
    return OperatorCase("QUANTIZED_MULTIPLY", tensors, {})


@given(binary_cases("QUANTIZED_MULTIPLY"), st.booleans())
def test_equals_the_reference(devices: Devices, case: OperatorCase, owned: bool) -> None:
    assert_native_matches_reference(devices, case, owned=["b_tensor", "b_scale_tensor"] if owned else [])


@pytest.mark.parametrize("types", list(itertools.product(BYTE_TYPES, repeat=3)))
def test_every_pair_of_codes(
    devices: Devices, random_numbers: np.random.Generator, types: tuple[str, str, str]
) -> None:
    """All 65536 pairs, with many products at ties or, where the scales are no powers of two, beside ties."""
    codes = np.arange(256).astype(np.uint8)
    a = StridedTensor(types[0], (256, 256), (1, 0), codes.view(types[0].lower()))
    b = StridedTensor(types[1], (256, 256), (0, 1), codes.view(types[1].lower()))
    output = blank_tensor(types[2], (256, 256), None)
    for base in (0.5, 0.1, random_numbers.uniform(0.01, 1)):
        scales = (base, 3 * base, 192 * base * base)
        assert_native_matches_reference(devices, case_on(random_numbers, types, scales, a, b, output))


# So many dispatches of all pairs, and the operator has looked for integers that make the same codes.
LOOKS_AFTER = 4


def in_integers_at_last(devices: Devices, case: OperatorCase) -> bool:
    """The codes are the reference's before and after integers have been looked for. Whether all devices found some."""
    expected = case.expected()["output_tensor"]
    found = []
    tensors = {name: tensor.buffer.copy() for name, tensor in case.tensors.items() if tensor is not None}
    for label, device in devices.items():
        native = bind_native(device, case.operator, case.tensors, {})
        for number in range(LOOKS_AFTER + 1):
            tensors["output_tensor"].fill(number)
            native.dispatch(tensors)
            assert_equal(tensors["output_tensor"].reshape(expected.shape), expected, f"{label}, {number}")
            if number + 1 < LOOKS_AFTER:
                assert "products: in floats, until" in native.describe(), label
        found.append("products: in integers" in native.describe())
    assert len(set(found)) == 1
    return found[0]


def repeated_case(
    rng: np.random.Generator, types: tuple[str, str, str], scales: tuple[float, float, float]
) -> OperatorCase:
    """All 65536 pairs, packed."""
    codes = np.arange(256).astype(np.uint8)
    a, b = np.repeat(codes, 256).view(types[0].lower()), np.tile(codes, 256).view(types[1].lower())
    sizes = (256, 256)
    tensors = StridedTensor(types[0], sizes, None, a), StridedTensor(types[1], sizes, None, b)
    return case_on(rng, types, scales, *tensors, blank_tensor(types[2], sizes, None))


@pytest.mark.parametrize("types", list(itertools.product(BYTE_TYPES, repeat=3)))
def test_repeated_parameters_make_the_same_codes(
    devices: Devices, random_numbers: np.random.Generator, types: tuple[str, str, str]
) -> None:
    """Products in integers, which most parameters have, equal those in floats before them, saturated and not."""
    found = 0
    for output_scale in (0.0119, 0.00613, 0.0037, 0.00047):
        found += in_integers_at_last(devices, repeated_case(random_numbers, types, (0.0371, 0.00271, output_scale)))
    assert found >= 2


@pytest.mark.parametrize("is_odd", [False, True])
def test_ties_of_exact_products(devices: Devices, random_numbers: np.random.Generator, is_odd: bool) -> None:
    """They are rounded to even in integers as well, before an even zero point is added, not before an odd one."""
    case = repeated_case(random_numbers, ("UINT8",) * 3, (0.25, 0.5, 16.0))
    zero_point = case.tensors["output_zero_point_tensor"]
    assert zero_point is not None
    zero_point.buffer[...] = 120 + is_odd
    for name in ("a", "b"):
        inner = case.tensors[f"{name}_zero_point_tensor"]
        assert inner is not None
        inner.buffer[...] = 128
    assert in_integers_at_last(devices, case) != is_odd


@pytest.mark.parametrize(
    ("multiplier", "fits"), [(0.498, True), (0.4985, False), (2.0**-15, True), (2.0**-15 * (1 - 2.0**-12), False)]
)
@pytest.mark.parametrize("scale", [2.0**-16, 2.0**-2])
def test_largest_and_smallest_multipliers(
    devices: Devices, random_numbers: np.random.Generator, scale: float, multiplier: float, fits: bool
) -> None:
    """16 bits hold the largest products, and float64 all bits of the smallest, or integers are not looked for."""
    case = repeated_case(random_numbers, ("UINT8",) * 3, (scale, multiplier, scale))
    for name in ("a", "b", "output"):
        zero_point = case.tensors[f"{name}_zero_point_tensor"]
        assert zero_point is not None
        zero_point.buffer[...] = 0
    assert in_integers_at_last(devices, case) == fits


@pytest.mark.parametrize("scale", [0.0, -0.03, 1e-44, 3e38, np.inf, np.nan], ids=str)
@pytest.mark.parametrize("position", range(3))
def test_scales_without_integers(
    devices: Devices, random_numbers: np.random.Generator, position: int, scale: float
) -> None:
    """Of which float32 arithmetic makes something."""
    scales = [0.0371, 0.00271, 0.00613]
    scales[position] = scale
    case = repeated_case(random_numbers, ("UINT8", "INT8", "INT8"), (scales[0], scales[1], scales[2]))
    assert not in_integers_at_last(devices, case)


@pytest.mark.parametrize(("a", "b", "expected"), [(3, 5, 8), (5, 5, 12), (7, 3, 10), (-3, 5, -8), (-5, 1, -2)])
def test_ties_go_to_even_before_the_zero_point(device: dmlcpu.Device, a: int, b: int, expected: int) -> None:
    def run(tensor: int) -> StridedTensor:
        return StridedTensor("INT8", (67,), None, np.full(67, tensor, np.int8))

    tensors: dict[str, StridedTensor | None] = {
        "a_tensor": run(a),
        "a_scale_tensor": one_float(0.5),
        "a_zero_point_tensor": None,
        "b_tensor": run(b),
        "b_scale_tensor": one_float(1),
        "b_zero_point_tensor": None,
        "output_scale_tensor": one_float(1),
        "output_zero_point_tensor": StridedTensor("INT8", (1,), None, np.array([1], np.int8)),
        "output_tensor": blank_tensor("INT8", (67,), None),
    }
    result = run_native(device, "QUANTIZED_MULTIPLY", tensors, {})["output_tensor"]
    assert result[37:-37].tolist() == [expected + 1] * 67


@pytest.mark.parametrize("sizes", [(2, 24, 30, 31), (1, 64, 33, 35), (2, 1152, 7, 7), (1, 5000, 5, 3), (3, 1, 70, 80)])
@pytest.mark.parametrize("layout", ["channels first", "channels last"])
@pytest.mark.parametrize("gap", [0, 5])
@pytest.mark.parametrize("swapped", [False, True])
def test_factor_of_each_channel(
    devices: Devices,
    random_numbers: np.random.Generator,
    sizes: tuple[int, ...],
    layout: str,
    gap: int,
    swapped: bool,
) -> None:
    """Squeeze and excite: one factor an image and channel, broadcast over the pixels."""
    strides = strides_of(sizes, layout, gap)
    activations = random_tensor(random_numbers, "UINT8", sizes, strides)
    factors = random_tensor(random_numbers, "UINT8", sizes, (sizes[1], 1, 0, 0))
    a, b = (factors, activations) if swapped else (activations, factors)
    output = blank_tensor("INT8", sizes, strides)
    case = case_on(random_numbers, ("UINT8", "UINT8", "INT8"), (0.02, 1 / 256, 0.013), a, b, output)
    assert_native_matches_reference(devices, case)


def test_factor_of_each_channel_of_two_batches(devices: Devices, random_numbers: np.random.Generator) -> None:
    """Images with gaps between them, a task ending within the first image of the second batch.

    The next task reads few pixels of that image, then many of the following with the same factors, over memory where
    those of the first batch may still lie.
    """
    sizes = (2, 13, 24, 10, 20)
    image = 24 * 10 * 20 + 7
    strides = (13 * image + 3, image, 1, 24 * 20, 24)
    activations = random_tensor(random_numbers, "UINT8", sizes, strides)
    factors = random_tensor(random_numbers, "UINT8", sizes, (24, 0, 1, 0, 0))
    output = blank_tensor("UINT8", sizes, strides)
    case = case_on(random_numbers, ("UINT8",) * 3, (0.02, 1 / 256, 0.013), activations, factors, output)
    assert_native_matches_reference(devices, case)


@pytest.mark.parametrize(
    ("field", "tensor"),
    [
        ("a_tensor", blank_tensor("UINT8", (3, 4), None)),
        ("b_tensor", blank_tensor("UINT8", (3, 6), None)),
        ("b_tensor", blank_tensor("UINT8", (15,), None)),
        ("a_scale_tensor", None),
        ("output_scale_tensor", None),
        ("a_scale_tensor", blank_tensor("UINT8", (1,), None)),
        ("b_scale_tensor", blank_tensor("FLOAT32", (2,), None)),
        ("output_zero_point_tensor", blank_tensor("UINT8", (2,), None)),
        ("output_zero_point_tensor", blank_tensor("INT8", (1,), None)),
    ],
)
def test_refuses_what_does_not_fit(
    device: dmlcpu.Device, random_numbers: np.random.Generator, field: str, tensor: StridedTensor | None
) -> None:
    codes = blank_tensor("UINT8", (3, 5), None)
    case = case_on(random_numbers, ("UINT8",) * 3, (1, 1, 1), codes, codes, codes)
    with pytest.raises(ValueError, match=r"sizes|data type|lacks|one element"):
        run_native(device, case.operator, {**case.tensors, field: tensor}, {})
