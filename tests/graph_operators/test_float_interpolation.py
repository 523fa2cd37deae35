"""FLOAT_INTERPOLATION on random layouts, taps and adversarial values, against the reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dmlcpu
from dispatching import assert_equal, expected_storage
from fills import INPUT_FLOATS
from laid_out import channels_last, packed, part_of_joined
from native_operator import run_native
from reference.float_interpolation import WeightedTaps, float_interpolation
from strategies import AXIS_SIZES, generators, input_tensors, output_tensors
from strided_tensor import StridedTensor, blank_tensor

Devices = Mapping[str, dmlcpu.Device]
Attributes = dict[str, list[int]]


def attributes_of(axes: tuple[int, int], rows: WeightedTaps, columns: WeightedTaps) -> Attributes:
    return {
        "axes": list(axes),
        "first_rows": rows.first.tolist(),
        "row_weights": rows.weights.view(np.uint32).reshape(-1).tolist(),
        "first_columns": columns.first.tolist(),
        "column_weights": columns.weights.view(np.uint32).reshape(-1).tolist(),
    }


def unchanged(size: int) -> WeightedTaps:
    return WeightedTaps(np.arange(size), np.ones((size, 1), np.float32))


def random_taps(rng: np.random.Generator, input_size: int, output_size: int) -> WeightedTaps:
    """With weights of 0 at both ends, of what may be beyond the axis, and between."""
    most = int(rng.integers(1, min(input_size, 6) + 1))
    weights = np.zeros((output_size, most + 4), np.float32)
    first = np.empty(output_size, np.int64)
    for i in range(output_size):
        count, before = int(rng.integers(1, most + 1)), int(rng.integers(0, 5))
        weights[i, before : before + count] = rng.choice(np.float32([0, 0.25, 1, -0.5, rng.normal(), np.inf]), count)
        for end in (before, before + count - 1):
            weights[i, end] = weights[i, end] or 1
        first[i] = rng.integers(0, input_size - count + 1) - before
    return WeightedTaps(first, weights)


def means(input_size: int, output_size: int) -> WeightedTaps:
    """Of neighbours as many as the axis becomes shorter, one more than there are at its end."""
    width = max(-(-input_size // output_size), 2)
    first = np.arange(output_size) * input_size // output_size
    weights = np.full((output_size, width), 1 / width, np.float32)
    weights[first[:, None] + np.arange(width) >= input_size] = 0
    return WeightedTaps(first, weights)


def assert_interpolation(
    devices: Devices,
    x: StridedTensor,
    output: StridedTensor,
    axes: tuple[int, int],
    rows: WeightedTaps,
    columns: WeightedTaps,
) -> None:
    expected = expected_storage(output, float_interpolation(x.logical(), axes, rows, columns))
    tensors = {"input_tensor": x, "output_tensor": output}
    attributes = attributes_of(axes, rows, columns)
    for label, device in devices.items():
        result = run_native(device, "FLOAT_INTERPOLATION", tensors, attributes)["output_tensor"]
        assert_equal(result, expected, label)


@given(st.data())
def test_any_layout(devices: Devices, data: st.DataObject) -> None:
    row_axis, column_axis, *_ = data.draw(st.permutations(range(4)))
    sizes = [data.draw(st.integers(1, 3)) for _ in range(4)]
    sizes[1] = data.draw(AXIS_SIZES)
    if row_axis != 1:
        sizes[row_axis] = data.draw(st.integers(1, 19))
    output_sizes = list(sizes)
    rng = data.draw(generators())
    taps = []
    for axis in (row_axis, column_axis):
        if data.draw(st.booleans()):
            taps.append(unchanged(sizes[axis]))
        else:
            output_sizes[axis] = data.draw(st.integers(1, 19))
            taps.append(random_taps(rng, sizes[axis], output_sizes[axis]))
    x = data.draw(input_tensors("FLOAT32", tuple(sizes), INPUT_FLOATS))
    output = data.draw(output_tensors("FLOAT32", tuple(output_sizes)))
    assert_interpolation(devices, x, output, (row_axis, column_axis), *taps)


@pytest.mark.parametrize("layout", [packed, channels_last, part_of_joined])
@pytest.mark.parametrize("output_layout", [packed, channels_last, part_of_joined])
@pytest.mark.parametrize(
    ("sizes", "output_sizes"),
    [
        ((2, 21, 9, 33), (35, 17)),
        ((1, 3, 40, 300), (17, 290)),
        ((3, 7, 5, 20), (10, 9)),
        ((2, 40, 1, 50), (1, 25)),
        ((1, 5, 300, 31), (290, 31)),
        ((1, 1, 3, 600), (2, 300)),
    ],
)
def test_layouts_of_networks(
    devices: Devices,
    random_numbers: np.random.Generator,
    layout: Callable[[np.ndarray], StridedTensor],
    output_layout: Callable[[np.ndarray], StridedTensor],
    sizes: tuple[int, ...],
    output_sizes: tuple[int, int],
) -> None:
    x = layout(random_numbers.normal(0, 9, sizes).astype(np.float32))
    output = output_layout(np.zeros((*sizes[:2], *output_sizes), np.float32))
    rows, columns = (
        unchanged(before) if before == after else means(before, after)
        for before, after in zip(sizes[2:], output_sizes, strict=True)
    )
    assert_interpolation(devices, x, output, (2, 3), rows, columns)


def test_tasks_of_several_threads(devices: Devices, random_numbers: np.random.Generator) -> None:
    for sizes, axes in (((2, 3, 150, 260), (2, 3)), ((1, 150, 260, 9), (1, 2)), ((1, 700, 1, 260), (2, 3))):
        x = packed(random_numbers.normal(0, 9, sizes).astype(np.float32))
        after = [size // 2 + 1 if axis in axes and size > 1 else size for axis, size in enumerate(sizes)]
        output = packed(np.zeros(after, np.float32))
        taps = [unchanged(1) if sizes[axis] == 1 else means(sizes[axis], after[axis]) for axis in axes]
        assert_interpolation(devices, x, output, axes, *taps)


INFINITE = int(np.float32(np.inf).view(np.uint32))
ONE = int(np.float32(1).view(np.uint32))


@pytest.mark.parametrize(
    ("changed", "values"),
    [
        ("axes", [2]),
        ("axes", [3, 3]),
        ("axes", [2, 4]),
        ("axes", [-1, 3]),
        ("first_rows", [0, 1, 2]),
        ("first_rows", [0, 1, 2, 4]),
        ("first_rows", [0, -1, 0, 0]),
        ("first_rows", [-(1 << 63), 0, 0, 0]),
        ("first_columns", [0, 0, (1 << 63) - 1]),
        ("first_columns", []),
        ("row_weights", [ONE] * 7),
        ("row_weights", []),
        ("row_weights", [ONE] * 6 + [0, 0]),
        ("column_weights", [INFINITE] * 18),
        ("column_weights", [1 << 32] * 3),
        ("column_weights", [-1] * 3),
        ("first_columns", None),
    ],
)
def test_refuses_taps(device: dmlcpu.Device, changed: str, values: Sequence[int] | None) -> None:
    attributes = attributes_of((2, 3), means(4, 4), means(5, 3))
    attributes.pop(changed)
    if values is not None:
        attributes[changed] = list(values)
    tensors = {
        "input_tensor": blank_tensor("FLOAT32", (1, 2, 4, 5), None),
        "output_tensor": blank_tensor("FLOAT32", (1, 2, 4, 3), None),
    }
    with pytest.raises(ValueError, match="FLOAT_INTERPOLATION"):
        run_native(device, "FLOAT_INTERPOLATION", tensors, attributes)


@pytest.mark.parametrize("sizes", [(1, 3, 4, 3), (2, 2, 4, 3), (1, 2, 5, 3), (2, 4, 3)])
def test_refuses_other_images(device: dmlcpu.Device, sizes: tuple[int, ...]) -> None:
    tensors = {
        "input_tensor": blank_tensor("FLOAT32", (1, 2, 4, 5), None),
        "output_tensor": blank_tensor("FLOAT32", sizes, None),
    }
    with pytest.raises(ValueError, match="FLOAT_INTERPOLATION"):
        run_native(device, "FLOAT_INTERPOLATION", tensors, attributes_of((2, 3), means(4, 4), means(5, 3)))
