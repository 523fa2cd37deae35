"""PADDING on random layouts, against the reference."""

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
from strategies import BYTE_TYPES, input_tensors, output_tensors, tensor_sizes
from strided_tensor import blank_tensor

Devices = Mapping[str, dmlcpu.Device]


def padded(sizes: Sequence[int], start: Sequence[int], end: Sequence[int]) -> tuple[int, ...]:
    return tuple(sum(lengths) for lengths in zip(sizes, start, end, strict=True))


@st.composite
def cases(draw: st.DrawFn) -> OperatorCase:
    sizes = draw(tensor_sizes(max_rank=6, max_elements=300))
    entries = st.sampled_from((0, 0, 1, 2, 5))
    start, end = (tuple(draw(entries) if len(sizes) < 5 else draw(entries) % 2 for _ in sizes) for _ in range(2))
    data_type = draw(st.sampled_from(BYTE_TYPES))
    tensors = {
        "input_tensor": draw(input_tensors(data_type, sizes, INTEGERS)),
        "output_tensor": draw(output_tensors(data_type, padded(sizes, start, end))),
    }
    value = draw(st.sampled_from((0, 1, 127, 128, 200, 255)))
    return OperatorCase("PADDING", tensors, {"start_padding": start, "end_padding": end, "value": (value,)})


@given(cases())
def test_equals_the_reference(devices: Devices, case: OperatorCase) -> None:
    assert_native_matches_reference(devices, case)


@pytest.mark.parametrize("data_type", BYTE_TYPES)
@pytest.mark.parametrize("input_layout", ["channels first", "channels last"])
@pytest.mark.parametrize("output_layout", ["channels first", "channels last"])
@pytest.mark.parametrize("gap", [0, 5])
@pytest.mark.parametrize(
    ("start", "end"), [((0, 0, 1, 2), (0, 0, 3, 0)), ((1, 4, 0, 1), (0, 30, 1, 70)), ((0, 0, 0, 0), (0, 0, 0, 0))]
)
def test_several_tasks(
    devices: Devices,
    random_numbers: np.random.Generator,
    data_type: str,
    input_layout: str,
    output_layout: str,
    gap: int,
    start: tuple[int, ...],
    end: tuple[int, ...],
) -> None:
    sizes = (2, 33, 50, 61)
    output_sizes = padded(sizes, start, end)
    tensors = {
        "input_tensor": random_tensor(random_numbers, data_type, sizes, strides_of(sizes, input_layout, gap)),
        "output_tensor": blank_tensor(data_type, output_sizes, strides_of(output_sizes, output_layout, gap)),
    }
    attributes = {"start_padding": start, "end_padding": end, "value": (131,)}
    assert_native_matches_reference(devices, OperatorCase("PADDING", tensors, attributes))


ATTRIBUTES = {"start_padding": (1, 0), "end_padding": (0, 2), "value": (7,)}


@pytest.mark.parametrize(
    "changed",
    [
        {"start_padding": (1,)},
        {"start_padding": (1, 0, 0)},
        {"start_padding": (2, 0)},
        {"end_padding": (0,)},
        {"end_padding": (0, 3)},
        {"start_padding": (2, 0), "end_padding": (-1, 2)},
        {"start_padding": (2**63 - 1, 0)},
        {"value": (-1,)},
        {"value": (256,)},
        {"value": ()},
    ],
)
def test_refuses_attributes(device: dmlcpu.Device, changed: dict[str, tuple[int, ...]]) -> None:
    tensors = {
        "input_tensor": blank_tensor("UINT8", (3, 4), None),
        "output_tensor": blank_tensor("UINT8", (4, 6), None),
    }
    run_native(device, "PADDING", tensors, ATTRIBUTES)
    with pytest.raises(ValueError, match="PADDING"):
        run_native(device, "PADDING", tensors, {**ATTRIBUTES, **changed})


@pytest.mark.parametrize(
    ("input_type", "input_sizes"), [("INT8", (3, 4)), ("FLOAT32", (3, 4)), ("UINT8", (3, 5)), ("UINT8", (3, 4, 1))]
)
def test_refuses_tensors(device: dmlcpu.Device, input_type: str, input_sizes: tuple[int, ...]) -> None:
    tensors = {
        "input_tensor": blank_tensor(input_type, input_sizes, None),
        "output_tensor": blank_tensor("UINT8", (4, 6), None),
    }
    with pytest.raises(ValueError, match=r"size|data type|rank|entry"):
        run_native(device, "PADDING", tensors, ATTRIBUTES)
