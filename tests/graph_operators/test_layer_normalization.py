"""LAYER_NORMALIZATION and QUANTIZED_LAYER_NORMALIZATION on random layouts and adversarial values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import dmlcpu
import normalization_checks
from dispatching import assert_equal, expected_storage, inside
from fills import INPUT_FLOATS, INTEGERS, SCALES
from laid_out import channels_last, packed
from native_operator import run_native
from normalization_checks import Tensors, attributes_of
from reference.layer_normalization import layer_normalization, quantized_layer_normalization
from strategies import BYTE_TYPES, generators, input_tensors, optional_zero_points, output_tensors, tensor_sizes
from strided_tensor import StridedTensor, blank_tensor

Devices = Mapping[str, dmlcpu.Device]


def assert_floats(devices: Devices, tensors: dict[str, StridedTensor], axis: int, epsilon: float) -> None:
    """With the mean and without."""
    x, weight, bias, output = tensors.values()
    for uses_mean in (True, False):
        values = layer_normalization(x.logical(), weight.buffer, bias.buffer, np.float32(epsilon), axis, uses_mean)
        expected = expected_storage(output, values)
        attributes = {**attributes_of("axis", axis, epsilon), "use_mean": [int(uses_mean)]}
        for label, device in devices.items():
            result = run_native(device, "LAYER_NORMALIZATION", tensors, attributes)["output_tensor"]
            assert_equal(result, expected, f"{label}, {uses_mean}")


def assert_codes(devices: Devices, tensors: Tensors, axis: int, epsilon: float) -> None:
    normalization_checks.assert_codes(
        devices, "QUANTIZED_LAYER_NORMALIZATION", quantized_layer_normalization, tensors, ("axis", axis), epsilon
    )


def floats_by_rows(x: NDArray[np.float32], weight: StridedTensor, bias: StridedTensor) -> dict[str, StridedTensor]:
    return {
        "input_tensor": packed(x),
        "weight_tensor": weight,
        "bias_tensor": bias,
        "output_tensor": blank_tensor("FLOAT32", x.shape, None),
    }


def float_results(
    devices: Devices, tensors: dict[str, StridedTensor], epsilon: float
) -> dict[str, NDArray[np.float32]]:
    """Of rows less their mean."""
    attributes = {**attributes_of("axis", 1, epsilon), "use_mean": [1]}
    shape = tensors["input_tensor"].sizes
    return {
        label: inside(run_native(device, "LAYER_NORMALIZATION", tensors, attributes)["output_tensor"]).reshape(shape)
        for label, device in devices.items()
    }


def parameters(rng: np.random.Generator, count: int, size: float = 1) -> tuple[StridedTensor, StridedTensor]:
    weight, bias = rng.normal(size, size, count), rng.normal(0, size, count)
    return packed(weight.astype(np.float32)), packed(bias.astype(np.float32))


EPSILONS = st.sampled_from((0.0, 1e-12, 1e-5, 1.0))


@given(st.data())
def test_floats_on_any_layout(devices: Devices, data: st.DataObject) -> None:
    sizes = data.draw(tensor_sizes())
    axis = data.draw(st.integers(0, len(sizes) - 1))
    weight, bias = parameters(data.draw(generators()), sizes[axis])
    tensors = {
        "input_tensor": data.draw(input_tensors("FLOAT32", sizes, INPUT_FLOATS)),
        "weight_tensor": weight,
        "bias_tensor": bias,
        "output_tensor": data.draw(output_tensors("FLOAT32", sizes)),
    }
    assert_floats(devices, tensors, axis, data.draw(EPSILONS))


@given(st.data())
def test_codes_on_any_layout(devices: Devices, data: st.DataObject) -> None:
    sizes = data.draw(tensor_sizes())
    ones = (1,) * len(sizes)
    axis = data.draw(st.integers(0, len(sizes) - 1))
    input_type, output_type = (data.draw(st.sampled_from(BYTE_TYPES)) for _ in range(2))
    weight, bias = parameters(data.draw(generators()), sizes[axis], data.draw(st.sampled_from((1, 30, 1e30))))
    tensors: Tensors = {
        "input_tensor": data.draw(input_tensors(input_type, sizes, INTEGERS)),
        "input_scale_tensor": data.draw(input_tensors("FLOAT32", ones, SCALES)),
        "weight_tensor": weight,
        "bias_tensor": bias,
        "output_zero_point_tensor": data.draw(optional_zero_points(output_type, ones)),
        "output_tensor": data.draw(output_tensors(output_type, sizes)),
    }
    assert_codes(devices, tensors, axis, data.draw(EPSILONS))


@pytest.mark.parametrize("count", [*range(1, 35), 63, 64, 65, 127, 768, 1000, 1001])
def test_rows_of_every_length(devices: Devices, random_numbers: np.random.Generator, count: int) -> None:
    """Around the steps of kernels; numbers as networks have them."""
    weight, bias = parameters(random_numbers, count, 20)
    x = random_numbers.normal(3, 5, (3, count)).astype(np.float32)
    assert_floats(devices, floats_by_rows(x, weight, bias), 1, 1e-5)
    codes = random_numbers.integers(0, 256, (3, count)).astype(np.uint8)
    for dtype, zero_point in ((np.uint8, 131), (np.int8, -3)):
        quantized: Tensors = {
            "input_tensor": packed(codes.view(dtype)),
            "input_scale_tensor": packed(np.float32([0.03])),
            "weight_tensor": weight,
            "bias_tensor": bias,
            "output_zero_point_tensor": packed(np.array([zero_point], dtype)),
            "output_tensor": blank_tensor(np.dtype(dtype).name.upper(), codes.shape, None),
        }
        assert_codes(devices, quantized, 1, 1e-5)


def test_sums_of_squares_beyond_32_bits(devices: Devices, random_numbers: np.random.Generator) -> None:
    codes = np.full((1, 1_200_000), 255, np.uint8)
    codes[0, ::7] = random_numbers.integers(200, 256, codes[0, ::7].shape)
    weight, bias = parameters(random_numbers, codes.size, 20)
    tensors: Tensors = {
        "input_tensor": packed(codes),
        "input_scale_tensor": packed(np.float32([0.1])),
        "weight_tensor": weight,
        "bias_tensor": bias,
        "output_zero_point_tensor": packed(np.uint8([100])),
        "output_tensor": blank_tensor("UINT8", codes.shape, None),
    }
    assert_codes(devices, tensors, 1, 1e-5)


@pytest.mark.parametrize("layout", [packed, channels_last])
@pytest.mark.parametrize("axis", [1, 3])
def test_images(devices: Devices, random_numbers: np.random.Generator, layout: Any, axis: int) -> None:
    """More rows than one task takes, in the layouts of images, and not all of them in whole blocks."""
    shape = (2, 21, 45, 83)
    weight, bias = parameters(random_numbers, shape[axis], 20)
    codes = layout(random_numbers.integers(-128, 128, shape).astype(np.int8))
    tensors: Tensors = {
        "input_tensor": codes,
        "input_scale_tensor": packed(np.float32([0.05])),
        "weight_tensor": weight,
        "bias_tensor": bias,
        "output_zero_point_tensor": None,
        "output_tensor": blank_tensor("INT8", shape, codes.strides),
    }
    assert_codes(devices, tensors, axis, 1e-5)


def test_rows_of_equal_codes_are_the_bias(devices: Devices, random_numbers: np.random.Generator) -> None:
    codes = np.repeat(np.arange(256, dtype=np.uint8)[:, np.newaxis], 192, axis=1)
    normalization_checks.assert_equal_codes_are_the_bias(
        devices, random_numbers, "QUANTIZED_LAYER_NORMALIZATION", quantized_layer_normalization, codes, ("axis", 1)
    )


@pytest.mark.parametrize("count", [1, 3, 17, 192, 768, 1001])
def test_rows_of_equal_floats_are_the_bias(devices: Devices, random_numbers: np.random.Generator, count: int) -> None:
    """Though their mean is rounded, and however small an epsilon, as BERT's is; also where squares overflow."""
    elements = (np.arange(256, dtype=np.float32) - 7) * np.float32(0.37)
    weight, bias = parameters(random_numbers, count, 20)
    for size in np.float32([1e-30, 1, 1e6, 1e31]):
        x = np.repeat((elements * size)[:, np.newaxis], count, axis=1)
        tensors = floats_by_rows(x, weight, bias)
        assert_floats(devices, tensors, 1, 1e-12)
        for label, result in float_results(devices, tensors, 1e-12).items():
            assert (result == bias.buffer).all(), (label, size)


