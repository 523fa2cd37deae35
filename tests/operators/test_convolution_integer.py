"""CONVOLUTION_INTEGER on random layouts, tile edges and adversarial values, against the reference."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dmlcpu
from convolution_shapes import ConvolutionShape, ConvolutionTypes, packed_integer_case
from dispatching import assert_equal, assert_matches_reference
from fills import INTEGERS, Fill, highest_integers, lowest_integers
from operator_case import OperatorCase
from reference.convolution_integer import convolution_integer
from strategies import (
    BYTE_TYPES,
    Run,
    arrays,
    drawn_input,
    drawn_output,
    drawn_zero_points,
    one_element_sizes,
    runs,
)
from strided_tensor import NUMPY_TYPES
from tested_convolutions import (
    depthwise_shapes,
    edge_shapes,
    grouped_shapes,
    random_shapes,
    repeated_channel_shapes,
    window_shapes,
    winograd_shapes,
)

Devices = Mapping[str, dmlcpu.Device]

ALL_TYPES = [ConvolutionTypes(*names) for names in itertools.product(BYTE_TYPES, repeat=2)]


@pytest.mark.parametrize(
    "shape",
    [
        *edge_shapes(),
        *depthwise_shapes(),
        *window_shapes(),
        *repeated_channel_shapes(),
        *grouped_shapes(),
        *winograd_shapes(),
    ],
    ids=str,
)
def test_shapes_at_tile_edges(devices: Devices, random_numbers: np.random.Generator, shape: ConvolutionShape) -> None:
    for types, is_channels_last in zip(ALL_TYPES[1:3], (False, True), strict=True):
        case = packed_integer_case(shape, types, random_numbers, is_channels_last=is_channels_last)
        assert_matches_reference(devices, case, owned={"filter_tensor", "filter_zero_point_tensor"})


@pytest.mark.parametrize("types", ALL_TYPES, ids=lambda types: f"{types.input}-{types.filter}")
@pytest.mark.parametrize("fill", [highest_integers, lowest_integers], ids=["highest", "lowest"])
def test_sums_that_wrap(
    devices: Devices, random_numbers: np.random.Generator, types: ConvolutionTypes, fill: Fill
) -> None:
    """255 x 127 in 70000 taps is beyond int32."""
    for shape in (ConvolutionShape(7000, 3, (1, 10), (1, 10)), ConvolutionShape(1, 1, (5, 9), (3, 3), groups=33)):
        case = packed_integer_case(shape, types, random_numbers, operand_fill=fill)
        absent = dict.fromkeys(("input_zero_point_tensor", "filter_zero_point_tensor"))
        assert_matches_reference(devices, case)
        assert_matches_reference(devices, OperatorCase(case.operator, {**case.tensors, **absent}, case.attributes))


@st.composite
def cases(draw: st.DrawFn) -> OperatorCase:
    shape, types = draw(random_shapes()), draw(st.sampled_from(ALL_TYPES))
    channels = shape.filter_sizes[0]
    per_channel = st.sampled_from(((1, channels), (1, channels, 1), (1, channels, 1, 1)))
    tensors = {
        "input_tensor": drawn_input(draw, types.input, shape.input_sizes, INTEGERS),
        "input_zero_point_tensor": drawn_zero_points(draw, types.input, draw(one_element_sizes(4))),
        "filter_tensor": drawn_input(draw, types.filter, shape.filter_sizes, INTEGERS),
        "filter_zero_point_tensor": drawn_zero_points(draw, types.filter, draw(per_channel | one_element_sizes(4))),
        "output_tensor": drawn_output(draw, "INT32", shape.output_sizes),
    }
    return OperatorCase("CONVOLUTION_INTEGER", tensors, shape.attributes)


@given(runs(cases()))
def test_objects_equal_the_reference(devices: Devices, run: Run) -> None:
    assert_matches_reference(devices, run.case, owned=run.owned, shaped=run.shaped)


@given(st.data())
def test_function_equals_the_reference(devices: Devices, data: st.DataObject) -> None:
    shape, types = data.draw(random_shapes()), data.draw(st.sampled_from(ALL_TYPES))
    input_type, filter_type = NUMPY_TYPES[types.input], NUMPY_TYPES[types.filter]
    arguments: tuple[Any, ...] = (
        data.draw(arrays(input_type, shape.input_sizes, INTEGERS)),
        data.draw(st.none() | arrays(input_type, (1,), INTEGERS)),
        data.draw(arrays(filter_type, shape.filter_sizes, INTEGERS)),
        data.draw(
            st.none() | arrays(filter_type, data.draw(st.sampled_from([(1,), shape.filter_sizes[:1]])), INTEGERS)
        ),
    )
    attributes: dict[str, Any] = {
        name: value[: len(shape.input)] if isinstance(value, tuple) else value
        for name, value in shape.attributes.items()
    }
    expected = convolution_integer(*arguments, **attributes)
    for label, device in devices.items():
        result = dmlcpu.convolution_integer(*arguments, **attributes, device=device)
        assert_equal(result, expected, label)


def test_the_function_writes_out_and_keeps_the_order_of_memory() -> None:
    image = np.arange(96, dtype=np.uint8).reshape(2, 4, 4, 3).transpose(0, 3, 1, 2)
    box = np.ones((5, 3, 2, 2), np.int8)
    result = dmlcpu.convolution_integer(image, 3, box, None)
    assert result.transpose(0, 2, 3, 1).flags.c_contiguous
    out = np.zeros((2, 5, 3, 3), np.int32)
    assert dmlcpu.convolution_integer(image, 3, box, None, out=out) is out
    assert out.tolist() == result.tolist()
