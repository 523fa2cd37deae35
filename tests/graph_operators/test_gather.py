"""GATHER and GATHER_ELEMENTS on random layouts, against the reference; indices that name nothing."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dmlcpu
from fills import input_fills
from graph_cases import assert_native_matches_reference, random_tensor
from laid_out import packed
from native_operator import run_native
from operator_case import OperatorCase
from strategies import indices_into, input_tensors, output_tensors, tensor_sizes
from strided_tensor import NUMPY_TYPES, StridedTensor, blank_tensor

Devices = Mapping[str, dmlcpu.Device]

DATA_TYPES = ("UINT8", "INT8", "FLOAT16", "INT32", "FLOAT32", "INT64")


@st.composite
def gather_cases(draw: st.DrawFn) -> OperatorCase:
    sizes = draw(tensor_sizes())
    axis, count = draw(st.integers(0, len(sizes) - 1)), draw(st.integers(1, 40))
    data_type = draw(st.sampled_from(DATA_TYPES))
    tensors = {
        "input_tensor": draw(input_tensors(data_type, sizes, input_fills(NUMPY_TYPES[data_type]))),
        "indices_tensor": draw(indices_into((count,), sizes[axis])),
        "output_tensor": draw(output_tensors(data_type, (*sizes[:axis], count, *sizes[axis + 1 :]))),
    }
    return OperatorCase("GATHER", tensors, {"axis": [axis]})


@st.composite
def gather_elements_cases(draw: st.DrawFn) -> OperatorCase:
    sizes = draw(tensor_sizes())
    axis = draw(st.integers(0, len(sizes) - 1))
    taken = tuple(draw(st.integers(1, size + 9 * (place == axis))) for place, size in enumerate(sizes))
    data_type = draw(st.sampled_from(DATA_TYPES))
    tensors = {
        "input_tensor": draw(input_tensors(data_type, sizes, input_fills(NUMPY_TYPES[data_type]))),
        "indices_tensor": draw(indices_into(taken, sizes[axis])),
        "output_tensor": draw(output_tensors(data_type, taken)),
    }
    return OperatorCase("GATHER_ELEMENTS", tensors, {"axis": [axis]})


@given(gather_cases(), st.booleans())
def test_gather(devices: Devices, case: OperatorCase, owned: bool) -> None:
    assert_native_matches_reference(devices, case, owned=["input_tensor"] if owned else [])


@given(gather_elements_cases())
def test_gather_elements(devices: Devices, case: OperatorCase) -> None:
    assert_native_matches_reference(devices, case)


@pytest.mark.parametrize("operator", ["GATHER", "GATHER_ELEMENTS"])
def test_several_tasks(devices: Devices, random_numbers: np.random.Generator, operator: str) -> None:
    columns = 300 if operator == "GATHER" else 7
    indices = random_numbers.integers(-50, 50, (20_001,) if operator == "GATHER_ELEMENTS" else (701,))
    if operator == "GATHER_ELEMENTS":
        indices = np.stack([indices] * columns, axis=1)
    tensors = {
        "input_tensor": random_tensor(random_numbers, "UINT8", (50, columns)),
        "indices_tensor": packed(indices),
        "output_tensor": blank_tensor("UINT8", (len(indices), columns), None),
    }
    case = OperatorCase(operator, tensors, {"axis": [0]})
    assert_native_matches_reference(devices, case)


@pytest.mark.parametrize("data_type", ["INT8", "UINT16", "INT32", "INT64"])
@pytest.mark.parametrize("index_type", ["INT32", "INT64"])
@pytest.mark.parametrize(("sizes", "count", "axis"), [((3, 2, 1000), 700, 2), ((4, 100, 64), 300, 1)])
def test_elements_of_many_runs(
    devices: Devices,
    random_numbers: np.random.Generator,
    data_type: str,
    index_type: str,
    sizes: tuple[int, ...],
    count: int,
    axis: int,
) -> None:
    """Runs longer than what is looked up together, and planes of runs."""
    taken = (*sizes[:axis], count, *sizes[axis + 1 :])
    indices = random_numbers.integers(-sizes[axis], sizes[axis], taken).astype(NUMPY_TYPES[index_type])
    tensors = {
        "input_tensor": random_tensor(random_numbers, data_type, sizes),
        "indices_tensor": packed(indices),
        "output_tensor": blank_tensor(data_type, taken, None),
    }
    assert_native_matches_reference(devices, OperatorCase("GATHER_ELEMENTS", tensors, {"axis": [axis]}))


@pytest.mark.parametrize("data_type", ["INT8", "UINT16", "INT32", "INT64"])
@pytest.mark.parametrize("index_type", ["INT32", "INT64"])
@pytest.mark.parametrize("inner", [1, 2, 3, 4, 8, 16])
@pytest.mark.parametrize("gap", [0, 1])
def test_rows_of_short_slices(
    devices: Devices, random_numbers: np.random.Generator, data_type: str, index_type: str, inner: int, gap: int
) -> None:
    """Of more indices than are looked up together; slices are one unit of a row, or elements."""
    sizes, count = (130, 40, inner), 1030
    taken = (sizes[0], count, inner)
    tensors = {
        "input_tensor": random_tensor(random_numbers, data_type, sizes, (40 * (inner + gap) + gap, inner + gap, 1)),
        "indices_tensor": packed(random_numbers.integers(-40, 40, count).astype(NUMPY_TYPES[index_type])),
        "output_tensor": blank_tensor(data_type, taken, (count * (inner + gap), inner + gap, 1)),
    }
    assert_native_matches_reference(devices, OperatorCase("GATHER", tensors, {"axis": [1]}))


@pytest.mark.parametrize("data_type", ["INT8", "UINT16", "INT64"])
@pytest.mark.parametrize("inner", [5, 7, 9, 31, 33, 63, 64, 65, 127, 256, 511, 512, 513])
@pytest.mark.parametrize("count", [2, 300])
def test_rows_of_slices(
    devices: Devices, random_numbers: np.random.Generator, data_type: str, inner: int, count: int
) -> None:
    """A unit each or a run, of more than are looked up together; in several tasks."""
    tensors = {
        "input_tensor": random_tensor(random_numbers, data_type, (2, 40, inner), (40 * (inner + 3), inner + 3, 1)),
        "indices_tensor": packed(random_numbers.integers(-40, 40, count)),
        "output_tensor": blank_tensor(data_type, (2, count, inner), (count * (inner + 1), inner + 1, 1)),
    }
    assert_native_matches_reference(devices, OperatorCase("GATHER", tensors, {"axis": [1]}))


@pytest.mark.parametrize("count", [5, 15, 16, 200])
@pytest.mark.parametrize(("input_order", "output_order"), [((0, 1), (1, 0)), ((1, 0), (0, 1)), ((1, 0), (1, 0))])
def test_slices_apart(
    devices: Devices,
    random_numbers: np.random.Generator,
    count: int,
    input_order: tuple[int, int],
    output_order: tuple[int, int],
) -> None:
    """Slices whose elements are neighbours in one tensor alone, or in none."""

    def strides(sizes: tuple[int, int], order: tuple[int, int]) -> tuple[int, ...]:
        return (sizes[1], 1) if order == (0, 1) else (1, sizes[0])

    sizes, taken = (20, 300), (count, 300)
    tensors = {
        "input_tensor": random_tensor(random_numbers, "INT32", sizes, strides(sizes, input_order)),
        "indices_tensor": packed(random_numbers.integers(-20, 20, count)),
        "output_tensor": blank_tensor("INT32", taken, strides(taken, output_order)),
    }
    assert_native_matches_reference(devices, OperatorCase("GATHER", tensors, {"axis": [0]}))


@pytest.mark.parametrize("data_type", ["INT8", "UINT16", "INT32", "INT64"])
@pytest.mark.parametrize("index_type", ["INT32", "INT64"])
@pytest.mark.parametrize(
    ("sizes", "count"), [((5, 64, 2), 3), ((64, 700, 1), 200), ((64, 33, 3), 32), ((64, 33, 3), 31)]
)
def test_slices_brought_into_order(
    devices: Devices,
    random_numbers: np.random.Generator,
    data_type: str,
    index_type: str,
    sizes: tuple[int, int, int],
    count: int,
) -> None:
    """Input whose neighbours are slices: several blocks of them, the last one short; several runs; too few indices."""
    axis_length, columns, runs = sizes
    taken = (count, columns, runs)
    tensors = {
        "input_tensor": random_tensor(random_numbers, data_type, sizes, (1, axis_length, axis_length * columns)),
        "indices_tensor": packed(
            random_numbers.integers(-axis_length, axis_length, count).astype(NUMPY_TYPES[index_type])
        ),
        "output_tensor": blank_tensor(data_type, taken, (columns * runs, 1, columns)),
    }
    assert_native_matches_reference(devices, OperatorCase("GATHER", tensors, {"axis": [0]}))


def test_wrong_indices_of_slices_brought_into_order(device: dmlcpu.Device) -> None:
    tensors = {
        "input_tensor": StridedTensor("INT8", (4, 100), (1, 4), np.zeros(400, np.int8)),
        "indices_tensor": packed(np.array([1, 2, 4, 3])),
        "output_tensor": blank_tensor("INT8", (4, 100), None),
    }
    with pytest.raises(IndexError, match="got index 4"):
        run_native(device, "GATHER", tensors, {"axis": [0]})


WRONG = [
    *[(number, data_type) for number in (50, -51, 2**31 - 1, -(2**31)) for data_type in ("INT32", "INT64")],
    *[(number, "INT64") for number in (2**32 + 3, 2**63 - 1, -(2**63))],
]


@pytest.mark.parametrize("operator", ["GATHER", "GATHER_ELEMENTS"])
@pytest.mark.parametrize(("wrong", "data_type"), WRONG)
@pytest.mark.parametrize("place", [0, 700])
def test_indices_out_of_range(device: dmlcpu.Device, operator: str, wrong: int, data_type: str, place: int) -> None:
    """None is taken modulo 2^32, and nothing beyond the input is read for any."""
    indices = np.zeros((701, 300) if operator == "GATHER_ELEMENTS" else 701, NUMPY_TYPES[data_type])
    indices[place] = wrong
    tensors = {
        "input_tensor": packed(np.zeros((50, 300), np.uint8)),
        "indices_tensor": packed(indices),
        "output_tensor": blank_tensor("UINT8", (701, 300), None),
    }
    with pytest.raises(IndexError, match=rf"^got index {wrong}, expected one from -50 to 49$"):
        run_native(device, operator, tensors, {"axis": [0]})


@pytest.mark.parametrize(("wrong", "data_type"), WRONG)
@pytest.mark.parametrize("place", [0, 1100])
def test_indices_out_of_range_in_rows(device: dmlcpu.Device, wrong: int, data_type: str, place: int) -> None:
    indices = np.zeros(1101, NUMPY_TYPES[data_type])
    indices[place] = wrong
    tensors = {
        "input_tensor": packed(np.zeros((7, 50), np.float32)),
        "indices_tensor": packed(indices),
        "output_tensor": blank_tensor("FLOAT32", (7, 1101), None),
    }
    with pytest.raises(IndexError, match=rf"^got index {wrong}, expected one from -50 to 49$"):
        run_native(device, "GATHER", tensors, {"axis": [1]})


INPUT, INDICES, OUTPUT = ((4, 5), "UINT8"), ((3,), "INT64"), ((4, 3), "UINT8")


@pytest.mark.parametrize(
    ("operator", "layouts", "axis"),
    [
        ("GATHER", [INPUT, INDICES, OUTPUT], 2),
        ("GATHER", [INPUT, INDICES, OUTPUT], -1),
        ("GATHER", [INPUT, INDICES, OUTPUT], 0),
        ("GATHER", [INPUT, ((3, 1), "INT64"), OUTPUT], 1),
        ("GATHER", [INPUT, ((4,), "INT64"), OUTPUT], 1),
        ("GATHER", [INPUT, ((3,), "UINT8"), OUTPUT], 1),
        ("GATHER", [INPUT, ((3,), "FLOAT32"), OUTPUT], 1),
        ("GATHER", [INPUT, INDICES, ((4, 3), "INT8")], 1),
        ("GATHER", [INPUT, INDICES, ((3, 3), "UINT8")], 1),
        ("GATHER", [INPUT, INDICES, ((1, 4, 3), "UINT8")], 1),
        ("GATHER_ELEMENTS", [INPUT, INDICES, OUTPUT], 1),
        ("GATHER_ELEMENTS", [INPUT, ((5, 3), "INT64"), ((5, 3), "UINT8")], 1),
        ("GATHER_ELEMENTS", [INPUT, ((4, 3), "INT64"), ((4, 2), "UINT8")], 1),
        ("GATHER_ELEMENTS", [INPUT, ((4, 3), "INT64"), OUTPUT], 3),
        ("GATHER_ELEMENTS", [INPUT, ((4, 3), "INT64"), ((4, 3), "INT8")], 1),
        ("GATHER_ELEMENTS", [INPUT, ((4, 1, 3), "INT64"), ((4, 1, 3), "UINT8")], 1),
    ],
)
def test_refuses_what_does_not_fit(
    device: dmlcpu.Device, operator: str, layouts: list[tuple[tuple[int, ...], str]], axis: int
) -> None:
    names = ("input_tensor", "indices_tensor", "output_tensor")
    tensors = {
        name: packed(np.zeros(sizes, NUMPY_TYPES[data_type]))
        for name, (sizes, data_type) in zip(names, layouts, strict=True)
    }
    with pytest.raises(ValueError, match=rf"{operator}|differ in sizes"):
        run_native(device, operator, tensors, {"axis": [axis]})
