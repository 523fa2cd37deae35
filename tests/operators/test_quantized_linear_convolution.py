"""QUANTIZED_LINEAR_CONVOLUTION on random layouts, tile edges and adversarial values, against the reference."""

from __future__ import annotations

import ctypes
import itertools
import math
import mmap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import dmlcpu
from convolution_shapes import ConvolutionShape, ConvolutionTypes, packed_case
from dispatching import assert_equal, assert_matches_reference, operator_desc
from filled_tensors import filled
from fills import INTEGERS, SCALES, Fill, any_integers, highest_integers, lowest_integers
from operator_case import OperatorCase
from reference.quantized_linear_convolution import quantized_linear_convolution
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
from strided_tensor import NUMPY_TYPES, StridedTensor, blank_tensor
from tested_convolutions import (
    depthwise_shapes,
    edge_shapes,
    few_channel_shapes,
    grouped_shapes,
    planar_depthwise_shapes,
    planar_shapes,
    random_shapes,
    repeated_channel_shapes,
    window_shapes,
)

Devices = Mapping[str, dmlcpu.Device]

ALL_TYPES = [ConvolutionTypes(*names) for names in itertools.product(BYTE_TYPES, repeat=3)]


@pytest.mark.parametrize(
    "shape",
    [
        *edge_shapes(),
        *depthwise_shapes(),
        *window_shapes(),
        *repeated_channel_shapes(),
        *few_channel_shapes(),
        *grouped_shapes(),
    ],
    ids=str,
)
def test_shapes_at_tile_edges(devices: Devices, random_numbers: np.random.Generator, shape: ConvolutionShape) -> None:
    for types, is_channels_last in itertools.product(ALL_TYPES[::3], (False, True)):
        case = packed_case(shape, types, random_numbers, is_channels_last=is_channels_last)
        constants = {"filter_tensor", "filter_scale_tensor", "filter_zero_point_tensor", "bias_tensor"}
        assert_matches_reference(devices, case, owned=constants)


