"""Sessions on models of unusual forms: several outputs, free shapes, subgraphs, names, old and new opsets."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import ml_dtypes
import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

import dmlcpu
from argument_forms import OnlyDLPack
from conftest import SEED
from onnx_models import Builder, codes, results_of_onnxruntime

Array = NDArray[Any]
POINT: Final = np.uint8(121)
W: Final = np.random.default_rng((SEED, 1)).integers(-128, 128, (4, 3, 3, 3), np.int8)


def network(shape: tuple[int | str | None, ...], opset: int = 17) -> Builder:
    """A convolution and a pooling of floats, quantized in between."""
    builder = Builder(opset)
    quantized = builder.quantized(builder.input("float32", shape), 0.02, POINT)
    value = builder.dequantized(quantized, 0.02, POINT)
    value = builder.node("Conv", [value, builder.dequantized(W, 0.004, np.int8(0))], pads=[1, 1, 1, 1])
    value = builder.dequantized(builder.quantized(builder.node("Relu", [value]), 0.05, POINT), 0.05, POINT)
    value = builder.dequantized(builder.quantized(builder.node("GlobalAveragePool", [value]), 0.05, POINT), 0.05, POINT)
    builder.output(builder.node("Flatten", [value]), "float32", (None, 4))
    return builder


def assert_near(model: bytes, feeds: Mapping[str, Array], step: float = 0.05) -> list[dmlcpu.InferenceSession]:
    """Within one code, of the step, of onnxruntime; return the session."""
    session = dmlcpu.InferenceSession(model)
    for ours, theirs in zip(session.run(None, feeds), results_of_onnxruntime(model, feeds), strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=step * 1.001)
    return [session]


@pytest.mark.parametrize("opset", range(11, 22))
def test_opsets(random_numbers: np.random.Generator, opset: int) -> None:
    x = random_numbers.normal(size=(2, 3, 6, 5)).astype(np.float32)
    [session] = assert_near(network(x.shape, opset).build(), {"x": x})
    assert [part.provider for part in session.partitions()] == ["dmlcpu"]


def test_free_batch_and_image_sizes(random_numbers: np.random.Generator) -> None:
    model = network(("N", 3, None, "W")).build()
    session = dmlcpu.InferenceSession(model)
    for shape in ((1, 3, 5, 5), (4, 3, 8, 3), (1, 3, 5, 5), (2, 3, 1, 1)):
        x = random_numbers.normal(size=shape).astype(np.float32)
        [ours], [theirs] = session.run(None, {"x": x}), results_of_onnxruntime(model, {"x": x})
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=0.0501)
    assert len(session._plans.cache) == 3
    for size in range(1, 30):
        session.run(None, {"x": np.zeros((1, 3, size, 1), np.float32)})
    assert len(session._plans.cache) == 3 + 29
    with pytest.raises(dmlcpu.BindingError, match="expected float32 of shape"):
        session.run(None, {"x": np.zeros((1, 4, 5, 5), np.float32)})


def test_shapes_that_only_a_run_tells(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    x = builder.input("uint8", (20,))
    places = builder.node("Transpose", [builder.node("NonZero", [builder.node("Cast", [x], to=9)])])
    floats = builder.dequantized(builder.node("GatherND", [x, places]), 0.1, np.uint8(3))
    builder.output(builder.quantized(builder.node("Sigmoid", [floats]), 0.004, np.uint8(0)), "uint8", (None,))
    session = dmlcpu.InferenceSession(builder.build())
    for _ in range(3):
        feed = codes(random_numbers, "uint8", (20,)) * random_numbers.integers(0, 2, 20, np.uint8)
        [ours], [theirs] = session.run(None, {"x": feed}), results_of_onnxruntime(builder.build(), {"x": feed})
        assert ours.shape == theirs.shape
        assert np.abs(ours.astype(int) - theirs.astype(int)).max() <= 1


def test_what_is_read_behind_shapes_that_only_a_run_tells(random_numbers: np.random.Generator) -> None:
    """The first part, planned before its readers were known, runs again for them; the part between does not."""
    builder = Builder()
    x = builder.input("uint8", (1, 3, 4, 5))
    places = builder.node("Transpose", [builder.node("NonZero", [builder.node("Cast", [x], to=9)])])
    chosen = builder.dequantized(builder.node("GatherND", [x, places]), 0.1, np.uint8(3))
    weights = builder.dequantized(W, 0.004, np.int8(0))
    images = builder.quantized(builder.node("Conv", [builder.dequantized(x, 0.1, np.uint8(3)), weights]), 0.05, POINT)
    total = builder.node("Add", [builder.dequantized(images, 0.05, POINT), builder.node("ReduceMean", [chosen])])
    builder.output(builder.quantized(total, 0.1, POINT), "uint8", (1, 4, None, None))
    model = builder.build()
    session = dmlcpu.InferenceSession(model)
    for _ in range(3):
        feed = codes(random_numbers, "uint8", (1, 3, 4, 5)) * random_numbers.integers(0, 2, (1, 3, 4, 5), np.uint8)
        [ours], [theirs] = session.run(None, {"x": feed}), results_of_onnxruntime(model, {"x": feed})
        assert ours.shape == theirs.shape
        assert np.abs(ours.astype(int) - theirs.astype(int)).max() <= 1


@pytest.mark.parametrize("domain", ["", "com.microsoft."])
def test_codes_of_16_bits_before_convolutions(random_numbers: np.random.Generator, domain: str) -> None:
    """They are convolved as floats, in one part with what rounds them."""
    builder = Builder(21)
    value = builder.input("float32", (1, 3, 6, 5))
    for _ in range(2):
        quantized = builder.node(f"{domain}QuantizeLinear", [value, np.float32(0.001), np.int16(5)])
        value = builder.node(f"{domain}DequantizeLinear", [quantized, np.float32(0.001), np.int16(5)])
        weights = builder.dequantized(W[:3], 0.004, np.int8(0))
        value = builder.node("Relu", [builder.node("Conv", [value, weights], pads=[1, 1, 1, 1])])
    builder.output(value, "float32")
    feeds = {"x": random_numbers.normal(size=(1, 3, 6, 5)).astype(np.float32)}
    [session] = assert_near(builder.build(), feeds, 0.01)
    session.run(None, feeds)
    assert [part.provider for part in session.partitions()] == ["dmlcpu"]


def test_outputs_that_are_anything(random_numbers: np.random.Generator) -> None:
    """Intermediate, input, constant, the same twice; the order is the model's."""
    builder = Builder()
    x = builder.input("uint8", (2, 3))
    floats = builder.dequantized(x, 0.1, np.uint8(7))
    doubled = builder.node("Mul", [floats, np.float32(2)])
    quantized = builder.quantized(doubled, 0.2, np.int8(-1))
    constant = builder.constant(np.arange(4, dtype=np.int64), "table")
    for name, dtype in (
        (quantized, "int8"),
        (doubled, "float32"),
        (x, "uint8"),
        (constant, "int64"),
        (floats, "float32"),
    ):
        builder.output(name, dtype)
    [session] = assert_near(builder.build(), {"x": codes(random_numbers, "uint8", (2, 3))}, 1e-7)
    feed = codes(random_numbers, "uint8", (2, 3))
    [third, first] = session.run([x, quantized], {"x": feed})
    np.testing.assert_array_equal(third, feed)
    assert first.dtype == np.int8
    [again] = session.run([constant], {"x": feed})
    again[:] = 9  # an array of the caller's own
    np.testing.assert_array_equal(session.run([constant], {"x": feed})[0], np.arange(4))