@pytest.mark.parametrize("count", [9999, 21999, 22000])
def test_long_rows_of_equal_floats_are_the_bias(
    devices: Devices, random_numbers: np.random.Generator, count: int
) -> None:
    """Up to where the bound of layer_normalization.h ends."""
    weight, bias = parameters(random_numbers, count, 20)
    x = np.repeat(random_numbers.normal(0, 10, (64, 1)).astype(np.float32), count, axis=1)
    for label, result in float_results(devices, floats_by_rows(x, weight, bias), 1e-12).items():
        assert (result == bias.buffer).all(), label


def test_accuracy_of_floats(devices: Devices, random_numbers: np.random.Generator) -> None:
    """Against float64: neither large means, nor outliers, nor rows of all but equal elements cost digits."""
    noise = random_numbers.normal(0, 1, (64, 768))
    centre = random_numbers.normal(0, 10, (64, 1)).astype(np.float32)
    first, last, nearly_equal = noise.copy(), noise.copy(), np.repeat(centre, 768, axis=1)
    first[:, 0] = last[:, -1] = 1e8
    nearly_equal[:, 5] = np.nextafter(centre[:, 0], np.float32(np.inf))
    one, zero = packed(np.ones(768, np.float32)), packed(np.zeros(768, np.float32))
    for kind, rows in {
        "normal": 3 + 5 * noise,
        "far from 0": 1e4 + noise,
        "outlier first": first,
        "outlier last": last,
        "nearly equal": nearly_equal,
        "some units in the last place": centre + np.spacing(np.abs(centre)) * np.rint(noise),
    }.items():
        x = rows.astype(np.float32)
        wide = x.astype(np.float64)
        distances = wide - wide.mean(1, keepdims=True)
        exact = distances / np.sqrt((distances * distances).mean(1, keepdims=True) + 1e-12)
        for label, result in float_results(devices, floats_by_rows(x, one, zero), 1e-12).items():
            error = np.abs(result - exact).max()
            assert error < 5e-5, (label, kind, error)


