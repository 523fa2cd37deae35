"""CONVOLUTION_INTEGER_TO_FLOAT: the sums of CONVOLUTION_INTEGER, scaled in the task that made them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dmlcpu
from convolution_shapes import ConvolutionShape, ConvolutionTypes, channels_last, packed_integer_case
from dispatching import assert_equal, inside
from filled_tensors import FilledTensors, filled
from fills import INPUT_FLOATS, INTEGERS, Fill, any_integers, highest_integers, lowest_integers, ordinary_floats
from graph_cases import assert_native_matches_reference
from native_operator import run_native
from operator_case import OperatorCase
from strategies import BYTE_TYPES, input_tensors, optional_zero_points, output_tensors
from strided_tensor import StridedTensor, blank_tensor
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
OPERATOR = "CONVOLUTION_INTEGER_TO_FLOAT"
OWNED = ("filter_tensor", "filter_zero_point_tensor", "scale_tensor", "bias_tensor")


def float_case(
    shape: ConvolutionShape,
    types: ConvolutionTypes,
    rng: np.random.Generator,
    *,
    is_channels_last: bool = False,
    per_channel: bool = True,
    has_bias: bool = True,
    operand_fill: Fill = any_integers,
) -> OperatorCase:
    """The convolution of `packed_integer_case`, scaled."""
    sums = packed_integer_case(shape, types, rng, is_channels_last=is_channels_last, operand_fill=operand_fill)
    made = FilledTensors(rng, dict(sums.inputs))
    channels, ones = shape.filter_sizes[0], (1,) * len(shape.kernel)
    made.add("scale", "FLOAT32", (1, channels if per_channel else 1, *ones), ordinary_floats)
    made.add("bias", "FLOAT32", (1, channels, *ones), ordinary_floats)
    if not has_bias:
        made.tensors["bias_tensor"] = None
    strides = channels_last(shape.output_sizes) if is_channels_last else None
    made.tensors["output_tensor"] = blank_tensor("FLOAT32", shape.output_sizes, strides)
    return OperatorCase(OPERATOR, made.tensors, {**shape.attributes, "group_count": (shape.groups,)})


def owned_tensors(case: OperatorCase) -> list[str]:
    return [name for name in OWNED if case.tensors[name] is not None]


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
        per_channel, has_bias = (bool(flag) for flag in random_numbers.integers(0, 2, 2))
        case = float_case(
            shape,
            types,
            random_numbers,
            is_channels_last=is_channels_last,
            per_channel=per_channel,
            has_bias=has_bias,
        )
        assert_native_matches_reference(devices, case, owned=owned_tensors(case))


@pytest.mark.parametrize("is_channels_last", [False, True])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize(
    "shape",
    [
        ConvolutionShape(20, 150, (17, 19), (3, 3), batch=2, start_padding=(1, 1), end_padding=(1, 1)),
        ConvolutionShape(1, 1, (19, 23), (3, 3), batch=2, groups=81, start_padding=(1, 1), end_padding=(1, 1)),
        ConvolutionShape(1, 1, (19, 23), (4, 3), batch=2, groups=81),
        ConvolutionShape(1, 2, (9, 11), (3, 3), groups=35, start_padding=(1, 1), end_padding=(1, 1)),
    ],
    ids=["product", "window", "depthwise", "repeated"],
)
def test_equals_three_operators(
    devices: Devices,
    random_numbers: np.random.Generator,
    shape: ConvolutionShape,
    is_channels_last: bool,
    per_channel: bool,
    has_bias: bool,
) -> None:
    """What CONVOLUTION_INTEGER, CAST and two ELEMENT_WISE_BINARY make one after the other, whose bits it has."""
    case = float_case(
        shape,
        ALL_TYPES[1],
        random_numbers,
        is_channels_last=is_channels_last,
        per_channel=per_channel,
        has_bias=has_bias,
    )
    sums_of = {name: case.tensors[name] for name in list(case.tensors)[:4]}
    for label, device in devices.items():
        sums = step(device, case, "CONVOLUTION_INTEGER", sums_of, "INT32", case.attributes)
        result = step(device, case, "CAST", {"input_tensor": sums}, "FLOAT32", {})
        for name, function in (("scale_tensor", 2), ("bias_tensor", 0)):
            operand = case.tensors[name]
            if operand is not None:
                repeated = replace(operand, sizes=result.sizes, strides=(0, int(operand.sizes[1] > 1), 0, 0))
                operands = {"a_tensor": result, "b_tensor": repeated}
                result = step(device, case, "ELEMENT_WISE_BINARY", operands, "FLOAT32", {"function": (function,)})
        actual = step(device, case, OPERATOR, case.inputs, "FLOAT32", case.attributes)
        assert_equal(actual.buffer, result.buffer, label)


def step(
    device: dmlcpu.Device,
    case: OperatorCase,
    operator: str,
    operands: Mapping[str, StridedTensor | None],
    data_type: str,
    attributes: Mapping[str, Any],
) -> StridedTensor:
    """What an operator makes of operands, laid out as the output of the case is."""
    output = blank_tensor(data_type, case.outputs["output_tensor"].sizes, case.outputs["output_tensor"].strides)
    [stored] = run_native(device, operator, {**operands, "output_tensor": output}, attributes).values()
    return replace(output, buffer=inside(stored))


@pytest.mark.parametrize("types", ALL_TYPES, ids=lambda types: f"{types.input}-{types.filter}")
@pytest.mark.parametrize("fill", [highest_integers, lowest_integers], ids=["highest", "lowest"])
def test_sums_that_wrap(
    devices: Devices, random_numbers: np.random.Generator, types: ConvolutionTypes, fill: Fill
) -> None:
    """255 x 127 in 70000 taps is beyond int32."""
    for shape in (ConvolutionShape(7000, 3, (1, 10), (1, 10)), ConvolutionShape(1, 1, (5, 9), (3, 3), groups=33)):
        assert_native_matches_reference(devices, float_case(shape, types, random_numbers, operand_fill=fill))


@st.composite
def cases(draw: st.DrawFn) -> OperatorCase:
    shape, types = draw(random_shapes()), draw(st.sampled_from(ALL_TYPES))
    ones = (1,) * len(shape.output_sizes)
    of_channels = st.sampled_from((ones, (1, shape.filter_sizes[0], *ones[2:])))
    tensors = {
        "input_tensor": draw(input_tensors(types.input, shape.input_sizes, INTEGERS)),
        "input_zero_point_tensor": draw(optional_zero_points(types.input, ones)),
        "filter_tensor": draw(input_tensors(types.filter, shape.filter_sizes, INTEGERS)),
        "filter_zero_point_tensor": draw(optional_zero_points(types.filter, draw(of_channels))),
        "scale_tensor": draw(input_tensors("FLOAT32", draw(of_channels), INPUT_FLOATS)),
        "bias_tensor": draw(st.none() | input_tensors("FLOAT32", draw(of_channels), INPUT_FLOATS)),
        "output_tensor": draw(output_tensors("FLOAT32", shape.output_sizes)),
    }
    return OperatorCase(OPERATOR, tensors, {**shape.attributes, "group_count": (shape.groups,)})


@given(cases(), st.booleans())
def test_equals_the_reference(devices: Devices, case: OperatorCase, owned: bool) -> None:
    """On any layout, by scales and biases that are no numbers, infinite or subnormal, too."""
    assert_native_matches_reference(devices, case, owned=owned_tensors(case) if owned else ())


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("scale_tensor", (1, 3, 1, 1)),
        ("scale_tensor", (1, 4, 1, 2)),
        ("scale_tensor", None),
        ("bias_tensor", (1, 3, 1, 1)),
        ("bias_tensor", (4,)),
    ],
)
def test_parameters_that_do_not_fit(
    device: dmlcpu.Device, random_numbers: np.random.Generator, name: str, sizes: tuple[int, ...] | None
) -> None:
    case = float_case(ConvolutionShape(3, 4, (5, 5), (2, 2)), ALL_TYPES[1], random_numbers)
    given = None if sizes is None else filled(random_numbers, "FLOAT32", sizes, ordinary_floats)
    with pytest.raises(ValueError, match=OPERATOR):
        run_native(device, OPERATOR, {**case.tensors, name: given}, case.attributes)
