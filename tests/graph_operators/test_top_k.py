"""TOP_K on random layouts, beside sorted rows: ties, NaN, whole rows and one element."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import dmlcpu
from dispatching import assert_equal, expected_storage
from fills import INPUT_FLOATS, any_integers, few_numbers, input_fills
from laid_out import packed
from native_operator import run_native
from strategies import input_tensors, output_tensors, tensor_sizes
from strided_tensor import NUMPY_TYPES, StridedTensor, blank_tensor

Devices = Mapping[str, dmlcpu.Device]
DATA_TYPES = ("UINT8", "INT8", "INT32", "INT64", "FLOAT32")
OUTPUTS = ("output_value_tensor", "output_index_tensor")


def places_of(x: NDArray[Any], count: int, axis: int, direction: int) -> NDArray[Any]:
    """Of equal elements the first counts first, and NaN as more than all numbers."""
    rows = np.moveaxis(x, axis, -1)
    places = np.empty((*rows.shape[:-1], count), np.int64)
    sign = -1 if direction else 1
    for row in np.ndindex(*rows.shape[:-1]):
        values = rows[row].tolist()
        numbers = [place for place, value in enumerate(values) if value == value]
        others = [place for place, value in enumerate(values) if value != value]
        in_order = sorted(numbers, key=lambda place: (sign * values[place], place))
        places[row] = (others + in_order if direction else in_order + others)[:count]
    return np.moveaxis(places, -1, axis)


def assert_top(
    devices: Devices, x: StridedTensor, value: StridedTensor, index: StridedTensor, axis: int, direction: int
) -> None:
    places = places_of(x.logical(), value.sizes[axis], axis, direction)
    expected = (np.take_along_axis(x.logical(), places, axis), places)
    tensors = {"input_tensor": x, OUTPUTS[0]: value, OUTPUTS[1]: index}
    attributes = {"axis": [axis], "axis_direction": [direction]}
    for label, device in devices.items():
        results = run_native(device, "TOP_K", tensors, attributes, outputs=OUTPUTS)
        for name, values in zip(OUTPUTS, expected, strict=True):
            assert_equal(results[name], expected_storage(tensors[name], values), f"{label}, {name}")


@given(st.sampled_from(DATA_TYPES), st.integers(0, 1), st.data())
def test_any_layout(devices: Devices, data_type: str, direction: int, data: st.DataObject) -> None:
    sizes = data.draw(tensor_sizes())
    axis = data.draw(st.integers(0, len(sizes) - 1))
    fills = INPUT_FLOATS if data_type == "FLOAT32" else input_fills(NUMPY_TYPES[data_type])
    x = data.draw(input_tensors(data_type, sizes, (few_numbers, *fills)))
    taken = (*sizes[:axis], data.draw(st.integers(1, sizes[axis])), *sizes[axis + 1 :])
    value, index = data.draw(output_tensors(data_type, taken)), data.draw(output_tensors("INT64", taken))
    assert_top(devices, x, value, index, axis, direction)


@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize(
    ("sizes", "axis", "count"),
    [
        ((3, 5000), 1, 300),
        ((700, 300), 1, 5),
        ((300, 700), 0, 7),
        ((1, 70_001), 1, 1),
        ((2, 900), 1, 900),
        ((2, 900), 1, 90),
    ],
)
@pytest.mark.parametrize("order", ["random", "ascending", "descending", "equal"])
def test_long_and_many_rows(
    devices: Devices,
    random_numbers: np.random.Generator,
    sizes: tuple[int, ...],
    axis: int,
    count: int,
    order: str,
    direction: int,
) -> None:
    """More than a task has; rows whose every element enters the heap, and rows of which none does."""
    values = random_numbers.normal(0, 1, sizes).astype(np.float32)
    values[random_numbers.random(sizes) < 0.01] = np.nan
    if order != "random":
        values = np.sort(np.nan_to_num(values), axis)
    if order == "descending":
        values = np.flip(values, axis)
    if order == "equal":
        values = np.zeros_like(values)
    taken = (*sizes[:axis], count, *sizes[axis + 1 :])
    outputs = blank_tensor("FLOAT32", taken, None), blank_tensor("INT64", taken, None)
    assert_top(devices, packed(np.ascontiguousarray(values)), *outputs, axis, direction)


@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize("data_type", DATA_TYPES)
@pytest.mark.parametrize(("length", "count"), [(1000, 1000), (1000, 999), (600, 40), (512, 32), (40, 33), (32, 31)])
@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("ordered", [False, True])
def test_large_parts_of_rows(
    devices: Devices,
    random_numbers: np.random.Generator,
    data_type: str,
    length: int,
    count: int,
    direction: int,
    few: bool,
    ordered: bool,
) -> None:
    """Whole rows are sorted: of numbers that are often equal, of both zeros, infinities, subnormal numbers and NaN. In
    order, but for some of the first which come later, rows lose what comes after all of the first K."""
    sizes = (3, length)
    fill = few_numbers if few else INPUT_FLOATS[-1] if data_type == "FLOAT32" else any_integers
    values = fill(random_numbers, NUMPY_TYPES[data_type], 3 * length).reshape(sizes)
    if data_type == "FLOAT32":
        special = np.float32([0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e-44, -1e-44, 3.4e38, -3.4e38])
        chosen = random_numbers.random(sizes) < 0.3
        values = np.where(chosen, random_numbers.choice(special, sizes), values)
    if ordered:
        values = np.sort(values, 1)
        values = np.flip(values, 1) if direction else values
        values[:, [0, 5, length // 2, length - 3]] = values[:, [length - 3, length // 2, 5, 0]]
    taken = (3, count)
    outputs = blank_tensor(data_type, taken, None), blank_tensor("INT64", taken, None)
    assert_top(devices, packed(np.ascontiguousarray(values)), *outputs, 1, direction)


Layout = tuple[tuple[int, ...], str]
INPUT: Layout = ((4, 5), "FLOAT32")
VALUE: Layout = ((4, 3), "FLOAT32")
INDEX: Layout = ((4, 3), "INT64")


@pytest.mark.parametrize(
    ("layouts", "axis", "direction"),
    [
        ([INPUT, VALUE, INDEX], 2, 1),
        ([INPUT, VALUE, INDEX], 1, 2),
        ([INPUT, VALUE, INDEX], 0, 1),
        ([INPUT, ((4, 6), "FLOAT32"), ((4, 6), "INT64")], 1, 1),
        ([INPUT, VALUE, ((4, 2), "INT64")], 1, 1),
        ([INPUT, ((4, 3), "INT32"), INDEX], 1, 1),
        ([INPUT, VALUE, ((4, 3), "INT32")], 1, 1),
        ([INPUT, ((3, 3), "FLOAT32"), ((3, 3), "INT64")], 1, 1),
        ([INPUT, ((12,), "FLOAT32"), ((12,), "INT64")], 0, 1),
    ],
    ids=str,
)
def test_refuses_what_does_not_fit(device: dmlcpu.Device, layouts: list[Layout], axis: int, direction: int) -> None:
    names = ("input_tensor", *OUTPUTS)
    tensors = {
        name: packed(np.zeros(sizes, NUMPY_TYPES[data_type]))
        for name, (sizes, data_type) in zip(names, layouts, strict=True)
    }
    with pytest.raises(ValueError, match=r"TOP_K|differ in sizes"):
        run_native(device, "TOP_K", tensors, {"axis": [axis], "axis_direction": [direction]}, outputs=OUTPUTS)
