"""GROUP_NORMALIZATION and QUANTIZED_GROUP_NORMALIZATION on random layouts and adversarial values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dmlcpu
import normalization_checks
from dispatching import assert_equal, expected_storage, inside
from fills import INPUT_FLOATS, INTEGERS, SCALES
from laid_out import channels_last, packed, part_of_joined
from native_operator import run_native
from normalization_checks import Tensors, attributes_of
from reference.layer_normalization import group_normalization, quantized_group_normalization
from strategies import BYTE_TYPES, generators, input_tensors, optional_zero_points, output_tensors
from strided_tensor import StridedTensor, blank_tensor

Devices = Mapping[str, dmlcpu.Device]

OPERATOR = "QUANTIZED_GROUP_NORMALIZATION"


def assert_codes(devices: Devices, tensors: Tensors, groups: int, epsilon: float) -> None:
    normalization_checks.assert_codes(
        devices, OPERATOR, quantized_group_normalization, tensors, ("groups", groups), epsilon
    )


def parameters(rng: np.random.Generator, count: int, size: float = 20) -> Tensors:
    weight, bias = rng.normal(size, size, count), rng.normal(0, size, count)
    return {"weight_tensor": packed(weight.astype(np.float32)), "bias_tensor": packed(bias.astype(np.float32))}


def assert_floats(devices: Devices, tensors: Tensors, epsilon: float) -> None:
    x, weight, bias, output = tensors.values()
    assert x is not None
    assert weight is not None
    assert bias is not None
    assert output is not None
    values = group_normalization(x.logical(), weight.buffer, bias.buffer, np.float32(epsilon))
    expected = expected_storage(output, values)
    for label, device in devices.items():
        result = run_native(device, "GROUP_NORMALIZATION", tensors, attributes_of("axis", 2, epsilon))["output_tensor"]
        assert_equal(result, expected, label)


@given(st.data())
def test_floats_on_any_layout(devices: Devices, data: st.DataObject) -> None:
    groups, channels, pixels = (data.draw(st.integers(1, most)) for most in (5, 4, 40))
    sizes = (data.draw(st.integers(1, 3)), groups, channels * pixels)
    tensors: Tensors = {
        "input_tensor": data.draw(input_tensors("FLOAT32", sizes, INPUT_FLOATS)),
        **parameters(data.draw(generators()), groups * channels),
        "output_tensor": data.draw(output_tensors("FLOAT32", sizes)),
    }
    assert_floats(devices, tensors, data.draw(st.sampled_from((0.0, 1e-12, 1e-5, 1.0))))


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (2, 1, 0)], ids=str)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("pixels", [1, 7, 16, 49, 100, 1000])
def test_groups_of_floats(
    devices: Devices, random_numbers: np.random.Generator, order: tuple[int, ...], channels: int, pixels: int
) -> None:
    """More groups than one task takes, and not all in whole blocks, as rows, as columns, and with images innermost."""
    sizes = (3, 37, channels * pixels)
    x = random_numbers.normal(3, 5, sizes).astype(np.float32)
    memory = np.ascontiguousarray(x.transpose(order))
    strides = tuple(stride // 4 for stride in memory.transpose(np.argsort(order)).strides)
    tensors: Tensors = {
        "input_tensor": StridedTensor("FLOAT32", sizes, strides, memory.reshape(-1)),
        **parameters(random_numbers, 37 * channels),
        "output_tensor": blank_tensor("FLOAT32", sizes, strides),
    }
    assert_floats(devices, tensors, 1e-5)


def test_groups_of_equal_floats_are_the_bias(devices: Devices, random_numbers: np.random.Generator) -> None:
    x = np.repeat(((np.arange(256, dtype=np.float32) - 7) * np.float32(0.37)).reshape(2, 128, 1), 70, axis=2)
    tensors: Tensors = {
        "input_tensor": packed(x),
        **parameters(random_numbers, 256),
        "output_tensor": blank_tensor("FLOAT32", x.shape, None),
    }
    bias = tensors["bias_tensor"]
    assert bias is not None
    for label, device in devices.items():
        storage = run_native(device, "GROUP_NORMALIZATION", tensors, attributes_of("axis", 2, 1e-12))["output_tensor"]
        assert (inside(storage).reshape(2, 256, 35) == bias.buffer[:, np.newaxis]).all(), label


@pytest.mark.parametrize(
    ("changed", "axis"),
    [
        ({}, 1),
        ({"weight_tensor": packed(np.ones(4, np.float32))}, 2),
        ({"weight_tensor": packed(np.ones(9, np.float32)), "bias_tensor": packed(np.ones(9, np.float32))}, 2),
        ({"bias_tensor": packed(np.ones(3, np.float32))}, 2),
        ({"bias_tensor": StridedTensor("FLOAT32", (6,), (0,), np.ones(1, np.float32))}, 2),
        ({"input_tensor": packed(np.ones((3, 8), np.float32))}, 2),
    ],
)
def test_floats_refuse(devices: Devices, changed: Tensors, axis: int) -> None:
    tensors: Tensors = {
        "input_tensor": packed(np.ones((2, 3, 8), np.float32)),
        "weight_tensor": packed(np.ones(6, np.float32)),
        "bias_tensor": packed(np.ones(6, np.float32)),
        "output_tensor": blank_tensor("FLOAT32", (2, 3, 8), None),
        **changed,
    }
    with pytest.raises(ValueError, match="GROUP_NORMALIZATION"):
        run_native(next(iter(devices.values())), "GROUP_NORMALIZATION", tensors, attributes_of("axis", axis, 1e-5))


@given(st.data())
def test_any_layout(devices: Devices, data: st.DataObject) -> None:
    channels, groups = data.draw(st.sampled_from([(1, 1), (3, 3), (4, 2), (6, 3), (6, 1), (17, 17), (40, 4), (66, 33)]))
    spatial = data.draw(st.lists(st.integers(1, 6), max_size=3))
    sizes = (data.draw(st.integers(1, 3)), channels, *spatial)
    ones = (1,) * len(sizes)
    input_type, output_type = (data.draw(st.sampled_from(BYTE_TYPES)) for _ in range(2))
    tensors: Tensors = {
        "input_tensor": data.draw(input_tensors(input_type, sizes, INTEGERS)),
        "input_scale_tensor": data.draw(input_tensors("FLOAT32", ones, SCALES)),
        **parameters(data.draw(generators()), channels, data.draw(st.sampled_from((1, 30, 1e30)))),
        "output_zero_point_tensor": data.draw(optional_zero_points(output_type, ones)),
        "output_tensor": data.draw(output_tensors(output_type, sizes)),
    }
    assert_codes(devices, tensors, groups, data.draw(st.sampled_from((0.0, 1e-12, 1e-5, 1.0))))


@pytest.mark.parametrize("layout", [packed, channels_last, part_of_joined])
@pytest.mark.parametrize("channels", [1, 2, 3, 5, 8, 16, 20, 31, 32, 33, 48, 63, 64, 65, 96, 130])
def test_images(devices: Devices, random_numbers: np.random.Generator, layout: Any, channels: int) -> None:
    """Around the lanes of kernels, in the layouts of networks; pixels that are no whole rows of lanes."""
    shape = (2, channels, 13, 19)
    codes = random_numbers.integers(0, 256, shape).astype(np.uint8)
    for dtype, zero_point in ((np.uint8, 131), (np.int8, -3)):
        x = layout(codes.view(dtype))
        tensors: Tensors = {
            "input_tensor": x,
            "input_scale_tensor": packed(np.float32([0.03])),
            **parameters(random_numbers, channels),
            "output_zero_point_tensor": packed(np.array([zero_point], dtype)),
            "output_tensor": blank_tensor(np.dtype(dtype).name.upper(), shape, x.strides),
        }
        for groups in {1, channels, channels // 2 if channels % 2 == 0 else 1}:
            assert_codes(devices, tensors, groups, 1e-5)


@pytest.mark.parametrize("layout", [packed, channels_last])
@pytest.mark.parametrize("channels", [1, 12, 64])
def test_sums_of_squares_beyond_32_bits(
    devices: Devices, random_numbers: np.random.Generator, layout: Any, channels: int
) -> None:
    """Several tasks of many pixels, and channels of one value."""
    codes = np.full((1, channels, 300, 401), 255, np.uint8)
    codes[..., ::7] = random_numbers.integers(200, 256, codes[..., ::7].shape)
    codes[:, channels // 2, 1:] = 255
    x = layout(codes)
    tensors: Tensors = {
        "input_tensor": x,
        "input_scale_tensor": packed(np.float32([0.1])),
        **parameters(random_numbers, channels),
        "output_zero_point_tensor": packed(np.uint8([100])),
        "output_tensor": blank_tensor("UINT8", codes.shape, x.strides),
    }
    assert_codes(devices, tensors, channels, 1e-5)


def test_groups_of_equal_codes_are_the_bias(devices: Devices, random_numbers: np.random.Generator) -> None:
    codes = np.repeat(np.arange(256, dtype=np.uint8).reshape(2, 128, 1), 70, axis=2)
    normalization_checks.assert_equal_codes_are_the_bias(
        devices, random_numbers, OPERATOR, quantized_group_normalization, codes, ("groups", 128)
    )


def test_accuracy(devices: Devices, random_numbers: np.random.Generator) -> None:
    """Against float64: no code differs but by one, and few do."""
    codes = random_numbers.integers(90, 140, (1, 24, 40, 40)).astype(np.uint8)
    given_parameters = parameters(random_numbers, 24)
    weight, bias = (each.buffer.astype(np.float64).reshape(24, 1, 1) for each in given_parameters.values() if each)
    groups = codes.reshape(1, 8, -1) * 0.03
    exact = (groups - groups.mean(2, keepdims=True)) / np.sqrt(groups.var(2, keepdims=True) + 1e-5)
    exact = np.clip(np.rint(exact.reshape(codes.shape) * weight + bias) + 128, 0, 255)
    tensors: Tensors = {
        "input_tensor": packed(codes),
        "input_scale_tensor": packed(np.float32([0.03])),
        **given_parameters,
        "output_zero_point_tensor": packed(np.uint8([128])),
        "output_tensor": blank_tensor("UINT8", codes.shape, None),
    }
    storage = run_native(next(iter(devices.values())), OPERATOR, tensors, attributes_of("groups", 8, 1e-5))[
        "output_tensor"
    ]
    differences = np.abs(storage[37:-37].reshape(codes.shape) - exact)
    assert differences.max() <= 1
    assert np.count_nonzero(differences) <= 10


SIX_CHANNELS: Tensors = {
    "input_tensor": packed(np.zeros((2, 6, 5), np.int8)),
    "input_scale_tensor": packed(np.ones(1, np.float32)),
    "weight_tensor": packed(np.ones(6, np.float32)),
    "bias_tensor": packed(np.ones(6, np.float32)),
    "output_zero_point_tensor": None,
    "output_tensor": blank_tensor("UINT8", (2, 6, 5), None),
}


@pytest.mark.parametrize(
    "changed",
    [
        {"weight_tensor": packed(np.ones(5, np.float32))},
        {"weight_tensor": StridedTensor("FLOAT32", (6,), (0,), np.ones(1, np.float32))},
        {"bias_tensor": packed(np.ones((6, 1), np.float32))},
        {"bias_tensor": None},
        {"input_scale_tensor": packed(np.ones(2, np.float32))},
        {"output_zero_point_tensor": packed(np.zeros(1, np.int8))},
        {"output_zero_point_tensor": packed(np.zeros(6, np.uint8))},
        {"output_tensor": blank_tensor("UINT8", (2, 6, 4), None)},
        {"output_tensor": blank_tensor("FLOAT32", (2, 6, 5), None)},
        {"output_tensor": StridedTensor("UINT8", (2, 6, 5), (30, 1, 0), np.zeros(36, np.uint8))},
        {"input_tensor": packed(np.zeros(60, np.int8))},
    ],
)
def test_refuses(devices: Devices, changed: Tensors) -> None:
    device = next(iter(devices.values()))
    run_native(device, OPERATOR, SIX_CHANNELS, attributes_of("groups", 3, 1e-5))
    with pytest.raises(ValueError, match=OPERATOR):
        run_native(device, OPERATOR, {**SIX_CHANNELS, **changed}, attributes_of("groups", 3, 1e-5))


@pytest.mark.parametrize("groups", [-1, 0, 4, 7])
def test_refuses_groups(devices: Devices, groups: int) -> None:
    with pytest.raises(ValueError, match=OPERATOR):
        run_native(next(iter(devices.values())), OPERATOR, SIX_CHANNELS, attributes_of("groups", groups, 1e-5))
