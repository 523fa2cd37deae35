"""Constants of ONNX models, read as onnx reads them, however a file holds them, and large ones where they lie in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import ml_dtypes
import numpy as np
import onnx
import onnx.reference
import pytest
from numpy.typing import NDArray

import dmlcpu
from dmlcpu.onnx.models.model import load_model
from onnx_models import Builder, assert_like_onnxruntime, codes, results_of_onnxruntime

Array = NDArray[Any]

_TYPES = [
    np.dtype(name)
    for name in ("f4", "f2", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?", ml_dtypes.int4, ml_dtypes.uint4)
]

_SHAPES = [(), (1,), (3,), (0,), (2, 3), (70, 31)]


def _array(rng: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    return rng.integers(-8 if dtype.kind in "if" else 0, 8, shape).astype(dtype)


def _in_numbers(array: Array, name: str) -> onnx.TensorProto:
    """Return a tensor with its elements in the field of its type, not as raw data."""
    element = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    return onnx.helper.make_tensor(name, element, array.shape, array.reshape(-1).tolist())


def _model(*tensors: onnx.TensorProto) -> onnx.ModelProto:
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy")
    node = onnx.helper.make_node("Identity", ["x"], ["y"])
    graph = onnx.helper.make_graph([node], "model", [x], [y], tensors)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


def _assert_same(constants: Any, expected: Any) -> None:
    assert list(constants) == list(expected)
    for name, array in constants.items():
        other = expected[name]
        assert (array.dtype, array.shape) == (other.dtype, other.shape), name
        assert array.tobytes() == other.tobytes(), name
        assert array.flags.aligned, name


@pytest.fixture(autouse=True)
def small_files_are_searched_for_large_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    """As large ones are."""
    monkeypatch.setattr("dmlcpu.onnx.models.model._LARGE_FILE", 0)


@pytest.mark.parametrize("dtype", _TYPES, ids=str)
def test_as_onnx_reads_them(random_numbers: np.random.Generator, dtype: np.dtype[Any]) -> None:
    tensors = []
    for index, shape in enumerate(_SHAPES):
        array = _array(random_numbers, dtype, shape)
        tensors.append(onnx.numpy_helper.from_array(array, f"a{'b' * index}"))  # names move what follows them
        if dtype.type.__module__ == "numpy":
            tensors.append(_in_numbers(array, f"numbers{index}"))
    model = _model(*tensors)
    expected = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for to_run in (False, True):
        _assert_same(load_model(model.SerializeToString(), to_run).constants, expected)


def test_large_ones_are_not_copied(random_numbers: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    large, small = (_array(random_numbers, np.dtype("i1"), shape) for shape in ((64, 64), (64,)))
    data = _model(*(onnx.numpy_helper.from_array(array, name) for name, array in (("l", large), ("s", small))))
    file = data.SerializeToString()
    model = load_model(file, to_run=True)
    assert np.shares_memory(model.constants["l"], np.frombuffer(file, np.uint8))
    assert not np.shares_memory(model.constants["s"], np.frombuffer(file, np.uint8))
    assert not model.proto.graph.initializer
    monkeypatch.setattr("dmlcpu.onnx.models.model._LARGE_FILE", len(file) + 1)  # smaller ones are read faster without
    assert not np.shares_memory(load_model(file, to_run=True).constants["l"], np.frombuffer(file, np.uint8))


def test_messages_in_pieces(random_numbers: np.random.Generator) -> None:
    """Protobuf appends what is repeated of pieces of a message; of what is not, the last one counts."""
    arrays = [_array(random_numbers, np.dtype("i1"), (64, 64)) for _ in range(4)]
    tensors = [onnx.numpy_helper.from_array(array, f"w{index}") for index, array in enumerate(arrays)]
    first, second = _model(*tensors[:2]), onnx.ModelProto()
    second.graph.initializer.extend(tensors[2:3])
    twice = onnx.TensorProto(raw_data=arrays[0].tobytes()).SerializeToString() + tensors[3].SerializeToString()
    # The graph's field, then an initializer's, each with its length.
    piece = b"\x2a" + _length(len(twice)) + twice
    data = first.SerializeToString() + second.SerializeToString() + b"\x3a" + _length(len(piece)) + piece
    _assert_same(load_model(data, to_run=True).constants, {f"w{index}": array for index, array in enumerate(arrays)})


def _length(number: int) -> bytes:
    return bytes([number & 0x7F | 0x80, number >> 7 & 0x7F | 0x80, number >> 14])


@pytest.mark.parametrize(
    "extra",
    [
        b"\xfb\x3e\x08\x01\xfc\x3e",
        b"\xfd\x3e\x01\x02\x03\x04",
        b"\xf9\x3e\x01\x02\x03\x04\x05\x06\x07\x08",
        b"\x38\x05",
    ],
    ids=["group", "four bytes", "eight bytes", "a number in place of the graph"],
)
def test_fields_that_are_not_known(random_numbers: np.random.Generator, extra: bytes) -> None:
    array = _array(random_numbers, np.dtype("i1"), (64, 64))
    data = _model(onnx.numpy_helper.from_array(array, "w")).SerializeToString()
    for whole in (extra + data, data + extra):
        _assert_same(load_model(whole, to_run=True).constants, {"w": array})


def test_external_data_beside_large_constants(random_numbers: np.random.Generator, tmp_path: Path) -> None:
    arrays = {f"w{index}": _array(random_numbers, np.dtype("f4"), (40, 40)) for index in range(3)}
    model = _model(*(onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()))
    outside = model.graph.initializer[1]
    (tmp_path / "weights.bin").write_bytes(outside.raw_data)
    outside.data_location = onnx.TensorProto.EXTERNAL
    outside.external_data.add(key="location", value="weights.bin")
    for stale in (False, True):  # raw data that is left behind does not count
        outside.raw_data = bytes(arrays["w1"].nbytes) if stale else b""
        if not stale:
            outside.ClearField("raw_data")
        (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
        _assert_same(load_model(tmp_path / "model.onnx", to_run=True).constants, arrays)


def test_damaged_files(random_numbers: np.random.Generator) -> None:
    """With large constants taken out of a file there are the same constants, or the same complaint, as with them in."""
    builder = Builder()
    x = builder.input(np.float32, (1, 40))
    weights = _array(random_numbers, np.dtype("f4"), (40, 40))
    builder.output(builder.node("Add", [builder.node("MatMul", [x, weights]), weights[:1]]), np.float32)
    file = np.frombuffer(builder.build(), np.uint8)
    heads = np.flatnonzero(file != 0)
    heads = heads[(heads < 400) | (heads > len(file) - 200)]
    accepted = refused = 0
    for _ in range(1500):
        damaged = file.copy()
        where = random_numbers.choice(heads, random_numbers.integers(1, 3))
        damaged[where] = random_numbers.integers(0, 256, len(where))
        data = damaged[: random_numbers.choice([len(file), len(file), random_numbers.integers(1, len(file))])].tobytes()
        whole, parts = (_outcome(data, to_run) for to_run in (False, True))
        assert type(whole) is type(parts)
        if isinstance(whole, str):
            assert whole == parts
            refused += 1
        else:
            _assert_same(parts, whole)
            accepted += 1
    assert min(accepted, refused) > 100


def _outcome(data: bytes, to_run: bool) -> Any:
    try:
        return dict(load_model(data, to_run).constants)
    except dmlcpu.InvalidModelError as error:
        return str(error)


@pytest.mark.parametrize("dtype", [ml_dtypes.int4, ml_dtypes.uint4, np.int8, np.uint8])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("has_zero_points", [False, True])
def test_weights_whose_scales_are_those_of_blocks(
    random_numbers: np.random.Generator, dtype: Any, axis: int, has_zero_points: bool
) -> None:
    """Also where the last block is shorter. They are floats before the model first runs."""
    weights = _array(random_numbers, np.dtype(dtype), (20, 12))
    blocks = (3, 12) if axis == 0 else (20, 2)
    scales = random_numbers.uniform(0.1, 1, blocks).astype(np.float32)
    points = [_array(random_numbers, np.dtype(dtype), blocks)] if has_zero_points else []
    builder = Builder(21)
    x = builder.input("float32", ("N", 20))
    floats = builder.node("DequantizeLinear", [weights, scales, *points], axis=axis, block_size=8)
    builder.output(builder.node("MatMul", [x, floats]), "float32")
    builder.output(floats, "float32")
    session = dmlcpu.InferenceSession(builder.build())
    [partition] = session.partitions()
    assert partition.provider == "dmlcpu"
    feed = random_numbers.normal(size=(3, 20)).astype(np.float32)
    product, same = session.run(None, {"x": feed})
    expected = onnx.reference.ReferenceEvaluator(builder.proto()).run(None, {"x": feed})
    np.testing.assert_array_equal(same, expected[1])
    np.testing.assert_allclose(product, expected[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("block_size", [0, 8])
def test_constant_codes_of_another_type_than_their_scale_s(block_size: int) -> None:
    """FLOAT16, which the node asks for."""
    builder = Builder(23)
    x = builder.input("float16", (2, 20))
    codes = np.arange(240, dtype=np.int8).reshape(20, 12)
    scales = np.full((3, 12) if block_size else (), 0.5, np.float32)
    attributes = {"axis": 0, "output_dtype": onnx.TensorProto.FLOAT16, **({"block_size": 8} if block_size else {})}
    builder.output(builder.node("MatMul", [x, builder.node("DequantizeLinear", [codes, scales], **attributes)]), "f2")
    [result] = dmlcpu.InferenceSession(builder.build()).run(None, {"x": np.eye(2, 20, dtype=np.float16)})
    assert result.dtype == np.float16
    np.testing.assert_array_equal(result, codes[:2] / 2)


@pytest.mark.parametrize("shape", [(2, 12), (3, 11), (20, 12), (1,)])
def test_scales_that_are_not_those_of_the_blocks(shape: tuple[int, ...]) -> None:
    builder = Builder(21)
    x = builder.input("float32", (2, 20))
    weights = np.ones((20, 12), ml_dtypes.int4)
    floats = builder.node("DequantizeLinear", [weights, np.ones(shape, np.float32)], axis=0, block_size=8)
    builder.output(builder.node("MatMul", [x, floats]), "float32")
    with pytest.raises(
        dmlcpu.InvalidModelError, match=r"DequantizeLinear \(.*\): .* expected \(3, 12\) for blocks of 8"
    ):
        dmlcpu.InferenceSession(builder.build())


def sparse_of(
    values: Array, indices: Any, shape: Sequence[int], name: str = "w", dtype: str = "int64"
) -> onnx.SparseTensorProto:
    return onnx.SparseTensorProto(
        values=onnx.numpy_helper.from_array(values, name),
        indices=onnx.numpy_helper.from_array(np.asarray(indices, dtype)),
        dims=shape,
    )


@pytest.mark.parametrize("by_axes", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "i1", "u1", "i8", "f8"])
@pytest.mark.parametrize("shape", [(5, 7, 3), (16,), (), (4, 0), (40, 30)], ids=str)
def test_sparse_ones(random_numbers: np.random.Generator, shape: tuple[int, ...], dtype: str, by_axes: bool) -> None:
    dense = np.where(random_numbers.random(shape) < 0.2, _array(random_numbers, np.dtype(dtype), shape), 0)
    dense = np.asarray(dense, dtype)
    flat = np.flatnonzero(dense)
    indices = np.stack(np.unravel_index(flat, shape), -1) if by_axes and shape else flat
    model = _model(onnx.numpy_helper.from_array(np.float32([1, 2]), "a"))
    model.graph.sparse_initializer.append(sparse_of(dense.reshape(-1)[flat], indices, shape))
    for to_run in (False, True):
        constants = load_model(model.SerializeToString(), to_run).constants
        _assert_same(constants, {"a": np.float32([1, 2]), "w": dense})


def test_products_with_sparse_ones(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    value = builder.dequantized(builder.input("uint8", (2, 3)), 0.1, np.uint8(3))
    builder.output(builder.node("MatMul", [value, "w"]), "float32")
    model = builder.proto()
    model.graph.sparse_initializer.append(sparse_of(np.float32([1, -2, 0.5]), [0, 3, 10], (3, 4)))
    assert_like_onnxruntime(model.SerializeToString(), {"x": codes(random_numbers, "uint8", (2, 3))})


VALUES: Final = np.float32([1, 2])


@pytest.mark.parametrize("indices", [[3, 1], [1, 1], [[1, 1], [0, 3]], [[1, 1], [1, 1]]], ids=str)
def test_sparse_ones_in_any_order(indices: list[Any]) -> None:
    """Of two values for one element the last counts, as in onnxruntime."""
    model = _model()
    model.graph.sparse_initializer.append(sparse_of(VALUES, indices, (2, 4)))
    model.graph.node.append(onnx.helper.make_node("Identity", ["w"], ["z"]))
    model.graph.output.append(onnx.helper.make_tensor_value_info("z", 1, [2, 4]))
    assert_like_onnxruntime(model.SerializeToString(), {"x": VALUES[:1]})


@pytest.mark.parametrize("place", ["graph", "branch", "loop", "function"])
def test_places_of_sparse_ones(place: str) -> None:
    """They are what dense ones are, wherever a dense one may be."""
    begin = "g (float[4] x, bool t, int64 n) => (float[4] y)"
    adding = "b () => (z) { z=Add(v,w) }, else_branch=e () => (a) { a=Neg(v) }>"
    nodes = {
        "graph": "y=Add(x,w)",
        "branch": f"v=Neg(x) y=If(t)<then_branch={adding}",
        "loop": "y=Loop(n,t,x)<body=b (int64 i, bool c, float[4] v) => (bool d, float[4] z) "
        "{ d=Identity(c) z=Add(v,w) }>",
        "function": "y=my.f(x,t)",
    }[place]
    function = f'<domain: "my", opset_import: ["": 17]> f (v,t) => (u) {{ u=If(t)<then_branch={adding} }}'
    imports = '<ir_version: 9, opset_import: ["": 17, "my": 1]>'
    model = onnx.parser.parse_model(f"{imports} {begin} {{ {nodes} }}" + function * (place == "function"))
    holder = model.functions[0] if place == "function" else model.graph
    graph = model.graph if place == "graph" else holder.node[-1].attribute[0].g
    graph.sparse_initializer.append(sparse_of(VALUES, [1, 3], (4,)))
    feeds = {"x": np.float32([1, 2, 3, 4]), "t": np.array(True), "n": np.array(3, np.int64)}
    [ours] = dmlcpu.InferenceSession(model.SerializeToString()).run(None, feeds)
    scale, times = {"graph": (1, 1), "branch": (-1, 1), "loop": (1, 3), "function": (1, 1)}[place]
    np.testing.assert_array_equal(ours, scale * feeds["x"] + times * np.float32([0, 1, 0, 2]), strict=True)
    if place != "function":  # onnxruntime infers no type of sparse ones there
        [theirs] = results_of_onnxruntime(model.SerializeToString(), feeds)
        np.testing.assert_array_equal(ours, theirs, strict=True)


@pytest.mark.parametrize(
    ("sparse", "message"),
    [
        (sparse_of(VALUES, [0, 12], (3, 4)), "an index is beyond"),
        (sparse_of(VALUES, [-1, 1], (3, 4)), "an index is beyond"),
        (sparse_of(VALUES, [[0, 1], [1, 4]], (3, 4)), "an index is beyond"),
        (sparse_of(VALUES, [[0, -1], [1, 1]], (3, 4)), "an index is beyond"),
        (sparse_of(VALUES, [0, 0], (0, 4)), "an index is beyond"),
        (sparse_of(VALUES, [0, 1, 2], (3, 4)), "indices of shape"),
        (sparse_of(VALUES, [[0], [1]], (3, 4)), "indices of shape"),
        (sparse_of(VALUES, [0, 1], (3, 4), dtype="int32"), "int32 indices"),
        (sparse_of(VALUES.reshape(1, 2), [0, 1], (3, 4)), "values of shape"),
        (sparse_of(np.array(["a", "b"], object), [0, 1], (3, 4)), "object values"),
        (sparse_of(VALUES, [0, 1], (-3, 4)), "got dimensions"),
        (sparse_of(VALUES, [0, 1], (1 << 62, 1 << 62)), "got dimensions"),
        (sparse_of(VALUES, [0, 1], (1,) * 70), "got dimensions"),
        (sparse_of(VALUES[:0], [], (0, 1 << 62)), "got dimensions"),
        (sparse_of(VALUES[:0], [], (0, 1 << 62, 1 << 62)), "got dimensions"),
    ],
)
def test_sparse_ones_that_are_malformed(sparse: onnx.SparseTensorProto, message: str) -> None:
    model = _model()
    model.graph.sparse_initializer.append(sparse)
    with pytest.raises(dmlcpu.InvalidModelError, match=f"'w'.*{message}"):
        load_model(model.SerializeToString(), to_run=True)


def test_initializers_of_types_that_there_are_not() -> None:
    for data_type in (99, onnx.TensorProto.UNDEFINED):
        model = _model()
        model.graph.initializer.append(onnx.TensorProto(name="w", data_type=data_type, dims=[4], raw_data=bytes(16)))
        with pytest.raises(dmlcpu.InvalidModelError, match=f"'w': got data type {data_type}, expected one of ONNX's"):
            load_model(model.SerializeToString(), to_run=True)


def test_sparse_ones_beyond_the_memory() -> None:
    model = _model()
    model.graph.sparse_initializer.append(sparse_of(VALUES, [0, 1], (1 << 46,)))
    with pytest.raises(MemoryError):
        load_model(model.SerializeToString())


@pytest.mark.parametrize("by_columns", [False, True])
@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2], ids=["e4m3", "e5m2"])
def test_weights_quantized_to_8_bit_floats(random_numbers: np.random.Generator, dtype: Any, by_columns: bool) -> None:
    """As ModelOpt writes them, floats that a run would quantize: they are quantized when the model is planned."""
    builder = Builder(19)
    weights = random_numbers.normal(size=(8, 6)).astype(np.float32)
    scale = random_numbers.uniform(1e-2, 2e-2, 6 if by_columns else ()).astype(np.float32)
    parameters = [scale, np.zeros(scale.shape, dtype)]
    quantized = builder.node("QuantizeLinear", [weights, *parameters], axis=1)
    floats = builder.node("DequantizeLinear", [quantized, *parameters], axis=1)
    builder.output(floats, "float32")
    builder.output(builder.node("MatMul", [builder.input("float32", (5, 8)), floats]), "float32")
    feeds = {"x": random_numbers.normal(size=(5, 8)).astype(np.float32)}
    session = dmlcpu.InferenceSession(builder.build())
    assert [part.provider for part in session.partitions()] == ["dmlcpu"]
    result, product = session.run(None, feeds)
    expected, rounded = onnx.reference.ReferenceEvaluator(builder.proto()).run(None, feeds)
    assert np.array_equal(result, expected)
    np.testing.assert_allclose(product, rounded, rtol=0, atol=3e-6 * float(np.abs(rounded).max()))
