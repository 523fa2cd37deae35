"""CUMULATIVE_SUMMATION and CUMULATIVE_PRODUCT on random layouts, and in blocks and tasks, against the references."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dmlcpu
from fills import few_numbers, input_fills
from graph_cases import assert_native_matches_reference, random_tensor
from laid_out import packed
from native_operator import run_native
from operator_case import OperatorCase
from strategies import input_tensors, output_tensors, tensor_sizes
from strided_tensor import NUMPY_TYPES, StridedTensor, blank_tensor

Devices = Mapping[str, dmlcpu.Device]

DATA_TYPES: Final = ("INT32", "UINT32", "INT64", "FLOAT32")
# And what each calls a total without an element's own.
OPERATORS: Final = {"CUMULATIVE_SUMMATION": "has_exclusive_sum", "CUMULATIVE_PRODUCT": "has_exclusive_product"}


def attributes_of(operator: str, axis: int, direction: int = 0, exclusive: int = 0) -> dict[str, list[int]]:
    return {"axis": [axis], "axis_direction": [direction], OPERATORS[operator]: [exclusive]}


@st.composite
def cases(draw: st.DrawFn, operator: str) -> OperatorCase:
    sizes = draw(tensor_sizes())
    data_type = draw(st.sampled_from(DATA_TYPES))
    fills = (few_numbers, *input_fills(NUMPY_TYPES[data_type]))
    tensors = {
        "input_tensor": draw(input_tensors(data_type, sizes, fills)),
        "output_tensor": draw(output_tensors(data_type, sizes)),
    }
    numbers = (draw(st.integers(0, most)) for most in (len(sizes) - 1, 1, 1))
    return OperatorCase(operator, tensors, attributes_of(operator, *numbers))


@pytest.mark.parametrize("operator", OPERATORS)
@given(st.data())
def test_random_layouts(devices: Devices, operator: str, data: st.DataObject) -> None:
    assert_native_matches_reference(devices, data.draw(cases(operator)))


@pytest.mark.parametrize("operator", OPERATORS)
def test_several_tasks(devices: Devices, random_numbers: np.random.Generator, operator: str) -> None:
    tensors = {
        "input_tensor": random_tensor(random_numbers, "INT64", (300, 40, 20)),
        "output_tensor": blank_tensor("INT64", (300, 40, 20), None),
    }
    assert_native_matches_reference(devices, OperatorCase(operator, tensors, attributes_of(operator, 1)))


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("data_type", DATA_TYPES)
@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize(
    ("sizes", "axis"),
    [
        ((3, 9, 2100), 1),
        ((2, 300, 301), 1),
        ((2, 9, 15), 1),
        ((2, 4500, 41), 1),
        ((3, 11, 300), 2),
        ((1, 70), 1),
        ((400, 1, 3), 0),
    ],
)
def test_many_rows(
    devices: Devices,
    random_numbers: np.random.Generator,
    operator: str,
    data_type: str,
    direction: int,
    exclusive: int,
    sizes: tuple[int, ...],
    axis: int,
) -> None:
    """More neighbours than are totalled together, fewer than that is worth, blocks that end early, and rows alone.

    Integers of products are odd, so that none becomes 0 after some of them; floats are near 1.
    """
    is_product = operator == "CUMULATIVE_PRODUCT"
    if data_type == "FLOAT32":
        x = packed(random_numbers.normal(1, 0.2 if is_product else 3, sizes).astype(np.float32))
    else:
        x = random_tensor(random_numbers, data_type, sizes)
        x = packed(x.logical() | np.array(1, NUMPY_TYPES[data_type])) if is_product else x
    tensors = {"input_tensor": x, "output_tensor": blank_tensor(data_type, sizes, None)}
    attributes = attributes_of(operator, axis, direction, exclusive)
    assert_native_matches_reference(devices, OperatorCase(operator, tensors, attributes))


def tensor(data_type: str, sizes: tuple[int, ...] = (3, 5)) -> StridedTensor:
    return packed(np.zeros(sizes, NUMPY_TYPES[data_type]))


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize(
    ("input_tensor", "output_tensor", "numbers"),
    [
        (tensor("INT64"), tensor("INT32"), (0, 0, 0)),
        (tensor("INT32"), tensor("UINT32"), (0, 0, 0)),
        (tensor("FLOAT32"), tensor("INT32"), (0, 0, 0)),
        (tensor("FLOAT16"), tensor("FLOAT16"), (0, 0, 0)),
        (tensor("INT64"), tensor("INT64", (4, 5)), (0, 0, 0)),
        (tensor("INT64"), tensor("INT64"), (2, 0, 0)),
        (tensor("INT64"), tensor("INT64"), (0, 2, 0)),
        (tensor("INT64"), tensor("INT64"), (0, 0, 2)),
    ],
)
def test_refuses(
    device: dmlcpu.Device,
    operator: str,
    input_tensor: StridedTensor,
    output_tensor: StridedTensor,
    numbers: tuple[int, int, int],
) -> None:
    tensors = {"input_tensor": input_tensor, "output_tensor": output_tensor}
    with pytest.raises(ValueError, match=rf"{operator}|differ in sizes"):
        run_native(device, operator, tensors, attributes_of(operator, *numbers))
