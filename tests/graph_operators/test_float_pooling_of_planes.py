"""FLOAT_POOLING of {N, C, H, W} memory: averages that are as many as the elements, planes as one, and bands."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

import dmlcpu
from float_windows import ATTRIBUTES, output_sizes, planes_apart
from graph_cases import assert_native_matches_reference
from native_operator import bind_native
from operator_case import OperatorCase
from strided_tensor import StridedTensor, blank_tensor, element_span

Devices = Mapping[str, dmlcpu.Device]


def as_many_as_elements(
    spatial: tuple[int, int], window: tuple[int, int], start: tuple[int, int], gaps: tuple[int, int]
) -> tuple[dict[str, tuple[int, ...]], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Attributes of averages, sizes, and the strides of input and output."""
    attributes: dict[str, tuple[int, ...]] = {
        **{name: tuple(numbers) for name, numbers in ATTRIBUTES.items()},
        "strides": (1, 1),
        "window_size": window,
        "start_padding": start,
        "end_padding": tuple(length - 1 - before for length, before in zip(window, start, strict=True)),
    }
    sizes = (2, 9, *spatial)  # too few planes to be transposed
    return attributes, sizes, planes_apart(sizes, gaps[0]), planes_apart(sizes, gaps[1])


@pytest.mark.parametrize("include_padding", [0, 1])
@pytest.mark.parametrize("gaps", [(0, 0), (3, 5)], ids=str)
@pytest.mark.parametrize("spatial", [(1, 1), (7, 7), (8, 8), (17, 17), (35, 36), (3, 61), (61, 3), (128, 64)], ids=str)
@pytest.mark.parametrize(
    ("window", "start"),
    [((3, 3), (1, 1)), ((2, 2), (0, 0)), ((2, 2), (1, 0)), ((3, 5), (2, 3)), ((1, 8), (0, 7)), ((9, 1), (0, 0))],
)
def test_as_many_averages_as_elements(
    devices: Devices,
    random_numbers: np.random.Generator,
    include_padding: int,
    gaps: tuple[int, int],
    spatial: tuple[int, int],
    window: tuple[int, int],
    start: tuple[int, int],
) -> None:
    """Rows of fewer elements than a vector has, or than a window; several tasks; infinities only where they are."""
    attributes, sizes, strides, output_strides = as_many_as_elements(spatial, window, start, gaps)
    values = random_numbers.normal(size=element_span(sizes, strides)).astype(np.float32)
    values[random_numbers.random(len(values)) < 0.3] *= np.float32(0)
    values[random_numbers.random(len(values)) < 0.01] = np.inf
    tensors = {
        "input_tensor": StridedTensor("FLOAT32", sizes, strides, values),
        "output_tensor": blank_tensor("FLOAT32", sizes, output_strides),
    }
    case = OperatorCase("FLOAT_POOLING", tensors, {**attributes, "include_padding": (include_padding,)})
    assert_native_matches_reference(devices, case)


# Instruction sets by how many floats a vector has, 16 and 8.
WIDE, NARROW = {"amx_int8", "avx512_vnni"}, {"avx_vnni", "avx2"}


@pytest.mark.parametrize(
    ("spatial", "window", "start", "by_planes"),
    [
        ((17, 17), (3, 3), (1, 1), WIDE | NARROW),
        ((16, 16), (4, 2), (1, 1), WIDE | NARROW),
        ((128, 64), (2, 8), (1, 7), WIDE),
        ((56, 56), (2, 2), (0, 1), WIDE),
        ((17, 17), (7, 3), (1, 1), set()),
        ((129, 64), (3, 3), (1, 1), set()),
        ((17, 17), (3, 9), (1, 4), set()),
        ((17, 17), (17, 1), (4, 0), set()),
    ],
)
def test_tells_of_as_many_averages_as_elements(
    devices: Devices, spatial: tuple[int, int], window: tuple[int, int], start: tuple[int, int], by_planes: set[str]
) -> None:
    attributes, sizes, strides, _ = as_many_as_elements(spatial, window, start, (0, 0))
    tensors = {
        "input_tensor": blank_tensor("FLOAT32", sizes, strides),
        "output_tensor": blank_tensor("FLOAT32", sizes, strides),
    }
    for device in devices.values():
        told = bind_native(device, "FLOAT_POOLING", tensors, attributes).describe()
        assert ("averages of whole planes, one by one" in told) == (device.isa in by_planes), told


