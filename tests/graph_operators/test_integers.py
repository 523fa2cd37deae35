"""What graphs compute of integers and conditions: arithmetic, comparisons and choices, against the reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import dmlcpu
from dispatching import assert_equal, expected_storage, inside
from fills import Fill, few_numbers, input_fills
from graph_cases import assert_native_matches_reference, random_tensor, strides_of
from laid_out import packed
from native_operator import run_native
from operator_case import OperatorCase
from reference.logical import FUNCTIONS
from strategies import input_tensors, output_tensors, tensor_sizes
from strided_tensor import NUMPY_TYPES, StridedTensor, blank_tensor

Devices = Mapping[str, dmlcpu.Device]

AND = 6
INTEGERS = ("INT32", "INT64")


def quotient(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Rounded toward zero: of the floor one more where there is a rest and the exact quotient is negative."""
    floor, rest = np.divmod(a, b)
    return np.where(b == 0, 0, floor + ((rest != 0) & ((a < 0) != (b < 0)))).astype(a.dtype)


# By the number of the function.
BINARY: Mapping[int, Callable[..., Any]] = {
    0: np.add,
    1: np.subtract,
    2: np.multiply,
    3: quotient,
    4: np.maximum,
    5: np.minimum,
    6: np.fmod,
    7: np.mod,
    8: np.bitwise_and,
    9: np.bitwise_or,
    10: np.bitwise_xor,
}


def fills(data_type: str) -> tuple[Fill, ...]:
    return (few_numbers, *input_fills(NUMPY_TYPES[data_type]))


def assert_gives(
    devices: Devices, operator: str, tensors: Mapping[str, StridedTensor], attributes: dict[str, list[int]], values: Any
) -> None:
    expected = expected_storage(tensors["output_tensor"], values)
    for label, device in devices.items():
        result = run_native(device, operator, tensors, attributes)["output_tensor"]
        assert_equal(result, expected, label)


@given(st.sampled_from(sorted(BINARY)), st.sampled_from(INTEGERS), st.data())
def test_binary(devices: Devices, function: int, data_type: str, data: st.DataObject) -> None:
    sizes = data.draw(tensor_sizes())
    a, b = (data.draw(input_tensors(data_type, sizes, fills(data_type))) for _ in range(2))
    tensors = {"a_tensor": a, "b_tensor": b, "output_tensor": data.draw(output_tensors(data_type, sizes))}
    with np.errstate(all="ignore"):
        values = BINARY[function](a.logical(), b.logical())
    assert_gives(devices, "ELEMENT_WISE_BINARY", tensors, {"function": [function]}, values)


@given(st.sampled_from(range(len(FUNCTIONS))), st.sampled_from(("UINT8", "INT32", "INT64", "FLOAT32")), st.data())
def test_logical(devices: Devices, function: int, data_type: str, data: st.DataObject) -> None:
    data_type = "UINT8" if function >= AND else data_type
    sizes = data.draw(tensor_sizes())
    tensors = {
        "a_tensor": data.draw(input_tensors(data_type, sizes, fills(data_type))),
        "b_tensor": data.draw(input_tensors(data_type, sizes, fills(data_type))),
        "output_tensor": data.draw(output_tensors("UINT8", sizes)),
    }
    case = OperatorCase("ELEMENT_WISE_LOGICAL", tensors, {"function": [function]})
    assert_native_matches_reference(devices, case)


@pytest.mark.parametrize("columns", [1, 14, 33])
@pytest.mark.parametrize("gap", [0, 2])
def test_logical_of_planes_of_rows(
    devices: Devices, random_numbers: np.random.Generator, columns: int, gap: int
) -> None:
    """Of one element for each row and the same elements in all rows; more rows than a task has."""
    sizes = (3, 2000, columns)
    a = random_numbers.integers(-4, 5, 3 * 2000).astype(np.float32)
    b = random_numbers.integers(-4, 5, columns).astype(np.float32)
    row = columns + gap
    tensors = {
        "a_tensor": StridedTensor("FLOAT32", sizes, (2000, 1, 0), a),
        "b_tensor": StridedTensor("FLOAT32", sizes, (0, 0, 1), b),
        "output_tensor": blank_tensor("UINT8", sizes, (2000 * row + gap, row, 1)),
    }
    assert_native_matches_reference(devices, OperatorCase("ELEMENT_WISE_LOGICAL", tensors, {"function": [4]}))


@given(st.sampled_from(("UINT8", "INT8", "FLOAT16", "UINT16", "INT32", "FLOAT32", "INT64")), st.data())
def test_if(devices: Devices, data_type: str, data: st.DataObject) -> None:
    sizes = data.draw(tensor_sizes())
    condition = data.draw(input_tensors("UINT8", sizes, (few_numbers, *input_fills(np.dtype(np.uint8)))))
    a, b = (data.draw(input_tensors(data_type, sizes, input_fills(NUMPY_TYPES[data_type]))) for _ in range(2))
    output = data.draw(output_tensors(data_type, sizes))
    tensors = {"condition_tensor": condition, "a_tensor": a, "b_tensor": b, "output_tensor": output}
    values = np.where(condition.logical() != 0, a.logical(), b.logical())
    assert_gives(devices, "ELEMENT_WISE_IF", tensors, {}, values)


