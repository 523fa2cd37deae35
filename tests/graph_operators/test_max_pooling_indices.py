"""MAX_POOLING_INDICES on random layouts and windows, and in tasks, against the reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dmlcpu
from dispatching import inside
from fills import few_numbers, input_fills
from graph_cases import assert_native_matches_reference
from laid_out import packed
from native_operator import run_native
from operator_case import OperatorCase
from pooling_shapes import PoolingShape, window_axes
from strategies import input_tensors, output_tensors
from strided_tensor import NUMPY_TYPES, StridedTensor, blank_tensor

Devices = Mapping[str, dmlcpu.Device]

DATA_TYPES: Final = ("UINT8", "INT8", "FLOAT32")


def attributes_of(shape: PoolingShape, storage_order: int) -> dict[str, Any]:
    attributes = {name: entries for name, entries in shape.attributes.items() if name != "include_padding"}
    return {**attributes, "storage_order": [storage_order]}


@st.composite
def cases(draw: st.DrawFn) -> OperatorCase:
    """Of few numbers there are often several maxima."""
    axes = draw(st.lists(window_axes(), min_size=1, max_size=3).filter(lambda axes: len(axes) < 3 or axes[2][0] < 8))
    sizes, window, strides, dilations, start, end = (tuple(entries) for entries in zip(*axes, strict=True))
    channels, batch = draw(st.integers(1, 4)), draw(st.integers(1, 2))
    shape = PoolingShape(channels, sizes, window, batch, strides, dilations, start, end)
    data_type = draw(st.sampled_from(DATA_TYPES))
    fills = (few_numbers, *input_fills(NUMPY_TYPES[data_type]))
    tensors = {
        "input_tensor": draw(input_tensors(data_type, shape.input_sizes, fills)),
        "output_tensor": draw(output_tensors("INT64", shape.output_sizes)),
    }
    return OperatorCase("MAX_POOLING_INDICES", tensors, attributes_of(shape, draw(st.integers(0, 1))))


@given(cases())
def test_random_layouts(devices: Devices, case: OperatorCase) -> None:
    assert_native_matches_reference(devices, case)


@pytest.mark.parametrize("data_type", DATA_TYPES)
@pytest.mark.parametrize("storage_order", [0, 1])
@pytest.mark.parametrize(
    "shape",
    [
        PoolingShape(9, (40, 270), (2, 2), 2, (2, 2)),
        PoolingShape(3, (31, 300), (3, 3), 1, (1, 1), (1, 2), (1, 2), (1, 2)),
        PoolingShape(2, (4000,), (3,), 3, (1,), (), (1,), (0,)),
        PoolingShape(2, (9, 10, 131), (2, 3, 2), 1, (2, 1, 1)),
        PoolingShape(70, (7, 7), (7, 7), 2),
    ],
    ids=str,
)
def test_several_tasks(
    devices: Devices,
    random_numbers: np.random.Generator,
    data_type: str,
    storage_order: int,
    shape: PoolingShape,
) -> None:
    """More columns than are kept together, and as many; a few of the floats are NaN."""
    numbers = random_numbers.integers(0, 9, shape.input_sizes).astype(NUMPY_TYPES[data_type])
    if data_type == "FLOAT32":
        numbers[random_numbers.random(shape.input_sizes) < 0.02] = np.nan
    tensors = {"input_tensor": packed(numbers), "output_tensor": blank_tensor("INT64", shape.output_sizes, None)}
    case = OperatorCase("MAX_POOLING_INDICES", tensors, attributes_of(shape, storage_order))
    assert_native_matches_reference(devices, case)


def test_the_first_of_equal_maxima_and_of_nan(device: dmlcpu.Device) -> None:
    x = np.float32([[3, 3, 1, np.nan, 0, 0, -np.inf, -np.inf], [3, 2, np.nan, 9, -0.0, 0, -np.inf, -np.inf]])
    tensors = {
        "input_tensor": packed(x.reshape(1, 1, 2, 8)),
        "output_tensor": blank_tensor("INT64", (1, 1, 1, 4), None),
    }
    attributes = attributes_of(PoolingShape(1, (2, 8), (2, 2), 1, (2, 2)), 0)
    result = run_native(device, "MAX_POOLING_INDICES", tensors, attributes)["output_tensor"]
    assert inside(result).tolist() == [0, 3, 4, 6]


INPUT: Final = ((1, 2, 5, 6), "FLOAT32")
OUTPUT: Final = ((1, 2, 2, 3), "INT64")
WINDOW: Final = PoolingShape(2, (5, 6), (2, 2), 1, (2, 2))


@pytest.mark.parametrize(
    ("input_layout", "output_layout", "changed"),
    [
        (((1, 2, 5, 6), "INT32"), OUTPUT, {}),
        (INPUT, ((1, 2, 2, 3), "INT32"), {}),
        (INPUT, ((1, 3, 2, 3), "INT64"), {}),
        (INPUT, ((2, 2, 2, 3), "INT64"), {}),
        (INPUT, ((1, 2, 3, 3), "INT64"), {}),
        (INPUT, ((1, 2, 6), "INT64"), {}),
        (((1, 2), "FLOAT32"), ((1, 2), "INT64"), {}),
        (INPUT, OUTPUT, {"storage_order": [2]}),
        (INPUT, OUTPUT, {"strides": (2,)}),
        (INPUT, OUTPUT, {"strides": (0, 2)}),
        (INPUT, OUTPUT, {"window_size": (2, 0)}),
        (INPUT, OUTPUT, {"window_size": (2**32 - 1, 2), "dilations": (2**32 - 1, 1)}),
        (INPUT, OUTPUT, {"start_padding": (2, 0), "strides": (5, 2)}),
    ],
    ids=str,
)
def test_refuses_what_does_not_fit(
    device: dmlcpu.Device,
    input_layout: tuple[tuple[int, ...], str],
    output_layout: tuple[tuple[int, ...], str],
    changed: dict[str, Any],
) -> None:
    """The last one has a window wholly in the padding."""

    def run(layouts: tuple[tuple[tuple[int, ...], str], ...], attributes: dict[str, Any]) -> None:
        tensors: dict[str, StridedTensor] = {
            name: blank_tensor(data_type, sizes, None)
            for name, (sizes, data_type) in zip(("input_tensor", "output_tensor"), layouts, strict=True)
        }
        run_native(device, "MAX_POOLING_INDICES", tensors, attributes)

    run((INPUT, OUTPUT), attributes_of(WINDOW, 0))
    with pytest.raises(ValueError, match="MAX_POOLING_INDICES"):
        run((input_layout, output_layout), {**attributes_of(WINDOW, 0), **changed})
