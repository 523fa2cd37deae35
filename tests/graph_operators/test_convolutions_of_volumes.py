"""Depthwise convolutions of volumes, whose slices are the images of the tensors: of graphs alone."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from convolution_shapes import ConvolutionShape, ConvolutionTypes, channels_last, packed_case
from dispatching import assert_equal_outputs, expected_storage
from filled_tensors import filled
from fills import Fill, any_integers, highest_integers, lowest_integers, ordinary_floats
from native_operator import run_native
from operator_case import OperatorCase
from reference.convolution_integer import convolution_integer
from reference.convolution_integer_to_float import convolution_integer_to_float
from reference.quantized_linear_convolution import quantized_linear_convolution
from strategies import BYTE_TYPES
from strided_tensor import blank_tensor

Devices = Mapping[str, dmlcpu.Device]

TYPES: Final = [ConvolutionTypes(*names) for names in itertools.product(BYTE_TYPES, repeat=2)]
REFERENCES: Final[dict[str, Any]] = {
    "QUANTIZED_LINEAR_CONVOLUTION": quantized_linear_convolution,
    "CONVOLUTION_INTEGER": convolution_integer,
    "CONVOLUTION_INTEGER_TO_FLOAT": convolution_integer_to_float,
}
RESULTS: Final = {"CONVOLUTION_INTEGER": "INT32", "CONVOLUTION_INTEGER_TO_FLOAT": "FLOAT32"}
ONES, TWOS = (1, 1, 1), (2, 2, 2)
SHAPES: Final = {
    "cubes": ConvolutionShape(1, 1, (5, 9, 11), (3, 3, 3), 2, 54, ONES, ONES, ONES, ONES),
    "strided": ConvolutionShape(1, 1, (7, 10, 9), (3, 3, 3), 1, 65, (1, 2, 2), ONES, ONES, ONES),
    "all strided": ConvolutionShape(1, 1, (9, 12, 12), (5, 5, 5), 2, 32, TWOS, ONES, TWOS, (1, 2, 2)),
    "two slices": ConvolutionShape(1, 1, (2, 6, 150), (2, 3, 3), 1, 97, ONES, ONES, (0, 1, 1), (0, 1, 1)),
    "seven slices": ConvolutionShape(1, 1, (4, 6, 5), (7, 5, 5), 1, 48, ONES, ONES, (5, 2, 2), (4, 2, 2)),
    "slices apart": ConvolutionShape(1, 1, (9, 4, 7), (3, 3, 3), 2, 33, (2, 1, 1), (3, 1, 1), (4, 1, 1), (2, 1, 1)),
    "dilated": ConvolutionShape(1, 1, (3, 11, 13), (3, 3, 3), 1, 40, ONES, TWOS, TWOS, TWOS),
}


def of_images(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes of volumes' slices."""
    images, channels, slices, *plane = sizes
    return (images * slices, channels, *plane)


def as_volumes(slices: NDArray[Any], count: int) -> NDArray[Any]:
    return np.moveaxis(slices.reshape(count, -1, *slices.shape[1:]), 1, 2)


def as_slices(volumes: NDArray[Any]) -> NDArray[Any]:
    return np.moveaxis(volumes, 2, 1).reshape(of_images(volumes.shape))


