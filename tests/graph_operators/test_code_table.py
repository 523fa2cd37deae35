"""CODE_TABLE on random layouts, against the reference."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dmlcpu
from fills import INTEGERS, any_integers
from graph_cases import assert_native_matches_reference, random_tensor, strides_of
from native_operator import run_native
from operator_case import OperatorCase
from strategies import BYTE_TYPES, generators, input_tensors, output_tensors, tensor_sizes
from strided_tensor import StridedTensor, blank_tensor

Devices = Mapping[str, dmlcpu.Device]


@st.composite
def cases(draw: st.DrawFn) -> OperatorCase:
    sizes = draw(tensor_sizes())
    table_sizes = draw(st.sampled_from([(256,), (1, 256), (16, 1, 16), (1, 256, 1, 1)]))
    tensors = {
        "input_tensor": draw(input_tensors(draw(st.sampled_from(BYTE_TYPES)), sizes, INTEGERS)),
        "table_tensor": random_tensor(draw(generators()), "UINT8", table_sizes),
        "output_tensor": draw(output_tensors(draw(st.sampled_from(BYTE_TYPES)), sizes)),
    }
    return OperatorCase("CODE_TABLE", tensors, {})


@given(cases(), st.booleans())
def test_equals_the_reference(devices: Devices, case: OperatorCase, owned: bool) -> None:
    assert_native_matches_reference(devices, case, owned=["table_tensor"] if owned else [])


@pytest.mark.parametrize(("input_type", "output_type"), list(itertools.product(BYTE_TYPES, repeat=2)))
@pytest.mark.parametrize(
    ("sizes", "input_layout", "output_layout"),
    [
        ((3, 40, 57, 61), "channels first", "channels first"),
        ((3, 40, 57, 61), "channels last", "channels last"),
        ((2, 70, 31, 33), "channels first", "channels last"),
        ((2, 70, 31, 33), "channels last", "channels first"),
    ],
)
@pytest.mark.parametrize("gap", [0, 5])
def test_several_tasks(
    devices: Devices,
    random_numbers: np.random.Generator,
    input_type: str,
    output_type: str,
    sizes: tuple[int, ...],
    input_layout: str,
    output_layout: str,
    gap: int,
) -> None:
    tensors = {
        "input_tensor": random_tensor(random_numbers, input_type, sizes, strides_of(sizes, input_layout, gap)),
        "table_tensor": random_tensor(random_numbers, "UINT8", (256,)),
        "output_tensor": blank_tensor(output_type, sizes, strides_of(sizes, output_layout, gap)),
    }
    assert_native_matches_reference(devices, OperatorCase("CODE_TABLE", tensors, {}))


@pytest.mark.parametrize(
    ("input_sizes", "table_sizes", "table_strides", "table_type"),
    [
        ((5,), (255,), None, "UINT8"),
        ((5,), (512,), None, "UINT8"),
        ((5,), (256,), (2,), "UINT8"),
        ((5,), (256,), (0,), "UINT8"),
        ((5,), (16, 16), (1, 16), "UINT8"),
        ((5,), (256,), None, "INT8"),
        ((4,), (256,), None, "UINT8"),
        ((1, 5), (256,), None, "UINT8"),
    ],
)
def test_refuses_what_does_not_fit(
    device: dmlcpu.Device,
    random_numbers: np.random.Generator,
    input_sizes: tuple[int, ...],
    table_sizes: tuple[int, ...],
    table_strides: tuple[int, ...] | None,
    table_type: str,
) -> None:
    """The output has sizes {5}; the table is read as 256 bytes."""
    tensors = {
        "input_tensor": random_tensor(random_numbers, "UINT8", input_sizes),
        "table_tensor": StridedTensor(
            table_type,
            table_sizes,
            table_strides,
            any_integers(random_numbers, np.dtype(table_type.lower()), 1024),
        ),
        "output_tensor": blank_tensor("UINT8", (5,), None),
    }
    with pytest.raises(ValueError, match=r"contiguous|sizes|data type"):
        run_native(device, "CODE_TABLE", tensors, {})
