"""ROTARY_EMBEDDING on random layouts and adversarial values, against the reference."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dmlcpu
from dispatching import assert_equal, expected_storage
from fills import INPUT_FLOATS
from laid_out import packed
from native_operator import run_native
from reference.rotary_embedding import rotary_embedding
from strategies import input_tensors, output_tensors, tensor_sizes
from strided_tensor import StridedTensor, blank_tensor

Devices = Mapping[str, dmlcpu.Device]
NAMES = ("input_tensor", "cosines_tensor", "sines_tensor")


def assert_rotated(devices: Devices, inputs: list[StridedTensor], output: StridedTensor, axis: int) -> None:
    with np.errstate(all="ignore"):
        values = rotary_embedding(*(tensor.logical() for tensor in inputs), axis)
    expected = expected_storage(output, values)
    tensors: dict[str, StridedTensor | None] = {**dict(zip(NAMES, inputs, strict=True)), "output_tensor": output}
    for label, device in devices.items():
        result = run_native(device, "ROTARY_EMBEDDING", tensors, {"axis": [axis]})["output_tensor"]
        assert_equal(result, expected, label)


@given(st.data())
def test_on_any_layout(devices: Devices, data: st.DataObject) -> None:
    sizes = list(data.draw(tensor_sizes(max_rank=7, max_elements=1500)))
    axis = data.draw(st.integers(0, len(sizes)))
    sizes.insert(axis, 2)
    inputs = [data.draw(input_tensors("FLOAT32", tuple(sizes), INPUT_FLOATS)) for _ in NAMES]
    assert_rotated(devices, inputs, data.draw(output_tensors("FLOAT32", tuple(sizes))), axis)


@pytest.mark.parametrize("pairs", [1, 3, 7, 8, 9, 15, 16, 17, 32, 33, 255, 256, 257])
@pytest.mark.parametrize("axis", [3, 4], ids=["halves", "neighbours"])
def test_of_heads(devices: Devices, random_numbers: np.random.Generator, pairs: int, axis: int) -> None:
    """As models turn them: by angles that are the same for all heads and both elements of a pair."""
    sizes = (2, 3, 5, 2, pairs) if axis == 3 else (2, 3, 5, pairs, 2)
    x = packed(random_numbers.normal(size=sizes).astype(np.float32))
    strides = (5 * pairs, 0, pairs, 0, 1) if axis == 3 else (5 * pairs, 0, pairs, 1, 0)
    angles = []
    for _ in range(2):
        tensor = blank_tensor("FLOAT32", sizes, strides)
        tensor.buffer[:] = random_numbers.normal(size=tensor.buffer.size)
        angles.append(tensor)
    assert_rotated(devices, [x, *angles], blank_tensor("FLOAT32", sizes, None), axis)


@pytest.mark.parametrize(("sizes", "axis"), [((4, 3), 0), ((2,), 0), ((3, 2), 2), ((3, 2), 0)], ids=str)
def test_what_has_no_pairs_is_refused(sizes: tuple[int, ...], axis: int) -> None:
    tensors: dict[str, StridedTensor | None] = {
        name: blank_tensor("FLOAT32", sizes, None) for name in (*NAMES, "output_tensor")
    }
    with pytest.raises(ValueError, match="ROTARY_EMBEDDING"):
        run_native(dmlcpu.Device(), "ROTARY_EMBEDDING", tensors, {"axis": [axis]})
