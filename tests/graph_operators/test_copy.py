"""COPY on random layouts of all element sizes, against the reference."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dmlcpu
from fills import input_fills
from graph_cases import assert_native_matches_reference
from native_operator import bind_native, run_native
from operator_case import OperatorCase
from strategies import input_tensors, output_tensors, tensor_sizes
from strided_tensor import NUMPY_TYPES, StridedTensor, blank_tensor, element_span

Devices = Mapping[str, dmlcpu.Device]

DATA_TYPES = ("UINT8", "INT8", "UINT16", "INT16", "FLOAT16", "UINT32", "INT32", "FLOAT32", "INT64")


@st.composite
def cases(draw: st.DrawFn) -> OperatorCase:
    sizes = draw(tensor_sizes())
    data_type = draw(st.sampled_from(DATA_TYPES))
    fills = input_fills(NUMPY_TYPES[data_type])
    tensors = {
        "input_tensor": draw(input_tensors(data_type, sizes, fills)),
        "output_tensor": draw(output_tensors(data_type, sizes)),
    }
    return OperatorCase("COPY", tensors, {})


def strides_in(sizes: tuple[int, ...], order: tuple[int, ...], step: int, gap: int) -> tuple[int, ...]:
    """The axes nest in the given order, outermost first."""
    strides = [0] * len(sizes)
    for axis in reversed(order):
        strides[axis] = step
        step = step * sizes[axis] + gap
    return tuple(strides)


def numbered(data_type: str, sizes: tuple[int, ...], strides: tuple[int, ...]) -> StridedTensor:
    """Elements that all differ as far as the type can tell."""
    numbers = np.arange(element_span(sizes, strides), dtype=np.uint32) * np.uint32(2654435761)
    unsigned = np.dtype(f"u{NUMPY_TYPES[data_type].itemsize}")
    return StridedTensor(data_type, sizes, strides, (numbers >> 7).astype(unsigned).view(NUMPY_TYPES[data_type]))


@given(cases(), st.booleans())
def test_equals_the_reference(devices: Devices, case: OperatorCase, owned: bool) -> None:
    assert_native_matches_reference(devices, case, owned=["input_tensor"] if owned else [])


@pytest.mark.parametrize("data_type", ["INT8", "FLOAT16", "FLOAT32", "INT64"])
@pytest.mark.parametrize(
    ("input_order", "output_order"),
    [
        ((0, 1, 2, 3), (0, 1, 2, 3)),
        ((0, 1, 2, 3), (0, 2, 3, 1)),
        ((0, 2, 3, 1), (0, 1, 2, 3)),
        ((0, 1, 2, 3), (0, 2, 1, 3)),
        ((0, 1, 2, 3), (0, 1, 3, 2)),
        ((0, 1, 2, 3), (3, 2, 1, 0)),
    ],
)
@pytest.mark.parametrize("sizes", [(2, 67, 40, 81), (1, 3, 150, 333), (300, 1, 1, 301), (1, 1, 1, 200001)])
@pytest.mark.parametrize(("input_gap", "output_gap"), [(0, 0), (5, 0), (0, 7), (3, 1)])
def test_several_tasks(
    devices: Devices,
    data_type: str,
    input_order: tuple[int, ...],
    output_order: tuple[int, ...],
    sizes: tuple[int, ...],
    input_gap: int,
    output_gap: int,
) -> None:
    tensors = {
        "input_tensor": numbered(data_type, sizes, strides_in(sizes, input_order, 1, input_gap)),
        "output_tensor": blank_tensor(data_type, sizes, strides_in(sizes, output_order, 1, output_gap)),
    }
    assert_native_matches_reference(devices, OperatorCase("COPY", tensors, {}))


@pytest.mark.parametrize("data_type", ["UINT8", "UINT16", "UINT32", "INT64"])
@pytest.mark.parametrize(("input_gap", "output_gap"), [(5, 0), (0, 7), (3, 1)])
def test_runs_of_every_length(devices: Devices, data_type: str, input_gap: int, output_gap: int) -> None:
    """A move or two each, or a call."""
    for length in range(1, 70 // NUMPY_TYPES[data_type].itemsize):
        sizes, order = (3, 19, length), (0, 1, 2)
        tensors = {
            "input_tensor": numbered(data_type, sizes, strides_in(sizes, order, 1, input_gap)),
            "output_tensor": blank_tensor(data_type, sizes, strides_in(sizes, order, 1, output_gap)),
        }
        assert_native_matches_reference(devices, OperatorCase("COPY", tensors, {}))


@pytest.mark.parametrize("data_type", ["UINT8", "UINT16", "UINT32", "INT64"])
@pytest.mark.parametrize(("input_step", "output_step"), [(2, 1), (1, 2), (3, 2), (0, 1), (0, 2)])
def test_steps(devices: Devices, data_type: str, input_step: int, output_step: int) -> None:
    sizes, order = (1, 30, 50, 97), (0, 1, 2, 3)
    tensors = {
        "input_tensor": numbered(data_type, sizes, strides_in(sizes, order, input_step, 2)),
        "output_tensor": blank_tensor(data_type, sizes, strides_in(sizes, order, output_step, 2)),
    }
    assert_native_matches_reference(devices, OperatorCase("COPY", tensors, {}))


@pytest.mark.parametrize("data_type", ["UINT8", "UINT16", "UINT32", "INT64"])
@pytest.mark.parametrize(
    ("sizes", "repeated"),
    [
        ((30_000, 1, 1, 7), (0,)),
        ((300, 40, 2, 9), (0, 2)),
        ((3, 2, 30, 2, 14), (1, 3)),
        ((40, 3, 2, 50), (2,)),
        ((5, 2, 9, 3, 4), (0, 2, 3)),
        ((3, 200, 2, 200), (0,)),
        ((2, 260, 1, 260), (0,)),
        ((700, 3, 40, 1), (0, 2)),
        ((40, 50, 60), (0, 1)),
        ((30, 1, 1, 1500), (0,)),
        ((2, 30, 3, 1100), (1,)),
        ((3, 5, 2, 1, 2), (2, 4)),
        ((2, 7, 40, 2, 13, 2), (3, 5)),
        ((300, 20, 2, 37, 2), (2, 4)),
    ],
)
@pytest.mark.parametrize("gap", [0, 3])
def test_repeats(devices: Devices, data_type: str, sizes: tuple[int, ...], repeated: tuple[int, ...], gap: int) -> None:
    """Axes along which the input is one element long: of slices without gaps and with, of few rows and many."""
    order = tuple(range(len(sizes)))
    own = tuple(1 if axis in repeated else size for axis, size in enumerate(sizes))
    strides = tuple(0 if axis in repeated else stride for axis, stride in enumerate(strides_in(own, order, 1, 0)))
    tensors = {
        "input_tensor": numbered(data_type, sizes, strides),
        "output_tensor": blank_tensor(data_type, sizes, strides_in(sizes, order, 1, gap)),
    }
    assert_native_matches_reference(devices, OperatorCase("COPY", tensors, {}))


@pytest.mark.parametrize("data_type", ["UINT8", "UINT16", "UINT32", "INT64"])
@pytest.mark.parametrize("row", [0, 9, 11])
def test_images_of_twice_the_size_with_gaps(devices: Devices, data_type: str, row: int) -> None:
    """Between pairs of rows of the output; of rows of the input that are one, neighbours, and apart."""
    sizes = (5, 20, 2, 9, 2)
    tensors = {
        "input_tensor": numbered(data_type, sizes, (300, row, 0, 1, 0)),
        "output_tensor": blank_tensor(data_type, sizes, (1000, 40, 18, 2, 1)),
    }
    assert_native_matches_reference(devices, OperatorCase("COPY", tensors, {}))


def test_a_description_tells_the_tasks_that_copy_and_those_that_repeat() -> None:
    tensors = {
        "input_tensor": blank_tensor("UINT8", (30_000, 7), (0, 1)),
        "output_tensor": blank_tensor("UINT8", (30_000, 7), None),
    }
    assert bind_native(dmlcpu.Device(num_threads=2), "COPY", tensors, {}).describe().splitlines() == [
        "copy: runs, 1 block of 1 x 7 elements, 30000 times",
        "tasks: 1, on 1 thread, then 8 tasks on 2 threads that repeat these elements",
    ]


@pytest.mark.parametrize(
    ("input_type", "input_sizes"), [("INT8", (4, 5)), ("FLOAT32", (4, 5)), ("UINT8", (4, 6)), ("UINT8", (20,))]
)
def test_refuses_what_does_not_fit(device: dmlcpu.Device, input_type: str, input_sizes: tuple[int, ...]) -> None:
    tensors = {
        "input_tensor": blank_tensor(input_type, input_sizes, None),
        "output_tensor": blank_tensor("UINT8", (4, 5), None),
    }
    with pytest.raises(ValueError, match=r"sizes|data type"):
        run_native(device, "COPY", tensors, {})