def test_nodes_of_one_name_and_of_none(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    value = builder.input("float32", (3,))
    for _ in range(5):
        value = builder.node("Tan", [value])
    builder.output(value, "float32")
    x = random_numbers.normal(size=3).astype(np.float32)
    [expected] = results_of_onnxruntime(builder.build(), {"x": x})
    for node, name in zip(builder.nodes, ("a_2", "a", "a", "", "Cos_3"), strict=True):
        node.name = name  # onnxruntime refuses such a model
    session = dmlcpu.InferenceSession(builder.build())
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], expected)
    names = [name for partition in session.partitions() for name in partition.nodes]
    assert len(set(names)) == 5


def test_initializers_among_the_inputs(random_numbers: np.random.Generator) -> None:
    """Models of IR version 3 list them; they are constants all the same, and may be fed as they are."""
    builder = network((1, 3, 4, 4))
    for tensor in list(builder.initializers):
        array = onnx.numpy_helper.to_array(tensor)
        builder.input(array.dtype, array.shape, tensor.name)
    model = builder.build()
    session = dmlcpu.InferenceSession(model)
    assert [value.name for value in session.get_inputs()] == ["x"]
    feeds = {"x": random_numbers.normal(size=(1, 3, 4, 4)).astype(np.float32)}
    assert_near(model, feeds)
    own = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in builder.initializers}
    np.testing.assert_array_equal(session.run(None, {**feeds, **own})[0], session.run(None, feeds)[0])
    name = next(name for name, array in own.items() if array.dtype == np.float32)
    for other in (own[name] * 2, own[name].astype(np.float64)):
        with pytest.raises(dmlcpu.BindingError, match="a constant"):
            session.run(None, {**feeds, name: other})


