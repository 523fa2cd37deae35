"""MAX_UNPOOLING on random layouts, in planes and across them, against the reference; indices that name nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dmlcpu
from dispatching import assert_equal, expected_storage
from fills import input_fills
from graph_cases import random_tensor
from laid_out import packed
from native_operator import run_native
from reference.max_unpooling import max_unpooling
from strategies import generators, input_strides, input_tensors, output_tensors, tensor_sizes
from strided_tensor import NUMPY_TYPES, StridedTensor, blank_tensor, element_span

Devices = Mapping[str, dmlcpu.Device]
Tensors = Mapping[str, StridedTensor]

DATA_TYPES: Final = ("UINT8", "INT8", "FLOAT16", "FLOAT32", "INT64")


def assert_unpools(devices: Devices, tensors: Tensors, value: int) -> None:
    output = tensors["output_tensor"]
    arrays = (tensors[name].logical() for name in ("input_tensor", "indices_tensor"))
    expected = expected_storage(output, max_unpooling(*arrays, output.sizes, value))
    for label, device in devices.items():
        results = run_native(device, "MAX_UNPOOLING", tensors, {"value": [value]})
        assert_equal(results["output_tensor"], expected, label)


@st.composite
def tensors_of_any_layout(draw: st.DrawFn) -> Tensors:
    """Indices of the whole output, repeated ones too."""
    sizes = draw(tensor_sizes(max_rank=5, max_elements=400).filter(lambda sizes: len(sizes) > 1))
    planes = tuple(draw(st.integers(1, 9)) for _ in sizes[2:])
    data_type, index_type = draw(st.sampled_from(DATA_TYPES)), draw(st.sampled_from(("INT32", "INT64")))
    output_sizes, strides = (*sizes[:2], *planes), draw(input_strides(sizes))
    places = draw(generators()).integers(0, math.prod(output_sizes), element_span(sizes, strides))
    return {
        "input_tensor": draw(input_tensors(data_type, sizes, input_fills(NUMPY_TYPES[data_type]))),
        "indices_tensor": StridedTensor(index_type, sizes, strides, places.astype(NUMPY_TYPES[index_type])),
        "output_tensor": draw(output_tensors(data_type, output_sizes)),
    }


@given(tensors_of_any_layout(), st.sampled_from((0, 1, 127, 128, 255)))
def test_random_layouts(devices: Devices, tensors: Tensors, value: int) -> None:
    assert_unpools(devices, tensors, value)


@pytest.mark.parametrize("data_type", DATA_TYPES)
@pytest.mark.parametrize("index_type", ["INT32", "INT64"])
@pytest.mark.parametrize("astray", ["none", "the first", "the last", "one amid", "to the next plane"])
@pytest.mark.parametrize(("sizes", "planes"), [((2, 70, 9, 7), (19, 15)), ((1, 3, 150, 140), (300, 281)), ((3, 5), ())])
def test_several_tasks(
    devices: Devices,
    random_numbers: np.random.Generator,
    data_type: str,
    index_type: str,
    astray: str,
    sizes: tuple[int, ...],
    planes: tuple[int, ...],
) -> None:
    """Each plane's elements are in one of its own, several in one place, or an element is in another one's."""
    count, plane = math.prod(sizes[:2]), math.prod(planes)
    elements = math.prod(sizes[2:])
    places = random_numbers.integers(0, plane, (count, elements)) + plane * np.arange(count)[:, None]
    flat = places.reshape(-1)
    if astray == "to the next plane":
        flat[elements - 1] = plane
    elif astray != "none":
        at = {"the first": 0, "the last": -1, "one amid": flat.size // 2}[astray]
        flat[at] = count * plane - 1 - flat[at]
    tensors = {
        "input_tensor": random_tensor(random_numbers, data_type.replace("FLOAT", "INT"), sizes),
        "indices_tensor": packed(places.reshape(sizes).astype(NUMPY_TYPES[index_type])),
    }
    if data_type.startswith("FLOAT"):
        tensors["input_tensor"] = packed(random_numbers.normal(0, 1, sizes).astype(NUMPY_TYPES[data_type]))
    tensors["output_tensor"] = blank_tensor(data_type, (*sizes[:2], *planes), None)
    assert_unpools(devices, tensors, 0)


@pytest.mark.parametrize("index_type", ["INT32", "INT64"])
@pytest.mark.parametrize("wrong", [36, -1, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("at", [0, 7])
def test_indices_out_of_range(device: dmlcpu.Device, index_type: str, wrong: int, at: int) -> None:
    """None counts from the end."""
    places = np.arange(8, dtype=NUMPY_TYPES[index_type])
    places[at] = wrong
    tensors = {
        "input_tensor": packed(np.ones((2, 2, 2), np.float32)),
        "indices_tensor": packed(places.reshape(2, 2, 2)),
        "output_tensor": blank_tensor("FLOAT32", (2, 2, 9), None),
    }
    with pytest.raises(IndexError, match=rf"^got index {wrong}, expected one from 0 to 35$"):
        run_native(device, "MAX_UNPOOLING", tensors, {"value": [0]})


def test_indices_of_64_bits_are_not_cut(device: dmlcpu.Device) -> None:
    tensors = {
        "input_tensor": packed(np.ones((1, 1, 2), np.float32)),
        "indices_tensor": packed(np.int64([[[0, 1 << 32]]])),
        "output_tensor": blank_tensor("FLOAT32", (1, 1, 4), None),
    }
    with pytest.raises(IndexError, match=rf"^got index {1 << 32}, expected one from 0 to 3$"):
        run_native(device, "MAX_UNPOOLING", tensors, {"value": [0]})


Layout = tuple[tuple[int, ...], str]
INPUT: Layout = ((2, 3, 4, 5), "FLOAT32")
INDICES: Layout = ((2, 3, 4, 5), "INT64")
OUTPUT: Layout = ((2, 3, 8, 10), "FLOAT32")


@pytest.mark.parametrize(
    ("layouts", "value"),
    [
        ([INPUT, INDICES, OUTPUT], 256),
        ([INPUT, INDICES, OUTPUT], -1),
        ([INPUT, INDICES, ((2, 3, 8, 10), "INT32")], 0),
        ([INPUT, INDICES, ((2, 3, 80), "FLOAT32")], 0),
        ([INPUT, INDICES, ((1, 3, 8, 10), "FLOAT32")], 0),
        ([INPUT, INDICES, ((2, 4, 8, 10), "FLOAT32")], 0),
        ([INPUT, ((2, 3, 5, 4), "INT64"), OUTPUT], 0),
        ([INPUT, ((2, 3, 20), "INT64"), OUTPUT], 0),
        ([INPUT, ((2, 3, 4, 5), "UINT8"), OUTPUT], 0),
        ([((6,), "FLOAT32"), ((6,), "INT64"), ((6,), "FLOAT32")], 0),
    ],
    ids=str,
)
def test_refuses_what_does_not_fit(device: dmlcpu.Device, layouts: list[Layout], value: int) -> None:
    names = ("input_tensor", "indices_tensor", "output_tensor")
    tensors = {
        name: packed(np.zeros(sizes, NUMPY_TYPES[data_type]))
        for name, (sizes, data_type) in zip(names, layouts, strict=True)
    }
    with pytest.raises(ValueError, match="MAX_UNPOOLING"):
        run_native(device, "MAX_UNPOOLING", tensors, {"value": [value]})