@pytest.mark.parametrize("repeating", ["none", "condition", "a", "b", "a and b", "all"])
def test_if_of_long_runs(devices: Devices, random_numbers: np.random.Generator, repeating: str) -> None:
    """Longer than a task."""
    sizes = (3, 50_021)

    def operand(name: str, data_type: str) -> StridedTensor:
        strides = (0, 0) if repeating == "all" or name in repeating.split(" and ") else None
        return random_tensor(random_numbers, data_type, sizes, strides)

    condition, a, b = operand("condition", "UINT8"), operand("a", "INT32"), operand("b", "INT32")
    tensors = {"condition_tensor": condition, "a_tensor": a, "b_tensor": b}
    tensors["output_tensor"] = blank_tensor("INT32", sizes, None)
    values = np.where(condition.logical() != 0, a.logical(), b.logical())
    assert_gives(devices, "ELEMENT_WISE_IF", tensors, {}, values)


@pytest.mark.parametrize("operator", ["ARGMAX", "ARGMIN"])
@given(st.sampled_from(("UINT8", "INT8", "INT32", "INT64", "FLOAT32")), st.integers(0, 1), st.data())
def test_places_of_extremes(
    devices: Devices, operator: str, data_type: str, direction: int, data: st.DataObject
) -> None:
    sizes = data.draw(tensor_sizes())
    axis = data.draw(st.integers(0, len(sizes) - 1))
    x = data.draw(input_tensors(data_type, sizes, (few_numbers, *input_fills(NUMPY_TYPES[data_type])[:3])))
    output = data.draw(output_tensors("INT64", (*sizes[:axis], 1, *sizes[axis + 1 :])))
    values = np.where(np.isnan(x.logical()), 0, x.logical())  # below, what a NaN does
    plain = packed(values.astype(NUMPY_TYPES[data_type]))
    find = np.argmax if operator == "ARGMAX" else np.argmin
    rows = np.flip(values, axis) if direction else values
    places = find(rows, axis, keepdims=True)
    expected = sizes[axis] - 1 - places if direction else places
    tensors = {"input_tensor": x if data_type != "FLOAT32" else plain, "output_tensor": output}
    assert_gives(devices, operator, tensors, {"axis": [axis], "axis_direction": [direction]}, expected)


@pytest.mark.parametrize("layout", ["channels first", "channels last"])
def test_places_of_extremes_in_several_tasks(
    devices: Devices, random_numbers: np.random.Generator, layout: str
) -> None:
    sizes = (2, 21, 190, 200)
    tensors = {
        "input_tensor": random_tensor(random_numbers, "UINT8", sizes, strides_of(sizes, layout, 3)),
        "output_tensor": blank_tensor("INT64", (2, 1, 190, 200), None),
    }
    expected = np.argmax(tensors["input_tensor"].logical(), 1, keepdims=True)
    assert_gives(devices, "ARGMAX", tensors, {"axis": [1], "axis_direction": [0]}, expected)


@pytest.mark.parametrize("operator", ["ARGMAX", "ARGMIN"])
@pytest.mark.parametrize("data_type", ["UINT8", "INT8", "INT32", "INT64", "FLOAT32"])
@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize("length", [1, 2, 19, 31, 32, 33, 63, 64, 65, 100, 255, 256, 257, 1025])
@pytest.mark.parametrize("gap", [0, 3])
def test_places_of_extremes_of_rows(
    devices: Devices,
    random_numbers: np.random.Generator,
    operator: str,
    data_type: str,
    direction: int,
    length: int,
    gap: int,
) -> None:
    """Short rows, which are transposed, and long ones; of floats a few are NaN, the first ones too."""
    sizes, dtype = (301, length), NUMPY_TYPES[data_type]
    values = (random_numbers.integers(0, 5, sizes) - (0 if data_type == "UINT8" else 2)).astype(dtype)
    plain = values.astype(np.float64)
    if data_type == "FLOAT32":
        missing = random_numbers.random(sizes) < 0.1
        values[missing] = np.nan
        plain[missing] = -9 if operator == "ARGMAX" else 9
        plain[missing[:, 0]] = 0
    find = np.argmax if operator == "ARGMAX" else np.argmin
    places = find(np.flip(plain, 1) if direction else plain, 1)
    expected = length - 1 - places if direction else places
    if data_type == "FLOAT32":
        expected[missing[:, 0]] = 0
    buffer = np.zeros((sizes[0], length + gap), dtype)
    buffer[:, :length] = values
    tensors = {
        "input_tensor": StridedTensor(data_type, sizes, (length + gap, 1), buffer.reshape(-1)),
        "output_tensor": blank_tensor("INT64", (sizes[0], 1), None),
    }
    assert_gives(devices, operator, tensors, {"axis": [1], "axis_direction": [direction]}, expected[:, None])