def test_external_data(random_numbers: np.random.Generator, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    model = network((1, 3, 4, 4))
    onnx.save(model.proto(), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    x = random_numbers.normal(size=(1, 3, 4, 4)).astype(np.float32)
    [ours] = dmlcpu.InferenceSession(path).run(None, {"x": x})
    [same] = dmlcpu.InferenceSession(model.build()).run(None, {"x": x})
    np.testing.assert_array_equal(ours, same)
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(dmlcpu.InvalidModelError, match=r"model\.onnx"):
        dmlcpu.InferenceSession(path)
    with pytest.raises(dmlcpu.InvalidModelError, match=r"external|weights"):
        dmlcpu.InferenceSession(onnx.load(path, load_external_data=False).SerializeToString())


@pytest.mark.parametrize(
    ("location", "dims"),
    [("../weights.bin", [4]), ("link.bin", [4]), ("a" * 5000, [4]), ("missing", [4]), ("here.bin", [-4])],
)
def test_external_data_that_is_not_read(tmp_path: Path, location: str, dims: list[int]) -> None:
    """A model reads files beside it alone, and tensors of sizes that there are."""
    folder = tmp_path / "model"
    folder.mkdir()
    for path in (tmp_path / "weights.bin", folder / "here.bin"):
        path.write_bytes(np.float32([1, 2, 3, 4]).tobytes())
    (folder / "link.bin").symlink_to(tmp_path / "weights.bin")
    tensor = onnx.TensorProto(
        name="w", data_type=onnx.TensorProto.FLOAT, dims=dims, data_location=onnx.TensorProto.EXTERNAL
    )
    tensor.external_data.add(key="location", value=location)
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Add", ["x", "w"], ["y"])], "graph", [x], [y], [tensor])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(dmlcpu.InvalidModelError):
        dmlcpu.InferenceSession(folder / "model.onnx")


def test_outputs_are_in_memory_of_their_own() -> None:
    """Also those that nothing is computed for, and those that are asked for twice."""
    builder = Builder()
    x = builder.input("float32", (4,))
    relu = builder.node("Relu", [x])
    for value in (x, builder.node("Identity", [x]), relu, builder.node("Identity", [relu])):
        builder.output(value, "float32")
    session = dmlcpu.InferenceSession(builder.build())
    feed = np.float32([1, -2, 3, -4])
    names = [output.name for output in session.get_outputs()]
    results = session.run([*names, *names], {"x": feed})
    arrays = [feed, *results]
    assert not any(np.shares_memory(a, b) for i, a in enumerate(arrays) for b in arrays[:i])
    for result, wanted in zip(results, [feed, feed, feed.clip(0), feed.clip(0)] * 2, strict=True):
        assert result.tolist() == wanted.tolist()


def test_feeds_at_odd_addresses_and_of_other_libraries() -> None:
    builder = Builder()
    builder.output(builder.node("Relu", [builder.input("float32", (4,))]), "float32")
    feed = np.zeros(17, np.uint8)[1:].view(np.float32)
    feed[...] = [1, -2, 3, -4]
    assert not feed.flags.aligned
    session = dmlcpu.InferenceSession(builder.build())
    for given in (feed, OnlyDLPack(feed.copy())):
        assert session.run(None, {"x": given})[0].tolist() == [1, 0, 3, 0]


def test_shapes_fold(random_numbers: np.random.Generator) -> None:
    """Shape, Gather, Concat and their kin come to constants, ConstantOfShape and Constant too."""
    builder = Builder()
    x = builder.input("uint8", ("N", 3, 4))
    shape = builder.node("Shape", [x])
    first = builder.node("Unsqueeze", [builder.node("Gather", [shape, np.array(0, np.int64)]), np.int64([0])])
    size = builder.node("Unsqueeze", [builder.node("Size", [x]), np.int64([0])])
    rest = builder.node("Div", [size, first])
    one = builder.node("Constant", [], value_ints=[1])
    wanted = builder.node("Concat", [first, rest, one], axis=0)
    floats = builder.node("Reshape", [builder.dequantized(x, 0.1, np.uint8(3)), wanted])
    ones = builder.node(
        "ConstantOfShape",
        [builder.node("Shape", [floats], start=1)],
        value=onnx.numpy_helper.from_array(np.float32([2])),
    )
    builder.output(builder.quantized(builder.node("Mul", [floats, ones]), 0.2, np.uint8(3)), "uint8", (None, 12, 1))
    model = builder.build()
    session = dmlcpu.InferenceSession(model)
    feed = codes(random_numbers, "uint8", (5, 3, 4))
    np.testing.assert_array_equal(session.run(None, {"x": feed})[0], feed.reshape(5, 12, 1))
    assert [part.provider for part in session.partitions({"x": (5, 3, 4)})] == ["dmlcpu"]


def branch(operator: str, name: str) -> onnx.GraphProto:
    """A subgraph that reads a value of the graph around it."""
    return onnx.helper.make_graph(
        [onnx.helper.make_node(operator, [name], [f"{operator}_result"])],
        operator,
        [],
        [onnx.helper.make_tensor_value_info(f"{operator}_result", onnx.TensorProto.FLOAT, None)],
    )


def test_branches_that_capture_values(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    builder.input("uint8", (2, 3))
    builder.input("bool", (), "condition")
    captured = builder.node("Mul", [builder.dequantized("x", 0.1, np.uint8(99)), np.float32(3)])
    result = builder.node(
        "If", ["condition"], then_branch=branch("Relu", captured), else_branch=branch("Neg", captured)
    )
    builder.output(builder.quantized(result, 0.3, np.uint8(99)), "uint8", (2, 3))
    feed = codes(random_numbers, "uint8", (2, 3))
    for condition in (True, False):
        assert_near(builder.build(), {"x": feed, "condition": np.array(condition)}, 1)


def test_without_onnxruntime(monkeypatch: pytest.MonkeyPatch, random_numbers: np.random.Generator) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    builder = Builder()
    value = builder.node("Tan", [builder.input("float32", (3,))])
    builder.output(builder.node("LayerNormalization", [value, np.ones(3, np.float32)]), "float32")
    builder.nodes[0].name, builder.nodes[1].name = "first", "second"
    message = r"Tan \(first\): no kernel.*; and 1 that follows$"
    with pytest.raises(dmlcpu.MissingRuntimeError, match=message) as raised:
        dmlcpu.InferenceSession(builder.build())
    told = [(each.provider, name) for each in raised.value.partitions for name in each.reasons]
    assert told == [("onnxruntime", "first"), ("onnxruntime", "second")]
    assert dmlcpu.get_available_providers() == ["DmlCpuExecutionProvider"]
    x = random_numbers.normal(size=(1, 3, 4, 4)).astype(np.float32)
    dmlcpu.InferenceSession(network(x.shape).build()).run(None, {"x": x})


@pytest.mark.parametrize("fault", ["raise ImportError('numpy is too old')", "import a_package_that_there_is_not"])
def test_an_onnxruntime_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fault: str) -> None:
    (tmp_path / "onnxruntime.py").write_text(f"{fault}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "onnxruntime")
    builder = Builder()
    builder.output(builder.node("Tan", [builder.input("float32", (3,))]), "float32")
    message = r"onnxruntime, which could run them, cannot be imported \((numpy is too old|No module .*)\): Tan"
    with pytest.raises(dmlcpu.MissingRuntimeError, match=message) as raised:
        dmlcpu.InferenceSession(builder.build())
    assert isinstance(raised.value.__cause__, ImportError)


@pytest.mark.parametrize("installed", [True, False])
@pytest.mark.parametrize("dtype", [ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.float8_e4m3fn])
def test_types_without_kernels(monkeypatch: pytest.MonkeyPatch, dtype: Any, installed: bool) -> None:
    """Left to onnx's reference evaluator."""
    if not installed:
        monkeypatch.setitem(sys.modules, "onnxruntime", None)
    builder = Builder(21)
    x = builder.input("float32", (4,))
    quantized = builder.node("QuantizeLinear", [x, np.float32(0.5), np.zeros((), dtype)])
    builder.output(quantized, dtype)
    builder.output(builder.dequantized(quantized, 0.5, np.zeros((), dtype)), "float32")
    session = dmlcpu.InferenceSession(builder.build())
    given, floats = session.run(None, {"x": np.float32([0, 0.5, 1, 3])})
    assert given.dtype == dtype
    np.testing.assert_array_equal(floats, np.float32([0, 0.5, 1, 3]))
    assert session.partitions()[0].provider == "onnx.reference"


def test_nodes_that_nobody_knows() -> None:
    builder = Builder()
    builder.output(builder.node("Unheard", [builder.input("float32", (3,))]), "float32")
    with pytest.raises(dmlcpu.InvalidModelError, match=r"Unheard \(Unheard_0\)"):
        dmlcpu.InferenceSession(builder.build())


@pytest.mark.parametrize("count", [2**62, 2**32, 0, -1])
@pytest.mark.parametrize("within", [False, True], ids=["", "within a branch"])
def test_counts_that_runtimes_would_divide_by_are_refused(count: int, within: bool) -> None:
    """The square of 2**62 is 0 in 64 bits, and dividing by it ends the process."""
    make_info, make_graph, make_node = (
        getattr(onnx.helper, f"make_{what}") for what in ("tensor_value_info", "graph", "node")
    )
    x, y = (make_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in (("x", [1, 8, 4, 4]), ("y", None)))
    node = make_node("DepthToSpace", ["x"], ["y"], "bad", blocksize=count)
    inputs = [x]
    if within:
        branch = make_graph([node], "branch", [], [y])
        node = make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
        inputs.append(make_info("c", onnx.TensorProto.BOOL, []))
    model = onnx.helper.make_model(
        make_graph([node], "graph", inputs, [y]), opset_imports=[onnx.helper.make_opsetid("", 17)]
    )
    with pytest.raises(dmlcpu.InvalidModelError, match=rf"node DepthToSpace \(bad\): got blocksize \[{count}\]"):
        dmlcpu.InferenceSession(model.SerializeToString())
