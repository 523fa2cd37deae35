"""APPEND_TO_PAST on random layouts, against the reference; lengths that there are not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dmlcpu
from dispatching import assert_equal, expected_storage
from fills import input_fills
from laid_out import packed
from native_operator import run_native
from reference.append_to_past import append_to_past
from strategies import generators, input_tensors, output_tensors
from strided_tensor import NUMPY_TYPES, StridedTensor, blank_tensor

Devices = Mapping[str, dmlcpu.Device]
Tensors = Mapping[str, StridedTensor]

DATA_TYPES: Final = ("UINT8", "FLOAT16", "FLOAT32", "INT64")
NAMES: Final = ("past_tensor", "appended_tensor", "past_sequence_lengths_tensor", "output_tensor")


@st.composite
def tensors_of_any_layout(draw: st.DrawFn) -> Tensors:
    images, heads, past, appended, elements = (draw(st.integers(1, most)) for most in (3, 3, 9, 4, 9))
    rows = appended + draw(st.integers(0, 9))
    data_type = draw(st.sampled_from(DATA_TYPES))
    fills = input_fills(NUMPY_TYPES[data_type])
    lengths = draw(generators()).integers(0, min(past, rows - appended), images, np.int32, endpoint=True)
    return dict(
        zip(
            NAMES,
            (
                draw(input_tensors(data_type, (images, heads, past, elements), fills)),
                draw(input_tensors(data_type, (images, heads, appended, elements), fills)),
                packed(lengths),
                draw(output_tensors(data_type, (images, heads, rows, elements))),
            ),
            strict=True,
        )
    )


@given(tensors_of_any_layout())
def test_rows_after_a_past(devices: Devices, tensors: Tensors) -> None:
    output = tensors["output_tensor"]
    past, appended, lengths = (tensors[name].logical() for name in NAMES[:3])
    expected = expected_storage(output, append_to_past(past, appended, lengths, output.sizes[2]))
    for label, device in devices.items():
        assert_equal(run_native(device, "APPEND_TO_PAST", tensors, {})["output_tensor"], expected, label)


def tensors_of(sizes: list[tuple[int, ...]], lengths: np.ndarray[tuple[int, ...], np.dtype[np.int32]]) -> Tensors:
    past, appended = (packed(np.ones(shape, np.float32)) for shape in sizes[:2])
    return dict(zip(NAMES, (past, appended, packed(lengths), blank_tensor("FLOAT32", sizes[2], None)), strict=True))


@pytest.mark.parametrize(("rows", "most"), [(9, 4), (3, 2)])
@pytest.mark.parametrize("beyond", [1, 1 << 20, -1])
def test_lengths_that_there_are_not(device: dmlcpu.Device, rows: int, most: int, beyond: int) -> None:
    """Longer than the past, or than leaves room for what is appended."""
    wrong = beyond if beyond < 0 else most + beyond
    tensors = tensors_of([(2, 3, 4, 5), (2, 3, 1, 5), (2, 3, rows, 5)], np.array([0, wrong], np.int32))
    with pytest.raises(IndexError, match=rf"^got a past of {wrong} rows, expected 0 to {most}$"):
        run_native(device, "APPEND_TO_PAST", tensors, {})


@pytest.mark.parametrize(
    ("place", "wrong"),
    [(0, (2, 2, 4, 5)), (1, (2, 3, 6, 5)), (1, (2, 3, 5)), (2, (2, 3, 5, 4)), (2, (1, 3, 5, 5))],
)
def test_refuses_what_does_not_fit(device: dmlcpu.Device, place: int, wrong: tuple[int, ...]) -> None:
    """Another number of heads or elements, more rows than the output has, another rank, other images."""
    sizes: list[tuple[int, ...]] = [(2, 3, 4, 5), (2, 3, 1, 5), (2, 3, 5, 5)]
    sizes[place] = wrong
    with pytest.raises(ValueError, match="APPEND_TO_PAST"):
        run_native(device, "APPEND_TO_PAST", tensors_of(sizes, np.zeros(2, np.int32)), {})


def test_refuses_lengths_of_other_images(device: dmlcpu.Device) -> None:
    tensors = tensors_of([(2, 3, 4, 5), (2, 3, 1, 5), (2, 3, 5, 5)], np.zeros(3, np.int32))
    with pytest.raises(ValueError, match="APPEND_TO_PAST"):
        run_native(device, "APPEND_TO_PAST", tensors, {})