def fitting_pairs(rng: np.random.Generator, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    """Codes within 64 of the middle: two products of them with codes do not saturate in 16 bits."""
    limits = np.iinfo(dtype)
    middle = (limits.max + limits.min + 1) // 2
    codes: NDArray[Any] = (middle + rng.choice([-64, -63, -1, 0, 1, 62, 63, 64], count)).astype(dtype)
    return codes


@pytest.mark.parametrize("shape", grouped_shapes(), ids=str)
def test_groups_by_filters_of_few_bits(
    devices: Devices, random_numbers: np.random.Generator, shape: ConvolutionShape
) -> None:
    """The products of all pairs of codes fit 16 bits, or all but those of the last channel."""
    for types, one_more in itertools.product(ALL_TYPES[::3], (0, 1)):
        case = packed_case(shape, types, random_numbers, operand_fill=highest_integers, is_channels_last=True)
        filters = filled(random_numbers, types.filter, shape.filter_sizes, fitting_pairs)
        if one_more:
            filters.buffer[-math.prod(shape.filter_sizes[1:]) :] = np.iinfo(filters.buffer.dtype).max
        tensors = {**case.tensors, "filter_tensor": filters}
        assert_matches_reference(
            devices, OperatorCase(case.operator, tensors, case.attributes), owned={"filter_tensor"}
        )


@pytest.mark.parametrize("shape", planar_shapes() + planar_depthwise_shapes(), ids=str)
def test_planes(devices: Devices, random_numbers: np.random.Generator, shape: ConvolutionShape) -> None:
    """{N, C, H, W} memory, packed and with gaps between planes and images, with zero points of filters and without."""
    owned = {"filter_tensor", "filter_scale_tensor", "bias_tensor"}
    for number, types in enumerate(ALL_TYPES):
        case = packed_case(shape, types, random_numbers)
        tensors = dict(case.tensors)
        if number % 2 and types.filter == "INT8":
            tensors["filter_zero_point_tensor"] = None
        if number % 3 == 0:
            strides = planes_apart(shape.input_sizes, 3)
            tensors["input_tensor"] = filled(random_numbers, types.input, shape.input_sizes, any_integers, strides)
            strides = planes_apart(shape.output_sizes, 9)
            tensors["output_tensor"] = blank_tensor(types.output, shape.output_sizes, strides)
        placed = OperatorCase(case.operator, tensors, case.attributes)
        assert reads_planes(placed)
        assert_matches_reference(devices, placed, owned=owned)


def planes_apart(sizes: Sequence[int], gap: int) -> tuple[int, ...]:
    """Strides of planes with so many elements between them."""
    in_plane = [math.prod(sizes[axis + 1 :]) for axis in range(2, len(sizes))]
    plane = math.prod(sizes[2:]) + gap
    return (sizes[1] * plane + 5, plane, *in_plane)


def reads_planes(case: OperatorCase) -> bool:
    """Whether neither tensor is transposed by the first row of kernels, which has those of planes everywhere."""
    device = dmlcpu.Device(isa="scalar", num_threads=1)
    return "why: planes because" in device.compile_operator(device.create_operator(operator_desc(case))).describe()


@pytest.mark.parametrize(
    ("shape", "strides"),
    [
        # Rows apart, by other shapes as well; all images or all channels the same; images among each other; a column; a
        # row, and the same in rows of padding.
        (ConvolutionShape(1, 1, (20, 16), (3, 3), groups=9, start_padding=(1, 1), end_padding=(1, 1)), (0, 460, 23, 1)),
        (ConvolutionShape(1, 1, (14, 7), (5, 5), groups=9, start_padding=(2, 2), end_padding=(2, 2)), (0, 112, 8, 1)),
        (ConvolutionShape(1, 1, (9, 10), (3, 3), groups=20, start_padding=(1, 1), end_padding=(1, 1)), (0, 200, 17, 1)),
        (ConvolutionShape(1, 1, (9, 10), (3, 3), groups=20, batch=3, strides=(2, 2)), (0, 90, 10, 1)),
        (ConvolutionShape(1, 1, (9, 10), (3, 3), groups=20, batch=3, strides=(2, 2)), (90, 0, 10, 1)),
        (ConvolutionShape(1, 1, (9, 10), (3, 3), groups=20, batch=3, strides=(2, 2)), (90, 270, 10, 1)),
        (ConvolutionShape(1, 1, (80, 1), (3, 3), groups=20, start_padding=(1, 1), end_padding=(1, 1)), (0, 83, 1, 70)),
        (ConvolutionShape(1, 1, (100,), (5,), groups=20, start_padding=(2, 0), end_padding=(2, 0)), (0, 103, 1)),
        (ConvolutionShape(1, 1, (1, 5), (3, 3), groups=20, start_padding=(4, 1), end_padding=(5, 1)), (0, 9, 0, 1)),
        (ConvolutionShape(1, 1, (3, 3), (3, 3), groups=5, start_padding=(0, 0), end_padding=(0, 900)), (0, 9, 3, 1)),
        (ConvolutionShape(20, 30, (6, 7), (1, 1), batch=3), (0, 42, 7, 1)),
        (ConvolutionShape(20, 30, (6, 7), (1, 1), batch=3), (42, 0, 7, 1)),
        (ConvolutionShape(20, 30, (6, 7), (1, 1), batch=3), (42, 126, 7, 1)),
    ],
    ids=str,
)
def test_planes_anywhere(
    devices: Devices, random_numbers: np.random.Generator, shape: ConvolutionShape, strides: tuple[int, ...]
) -> None:
    """Strides that packed memory does not have."""
    for types in ALL_TYPES[::3]:
        case = packed_case(shape, types, random_numbers)
        codes = filled(random_numbers, types.input, shape.input_sizes, any_integers, strides)
        placed = OperatorCase(case.operator, {**case.tensors, "input_tensor": codes}, case.attributes)
        assert reads_planes(placed)
        assert_matches_reference(devices, placed, owned={"filter_tensor"})


@pytest.mark.parametrize("strides", [(900, 1, 130, 21), (900, 50, 7, 1), (20, 1, 0, 0), (5, 1, 40, 2)], ids=str)
def test_repeated_channels_of_pixels_in_any_distance(
    devices: Devices, random_numbers: np.random.Generator, strides: tuple[int, ...]
) -> None:
    """Pixels and planes apart, all the same, and such as have codes in common."""
    shape = ConvolutionShape(1, 2, (7, 6), (3, 3), groups=18, batch=2, start_padding=(1, 1), end_padding=(1, 1))
    for types in ALL_TYPES[::3]:
        case = packed_case(shape, types, random_numbers)
        codes = filled(random_numbers, types.input, shape.input_sizes, any_integers, strides)
        tensors = {**case.tensors, "input_tensor": codes}
        assert_matches_reference(devices, OperatorCase(case.operator, tensors, case.attributes))


@pytest.mark.parametrize("types", ALL_TYPES[::3], ids=lambda types: f"{types.input}-{types.filter}-{types.output}")
def test_images_of_one_pixel_in_any_order(
    devices: Devices, random_numbers: np.random.Generator, types: ConvolutionTypes
) -> None:
    """They are rows of one product: neighbours, apart, transposed, or the input all one and the same."""
    batch, channels = 70, 36
    shape = ConvolutionShape(channels, channels, (1, 1), (1, 1), batch=batch)
    orders = ((channels, 1, 1, 1), (channels + 3, 1, 5, 5), (1, batch, 1, 1), (2, 2 * batch + 1, 1, 1))
    for input_strides, output_strides in itertools.product(((0, 1, 1, 1), *orders), orders):
        case = packed_case(shape, types, random_numbers)
        tensors = {
            **case.tensors,
            "input_tensor": filled(random_numbers, types.input, shape.input_sizes, any_integers, input_strides),
            "output_tensor": blank_tensor(types.output, shape.output_sizes, output_strides),
        }
        assert_matches_reference(devices, OperatorCase(case.operator, tensors, case.attributes))


@pytest.mark.parametrize("pixel_stride", [0, 40, 100, 600_000])
@pytest.mark.parametrize("kernel", [3, 5])
def test_windows_of_pixels_in_any_distance(
    devices: Devices, random_numbers: np.random.Generator, kernel: int, pixel_stride: int
) -> None:
    """All the same, neighbours, a slice of more channels, and so far apart that no row of padding is made."""
    half = (kernel // 2, kernel // 2)
    shape = ConvolutionShape(1, 1, (4, 3), (kernel, kernel), groups=40, batch=2, start_padding=half, end_padding=half)
    strides = (2 * pixel_stride, 1, 2 * pixel_stride, pixel_stride)
    # Gaps between the channels of a pixel and the next, between rows and images; columns before rows.
    output_strides = ((1000, 1, 200, 43), (600, 1, 47, 190))
    for types in ALL_TYPES[::3]:
        case = packed_case(shape, types, random_numbers)
        codes = filled(random_numbers, types.input, shape.input_sizes, any_integers, strides)
        for to_output in output_strides:
            tensors = {
                **case.tensors,
                "input_tensor": codes,
                "output_tensor": blank_tensor(types.output, shape.output_sizes, to_output),
            }
            assert_matches_reference(devices, OperatorCase(case.operator, tensors, case.attributes))


def test_an_image_one_column_wide_has_any_distance_between_pixels(
    devices: Devices, random_numbers: np.random.Generator
) -> None:
    shape = ConvolutionShape(1, 1, (4, 1), (3, 3), groups=40, start_padding=(1, 1), end_padding=(1, 1))
    strides = (160, 1, 40, 2**32 - 1)
    for types in ALL_TYPES[::3]:
        case = packed_case(shape, types, random_numbers)
        codes = filled(random_numbers, types.input, shape.input_sizes, any_integers, strides)
        tensors = {**case.tensors, "input_tensor": codes}
        assert_matches_reference(devices, OperatorCase(case.operator, tensors, case.attributes))


@pytest.mark.parametrize("channels", [(5, 1), (3, 17), (4, 32), (65, 63), (33, 64), (70, 130)], ids=str)
@pytest.mark.parametrize("groups", [1, 3])
def test_filters_whose_output_channels_are_neighbours(
    devices: Devices, random_numbers: np.random.Generator, channels: tuple[int, int], groups: int
) -> None:
    """A matrix given by columns, packed or with gaps, and all channels one and the same; the last panel not full."""
    shape = ConvolutionShape(*channels, (3, 5), (1, 1), groups=groups)
    count = shape.filter_sizes[0]
    for types, strides in itertools.product(ALL_TYPES[::3], ((1, count, 1, 1), (1, count + 7, 3, 2), (0, 1, 1, 1))):
        case = packed_case(shape, types, random_numbers)
        filters = filled(random_numbers, types.filter, shape.filter_sizes, any_integers, strides)
        tensors = {**case.tensors, "filter_tensor": filters}
        for owned in (set[str](), {"filter_tensor"}):
            assert_matches_reference(devices, OperatorCase(case.operator, tensors, case.attributes), owned=owned)


@pytest.mark.parametrize("types", ALL_TYPES, ids=lambda types: f"{types.input}-{types.filter}-{types.output}")
@pytest.mark.parametrize("fill", [highest_integers, lowest_integers], ids=["highest", "lowest"])
def test_products_at_the_ends_of_the_range(
    devices: Devices, random_numbers: np.random.Generator, types: ConvolutionTypes, fill: Fill
) -> None:
    """255 x 127 and -128 x -128 in every pair of taps: a sum that saturates in 16 bits fails here."""
    for shape in (
        ConvolutionShape(64, 17, (4, 5), (3, 3)),
        ConvolutionShape(1, 1, (5, 9), (3, 3), groups=33),
        ConvolutionShape(1, 1, (6, 9), (5, 5), groups=70),
        ConvolutionShape(4, 4, (4, 5), (3, 3), groups=17),
        ConvolutionShape(16, 16, (3, 5), (3, 3), groups=9),
    ):
        case = packed_case(shape, types, random_numbers, operand_fill=fill)
        without_zero_points: dict[str, StridedTensor | None] = {
            field: None if field in ("input_zero_point_tensor", "filter_zero_point_tensor") else tensor
            for field, tensor in case.tensors.items()
        }
        assert_matches_reference(devices, case)
        assert_matches_reference(devices, OperatorCase(case.operator, without_zero_points, case.attributes))


@pytest.mark.parametrize("types", ALL_TYPES, ids=lambda types: f"{types.input}-{types.filter}-{types.output}")
@pytest.mark.parametrize("sign", [-1, 1])
def test_filters_of_seven_bits(
    devices: Devices, random_numbers: np.random.Generator, types: ConvolutionTypes, sign: int
) -> None:
    """Sums of two products that just fit 16 bits, in all of a filter, and in all but one channel."""
    shape = ConvolutionShape(8, 19, (9, 8), (3, 3))
    case = packed_case(shape, types, random_numbers, operand_fill=highest_integers)
    middle = 128 if types.filter == "UINT8" else 0
    codes = sign * random_numbers.choice(np.array([-64, 0, 1, 63, 64]), shape.filter_sizes)
    for first, second in ((64, 64), (65, 64)):
        channels = codes.copy()
        channels[18, 0::2], channels[18, 1::2] = sign * first, sign * second
        content = (channels + middle).astype(NUMPY_TYPES[types.filter]).reshape(-1)
        filters = StridedTensor(types.filter, shape.filter_sizes, None, content)
        tensors = {**case.tensors, "filter_tensor": filters}
        assert_matches_reference(devices, OperatorCase(case.operator, tensors, case.attributes))


@st.composite
def cases(draw: st.DrawFn) -> OperatorCase:
    shape, types = draw(random_shapes()), draw(st.sampled_from(ALL_TYPES))
    channels = shape.filter_sizes[0]
    input_ones, output_ones = draw(one_element_sizes(4)), draw(one_element_sizes(4))
    per_channel = st.sampled_from(((1, channels), (1, channels, 1), (1, channels, 1, 1)))
    filter_parameters = draw(per_channel | one_element_sizes(4))
    bias_sizes = draw(st.sampled_from(((1, channels, 1), (1, channels, 1, 1))))
    tensors = {
        "input_tensor": drawn_input(draw, types.input, shape.input_sizes, INTEGERS),
        "input_scale_tensor": drawn_input(draw, "FLOAT32", input_ones, SCALES),
        "input_zero_point_tensor": drawn_zero_points(draw, types.input, input_ones),
        "filter_tensor": drawn_input(draw, types.filter, shape.filter_sizes, INTEGERS),
        "filter_scale_tensor": drawn_input(draw, "FLOAT32", filter_parameters, SCALES),
        "filter_zero_point_tensor": drawn_zero_points(draw, types.filter, filter_parameters),
        "bias_tensor": drawn_input(draw, "INT32", bias_sizes, INTEGERS) if draw(st.booleans()) else None,
        "output_scale_tensor": drawn_input(draw, "FLOAT32", output_ones, SCALES),
        "output_zero_point_tensor": drawn_zero_points(draw, types.output, output_ones),
        "output_tensor": drawn_output(draw, types.output, shape.output_sizes),
    }
    return OperatorCase("QUANTIZED_LINEAR_CONVOLUTION", tensors, shape.attributes)


@given(runs(cases()))
def test_objects_equal_the_reference(devices: Devices, run: Run) -> None:
    assert_matches_reference(devices, run.case, owned=run.owned, shaped=run.shaped)


@given(st.data())
def test_function_equals_the_reference(devices: Devices, data: st.DataObject) -> None:
    """With filter parameters of one element or one for each output channel."""
    shape, types = data.draw(random_shapes()), data.draw(st.sampled_from(ALL_TYPES))
    input_type, filter_type, output_type = (NUMPY_TYPES[name] for name in (types.input, types.filter, types.output))
    channels = shape.filter_sizes[0]
    parameter_shape = data.draw(st.sampled_from([(1,), (channels,)]))
    float32 = np.dtype(np.float32)
    arguments: tuple[Any, ...] = (
        data.draw(arrays(input_type, shape.input_sizes, INTEGERS)),
        data.draw(arrays(float32, (1,), SCALES)),
        data.draw(arrays(input_type, (1,), INTEGERS)),
        data.draw(arrays(filter_type, shape.filter_sizes, INTEGERS)),
        data.draw(arrays(float32, parameter_shape, SCALES)),
        data.draw(arrays(filter_type, parameter_shape, INTEGERS)),
        data.draw(st.none() | arrays(np.dtype(np.int32), (channels,), INTEGERS)),
        data.draw(arrays(float32, (1,), SCALES)),
        data.draw(arrays(output_type, (1,), INTEGERS)),
    )
    spatial = len(shape.input)
    attributes: dict[str, Any] = {
        name: value[:spatial] if isinstance(value, tuple) else value for name, value in shape.attributes.items()
    }
    expected = quantized_linear_convolution(*arguments, **attributes, output_data_type=output_type)
    for label, device in devices.items():
        result = dmlcpu.quantized_linear_convolution(*arguments, **attributes, device=device)
        assert_equal(result, expected, label)


def before_unreadable_memory(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy that ends where the process may no longer read."""
    size = array.nbytes // mmap.PAGESIZE * mmap.PAGESIZE + mmap.PAGESIZE
    memory = mmap.mmap(-1, size + mmap.PAGESIZE)
    end = ctypes.addressof(ctypes.c_char.from_buffer(memory)) + size
    mprotect = ctypes.CDLL(None, use_errno=True).mprotect
    if mprotect(ctypes.c_void_p(end), ctypes.c_size_t(mmap.PAGESIZE), 0) != 0:
        pytest.skip("memory cannot be protected")
    copy = np.frombuffer(memory, array.dtype, array.size, size - array.nbytes).reshape(array.shape)
    copy[...] = array
    return copy


@pytest.mark.parametrize("channels", [1, 3, 5, 24, 63, 65])
@pytest.mark.parametrize("pixels", [256, 257, 300, 600])
def test_reads_nothing_behind_the_input(
    devices: Devices, random_numbers: np.random.Generator, channels: int, pixels: int
) -> None:
    """Steps of k that are longer than the channels of the last pixel."""
    x = random_numbers.integers(0, 256, (1, pixels, channels)).astype(np.uint8)
    filters = random_numbers.integers(-128, 128, (7, channels, 1)).astype(np.int8)
    parameters = (np.float32([0.02]), np.uint8([131]), filters, np.float32([0.01]), np.int8([3]), None)
    output = (np.float32([0.05]), np.uint8([120]))
    at_end = before_unreadable_memory(x).transpose(0, 2, 1)
    one: dict[str, Any] = {"strides": (1,), "dilations": (1,), "start_padding": (0,), "end_padding": (0,)}
    arguments: tuple[Any, ...] = (at_end, *parameters, *output)
    expected = quantized_linear_convolution(*arguments, **one, group_count=1, output_data_type=np.dtype(np.uint8))
    for label, device in devices.items():
        result = dmlcpu.quantized_linear_convolution(*arguments, **one, device=device)
        assert_equal(result, expected, label)


def test_rounding_ties_with_odd_zero_points(devices: Devices) -> None:
    """A multiplier of one half makes every odd sum a tie."""
    values = np.arange(256, dtype=np.uint8).reshape(1, 1, 16, 16)
    for zero_point in (1, 127, 255):
        arguments = (values, 0.5, np.uint8(128), np.ones((1, 1, 1, 1), np.int8), 1.0, None, None, 1.0)
        halves = np.rint((values.astype(np.float32) - 128) / 2) + zero_point
        for label, device in devices.items():
            result = dmlcpu.quantized_linear_convolution(*arguments, np.uint8(zero_point), device=device)
            assert result.tolist() == np.clip(halves, 0, 255).astype(np.uint8).tolist(), label