def test_accuracy(devices: Devices, random_numbers: np.random.Generator) -> None:
    """Against float64: codes that differ are off by one, and few."""
    codes = random_numbers.integers(90, 140, (64, 768)).astype(np.uint8)
    weight, bias = parameters(random_numbers, 768, 20)
    rows = codes * 0.03
    exact = (rows - rows.mean(1, keepdims=True)) / np.sqrt(rows.var(1, keepdims=True) + 1e-5)
    exact = np.clip(np.rint(exact * weight.buffer.astype(np.float64) + bias.buffer) + 128, 0, 255)
    tensors: Tensors = {
        "input_tensor": packed(codes),
        "input_scale_tensor": packed(np.float32([0.03])),
        "weight_tensor": weight,
        "bias_tensor": bias,
        "output_zero_point_tensor": packed(np.uint8([128])),
        "output_tensor": blank_tensor("UINT8", codes.shape, None),
    }
    device = next(iter(devices.values()))
    storage = run_native(device, "QUANTIZED_LAYER_NORMALIZATION", tensors, attributes_of("axis", 1, 1e-5))[
        "output_tensor"
    ]
    differences = np.abs(storage[37:-37].reshape(codes.shape) - exact)
    assert differences.max() <= 1
    assert np.count_nonzero(differences) <= 10


@pytest.mark.parametrize(
    "changed",
    [
        {"weight_tensor": packed(np.ones(4, np.float32))},
        {"weight_tensor": StridedTensor("FLOAT32", (5,), (0,), np.ones(1, np.float32))},
        {"bias_tensor": StridedTensor("FLOAT32", (5,), (2,), np.ones(9, np.float32))},
        {"bias_tensor": None},
        {"input_scale_tensor": packed(np.ones(2, np.float32))},
        {"output_zero_point_tensor": packed(np.zeros(1, np.int8))},
        {"output_zero_point_tensor": packed(np.zeros(5, np.uint8))},
        {"output_tensor": blank_tensor("UINT8", (15,), None)},
        {"output_tensor": blank_tensor("FLOAT32", (3, 5), None)},
    ],
)
def test_codes_refuse(devices: Devices, changed: Tensors) -> None:
    tensors: Tensors = {
        "input_tensor": packed(np.zeros((3, 5), np.int8)),
        "input_scale_tensor": packed(np.ones(1, np.float32)),
        "weight_tensor": packed(np.ones(5, np.float32)),
        "bias_tensor": packed(np.ones(5, np.float32)),
        "output_zero_point_tensor": None,
        "output_tensor": blank_tensor("UINT8", (3, 5), None),
        **changed,
    }
    with pytest.raises(ValueError, match="QUANTIZED_LAYER_NORMALIZATION"):
        run_native(
            next(iter(devices.values())), "QUANTIZED_LAYER_NORMALIZATION", tensors, attributes_of("axis", 1, 1e-5)
        )


@pytest.mark.parametrize(
    "attributes",
    [
        {"axis": [1], "use_mean": [1]},
        {"epsilon": [0], "use_mean": [1]},
        {"axis": [1], "epsilon": [-1], "use_mean": [1]},
        {"axis": [1], "epsilon": [0]},
        {"axis": [1], "epsilon": [0], "use_mean": [2]},
    ],
)
def test_attributes_are_required(devices: Devices, attributes: dict[str, list[int]]) -> None:
    one = packed(np.ones(5, np.float32))
    tensors = {
        "input_tensor": packed(np.ones((3, 5), np.float32)),
        "weight_tensor": one,
        "bias_tensor": one,
        "output_tensor": blank_tensor("FLOAT32", (3, 5), None),
    }
    with pytest.raises(ValueError, match="LAYER_NORMALIZATION"):
        run_native(next(iter(devices.values())), "LAYER_NORMALIZATION", tensors, attributes)
