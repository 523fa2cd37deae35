"""QUANTIZED_RESAMPLE on random layouts, taps and adversarial values, against the reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dmlcpu
from dispatching import assert_equal, expected_storage
from fills import INTEGERS, SCALES
from laid_out import channels_last, packed, part_of_joined
from native_operator import run_native
from reference.quantized_resample import Taps, quantized_resample
from resample_taps import attributes_of, random_taps, scaled_taps
from strategies import AXIS_SIZES, BYTE_TYPES, generators, input_tensors, optional_zero_points, output_tensors
from strided_tensor import NUMPY_TYPES, StridedTensor, blank_tensor

Devices = Mapping[str, dmlcpu.Device]
Tensors = dict[str, "StridedTensor | None"]


def assert_resample(devices: Devices, tensors: Tensors, rows: Taps, columns: Taps) -> None:
    x, scale, zero_point, output_scale, output_zero_point, output = tensors.values()
    assert x is not None
    assert scale is not None
    assert output_scale is not None
    assert output is not None
    values = quantized_resample(
        x.logical(),
        scale.buffer[0],
        None if zero_point is None else zero_point.buffer[0],
        output_scale.buffer[0],
        None if output_zero_point is None else output_zero_point.buffer[0],
        rows,
        columns,
        NUMPY_TYPES[output.data_type],
    )
    expected = expected_storage(output, values)
    for label, device in devices.items():
        result = run_native(device, "QUANTIZED_RESAMPLE", tensors, attributes_of(rows, columns))["output_tensor"]
        assert_equal(result, expected, label)


@given(st.data())
def test_any_layout(devices: Devices, data: st.DataObject) -> None:
    images = data.draw(st.integers(1, 3))
    channels = data.draw(AXIS_SIZES)
    height, width, output_height, output_width = (data.draw(st.integers(1, 9)) for _ in range(4))
    input_type, output_type = (data.draw(st.sampled_from(BYTE_TYPES)) for _ in range(2))
    ones = (1, 1, 1, 1)
    scale = data.draw(input_tensors("FLOAT32", ones, SCALES))
    zero_point = data.draw(optional_zero_points(input_type, ones))
    same = input_type == output_type and data.draw(st.booleans())
    tensors: Tensors = {
        "input_tensor": data.draw(input_tensors(input_type, (images, channels, height, width), INTEGERS)),
        "input_scale_tensor": scale,
        "input_zero_point_tensor": zero_point,
        "output_scale_tensor": scale if same else data.draw(input_tensors("FLOAT32", ones, SCALES)),
        "output_zero_point_tensor": zero_point if same else data.draw(optional_zero_points(output_type, ones)),
        "output_tensor": data.draw(output_tensors(output_type, (images, channels, output_height, output_width))),
    }
    rng, nearest = data.draw(generators()), data.draw(st.booleans())
    rows = random_taps(rng, height, output_height, nearest)
    assert_resample(devices, tensors, rows, random_taps(rng, width, output_width, nearest))


@pytest.mark.parametrize("nearest", [True, False])
@pytest.mark.parametrize("layout", [packed, channels_last, part_of_joined])
@pytest.mark.parametrize("output_layout", [packed, channels_last, part_of_joined])
@pytest.mark.parametrize("output_scale", [0.1, 0.05])
@pytest.mark.parametrize(
    ("sizes", "output_sizes"),
    [
        ((2, 64, 13, 17), (26, 34)),  # twice
        ((1, 3, 40, 61), (80, 123)),  # few channels, an odd width, more rows than a task takes
        ((1, 100, 40, 40), (80, 80)),
        ((1, 5, 20, 20), (10, 9)),
        ((3, 19, 7, 7), (65, 33)),
    ],
)
def test_images(
    devices: Devices,
    random_numbers: np.random.Generator,
    nearest: bool,
    layout: Any,
    output_layout: Any,
    output_scale: float,
    sizes: tuple[int, ...],
    output_sizes: tuple[int, int],
) -> None:
    x = layout(random_numbers.integers(0, 256, sizes).astype(np.uint8))
    output = output_layout(np.full((*sizes[:2], *output_sizes), 0xAA, np.uint8))
    tensors: Tensors = {
        "input_tensor": x,
        "input_scale_tensor": packed(np.float32([0.1])),
        "input_zero_point_tensor": packed(np.uint8([117])),
        "output_scale_tensor": packed(np.float32([output_scale])),
        "output_zero_point_tensor": packed(np.uint8([117])),
        "output_tensor": output,
    }
    rows, columns = (
        scaled_taps(size, output_size, nearest) for size, output_size in zip(sizes[2:], output_sizes, strict=True)
    )
    assert_resample(devices, tensors, rows, columns)


@pytest.mark.parametrize("scale", [1e-45, 3e38, np.inf, 0.0, np.nan])
def test_equal_parameters_copy(devices: Devices, random_numbers: np.random.Generator, scale: float) -> None:
    """Codes that a product and a quotient by the same extreme scale would change; NaN is not equal to itself."""
    codes = random_numbers.integers(-128, 128, (1, 2, 5, 6)).astype(np.int8)
    tensors: Tensors = {
        "input_tensor": packed(codes),
        "input_scale_tensor": packed(np.float32([scale])),
        "input_zero_point_tensor": packed(np.int8([3])),
        "output_scale_tensor": packed(np.float32([scale])),
        "output_zero_point_tensor": packed(np.int8([3])),
        "output_tensor": blank_tensor("INT8", (1, 2, 10, 12), None),
    }
    assert_resample(devices, tensors, scaled_taps(5, 10, True), scaled_taps(6, 12, True))


FIVE, SEVEN = scaled_taps(5, 7, False), scaled_taps(4, 7, False)


@pytest.mark.parametrize(
    ("changed", "changed_attributes"),
    [
        ({"output_tensor": blank_tensor("UINT8", (1, 2, 7, 8), None)}, {}),
        ({"output_tensor": blank_tensor("UINT8", (1, 3, 7, 7), None)}, {}),
        ({"output_tensor": blank_tensor("UINT8", (2, 7, 7), None)}, {}),
        ({"output_tensor": blank_tensor("FLOAT32", (1, 2, 7, 7), None)}, {}),
        ({"input_tensor": StridedTensor("UINT8", (1, 2, 5, 2**31), (0, 0, 0, 0), np.zeros(1, np.uint8))}, {}),
        ({"input_scale_tensor": None}, {}),
        ({"input_zero_point_tensor": packed(np.zeros(1, np.int8))}, {}),
        ({"output_zero_point_tensor": packed(np.zeros(2, np.uint8))}, {}),
        ({}, {"lower_rows": [0, 0, 0, 0, 0, 0, 5]}),
        ({}, {"upper_rows": [0, 0, 0, -1, 0, 0, 0]}),
        ({}, {"lower_columns": [4, 0, 0, 0, 0, 0, 0]}),
        ({}, {"upper_columns": [0, 0, 0, 0, 0, 0, 2**32]}),
        ({}, {"upper_columns": [0, 0, 0, 0, 0, 0]}),
        ({}, {"upper_columns": []}),
        ({}, {"row_weights": [0, 0, 0, 0, 0, 0, 2**32]}),
        ({}, {"row_weights": [0, 0, 0, 0, 0, 0, -1]}),
        ({}, {"row_weights": [0, 0, 0, 0, 0, 0, 0, 0]}),
        ({}, {"column_weights": [0x7F800000, 0, 0, 0, 0, 0, 0]}),
        ({}, {"column_weights": [0x7FC00000, 0, 0, 0, 0, 0, 0]}),
        ({}, {"column_weights": [0x3F800001, 0, 0, 0, 0, 0, 0]}),
    ],
)
def test_refuses(devices: Devices, changed: Tensors, changed_attributes: dict[str, list[int]]) -> None:
    tensors: Tensors = {
        "input_tensor": packed(np.zeros((1, 2, 5, 4), np.uint8)),
        "input_scale_tensor": packed(np.ones(1, np.float32)),
        "input_zero_point_tensor": None,
        "output_scale_tensor": packed(np.ones(1, np.float32)),
        "output_zero_point_tensor": None,
        "output_tensor": blank_tensor("UINT8", (1, 2, 7, 7), None),
        **changed,
    }
    attributes = {**attributes_of(FIVE, SEVEN), **changed_attributes}
    with pytest.raises(ValueError, match="QUANTIZED_RESAMPLE"):
        run_native(next(iter(devices.values())), "QUANTIZED_RESAMPLE", tensors, attributes)