def test_a_nan_is_no_extreme_but_where_it_is_first(device: dmlcpu.Device) -> None:
    x = np.float32([[1, np.nan, 3], [np.nan, 9, 1], [-np.inf, np.nan, -np.inf]])
    tensors = {"input_tensor": packed(x), "output_tensor": blank_tensor("INT64", (3, 1), None)}
    result = run_native(device, "ARGMAX", tensors, {"axis": [1], "axis_direction": [0]})["output_tensor"]
    assert inside(result).tolist() == [2, 0, 0]


def tensor(data_type: str, sizes: tuple[int, ...] = (3, 5)) -> StridedTensor:
    return packed(np.zeros(sizes, NUMPY_TYPES[data_type]))


@pytest.mark.parametrize(
    ("operator", "tensors", "attributes"),
    [
        ("ELEMENT_WISE_BINARY", [tensor("INT64"), tensor("INT32"), tensor("INT64")], {"function": [0]}),
        ("ELEMENT_WISE_BINARY", [tensor("INT64"), tensor("INT64"), tensor("INT32")], {"function": [0]}),
        ("ELEMENT_WISE_BINARY", [tensor("INT64"), tensor("INT64"), tensor("FLOAT32")], {"function": [0]}),
        ("ELEMENT_WISE_BINARY", [tensor("INT64"), tensor("INT64"), tensor("INT64")], {"function": [11]}),
        ("ELEMENT_WISE_BINARY", [tensor("UINT8"), tensor("UINT8"), tensor("UINT8")], {"function": [0]}),
        ("ELEMENT_WISE_LOGICAL", [tensor("INT64"), tensor("INT32"), tensor("UINT8")], {"function": [0]}),
        ("ELEMENT_WISE_LOGICAL", [tensor("INT64"), tensor("INT64"), tensor("INT64")], {"function": [0]}),
        ("ELEMENT_WISE_LOGICAL", [tensor("INT64"), tensor("INT64"), tensor("UINT8")], {"function": [6]}),
        ("ELEMENT_WISE_LOGICAL", [tensor("UINT8"), tensor("UINT8"), tensor("UINT8")], {"function": [9]}),
        ("ELEMENT_WISE_LOGICAL", [tensor("UINT8"), tensor("UINT8", (5, 3)), tensor("UINT8")], {"function": [6]}),
        ("ELEMENT_WISE_IF", [tensor("INT32"), tensor("INT32"), tensor("INT32"), tensor("INT32")], {}),
        ("ELEMENT_WISE_IF", [tensor("UINT8"), tensor("INT32"), tensor("FLOAT32"), tensor("INT32")], {}),
        ("ELEMENT_WISE_IF", [tensor("UINT8"), tensor("INT32"), tensor("INT32"), tensor("INT64")], {}),
        ("ELEMENT_WISE_IF", [tensor("UINT8", (3, 1)), tensor("INT32"), tensor("INT32"), tensor("INT32")], {}),
        ("ARGMAX", [tensor("UINT8"), tensor("INT64")], {"axis": [1], "axis_direction": [0]}),
        ("ARGMAX", [tensor("UINT8"), tensor("INT64", (3, 1))], {"axis": [2], "axis_direction": [0]}),
        ("ARGMAX", [tensor("UINT8"), tensor("INT64", (2, 1))], {"axis": [1], "axis_direction": [0]}),
        ("ARGMAX", [tensor("UINT8"), tensor("INT64", (3,))], {"axis": [1], "axis_direction": [0]}),
        ("ARGMAX", [tensor("UINT32"), tensor("INT64", (3, 1))], {"axis": [1], "axis_direction": [0]}),
        ("ARGMIN", [tensor("UINT8"), tensor("INT32", (3, 1))], {"axis": [1], "axis_direction": [0]}),
        ("CAST", [tensor("INT64"), tensor("INT64")], {}),
        ("CAST", [tensor("INT64"), tensor("UINT8")], {}),
        ("CAST", [tensor("INT64"), tensor("INT32", (15,))], {}),
    ],
)
def test_refuses(
    device: dmlcpu.Device, operator: str, tensors: list[StridedTensor], attributes: dict[str, list[int]]
) -> None:
    names = ("condition_tensor", "a_tensor", "b_tensor") if len(tensors) == 4 else ("a_tensor", "b_tensor")
    named = dict(zip((*names[: len(tensors) - 1], "output_tensor"), tensors, strict=True))
    with pytest.raises(ValueError, match=rf"{operator}|differ in sizes"):
        run_native(device, operator, named, attributes)