def volume_case(
    operator: str,
    shape: ConvolutionShape,
    types: ConvolutionTypes,
    rng: np.random.Generator,
    is_channels_last: bool,
    fill: Fill = any_integers,
) -> tuple[OperatorCase, NDArray[Any]]:
    """The case of slices, with the attribute that makes volumes of them, and what the reference makes of these."""
    taps, *kernel = shape.kernel
    slices = ConvolutionShape(taps, 1, shape.input[1:], tuple(kernel), shape.batch * shape.input[0], shape.groups)
    made = packed_case(slices, types, rng, operand_fill=fill).tensors
    input_sizes = of_images(shape.input_sizes)
    output_sizes = of_images(shape.output_sizes)
    strides = [channels_last(sizes) if is_channels_last else None for sizes in (input_sizes, output_sizes)]
    made["input_tensor"] = filled(rng, types.input, input_sizes, fill, strides[0])
    ones, channels = (1, 1, 1, 1), (1, shape.groups, 1, 1)
    if operator != "QUANTIZED_LINEAR_CONVOLUTION":
        kept = ("input_tensor", "input_zero_point_tensor", "filter_tensor", "filter_zero_point_tensor")
        made = {name: made[name] for name in kept}
    if operator == "CONVOLUTION_INTEGER_TO_FLOAT":
        made["scale_tensor"] = filled(rng, "FLOAT32", ones, ordinary_floats)
        made["bias_tensor"] = filled(rng, "FLOAT32", channels, ordinary_floats)
    arrays = {name.removesuffix("_tensor"): None if t is None else t.logical() for name, t in made.items()}
    arrays.pop("output", None)
    arrays["input"] = as_volumes(arrays["input"], shape.batch)
    arrays["filter"] = arrays["filter"][:, None]
    if arrays.get("bias") is not None and arrays["bias"].dtype == np.float32:
        arrays["bias"] = arrays["bias"][..., None]
    result_type = RESULTS.get(operator, types.output)
    expected = REFERENCES[operator](**arrays, **shape.attributes, output_data_type=np.dtype(result_type.lower()))
    made["output_tensor"] = blank_tensor(result_type, output_sizes, strides[1])
    attributes = {name: value if name == "group_count" else value[1:] for name, value in shape.attributes.items()}
    attributes["group_count"] = (shape.groups,)
    depths = (shape.input, shape.output_sizes[2:], shape.strides, shape.dilations, shape.start_padding)
    attributes["depth_window"] = tuple(values[0] for values in depths)
    return OperatorCase(operator, made, attributes), as_slices(expected)


def assert_equals_reference(devices: Devices, case: OperatorCase, expected: NDArray[Any], owned: bool) -> None:
    storage = {"output_tensor": expected_storage(case.outputs["output_tensor"], expected)}
    names = ("filter_tensor", "filter_zero_point_tensor") if owned else ()
    for label, device in devices.items():
        actual: dict[str, Any] = run_native(device, case.operator, case.tensors, case.attributes, owned=names)
        assert_equal_outputs(actual, storage, label)


@pytest.mark.parametrize("is_channels_last", [False, True])
@pytest.mark.parametrize("operator", REFERENCES)
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(
    devices: Devices, random_numbers: np.random.Generator, shape: str, operator: str, is_channels_last: bool
) -> None:
    for index, types in enumerate(TYPES[1:3]):
        case, expected = volume_case(operator, SHAPES[shape], types, random_numbers, is_channels_last)
        assert_equals_reference(devices, case, expected, index == 0)


@pytest.mark.parametrize("types", TYPES, ids=lambda types: f"{types.input}-{types.filter}")
@pytest.mark.parametrize("fill", [highest_integers, lowest_integers], ids=["highest", "lowest"])
def test_ends_of_the_range(
    devices: Devices, random_numbers: np.random.Generator, types: ConvolutionTypes, fill: Fill
) -> None:
    for operator in REFERENCES:
        case, expected = volume_case(operator, SHAPES["seven slices"], types, random_numbers, True, fill)
        assert_equals_reference(devices, case, expected, False)


def test_volumes_that_do_not_fit(device: dmlcpu.Device, random_numbers: np.random.Generator) -> None:
    """Numbers out of range, volumes of other slices, too many taps, and windows that no kernel has."""
    case, _ = volume_case("CONVOLUTION_INTEGER", SHAPES["cubes"], TYPES[0], random_numbers, True)
    windows = [(5, 5, 1, 1), (5, 5, 0, 1, 1), (5, 5, 1, 0, 1), (5, 5, 1, 1, -1), (0, 5, 1, 1, 1), (3, 5, 1, 1, 1)]
    for window in windows:
        with pytest.raises(ValueError, match="CONVOLUTION_INTEGER"):
            run_native(device, case.operator, case.tensors, {**case.attributes, "depth_window": window})
    eight_slices = replace(SHAPES["seven slices"], kernel=(8, 5, 5))
    with pytest.raises(ValueError, match="taps"):
        run_volumes(device, eight_slices, random_numbers)
    with pytest.raises(ValueError, match="no kernel"):
        run_volumes(device, replace(SHAPES["cubes"], kernel=(3, 3, 4)), random_numbers)


def run_volumes(device: dmlcpu.Device, shape: ConvolutionShape, rng: np.random.Generator) -> None:
    case, _ = volume_case("CONVOLUTION_INTEGER", shape, TYPES[0], rng, True)
    run_native(device, case.operator, case.tensors, case.attributes)
