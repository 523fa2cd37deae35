"""FLOAT_TABLE on random layouts, against the reference."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dmlcpu
from fills import INTEGERS
from graph_cases import assert_native_matches_reference, random_tensor, strides_of
from native_operator import run_native
from operator_case import OperatorCase
from strategies import BYTE_TYPES, generators, input_tensors, output_tensors, tensor_sizes
from strided_tensor import StridedTensor, blank_tensor

Devices = Mapping[str, dmlcpu.Device]


def table_tensor(rng: np.random.Generator, sizes: tuple[int, ...]) -> StridedTensor:
    """Any bits but those of NaNs that are signalling: infinities and subnormals among them."""
    table = rng.integers(0, 1 << 32, 256, np.uint32).view(np.float32)
    table[np.isnan(table)] = np.nan
    return StridedTensor("FLOAT32", sizes, None, table)


@st.composite
def cases(draw: st.DrawFn) -> OperatorCase:
    sizes = draw(tensor_sizes())
    tensors = {
        "input_tensor": draw(input_tensors(draw(st.sampled_from(BYTE_TYPES)), sizes, INTEGERS)),
        "table_tensor": table_tensor(draw(generators()), draw(st.sampled_from([(256,), (1, 256), (16, 1, 16)]))),
        "output_tensor": draw(output_tensors("FLOAT32", sizes)),
    }
    return OperatorCase("FLOAT_TABLE", tensors, {})


@given(cases(), st.booleans())
def test_equals_the_reference(devices: Devices, case: OperatorCase, owned: bool) -> None:
    assert_native_matches_reference(devices, case, owned=["table_tensor"] if owned else [])


@pytest.mark.parametrize("input_type", BYTE_TYPES)
@pytest.mark.parametrize("layout", ["channels first", "channels last"])
def test_several_tasks(devices: Devices, random_numbers: np.random.Generator, input_type: str, layout: str) -> None:
    sizes = (3, 40, 57, 61)
    tensors = {
        "input_tensor": random_tensor(random_numbers, input_type, sizes, strides_of(sizes, layout, 5)),
        "table_tensor": table_tensor(random_numbers, (256,)),
        "output_tensor": blank_tensor("FLOAT32", sizes, strides_of(sizes, "channels first", 0)),
    }
    assert_native_matches_reference(devices, OperatorCase("FLOAT_TABLE", tensors, {}))


@pytest.mark.parametrize(
    ("input_sizes", "table_sizes", "table_type"),
    [((5,), (255,), "FLOAT32"), ((5,), (512,), "FLOAT32"), ((5,), (256,), "UINT8"), ((4,), (256,), "FLOAT32")],
)
def test_refuses_what_does_not_fit(
    device: dmlcpu.Device,
    random_numbers: np.random.Generator,
    input_sizes: tuple[int, ...],
    table_sizes: tuple[int, ...],
    table_type: str,
) -> None:
    """The output has sizes {5}; the table is read as 256 floats."""
    count = int(np.prod(table_sizes))
    tensors = {
        "input_tensor": random_tensor(random_numbers, "UINT8", input_sizes),
        "table_tensor": StridedTensor(table_type, table_sizes, None, np.zeros(count, table_type.lower())),
        "output_tensor": blank_tensor("FLOAT32", (5,), None),
    }
    with pytest.raises(ValueError, match=r"contiguous|sizes|data type"):
        run_native(device, "FLOAT_TABLE", tensors, {})
