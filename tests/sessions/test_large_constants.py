"""Large constants of files: the arrays of onnx, aligned, and views of the file's bytes, wherever they lie in it."""

from __future__ import annotations

import math
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import pytest

from dmlcpu.onnx.models.model import load_model
from dmlcpu.onnx.models.serialized import without_large_constants

Array = np.ndarray[Any, Any]

# From the first size on, in bytes, constants are taken out of a model whose file has the last one at least.
SIZES: Final = (1 << 11, (1 << 11) + 8, 1 << 22)
TYPES: Final = (np.float32, np.int32, np.int64, np.int8, np.float64)


def constants(random_numbers: np.random.Generator, dtype: type[np.generic]) -> dict[str, Array]:
    """Arrays with names of several lengths: so their bytes begin at any multiple of an address."""
    arrays: dict[str, Array] = {}
    for size in SIZES:
        for letters in range(1, 9):
            length = (size if letters == 1 else min(size, SIZES[1])) // np.dtype(dtype).itemsize
            arrays["c" * letters + str(size)] = random_numbers.integers(-100, 100, length).astype(dtype)
    return arrays


def model_of(arrays: dict[str, Array]) -> onnx.ModelProto:
    initializers = [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()]
    node = onnx.helper.make_node("Identity", ["x"], ["y"])
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy")
    graph = onnx.helper.make_graph([node], "graph", [x], [y], initializers)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("dtype", TYPES)
def test_constants_of_files(random_numbers: np.random.Generator, tmp_path: Path, dtype: type[np.generic]) -> None:
    arrays = constants(random_numbers, dtype)
    path = tmp_path / "model.onnx"
    onnx.save(model_of(arrays), path)
    before = path.read_bytes()
    for model in (path, before):
        loaded = load_model(model, to_run=True).constants
        assert list(loaded) == list(arrays)
        for name, array in arrays.items():
            assert loaded[name].dtype == array.dtype
            np.testing.assert_array_equal(loaded[name], array)
            assert loaded[name].flags.aligned
            assert not loaded[name].flags.writeable or loaded[name].flags.owndata
    assert path.read_bytes() == before == model_of(arrays).SerializeToString()


@pytest.mark.parametrize("kind", ["INT4", "UINT4"])
def test_constants_of_4_bits(random_numbers: np.random.Generator, tmp_path: Path, kind: str) -> None:
    """The arrays of onnx, of even and odd counts and of none, and of more bytes than there are elements."""
    initializers, number = [], onnx.TensorProto.DataType.Value(kind)
    for shape in [(), (1,), (2,), (0, 3), (3, 5), (257,), (64, 33), (1 << 12,), (1 << 10, 1 << 13)]:
        count = math.prod(shape)
        for more in (0, 1, 2):
            raw = random_numbers.integers(0, 256, (count + 1) // 2 + more, np.uint8).tobytes()
            initializers.append(onnx.TensorProto(name=f"{shape} {more}", data_type=number, dims=shape, raw_data=raw))
    model = model_of({})
    model.graph.initializer.extend(initializers)
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    for source in (path, path.read_bytes()):
        loaded = load_model(source, to_run=True).constants
        assert list(loaded) == [tensor.name for tensor in initializers]
        for tensor in initializers:
            expected, array = onnx.numpy_helper.to_array(tensor), loaded[tensor.name]
            assert (array.dtype, array.shape) == (expected.dtype, expected.shape)
            np.testing.assert_array_equal(array.view(np.uint8), expected.view(np.uint8))


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_constants_are_aligned_in_place(random_numbers: np.random.Generator, dtype: type[np.generic]) -> None:
    arrays = constants(random_numbers, dtype)
    memory = BytesIO(model_of(arrays).SerializeToString()).getbuffer()
    whole = np.frombuffer(memory, np.uint8)
    starts = [(bytes(memory).index(array.tobytes())) % 4 for array in arrays.values()]
    assert {*starts} == {0, 1, 2, 3}
    rest, taken = without_large_constants(memory)
    assert rest is not None
    given = onnx.load_model_from_string(rest).graph.initializer
    assert [tensor.name for tensor in given] == list(arrays)
    assert not any(tensor.HasField("raw_data") for tensor in given)
    for data, array in zip(taken.values(), arrays.values(), strict=True):
        assert data.readonly
        view = np.frombuffer(data, dtype)
        assert view.flags.aligned
        assert np.shares_memory(view, whole)
        np.testing.assert_array_equal(view, array)


def field(number: int, content: bytes) -> bytes:
    """A field of bytes, as protobuf writes it."""
    length, rest = b"", len(content)
    while rest >= 1 << 7:
        length, rest = length + bytes([rest & 127 | 128]), rest >> 7
    return bytes([number << 3 | 2]) + length + bytes([rest]) + content


@pytest.mark.parametrize("behind", [0, 1, 2, 3])
def test_fields_may_be_in_another_order(random_numbers: np.random.Generator, behind: int) -> None:
    arrays = {"a" * (1 + behind): random_numbers.random(1 << 20, np.float32), "b": np.arange(1 << 10, dtype=np.float32)}
    plain = model_of({})
    graph = plain.graph.SerializeToString()
    for name, array in arrays.items():
        told = onnx.TensorProto(dims=array.shape, data_type=onnx.TensorProto.FLOAT, name=name).SerializeToString()
        graph += field(5, field(9, array.tobytes()) + told)  # its raw data first
    plain.ClearField("graph")
    memory = BytesIO(field(7, graph) + plain.SerializeToString()).getbuffer()
    rest, taken = without_large_constants(memory)
    assert rest is not None
    assert [tensor.name for tensor in onnx.load_model_from_string(rest).graph.initializer] == list(arrays)
    for data, array in zip(taken.values(), arrays.values(), strict=True):
        view = np.frombuffer(data, np.float32)
        assert view.flags.aligned
        np.testing.assert_array_equal(view, array)


def test_memory_that_is_read_alone_stays_as_it_is(random_numbers: np.random.Generator) -> None:
    arrays = constants(random_numbers, np.float32)
    model = model_of(arrays).SerializeToString()
    copy = bytes(bytearray(model))
    _, taken = without_large_constants(model)
    assert model == copy
    assert [bytes(data) for data in taken.values()] == [array.tobytes() for array in arrays.values()]


def test_a_model_that_is_cut_off_is_not_changed(random_numbers: np.random.Generator) -> None:
    cut = model_of(constants(random_numbers, np.float32)).SerializeToString()[:-1]
    memory = BytesIO(cut).getbuffer()
    assert without_large_constants(memory) == (None, {})
    assert bytes(memory) == cut
