"""GRID_SAMPLE on random layouts and grids, against the reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dmlcpu
from fills import INPUT_FLOATS
from graph_cases import assert_native_matches_reference
from laid_out import channels_last, packed
from native_operator import run_native
from operator_case import OperatorCase
from strategies import input_tensors, output_tensors
from strided_tensor import StridedTensor, blank_tensor

Devices = Mapping[str, dmlcpu.Device]
LENGTHS = st.integers(1, 7)


def entries(rng: np.random.Generator, dtype: np.dtype[Any], count: int) -> Any:
    """Within the image and around it, at its corners, far away and no numbers."""
    special = np.array([-1, 1, 0, 1e30, -1e30, np.inf, -np.inf, np.nan, 1e-40], dtype)
    values = rng.uniform(-1.5, 1.5, count).astype(dtype)
    return np.where(rng.random(count) < 0.1, rng.choice(special, count), values)


@st.composite
def cases(draw: st.DrawFn) -> OperatorCase:
    images, channels, height, width, rows, columns = (draw(LENGTHS) for _ in range(6))
    tensors = {
        "input_tensor": draw(input_tensors("FLOAT32", (images, channels, height, width), INPUT_FLOATS)),
        "grid_tensor": draw(input_tensors("FLOAT32", (images, rows, columns, 2), (entries,))),
        "output_tensor": draw(output_tensors("FLOAT32", (images, channels, rows, columns))),
    }
    names = {"interpolation": 1, "padding": 1, "coordinates": 2}
    attributes = {name: [draw(st.integers(0, most))] for name, most in names.items()}
    return OperatorCase("GRID_SAMPLE", tensors, attributes)


@given(cases())
def test_grid_sample(devices: Devices, case: OperatorCase) -> None:
    assert_native_matches_reference(devices, case)


@st.composite
def weighted(draw: st.DrawFn) -> OperatorCase:
    case = draw(cases())
    tensors = dict(case.tensors)
    output = tensors.pop("output_tensor")
    assert output is not None
    images, _, *sizes = output.sizes
    tensors["weights_tensor"] = draw(input_tensors("FLOAT32", (images, 1, *sizes), INPUT_FLOATS))
    return OperatorCase("WEIGHTED_GRID_SAMPLE", {**tensors, "output_tensor": output}, case.attributes)


@given(weighted())
def test_weights(devices: Devices, case: OperatorCase) -> None:
    assert_native_matches_reference(devices, case)


@pytest.mark.parametrize("layout", [packed, channels_last])
@pytest.mark.parametrize("interpolation", [0, 1])
def test_weights_of_several_tasks(
    devices: Devices, random_numbers: np.random.Generator, layout: Any, interpolation: int
) -> None:
    tensors = {
        "input_tensor": layout(random_numbers.normal(0, 1, (2, 17, 20, 30)).astype(np.float32)),
        "grid_tensor": packed(random_numbers.uniform(-2, 31, (2, 23, 31, 2)).astype(np.float32)),
        "weights_tensor": packed(random_numbers.uniform(-1, 1, (2, 1, 23, 31)).astype(np.float32)),
        "output_tensor": layout(np.zeros((2, 17, 23, 31), np.float32)),
    }
    attributes = {"interpolation": [interpolation], "padding": [0], "coordinates": [2]}
    assert_native_matches_reference(devices, OperatorCase("WEIGHTED_GRID_SAMPLE", tensors, attributes))


@pytest.mark.parametrize("weights", [(1, 5, 6), (2, 1, 5, 6), (1, 2, 5, 6), (1, 1, 6, 5), (1, 1, 5, 5)], ids=str)
def test_refuses_weights_that_do_not_fit(device: dmlcpu.Device, weights: Any) -> None:
    tensors: dict[str, StridedTensor | None] = {
        "input_tensor": packed(np.zeros((1, 2, 3, 4), np.float32)),
        "grid_tensor": packed(np.zeros((1, 5, 6, 2), np.float32)),
        "weights_tensor": packed(np.zeros(weights, np.float32)),
        "output_tensor": blank_tensor("FLOAT32", (1, 2, 5, 6), None),
    }
    attributes = {"interpolation": [1], "padding": [0], "coordinates": [0]}
    with pytest.raises(ValueError, match="WEIGHTED_GRID_SAMPLE: weights and output differ in sizes"):
        run_native(device, "WEIGHTED_GRID_SAMPLE", tensors, attributes)


@st.composite
def volumes(draw: st.DrawFn) -> OperatorCase:
    count, channels = draw(LENGTHS), draw(LENGTHS)
    sizes, places = (tuple(draw(st.integers(1, 5)) for _ in range(3)) for _ in range(2))
    tensors = {
        "input_tensor": draw(input_tensors("FLOAT32", (count, channels, *sizes), INPUT_FLOATS)),
        "grid_tensor": draw(input_tensors("FLOAT32", (count, *places, 3), (entries,))),
        "output_tensor": draw(output_tensors("FLOAT32", (count, channels, *places))),
    }
    names = {"interpolation": 1, "padding": 1, "coordinates": 2}
    attributes = {name: [draw(st.integers(0, most))] for name, most in names.items()}
    return OperatorCase("GRID_SAMPLE", tensors, attributes)


@given(volumes())
def test_volumes(devices: Devices, case: OperatorCase) -> None:
    assert_native_matches_reference(devices, case)


@pytest.mark.parametrize("layout", [packed, channels_last])
@pytest.mark.parametrize("interpolation", [0, 1])
@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("coordinates", [0, 1, 2])
def test_several_tasks_of_volumes(
    devices: Devices,
    random_numbers: np.random.Generator,
    layout: Any,
    interpolation: int,
    padding: int,
    coordinates: int,
) -> None:
    """Also elements midway between two, and infinite ones, of which nothing may leak."""
    elements = random_numbers.normal(0, 1, (2, 3, 6, 5, 7)).astype(np.float32)
    elements[random_numbers.random(elements.shape) < 0.02] = np.inf
    grid = entries(random_numbers, np.dtype(np.float32), 2 * 3 * 7 * 13 * 3).reshape(2, 3, 7, 13, 3)
    if coordinates == 2:
        grid[0] = random_numbers.integers(-6, 18, grid[0].shape) / np.float32(2)
    tensors = {
        "input_tensor": packed(elements),
        "grid_tensor": packed(grid),
        "output_tensor": blank_tensor("FLOAT32", (2, 3, 3, 7, 13), None),
    }
    attributes = {"interpolation": [interpolation], "padding": [padding], "coordinates": [coordinates]}
    assert_native_matches_reference(devices, OperatorCase("GRID_SAMPLE", tensors, attributes))


@pytest.mark.parametrize("layout", ["channels first", "channels last"])
@pytest.mark.parametrize("interpolation", [0, 1])
@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("coordinates", [0, 1, 2])
def test_several_tasks(
    devices: Devices,
    random_numbers: np.random.Generator,
    layout: str,
    interpolation: int,
    padding: int,
    coordinates: int,
) -> None:
    images = random_numbers.normal(0, 1, (2, 17, 20, 30)).astype(np.float32)
    grid = entries(random_numbers, np.dtype(np.float32), 2 * 23 * 31 * 2).reshape(2, 23, 31, 2)
    grid *= 20 if coordinates == 2 else 1
    tensors = {
        "input_tensor": packed(images) if layout == "channels first" else channels_last(images),
        "grid_tensor": packed(grid),
        "output_tensor": blank_tensor("FLOAT32", (2, 17, 23, 31), None),
    }
    attributes = {"interpolation": [interpolation], "padding": [padding], "coordinates": [coordinates]}
    assert_native_matches_reference(devices, OperatorCase("GRID_SAMPLE", tensors, attributes))


@pytest.mark.parametrize("channels", [1, 2, 64, 65, 130])
@pytest.mark.parametrize("output_layout", [packed, channels_last])
@pytest.mark.parametrize("interpolation", [0, 1])
def test_channels_beside_each_other(
    devices: Devices, random_numbers: np.random.Generator, channels: int, output_layout: Any, interpolation: int
) -> None:
    """More than are computed together; places beyond the image, and infinite pixels, of which nothing may leak."""
    images = random_numbers.normal(0, 1, (2, channels, 6, 7)).astype(np.float32)
    images[random_numbers.random(images.shape) < 0.05] = np.inf
    grid = entries(random_numbers, np.dtype(np.float32), 2 * 5 * 9 * 2).reshape(2, 5, 9, 2)
    tensors = {
        "input_tensor": channels_last(images),
        "grid_tensor": packed(grid),
        "output_tensor": output_layout(np.zeros((2, channels, 5, 9), np.float32)),
    }
    attributes = {"interpolation": [interpolation], "padding": [0], "coordinates": [1]}
    assert_native_matches_reference(devices, OperatorCase("GRID_SAMPLE", tensors, attributes))


@pytest.mark.parametrize(("height", "width"), [(1, 2), (1, 7), (2, 2), (7, 2), (5, 1), (6, 7)])
@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("interpolation", [0, 1])
def test_planes(
    devices: Devices, random_numbers: np.random.Generator, height: int, width: int, padding: int, interpolation: int
) -> None:
    """Of which two pixels are read at once; places midway between two, at borders and beyond; infinite pixels."""
    images = random_numbers.normal(0, 1, (2, 3, height, width)).astype(np.float32)
    images[random_numbers.random(images.shape) < 0.05] = np.inf
    halves = np.arange(-5, 2 * max(height, width) + 5, dtype=np.float32) / 2
    x, y = ((halves + np.float32(0.5)) * 2 / np.float32(length) - 1 for length in (width, height))
    grid = np.stack(np.meshgrid(x, y), -1)[np.newaxis].repeat(2, 0)
    grid[1] = entries(random_numbers, np.dtype(np.float32), grid[1].size).reshape(grid[1].shape)
    tensors = {
        "input_tensor": packed(images),
        "grid_tensor": packed(grid),
        "output_tensor": blank_tensor("FLOAT32", (2, 3, *grid.shape[1:3]), None),
    }
    attributes = {"interpolation": [interpolation], "padding": [padding], "coordinates": [0]}
    assert_native_matches_reference(devices, OperatorCase("GRID_SAMPLE", tensors, attributes))


@pytest.mark.parametrize(("height", "width"), [(1, 40), (40, 1), (8, 2), (2, 8), (3, 17), (9, 70)])
@pytest.mark.parametrize("order", ["rows", "rows apart", "columns"])
@pytest.mark.parametrize("input_layout", [packed, channels_last])
def test_points_beside_each_other(
    devices: Devices, random_numbers: np.random.Generator, height: int, width: int, order: str, input_layout: Any
) -> None:
    """Or not, in the output: where they are, they are turned round, several rows at a time or parts of one."""
    strides = {"rows": (width, 1), "rows apart": (width + 3, 1), "columns": (1, height)}[order]
    plane = height * (width + 3)
    tensors = {
        "input_tensor": input_layout(random_numbers.normal(0, 1, (2, 35, 6, 7)).astype(np.float32)),
        "grid_tensor": packed(random_numbers.uniform(-1.2, 1.2, (2, height, width, 2)).astype(np.float32)),
        "output_tensor": blank_tensor("FLOAT32", (2, 35, height, width), (35 * plane, plane, *strides)),
    }
    attributes = {"interpolation": [1], "padding": [0], "coordinates": [0]}
    assert_native_matches_reference(devices, OperatorCase("GRID_SAMPLE", tensors, attributes))


@pytest.mark.parametrize(
    ("image", "grid", "output", "changed"),
    [
        ((1, 2, 3, 4), (1, 5, 6, 2), (1, 2, 5, 6), {"interpolation": [2]}),
        ((1, 2, 3, 4), (1, 5, 6, 2), (1, 2, 5, 6), {"padding": [2]}),
        ((1, 2, 3, 4), (1, 5, 6, 2), (1, 2, 5, 6), {"coordinates": [3]}),
        ((1, 2, 3, 4), (1, 5, 6, 3), (1, 2, 5, 6), {}),
        ((1, 2, 3, 4), (2, 5, 6, 2), (1, 2, 5, 6), {}),
        ((2, 2, 3, 4), (2, 5, 6, 2), (1, 2, 5, 6), {}),
        ((1, 2, 3, 4), (1, 5, 6, 2), (1, 3, 5, 6), {}),
        ((1, 2, 3, 4), (1, 5, 6, 2), (1, 2, 6, 5), {}),
        ((2, 3, 4), (1, 5, 6, 2), (1, 2, 5, 6), {}),
        ((1, 2, 3, 4), (5, 6, 2), (1, 2, 5, 6), {}),
        ((1, 2, 3, 4), (1, 5, 6, 2), (2, 5, 6), {}),
        ((1, 2, 3, 4, 5), (1, 5, 6, 2), (1, 2, 5, 6), {}),
        ((1, 2, 3, 4, 5), (1, 5, 6, 7, 2), (1, 2, 5, 6, 7), {}),
        ((1, 2, 3, 4, 5), (2, 5, 6, 7, 3), (1, 2, 5, 6, 7), {}),
        ((2, 2, 3, 4, 5), (2, 5, 6, 7, 3), (1, 2, 5, 6, 7), {}),
        ((1, 2, 3, 4, 5), (1, 5, 6, 7, 3), (1, 2, 5, 7, 6), {}),
        ((1, 2, 3, 4, 5), (1, 5, 6, 7, 3), (1, 1, 5, 6, 7), {}),
    ],
    ids=str,
)
def test_refuses_what_does_not_fit(device: dmlcpu.Device, image: Any, grid: Any, output: Any, changed: Any) -> None:
    tensors: dict[str, StridedTensor | None] = {
        "input_tensor": packed(np.zeros(image, np.float32)),
        "grid_tensor": packed(np.zeros(grid, np.float32)),
        "output_tensor": blank_tensor("FLOAT32", output, None),
    }
    attributes = {"interpolation": [1], "padding": [0], "coordinates": [0], **changed}
    with pytest.raises(ValueError, match="GRID_SAMPLE"):
        run_native(device, "GRID_SAMPLE", tensors, attributes)
