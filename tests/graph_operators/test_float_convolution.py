"""FLOAT_CONVOLUTION on random layouts and windows, against the reference."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import dmlcpu
from fills import INPUT_FLOATS
from graph_cases import assert_native_matches_reference, strides_of
from native_operator import run_native
from operator_case import OperatorCase
from strategies import input_tensors, output_tensors
from strided_tensor import StridedTensor, blank_tensor, element_span

Devices = Mapping[str, dmlcpu.Device]
Attributes = Mapping[str, Sequence[int]]

OWNED = ("filter_tensor", "bias_tensor")
LAYOUTS = ("channels first", "channels last")
PLAIN: Attributes = {
    "strides": (1, 1),
    "dilations": (1, 1),
    "start_padding": (0, 0),
    "end_padding": (0, 0),
    "group_count": (1,),
}


def output_sizes(sizes: Sequence[int], filter_sizes: Sequence[int], attributes: Attributes) -> tuple[int, ...]:
    names = ("strides", "dilations", "start_padding", "end_padding")
    numbers = zip(sizes[2:], filter_sizes[2:], *(attributes[name] for name in names), strict=True)
    spatial = ((size + start + end - (w - 1) * d - 1) // step + 1 for size, w, step, d, start, end in numbers)
    return (sizes[0], filter_sizes[0], *spatial)


@st.composite
def cases(draw: st.DrawFn) -> OperatorCase:
    axes = []
    for _ in range(draw(st.integers(1, 2))):
        size, window, dilation, stride = (draw(st.integers(1, most)) for most in (9, 4, 3, 4))
        # A window may be wholly in the padding, which may be larger than the image.
        start, end = draw(st.integers(0, 11)), draw(st.integers(0, 5))
        assume(size + start + end > (window - 1) * dilation)
        axes.append((size, window, dilation, stride, start, end))
    spatial, window_size, dilations, strides, start_padding, end_padding = zip(*axes, strict=True)
    groups = draw(st.integers(1, 3) | st.sampled_from((15, 16, 17, 33, 70)))
    few = groups > 3
    channels, outputs = (draw(st.sampled_from((1, 2, 3, 8, 9)) if few else st.integers(1, 9)) for _ in range(2))
    if not few:
        outputs = draw(st.just(outputs) | st.sampled_from((15, 16, 17, 33, 70)))
    if draw(st.booleans()):
        channels = outputs = 1
    sizes = (draw(st.integers(1, 2)), channels * groups, *spatial)
    filter_sizes = (outputs * groups, channels, *window_size)
    attributes = {
        "strides": strides,
        "dilations": dilations,
        "start_padding": start_padding,
        "end_padding": end_padding,
        "group_count": (groups,),
    }
    bias_sizes = (1, filter_sizes[0], *(1,) * len(axes))
    tensors = {
        "input_tensor": draw(input_tensors("FLOAT32", sizes, INPUT_FLOATS)),
        "filter_tensor": draw(input_tensors("FLOAT32", filter_sizes, INPUT_FLOATS)),
        "bias_tensor": draw(st.none() | input_tensors("FLOAT32", bias_sizes, INPUT_FLOATS)),
        "output_tensor": draw(output_tensors("FLOAT32", output_sizes(sizes, filter_sizes, attributes))),
    }
    return OperatorCase("FLOAT_CONVOLUTION", tensors, attributes)


def owned_tensors(case: OperatorCase) -> list[str]:
    return [name for name in OWNED if case.tensors[name] is not None]


@given(cases(), st.booleans())
def test_equals_the_reference(devices: Devices, case: OperatorCase, owned: bool) -> None:
    assert_native_matches_reference(devices, case, owned=owned_tensors(case) if owned else ())


def convolution_case(
    rng: np.random.Generator,
    sizes: tuple[int, ...],
    filter_sizes: tuple[int, ...],
    input_layout: str = "channels last",
    output_layout: str = "channels last",
    gap: int = 0,
    **changed: tuple[int, ...],
) -> OperatorCase:
    """Of ordinary numbers, with a bias."""
    attributes = {**PLAIN, **changed}
    made, strides = output_sizes(sizes, filter_sizes, attributes), strides_of(sizes, input_layout, gap)

    def numbers(shape: tuple[int, ...], steps: tuple[int, ...]) -> StridedTensor:
        return StridedTensor("FLOAT32", shape, steps, rng.normal(size=element_span(shape, steps)).astype(np.float32))

    tensors = {
        "input_tensor": numbers(sizes, strides),
        "filter_tensor": numbers(filter_sizes, strides_of(filter_sizes, "channels first")),
        "bias_tensor": numbers((1, filter_sizes[0], 1, 1), (filter_sizes[0], 1, 1, 1)),
        "output_tensor": blank_tensor("FLOAT32", made, strides_of(made, output_layout, gap)),
    }
    return OperatorCase("FLOAT_CONVOLUTION", tensors, attributes)


SHAPES: list[tuple[tuple[int, ...], tuple[int, ...], Mapping[str, tuple[int, ...]]]] = [
    # Tiles of pixels and channels, blocks of terms, and what is left of them.
    ((1, 5, 13, 11), (67, 5, 1, 1), {}),
    ((2, 70, 9, 8), (20, 70, 2, 1), {}),
    ((1, 3, 30, 31), (9, 3, 7, 7), {"strides": (2, 2), "start_padding": (3, 3), "end_padding": (3, 3)}),
    ((3, 140, 5, 4), (66, 140, 1, 1), {"strides": (2, 2)}),
    ((1, 24, 9, 9), (144, 12, 3, 3), {"group_count": (2,), "dilations": (2, 3)}),
    # Groups of the channels that networks have.
    ((1, 136, 6, 7), (136, 8, 5, 5), {"group_count": (17,), "dilations": (2, 1), "start_padding": (4, 2)}),
    ((2, 32, 6, 5), (32, 16, 3, 3), {"group_count": (2,), "start_padding": (1, 1), "end_padding": (1, 1)}),
    ((1, 48, 5, 13), (48, 24, 3, 3), {"group_count": (2,), "strides": (2, 2), "start_padding": (1, 1)}),
    ((1, 64, 5, 4), (64, 32, 3, 3), {"group_count": (2,), "start_padding": (3, 4), "end_padding": (1, 2)}),
    # Groups as images of their own: in several images and panels, with padding and without, in steps.
    ((2, 40, 7, 14), (34, 20, 3, 3), {"group_count": (2,), "start_padding": (1, 1), "end_padding": (1, 1)}),
    ((1, 54, 6, 13), (210, 18, 2, 3), {"group_count": (3,), "start_padding": (0, 2), "end_padding": (1, 0)}),
    ((1, 64, 9, 8), (64, 32, 3, 3), {"group_count": (2,)}),
    ((1, 80, 5, 27), (40, 16, 3, 5), {"group_count": (5,), "strides": (1, 2), "dilations": (2, 1)}),
    # Windows in place: with padding on all sides and on some, beyond the image, and without any.
    ((2, 3, 20, 37), (16, 3, 7, 7), {"start_padding": (3, 3), "end_padding": (3, 3)}),
    ((2, 3, 21, 37), (24, 3, 3, 3), {"strides": (2, 2), "start_padding": (1, 0), "end_padding": (0, 1)}),
    ((1, 2, 3, 4), (33, 2, 3, 5), {"start_padding": (7, 9), "end_padding": (8, 11)}),
    ((1, 3, 48, 64), (70, 3, 4, 4), {"strides": (4, 4)}),
    ((1, 9, 10, 35), (5, 9, 1, 1), {"strides": (2, 2)}),
    # Copies with padding of channels that are neighbours already: of few outputs and of several panels, in steps.
    ((2, 20, 7, 15), (30, 20, 3, 3), {"start_padding": (1, 1), "end_padding": (1, 1)}),
    ((1, 24, 5, 17), (70, 24, 3, 3), {"start_padding": (2, 0), "end_padding": (0, 2)}),
    ((2, 17, 11, 29), (32, 17, 5, 5), {"strides": (2, 2), "start_padding": (2, 2), "end_padding": (2, 2)}),
    ((1, 9, 8, 31), (33, 9, 3, 2), {"dilations": (3, 1), "start_padding": (3, 1), "end_padding": (3, 0)}),
    # The same, an image at a time.
    ((3, 140, 30, 40), (4, 140, 3, 3), {"start_padding": (1, 1), "end_padding": (1, 1)}),
    # Several groups of images whose copies have padding.
    ((4, 3, 150, 170), (2, 3, 3, 3), {"start_padding": (1, 2), "end_padding": (1, 0)}),
    # The same where the rows of the window are dilated or longer than a block of terms, and in several panels.
    ((1, 5, 24, 18), (3, 5, 4, 3), {"dilations": (3, 1), "start_padding": (2, 1), "end_padding": (2, 1)}),
    ((1, 70, 5, 20), (64, 70, 3, 3), {"start_padding": (1, 1), "end_padding": (1, 1)}),
    ((1, 100, 4, 19), (130, 100, 2, 3), {"start_padding": (1, 1), "end_padding": (1, 1)}),
    # Dilated windows, tap by tap: with padding, beyond the image and without, of steps, groups, blocks of terms.
    (
        (2, 64, 9, 13),
        (35, 64, 3, 3),
        {"dilations": (2, 2), "start_padding": (2, 2), "end_padding": (2, 2)},
    ),
    ((1, 70, 6, 7), (18, 70, 3, 2), {"dilations": (1, 9), "start_padding": (3, 8), "end_padding": (4, 11)}),
    ((1, 64, 11, 30), (16, 64, 2, 3), {"dilations": (2, 3), "strides": (2, 2), "end_padding": (1, 3)}),
    ((1, 130, 9, 8), (40, 65, 3, 3), {"group_count": (2,), "dilations": (2, 2), "start_padding": (1, 2)}),
    ((1, 300, 4, 7), (17, 300, 1, 3), {"dilations": (1, 2), "start_padding": (0, 2), "end_padding": (0, 2)}),
    ((1, 64, 2, 290), (8, 64, 1, 3), {"dilations": (1, 2), "start_padding": (0, 2), "end_padding": (0, 2)}),
    # A few pixels, which meet several panels at once: of some terms and many, and of groups.
    ((1, 700, 1, 1), (130, 700, 1, 1), {}),
    ((2, 37, 2, 2), (79, 37, 2, 2), {}),
    ((3, 40, 3, 3), (96, 20, 3, 3), {"group_count": (2,)}),
    ((1, 9, 3, 5), (600, 9, 3, 3), {}),
    # The channels of an image alone, more images than rows.
    ((140, 9, 1, 1), (33, 9, 1, 1), {}),
    # Depthwise, in one and in several tasks.
    ((2, 16, 6, 7), (16, 1, 3, 3), {"group_count": (16,), "start_padding": (1, 1), "end_padding": (1, 1)}),
    ((1, 129, 40, 71), (129, 1, 3, 3), {"group_count": (129,), "start_padding": (1, 1), "end_padding": (1, 1)}),
    ((1, 37, 9, 9), (37, 1, 5, 5), {"group_count": (37,), "strides": (2, 2), "start_padding": (2, 2)}),
    ((1, 65, 3, 4), (65, 1, 7, 7), {"group_count": (65,), "start_padding": (9, 3), "end_padding": (3, 9)}),
    # Windows that slide along rows: over the edges of runs, in narrower images, of several outputs.
    ((1, 65, 5, 39), (65, 1, 3, 3), {"group_count": (65,), "start_padding": (1, 1), "end_padding": (1, 1)}),
    ((2, 24, 6, 19), (24, 1, 5, 5), {"group_count": (24,), "start_padding": (2, 0), "end_padding": (2, 4)}),
    ((1, 40, 9, 30), (80, 1, 7, 7), {"group_count": (40,), "start_padding": (3, 3), "end_padding": (3, 3)}),
    ((1, 17, 4, 3), (17, 1, 9, 9), {"group_count": (17,), "start_padding": (4, 11), "end_padding": (4, 2)}),
    (
        (1, 33, 9, 33),
        (33, 1, 7, 7),
        {"group_count": (33,), "strides": (2, 2), "start_padding": (3, 3), "end_padding": (3, 3)},
    ),
    ((1, 16, 20, 21), (16, 1, 3, 9), {"group_count": (16,), "strides": (3, 2), "dilations": (2, 1)}),
    # Many groups of several channels, or of several outputs: in chunks of groups, tasks and staged runs.
    ((2, 48, 9, 8), (32, 3, 3, 3), {"group_count": (16,), "start_padding": (1, 1), "end_padding": (1, 1)}),
    ((1, 130, 20, 71), (195, 2, 3, 3), {"group_count": (65,), "strides": (2, 1), "start_padding": (1, 1)}),
    ((1, 128, 6, 7), (128, 8, 5, 5), {"group_count": (16,), "dilations": (2, 1), "start_padding": (4, 2)}),
    ((1, 4, 10, 75), (16, 1, 1, 3), {"group_count": (4,), "end_padding": (0, 2)}),
]


def with_layouts() -> list[tuple[object, ...]]:
    """Each shape with every two of an input's layout, an output's and a gap; the third is another in every second one.

    What is copied first, and how, is a question of the input's layout and gap; what is written, of the output's.
    """
    return [
        (*shape, LAYOUTS[first], LAYOUTS[second], (0, 5)[first ^ second ^ number % 2])
        for number, shape in enumerate(SHAPES)
        for first, second in itertools.product((0, 1), repeat=2)
    ]


@pytest.mark.parametrize(("sizes", "filter_sizes", "changed", "input_layout", "output_layout", "gap"), with_layouts())
def test_several_tiles(
    devices: Devices,
    random_numbers: np.random.Generator,
    sizes: tuple[int, ...],
    filter_sizes: tuple[int, ...],
    changed: Mapping[str, tuple[int, ...]],
    input_layout: str,
    output_layout: str,
    gap: int,
) -> None:
    case = convolution_case(random_numbers, sizes, filter_sizes, input_layout, output_layout, gap, **changed)
    assert_native_matches_reference(devices, case, owned=OWNED)


# Kernels of depthwise convolutions are those of a window. Products know its terms alone, and 5x5 ones of 130 channels
# have more of them than 9x9 ones of 33.
COUNTS = [
    (channels, window, depthwise)
    for depthwise, window, channels in itertools.product(
        (False, True), (1, 3, 5, 7, 9), (1, 15, 16, 17, 31, 33, 64, 65, 130)
    )
    if depthwise or window < 7 or channels < 64
]


@pytest.mark.parametrize(("channels", "window", "depthwise"), COUNTS)
@pytest.mark.parametrize("stride", [1, 2])
def test_channel_counts(
    devices: Devices, random_numbers: np.random.Generator, channels: int, window: int, stride: int, depthwise: bool
) -> None:
    padding = (window // 2,) * 2
    case = convolution_case(
        random_numbers,
        (1, channels, 6, 9),
        (channels, 1 if depthwise else channels, window, window),
        strides=(stride, stride),
        start_padding=padding,
        end_padding=padding,
        group_count=(channels if depthwise else 1,),
    )
    assert_native_matches_reference(devices, case, owned=OWNED)


@pytest.mark.parametrize("owned", [OWNED, ()])
@pytest.mark.parametrize(
    ("element", "bias", "scale"),
    [(0.5, 0.0, 1.0), (0.5, -0.0, 0.0), (-0.5, -0.0, 0.0), (np.inf, 0.0, 1.0), (np.nan, 0.0, 1.0), (0.5, 0.0, 1e-30)],
)
def test_taps_in_the_padding_count(
    devices: Devices,
    random_numbers: np.random.Generator,
    owned: Sequence[str],
    element: float,
    bias: float,
    scale: float,
) -> None:
    """A -0 that meets one becomes +0 or stays, and what is infinite becomes no number; products may underflow."""
    case = convolution_case(
        random_numbers,
        (1, 64, 5, 14),
        (20, 64, 3, 3),
        dilations=(2, 2),
        start_padding=(2, 2),
        end_padding=(2, 2),
    )
    filled = {name: tensor.buffer for name, tensor in case.tensors.items() if tensor is not None}
    filled["input_tensor"] *= np.float32(scale)
    filled["filter_tensor"] *= np.float32(-scale)
    filled["filter_tensor"].reshape(20, 64, 9)[1::3, 5, 8] = element
    filled["bias_tensor"][:] = bias
    assert_native_matches_reference(devices, case, owned=owned)


def test_rows_that_read_little(devices: Devices, random_numbers: np.random.Generator) -> None:
    """An input of which steps leave out most is not copied first."""
    case = convolution_case(random_numbers, (1, 3, 64, 64), (5, 3, 2, 2), "channels first", strides=(31, 62))
    assert_native_matches_reference(devices, case, owned=OWNED)


@pytest.mark.parametrize(
    ("changed_sizes", "changed"),
    [
        ({"output_tensor": (1, 4, 5, 5)}, {}),
        ({"output_tensor": (1, 5, 4, 5)}, {}),
        ({"filter_tensor": (4, 2, 2, 2)}, {}),
        ({"filter_tensor": (4, 3, 2)}, {}),
        ({"bias_tensor": (1, 3, 1, 1)}, {}),
        ({"bias_tensor": (4,)}, {}),
        ({"bias_tensor": (1, 4, 1, 2)}, {}),
        ({}, {"group_count": (2,)}),
        ({}, {"group_count": (0,)}),
        ({}, {"strides": (1,)}),
        ({}, {"strides": (0, 1)}),
        ({}, {"dilations": (0, 1)}),
        ({}, {"start_padding": (-1, 0)}),
        ({}, {"start_padding": (2**40, 0)}),
        ({}, {"dilations": (2**62, 1)}),
    ],
)
def test_refuses_what_does_not_fit(
    device: dmlcpu.Device, changed_sizes: Mapping[str, tuple[int, ...]], changed: Attributes
) -> None:
    fitting = {
        "input_tensor": (1, 3, 5, 6),
        "filter_tensor": (4, 3, 2, 2),
        "bias_tensor": (1, 4, 1, 1),
        "output_tensor": (1, 4, 4, 5),
    }
    tensors = {name: blank_tensor("FLOAT32", sizes, None) for name, sizes in fitting.items()}
    run_native(device, "FLOAT_CONVOLUTION", tensors, PLAIN)
    tensors = {name: blank_tensor("FLOAT32", sizes, None) for name, sizes in (fitting | {**changed_sizes}).items()}
    with pytest.raises(ValueError, match="FLOAT_CONVOLUTION"):
        run_native(device, "FLOAT_CONVOLUTION", tensors, {**PLAIN, **changed})


def test_refuses_volumes(device: dmlcpu.Device) -> None:
    sizes = {
        "input_tensor": (4, 32, 5, 6),
        "filter_tensor": (32, 2, 3, 3),
        "bias_tensor": (1, 32, 1, 1),
        "output_tensor": (3, 32, 3, 4),
    }
    tensors = {name: blank_tensor("FLOAT32", of_tensor, None) for name, of_tensor in sizes.items()}
    attributes = {**PLAIN, "group_count": (32,), "depth_window": (4, 3, 1, 1, 0)}
    with pytest.raises(ValueError, match="volumes of floats"):
        run_native(device, "FLOAT_CONVOLUTION", tensors, attributes)


@pytest.mark.parametrize("size", [2**31, 2**28])
def test_filters_that_no_memory_has(device: dmlcpu.Device, size: int) -> None:
    """One float, repeated: an owned filter would be packed."""
    one = np.zeros(1, np.float32)
    tensors = {
        "input_tensor": StridedTensor("FLOAT32", (1, size, 1, size), (0,) * 4, one),
        "filter_tensor": StridedTensor("FLOAT32", (1, size, 1, size), (0,) * 4, one),
        "bias_tensor": None,
        "output_tensor": StridedTensor("FLOAT32", (1, 1, 1, 1), (0,) * 4, one),
    }
    with pytest.raises((ValueError, MemoryError)):
        run_native(device, "FLOAT_CONVOLUTION", tensors, PLAIN, owned=["filter_tensor"])
