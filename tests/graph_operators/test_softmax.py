"""SOFTMAX, LOG_SOFTMAX and QUANTIZED_SOFTMAX on random layouts and adversarial values, against the reference."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dmlcpu
from dispatching import assert_equal, expected_storage
from fills import INPUT_FLOATS, INTEGERS, SCALES
from laid_out import channels_last, packed
from native_operator import run_native
from reference.softmax import log_softmax, quantized_softmax, softmax
from strategies import BYTE_TYPES, input_tensors, optional_zero_points, output_tensors, tensor_sizes
from strided_tensor import NUMPY_TYPES, StridedTensor, blank_tensor

Devices = Mapping[str, dmlcpu.Device]
Tensors = dict[str, "StridedTensor | None"]


def assert_softmax(devices: Devices, x: StridedTensor, output: StridedTensor, axis: int) -> None:
    tensors = {"input_tensor": x, "output_tensor": output}
    for operator, function in (("SOFTMAX", softmax), ("LOG_SOFTMAX", log_softmax)):
        expected = expected_storage(output, function(x.logical(), axis))
        for label, device in devices.items():
            result = run_native(device, operator, tensors, {"axis": [axis]})["output_tensor"]
            assert_equal(result, expected, f"{operator}, {label}")


def assert_quantized_softmax(devices: Devices, tensors: Tensors, axis: int) -> None:
    x, scale, _, output_scale, output_zero_point, output = tensors.values()
    assert x is not None
    assert scale is not None
    assert output_scale is not None
    assert output is not None
    values = quantized_softmax(
        x.logical(),
        scale.buffer[0],
        output_scale.buffer[0],
        None if output_zero_point is None else output_zero_point.buffer[0],
        axis,
        NUMPY_TYPES[output.data_type],
    )
    expected = expected_storage(output, values)
    for (label, device), owned in itertools.product(devices.items(), ((), ("input_scale_tensor",))):
        outputs = run_native(device, "QUANTIZED_SOFTMAX", tensors, {"axis": [axis]}, owned=owned)
        assert_equal(outputs["output_tensor"], expected, f"{label}, {owned}")


@given(st.data())
def test_floats_on_any_layout(devices: Devices, data: st.DataObject) -> None:
    sizes = data.draw(tensor_sizes())
    x = data.draw(input_tensors("FLOAT32", sizes, INPUT_FLOATS))
    axis = data.draw(st.integers(0, len(sizes) - 1))
    assert_softmax(devices, x, data.draw(output_tensors("FLOAT32", sizes)), axis)


@given(st.data())
def test_codes_on_any_layout(devices: Devices, data: st.DataObject) -> None:
    sizes = data.draw(tensor_sizes())
    ones = (1,) * len(sizes)
    input_type, output_type = (data.draw(st.sampled_from(BYTE_TYPES)) for _ in range(2))
    tensors: Tensors = {
        "input_tensor": data.draw(input_tensors(input_type, sizes, INTEGERS)),
        "input_scale_tensor": data.draw(input_tensors("FLOAT32", ones, SCALES)),
        "input_zero_point_tensor": data.draw(optional_zero_points(input_type, ones)),
        "output_scale_tensor": data.draw(input_tensors("FLOAT32", ones, SCALES)),
        "output_zero_point_tensor": data.draw(optional_zero_points(output_type, ones)),
        "output_tensor": data.draw(output_tensors(output_type, sizes)),
    }
    assert_quantized_softmax(devices, tensors, data.draw(st.integers(0, len(sizes) - 1)))


@pytest.mark.parametrize("count", [*range(1, 35), 63, 64, 65, 1000, 1001])
def test_rows_of_every_length(devices: Devices, random_numbers: np.random.Generator, count: int) -> None:
    """Around the steps of kernels; probabilities of a classifier, quantized as networks do."""
    x = random_numbers.normal(0, 5, (3, count)).astype(np.float32)
    assert_softmax(devices, packed(x), blank_tensor("FLOAT32", x.shape, None), 1)
    codes = random_numbers.integers(0, 256, (3, count)).astype(np.uint8)
    for scale, output_scale, output_zero_point in ((0.02, 1 / 256, 0), (0.3, 1 / 255, 7), (0.001, 0.0001, 255)):
        tensors: Tensors = {
            "input_tensor": packed(codes),
            "input_scale_tensor": packed(np.float32([scale])),
            "input_zero_point_tensor": packed(np.uint8([9])),
            "output_scale_tensor": packed(np.float32([output_scale])),
            "output_zero_point_tensor": packed(np.uint8([output_zero_point])),
            "output_tensor": blank_tensor("UINT8", codes.shape, None),
        }
        assert_quantized_softmax(devices, tensors, 1)


@pytest.mark.parametrize("layout", [packed, channels_last])
@pytest.mark.parametrize("axis", range(4))
def test_images(devices: Devices, random_numbers: np.random.Generator, layout: Any, axis: int) -> None:
    """More rows than one task takes, in the layouts of images, and not all of them in whole blocks."""
    x = random_numbers.normal(0, 3, (2, 21, 45, 83)).astype(np.float32)
    tensor = layout(x)
    assert_softmax(devices, tensor, blank_tensor("FLOAT32", x.shape, tensor.strides), axis)
    codes = layout(random_numbers.integers(-128, 128, (2, 21, 45, 83)).astype(np.int8))
    tensors: Tensors = {
        "input_tensor": codes,
        "input_scale_tensor": packed(np.float32([0.05])),
        "input_zero_point_tensor": None,
        "output_scale_tensor": packed(np.float32([1 / 256])),
        "output_zero_point_tensor": packed(np.int8([-128])),
        "output_tensor": blank_tensor("INT8", codes.sizes, codes.strides),
    }
    assert_quantized_softmax(devices, tensors, axis)


def images_of(count: int, beside: int) -> int:
    """Enough for several tasks of two threads, and 17 narrow ones, of at most 256 elements, which are so from 16 on."""
    return min(max(40_000 // (count * beside), 3), 17)


@pytest.mark.parametrize("count", [1, 2, 9, 15, 16, 17, 31, 33, 64, 65, 256, 257])
@pytest.mark.parametrize("beside", [1, 2, 15, 16, 17, 33, 1031])
def test_short_rows_beside_each_other(
    devices: Devices, random_numbers: np.random.Generator, count: int, beside: int
) -> None:
    """In the lanes of vectors, as long as every element is a partial sum; masks, NaNs, and gaps in the output."""
    x = random_numbers.normal(0, 30, (images_of(count, beside), count, beside)).astype(np.float32)
    x[random_numbers.random(x.shape) < 0.1] = -np.inf
    x[random_numbers.random(x.shape) < 0.01] = np.nan
    output = blank_tensor("FLOAT32", x.shape, (count * (beside + 2) + 1, beside + 2, 1))
    assert_softmax(devices, packed(x), output, 1)


@pytest.mark.parametrize("count", [1, 2, 9, 16, 17, 40, 41, 64])
@pytest.mark.parametrize("rows", [3, 4, 17, 1000, None])
@pytest.mark.parametrize("apart", ["input", "output", "both"])
def test_short_rows_apart(
    devices: Devices, random_numbers: np.random.Generator, count: int, rows: int | None, apart: str
) -> None:
    """Through scratch memory, unless they are few: elements of a row are neighbours where rows are apart.

    The most are several blocks, which are of 4096 elements, and several tasks, which are of 65536.
    """
    rows = rows or min(20_001, 150_001 // count)
    x = random_numbers.normal(0, 30, (2, count, rows)).astype(np.float32)
    x[random_numbers.random(x.shape) < 0.1] = -np.inf
    x[random_numbers.random(x.shape) < 0.01] = np.nan
    strides = (count * rows, 1, count)
    turned = StridedTensor("FLOAT32", x.shape, strides, np.moveaxis(x, 1, 2).reshape(-1).copy())
    output = blank_tensor("FLOAT32", x.shape, None if apart == "input" else strides)
    assert_softmax(devices, packed(x) if apart == "output" else turned, output, 1)


@pytest.mark.parametrize("count", [1, 2, 9, 16, 17, 128, 129, 256, 257])
@pytest.mark.parametrize("beside", [1, 3, 4, 15, 17, 65, 1031])
@pytest.mark.parametrize("span", [40, 100, 256])
def test_short_rows_of_codes(
    devices: Devices, random_numbers: np.random.Generator, count: int, beside: int, span: int
) -> None:
    """In the lanes of vectors, beside each other or apart; of codes that differ by so much, and scales of any sign."""
    x = random_numbers.integers(-128, span - 128, (images_of(count, beside), count, beside)).astype(np.int8)
    gaps = (count * (beside + 2) + 1, beside + 2, 1)
    turned = StridedTensor("INT8", x.shape, (count * beside, 1, count), np.moveaxis(x, 1, 2).reshape(-1).copy())
    layouts = ((packed(x), gaps), (turned, gaps), (packed(x), turned.strides), (turned, turned.strides))
    for (codes, strides), (scale, output_scale) in zip(
        layouts, ((0.05, 1 / 256), (0.3, 2.0**-70), (-0.02, 1 / 200), (-0.4, 1e-4)), strict=True
    ):
        tensors: Tensors = {
            "input_tensor": codes,
            "input_scale_tensor": packed(np.float32([scale])),
            "input_zero_point_tensor": None,
            "output_scale_tensor": packed(np.float32([output_scale])),
            "output_zero_point_tensor": packed(np.uint8([3])),
            "output_tensor": blank_tensor("UINT8", x.shape, strides),
        }
        assert_quantized_softmax(devices, tensors, 1)


def test_probabilities_are_accurate(devices: Devices, random_numbers: np.random.Generator) -> None:
    """Against float64: within 2 units in the last place, where they are normal numbers."""
    x = random_numbers.normal(0, 4, (50, 1000)).astype(np.float32)
    exact = np.exp(np.float64(x) - np.float64(x).max(axis=1, keepdims=True))
    exact /= exact.sum(axis=1, keepdims=True)
    tensors = {"input_tensor": packed(x), "output_tensor": blank_tensor("FLOAT32", x.shape, None)}
    device = next(iter(devices.values()))
    storage = run_native(device, "SOFTMAX", tensors, {"axis": [1]})["output_tensor"]
    result = storage[37:-37].reshape(x.shape)
    assert np.abs(result - exact).max() > 0
    # The subtraction of the maximum rounds too: up to half a unit of 32.
    assert (np.abs(result - exact) <= 2 * np.spacing(exact.astype(np.float32)) + 2.0**-19 * exact).all()


@pytest.mark.parametrize("hidden", [-20, -22.1, -22.18, -22.2, -60, -74, -87, -87.00001, -98, -104, -110])
def test_what_masks_hide(devices: Devices, random_numbers: np.random.Generator, hidden: float) -> None:
    """Powers are 0 before they are subnormal numbers; those of codes are multiples of 2^-31."""
    values = random_numbers.normal(0, 0.3, (5, 97)).astype(np.float32)
    values[:, 3] = 0
    x = np.where(random_numbers.random(values.shape) < 0.5, np.float32(hidden), np.minimum(values, 0))
    x[:, 3] = 0
    assert_softmax(devices, packed(x), blank_tensor("FLOAT32", x.shape, None), 1)
    shares = softmax(x, 1)
    assert ((shares == 0) == (x < np.float32(-87))).all()
    codes = np.where(x < -10, 5, 250).astype(np.uint8)
    tensors: Tensors = {
        "input_tensor": packed(codes),
        "input_scale_tensor": packed(np.float32([-hidden / 245])),
        "input_zero_point_tensor": None,
        "output_scale_tensor": packed(np.float32([1e-25])),
        "output_zero_point_tensor": None,
        "output_tensor": blank_tensor("UINT8", codes.shape, None),
    }
    assert_quantized_softmax(devices, tensors, 1)


def test_logarithms_are_accurate(devices: Devices, random_numbers: np.random.Generator) -> None:
    """Against float64: within the roundings of two differences."""
    x = random_numbers.normal(0, 4, (50, 1000)).astype(np.float32)
    distances = np.float64(x) - np.float64(x).max(axis=1, keepdims=True)
    exact = distances - np.log(np.exp(distances).sum(axis=1, keepdims=True))
    tensors = {"input_tensor": packed(x), "output_tensor": blank_tensor("FLOAT32", x.shape, None)}
    storage = run_native(next(iter(devices.values())), "LOG_SOFTMAX", tensors, {"axis": [1]})["output_tensor"]
    result = storage[37:-37].reshape(x.shape)
    assert 0 < np.abs(result - exact).max() < 4e-6


@pytest.mark.parametrize(
    ("changed", "attributes"),
    [
        ({}, {"axis": [2]}),
        ({}, {"axis": [-1]}),
        ({}, {}),
        ({"output_tensor": blank_tensor("FLOAT32", (3, 6), None)}, {"axis": [1]}),
        ({"output_tensor": blank_tensor("FLOAT32", (4, 5), None)}, {"axis": [1]}),
        ({"output_tensor": blank_tensor("FLOAT32", (3, 5, 1), None)}, {"axis": [1]}),
        ({"output_tensor": blank_tensor("UINT8", (3, 5), None)}, {"axis": [1]}),
        ({"input_tensor": None}, {"axis": [1]}),
        ({"output_tensor": StridedTensor("FLOAT32", (3, 5), (1, 0), np.zeros(3, np.float32))}, {"axis": [1]}),
    ],
)
def test_floats_refuse(devices: Devices, changed: Tensors, attributes: dict[str, list[int]]) -> None:
    tensors: Tensors = {
        "input_tensor": packed(np.zeros((3, 5), np.float32)),
        "output_tensor": blank_tensor("FLOAT32", (3, 5), None),
        **changed,
    }
    with pytest.raises(ValueError, match=r"SOFTMAX|sizes"):
        run_native(next(iter(devices.values())), "SOFTMAX", tensors, attributes)


@pytest.mark.parametrize(
    "changed",
    [
        {"input_scale_tensor": packed(np.ones(2, np.float32))},
        {"output_scale_tensor": None},
        {"output_zero_point_tensor": packed(np.zeros(1, np.int8))},
        {"output_zero_point_tensor": packed(np.zeros(5, np.uint8))},
        {"input_zero_point_tensor": packed(np.zeros(1, np.uint8))},
        {"output_tensor": blank_tensor("UINT8", (15,), None)},
    ],
)
def test_codes_refuse(devices: Devices, changed: Tensors) -> None:
    tensors: Tensors = {
        "input_tensor": packed(np.zeros((3, 5), np.int8)),
        "input_scale_tensor": packed(np.ones(1, np.float32)),
        "input_zero_point_tensor": None,
        "output_scale_tensor": packed(np.ones(1, np.float32)),
        "output_zero_point_tensor": None,
        "output_tensor": blank_tensor("UINT8", (3, 5), None),
        **changed,
    }
    with pytest.raises(ValueError, match="QUANTIZED_SOFTMAX"):
        run_native(next(iter(devices.values())), "QUANTIZED_SOFTMAX", tensors, {"axis": [1]})
