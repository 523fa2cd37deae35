"""MAX_POOLING on random layouts and windows, against the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dmlcpu
from fills import INTEGERS
from graph_cases import assert_native_matches_reference, random_tensor, strides_of
from native_operator import run_native
from operator_case import OperatorCase
from pooling_shapes import window_axes
from strategies import BYTE_TYPES, input_tensors, output_tensors
from strided_tensor import StridedTensor, blank_tensor

Devices = Mapping[str, dmlcpu.Device]


def output_sizes(
    sizes: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    start: Sequence[int],
    end: Sequence[int],
) -> tuple[int, ...]:
    numbers = zip(sizes[2:], window, strides, dilations, start, end, strict=True)
    spatial = ((size + s + e - (w - 1) * d - 1) // step + 1 for size, w, step, d, s, e in numbers)
    return (*sizes[:2], *spatial)


@st.composite
def cases(draw: st.DrawFn) -> OperatorCase:
    axes = draw(st.lists(window_axes(), min_size=1, max_size=2))
    spatial, window, strides, dilations, start, end = zip(*axes, strict=True)
    channels = draw(st.integers(1, 9) | st.sampled_from((15, 16, 17, 31, 33, 64, 70)))
    sizes = (draw(st.integers(1, 2)), channels, *spatial)
    data_type = draw(st.sampled_from(BYTE_TYPES))
    tensors = {
        "input_tensor": draw(input_tensors(data_type, sizes, INTEGERS)),
        "output_tensor": draw(output_tensors(data_type, output_sizes(sizes, window, strides, dilations, start, end))),
    }
    attributes = {
        "strides": strides,
        "dilations": dilations,
        "window_size": window,
        "start_padding": start,
        "end_padding": end,
    }
    return OperatorCase("MAX_POOLING", tensors, attributes)


@given(cases(), st.booleans())
def test_equals_the_reference(devices: Devices, case: OperatorCase, owned: bool) -> None:
    assert_native_matches_reference(devices, case, owned=["input_tensor"] if owned else [])


@pytest.mark.parametrize("data_type", BYTE_TYPES)
@pytest.mark.parametrize(
    ("input_layout", "output_layout"),
    [
        ("channels last", "channels last"),
        ("channels first", "channels first"),
        ("channels last", "channels first"),
        ("channels first", "channels last"),
    ],
)
@pytest.mark.parametrize("gap", [0, 5])
@pytest.mark.parametrize(
    ("sizes", "window", "strides", "dilations", "padding"),
    [
        ((2, 64, 40, 41), (3, 3), (2, 2), (1, 1), (1, 1)),
        ((3, 48, 30, 41), (3, 3), (1, 1), (1, 1), (1, 1)),
        ((1, 300, 20, 19), (5, 5), (1, 1), (1, 1), (2, 2)),
        ((2, 96, 13, 13), (13, 13), (1, 1), (1, 1), (6, 6)),
        ((3, 130, 28, 28), (2, 2), (2, 2), (1, 1), (0, 0)),
        ((2, 100, 31, 32), (4, 3), (1, 2), (2, 3), (5, 1)),
        ((5, 1000, 9, 7), (9, 7), (1, 1), (1, 1), (0, 0)),
        ((9, 1, 90, 100), (3, 4), (2, 1), (1, 1), (0, 2)),
        ((2, 50, 3000), (3,), (2,), (1,), (1,)),
    ],
)
def test_several_tasks(
    devices: Devices,
    random_numbers: np.random.Generator,
    data_type: str,
    input_layout: str,
    output_layout: str,
    gap: int,
    sizes: tuple[int, ...],
    window: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    padding: tuple[int, ...],
) -> None:
    pooled = output_sizes(sizes, window, strides, dilations, padding, padding)
    tensors = {
        "input_tensor": random_tensor(random_numbers, data_type, sizes, strides_of(sizes, input_layout, gap)),
        "output_tensor": blank_tensor(data_type, pooled, strides_of(pooled, output_layout, gap)),
    }
    attributes = {
        "strides": strides,
        "dilations": dilations,
        "window_size": window,
        "start_padding": padding,
        "end_padding": padding,
    }
    assert_native_matches_reference(devices, OperatorCase("MAX_POOLING", tensors, attributes))


# {1, 2, 5, 6} to {1, 2, 3, 3}.
ATTRIBUTES: dict[str, tuple[int, ...]] = {
    "strides": (2, 2),
    "dilations": (1, 1),
    "window_size": (3, 2),
    "start_padding": (1, 0),
    "end_padding": (1, 0),
}


@pytest.mark.parametrize(
    "changed",
    [
        {"strides": (2,)},
        {"strides": (0, 2)},
        {"strides": (2, 2**32)},
        {"strides": (2, 1)},
        {"dilations": (0, 1)},
        {"dilations": (1, 2**32 - 1)},
        {"window_size": (0, 2)},
        {"window_size": (3, -1)},
        {"window_size": (2**32 - 1, 2)},
        {"window_size": (3, 2**32 - 1), "dilations": (1, 2**32 - 1)},
        {"start_padding": (-1, 0)},
        {"start_padding": (3, 0), "end_padding": (-1, 0)},
        {"end_padding": (4, 0)},
        # Windows wholly in the padding, of outputs that have the sizes of the formula.
        {"window_size": (1, 2), "start_padding": (1, 0), "end_padding": (0, 0), "strides": (2, 2)},
        {"window_size": (3, 2), "start_padding": (0, 0), "end_padding": (4, 0), "strides": (3, 2)},
        {"window_size": (2, 2), "dilations": (6, 1), "start_padding": (3, 0), "end_padding": (4, 0)},
    ],
)
def test_refuses_attributes(device: dmlcpu.Device, changed: dict[str, tuple[int, ...]]) -> None:
    tensors = {
        "input_tensor": blank_tensor("UINT8", (1, 2, 5, 6), None),
        "output_tensor": blank_tensor("UINT8", (1, 2, 3, 3), None),
    }
    run_native(device, "MAX_POOLING", tensors, ATTRIBUTES)
    with pytest.raises(ValueError, match="MAX_POOLING"):
        run_native(device, "MAX_POOLING", tensors, {**ATTRIBUTES, **changed})


@pytest.mark.parametrize(
    ("data_type", "sizes"),
    [
        ("INT8", (1, 2, 5, 6)),
        ("FLOAT32", (1, 2, 5, 6)),
        ("UINT8", (2, 2, 5, 6)),
        ("UINT8", (1, 3, 5, 6)),
        ("UINT8", (1, 2, 9, 6)),
        ("UINT8", (1, 2, 6)),
        ("UINT8", (1, 1, 2, 5, 6)),
    ],
)
def test_refuses_tensors(device: dmlcpu.Device, data_type: str, sizes: tuple[int, ...]) -> None:
    tensors = {
        "input_tensor": blank_tensor(data_type, sizes, None),
        "output_tensor": blank_tensor("UINT8", (1, 2, 3, 3), None),
    }
    with pytest.raises(ValueError, match="MAX_POOLING"):
        run_native(device, "MAX_POOLING", tensors, ATTRIBUTES)


def test_axes_of_absurd_sizes(device: dmlcpu.Device) -> None:
    """Broadcast axes take no memory: their sizes are bounded all the same."""
    sizes = (1, 1, 1, 2**62)
    tensor = StridedTensor("UINT8", sizes, (0, 0, 0, 0), np.zeros(1, np.uint8))
    tensors = {"input_tensor": tensor, "output_tensor": tensor}
    attributes = {
        **ATTRIBUTES,
        "window_size": (1, 1),
        "strides": (1, 1),
        "start_padding": (0, 0),
        "end_padding": (0, 0),
    }
    with pytest.raises(ValueError, match="MAX_POOLING"):
        run_native(device, "MAX_POOLING", tensors, attributes)