@pytest.mark.parametrize("function", [0, 1, 2, 3])
@pytest.mark.parametrize("gaps", [(0, 0), (3, 0), (0, 5)], ids=str)
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("spatial", [(12, 12), (6, 60), (18, 132), (6, 3)], ids=str)
def test_planes_that_no_window_reaches_beyond(
    devices: Devices,
    random_numbers: np.random.Generator,
    function: int,
    gaps: tuple[int, int],
    stride: int,
    spatial: tuple[int, int],
) -> None:
    """One behind the other, or apart in the input or in the output; windows are as long as the stride."""
    attributes = {
        **ATTRIBUTES,
        "function": (function,),
        "strides": (stride, stride),
        "window_size": (stride, stride),
        "start_padding": (0, 0),
        "end_padding": (0, 0),
    }
    sizes = (2, 70, *spatial)
    pooled = output_sizes(sizes, attributes)
    strides = planes_apart(sizes, gaps[0])
    values = random_numbers.normal(size=element_span(sizes, strides)).astype(np.float32)
    tensors = {
        "input_tensor": StridedTensor("FLOAT32", sizes, strides, values),
        "output_tensor": blank_tensor("FLOAT32", pooled, planes_apart(pooled, gaps[1])),
    }
    assert_native_matches_reference(devices, OperatorCase("FLOAT_POOLING", tensors, attributes))


@pytest.mark.parametrize(
    ("spatial", "window", "gaps", "are_one"),
    [
        ((18, 18), (2, 2), (0, 0), True),
        ((18, 18), (2, 2), (3, 0), False),
        ((18, 18), (2, 2), (0, 3), False),
        ((19, 18), (2, 2), (0, 0), False),  # the last row is in no window
        ((8, 8), (1, 2), (0, 0), False),  # no bands of different strides
        ((8, 4), (4, 2), (0, 0), False),
    ],
)
def test_tells_of_planes_as_one(
    devices: Devices, spatial: tuple[int, int], window: tuple[int, int], gaps: tuple[int, int], are_one: bool
) -> None:
    attributes = {
        **ATTRIBUTES,
        "strides": window,
        "window_size": window,
        "start_padding": (0, 0),
        "end_padding": (0, 0),
    }
    sizes = (2, 70, *spatial)
    pooled = output_sizes(sizes, attributes)
    tensors = {
        "input_tensor": blank_tensor("FLOAT32", sizes, planes_apart(sizes, gaps[0])),
        "output_tensor": blank_tensor("FLOAT32", pooled, planes_apart(pooled, gaps[1])),
    }
    for device in devices.values():
        told = bind_native(device, "FLOAT_POOLING", tensors, attributes).describe()
        assert ("of all planes as one" in told) == (are_one and device.isa != "scalar"), told


@pytest.mark.parametrize(
    ("function", "columns", "stride", "dilation", "rows"),
    [
        (0, 28, 1, 1, 40),
        (0, 192, 1, 1, 10),
        (1, 193, 1, 1, None),
        (0, 64, 2, 1, 15),
        (0, 65, 2, 1, None),
        (1, 112, 2, 1, 8),
        (1, 113, 2, 1, None),
        (0, 10, 3, 1, None),
        (0, 110, 1, 10, 11),
        (0, 110, 1, 11, None),
    ],
)
def test_tells_of_bands(
    device: dmlcpu.Device, function: int, columns: int, stride: int, dilation: int, rows: int | None
) -> None:
    """Rows of at most so many columns are pooled in bands, unless most of a band were copied several times."""
    attributes = {
        **ATTRIBUTES,
        "function": (function,),
        "strides": (stride, stride),
        "dilations": (dilation, dilation),
        "window_size": (3, 3),
        "start_padding": (0, 0),
        "end_padding": (0, 0),
    }
    spatial = ((length - 1) * stride + 2 * dilation + 1 for length in (40, columns))
    tensors = {
        "input_tensor": blank_tensor("FLOAT32", (2, 3, *spatial), None),
        "output_tensor": blank_tensor("FLOAT32", (2, 3, 40, columns), None),
    }
    told = bind_native(device, "FLOAT_POOLING", tensors, attributes).describe()
    assert (f", in bands of {rows} rows\n" in told) if rows else ("bands" not in told)
