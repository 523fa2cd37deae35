"""SCATTER_ELEMENTS on random layouts, against the reference; indices that name nothing."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dmlcpu
from fills import INPUT_FLOATS, input_fills
from graph_cases import assert_native_matches_reference, random_tensor
from laid_out import packed
from native_operator import run_native
from operator_case import OperatorCase
from strategies import indices_into, input_tensors, output_tensors, tensor_sizes
from strided_tensor import NUMPY_TYPES, StridedTensor, blank_tensor

Devices = Mapping[str, dmlcpu.Device]

DATA_TYPES = ("UINT8", "INT8", "FLOAT16", "INT32", "FLOAT32", "INT64")
REDUCED = ("INT32", "FLOAT32", "INT64")


@st.composite
def cases(draw: st.DrawFn) -> OperatorCase:
    sizes = draw(tensor_sizes())
    axis, reduction = draw(st.integers(0, len(sizes) - 1)), draw(st.integers(0, 4))
    written = tuple(draw(st.integers(1, size + 9 * (place == axis))) for place, size in enumerate(sizes))
    data_type = draw(st.sampled_from(REDUCED if reduction else DATA_TYPES))
    fills = INPUT_FLOATS if data_type == "FLOAT32" else input_fills(NUMPY_TYPES[data_type])
    tensors = {
        "input_tensor": draw(input_tensors(data_type, sizes, fills)),
        "indices_tensor": draw(indices_into(written, sizes[axis])),
        "updates_tensor": draw(input_tensors(data_type, written, fills)),
        "output_tensor": draw(output_tensors(data_type, sizes)),
    }
    return OperatorCase("SCATTER_ELEMENTS", tensors, {"axis": [axis], "reduction": [reduction]})


@given(cases())
def test_scatter_elements(devices: Devices, case: OperatorCase) -> None:
    assert_native_matches_reference(devices, case)


@pytest.mark.parametrize("data_type", REDUCED)
@pytest.mark.parametrize("reduction", range(5))
@pytest.mark.parametrize(("columns", "repeats"), [(1, False), (7, True), (1100, True), (40, False), (70_001, True)])
def test_rows(
    devices: Devices, random_numbers: np.random.Generator, data_type: str, reduction: int, columns: int, repeats: bool
) -> None:
    """More columns than are updated together, or than a task has, by an index of their own or one for all."""
    rows = 90 if columns < 2000 else 4
    places = random_numbers.integers(-9, 9, (rows, 1 if repeats else columns))
    strides = (1, 0) if repeats else None
    tensors = {
        "input_tensor": of_rows(random_numbers, data_type, (9, columns)),
        "indices_tensor": StridedTensor("INT64", (rows, columns), strides, places.ravel()),
        "updates_tensor": of_rows(random_numbers, data_type, (rows, columns)),
        "output_tensor": blank_tensor(data_type, (9, columns), None),
    }
    case = OperatorCase("SCATTER_ELEMENTS", tensors, {"axis": [0], "reduction": [reduction]})
    assert_native_matches_reference(devices, case)


def of_rows(rng: np.random.Generator, data_type: str, sizes: tuple[int, ...]) -> StridedTensor:
    if data_type != "FLOAT32":
        return random_tensor(rng, data_type, sizes)
    return packed(rng.normal(1, 3, sizes).astype(np.float32))


@pytest.mark.parametrize("reduction", [0, 1])
@pytest.mark.parametrize("data_type", ["INT32", "INT64"])
@pytest.mark.parametrize("wrong", [5, -6, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("repeats", [False, True])
def test_indices_out_of_range(device: dmlcpu.Device, reduction: int, data_type: str, wrong: int, repeats: bool) -> None:
    """Nothing is written for any."""
    places = np.zeros((7, 1 if repeats else 3), NUMPY_TYPES[data_type])
    places[6] = wrong
    tensors = {
        "input_tensor": packed(np.zeros((5, 3), np.int32)),
        "indices_tensor": StridedTensor(data_type, (7, 3), (1, 0) if repeats else None, places.ravel()),
        "updates_tensor": packed(np.ones((7, 3), np.int32)),
        "output_tensor": blank_tensor("INT32", (5, 3), None),
    }
    with pytest.raises(IndexError, match=rf"^got index {wrong}, expected one from -5 to 4$"):
        run_native(device, "SCATTER_ELEMENTS", tensors, {"axis": [0], "reduction": [reduction]})


Layout = tuple[tuple[int, ...], str]
INPUT: Layout = ((4, 5), "FLOAT32")
INDICES: Layout = ((3, 5), "INT64")
UPDATES: Layout = ((3, 5), "FLOAT32")


@pytest.mark.parametrize(
    ("layouts", "axis", "reduction"),
    [
        ([INPUT, INDICES, UPDATES, INPUT], 2, 0),
        ([INPUT, INDICES, UPDATES, INPUT], 0, 5),
        ([INPUT, INDICES, UPDATES, ((4, 4), "FLOAT32")], 0, 0),
        ([INPUT, INDICES, UPDATES, ((4, 5), "INT32")], 0, 0),
        ([INPUT, INDICES, ((3, 5), "INT32"), INPUT], 0, 0),
        ([INPUT, INDICES, ((4, 5), "FLOAT32"), INPUT], 0, 0),
        ([INPUT, ((3, 5), "FLOAT32"), UPDATES, INPUT], 0, 0),
        ([INPUT, ((3, 6), "INT64"), ((3, 6), "FLOAT32"), INPUT], 0, 0),
        ([INPUT, ((15,), "INT64"), ((15,), "FLOAT32"), INPUT], 0, 0),
        ([INPUT, ((15,), "INT64"), UPDATES, INPUT], 0, 0),
        ([((4, 5), "UINT8"), INDICES, ((3, 5), "UINT8"), ((4, 5), "UINT8")], 0, 1),
    ],
    ids=str,
)
def test_refuses_what_does_not_fit(device: dmlcpu.Device, layouts: list[Layout], axis: int, reduction: int) -> None:
    names = ("input_tensor", "indices_tensor", "updates_tensor", "output_tensor")
    tensors = {
        name: packed(np.zeros(sizes, NUMPY_TYPES[data_type]))
        for name, (sizes, data_type) in zip(names, layouts, strict=True)
    }
    with pytest.raises(ValueError, match=r"SCATTER_ELEMENTS|differ in sizes|data type"):
        run_native(device, "SCATTER_ELEMENTS", tensors, {"axis": [axis], "reduction": [reduction]})
