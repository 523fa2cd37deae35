"""How the tests themselves lay tensors out. Needs no built library."""

from __future__ import annotations

import numpy as np
import pytest

from strided_tensor import FILL_BYTE, StridedTensor, blank_tensor, buffer_length, element_span


def test_span_counts_gaps_and_broadcasts() -> None:
    assert element_span((2, 3), None) == 6
    assert element_span((2, 3), (10, 2)) == 15
    assert element_span((5, 4), (0, 1)) == 4
    assert buffer_length("UINT4", (7,), None) == 4


def test_logical_elements_follow_the_strides() -> None:
    tensor = StridedTensor("INT8", (2, 3), (1, 2), np.arange(6, dtype=np.int8))
    assert tensor.logical().tolist() == [[0, 2, 4], [1, 3, 5]]
    packed = StridedTensor("INT8", (2, 3), None, np.arange(6, dtype=np.int8))
    assert packed.logical().tolist() == [[0, 1, 2], [3, 4, 5]]


def test_replacing_elements_leaves_gaps() -> None:
    tensor = blank_tensor("UINT8", (2, 2), (4, 2))
    assert tensor.holding(np.array([[1, 2], [3, 4]])).tolist() == [1, FILL_BYTE, 2, FILL_BYTE, 3, FILL_BYTE, 4]


@pytest.mark.parametrize(("data_type", "values"), [("UINT4", [15, 8, 1]), ("INT4", [-1, -8, 1])])
def test_four_bit_elements_start_in_the_low_half(data_type: str, values: list[int]) -> None:
    tensor = blank_tensor(data_type, (3,), None)
    buffer = tensor.holding(np.array(values))
    # The last high half belongs to no element and stays as it was.
    assert buffer.tolist() == [0x8F, (FILL_BYTE & 0xF0) | 1]
    assert StridedTensor(data_type, (3,), None, buffer).logical().tolist() == values
