"""Loops whose steps are counted when a model is planned: their nodes run as those of the model do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

import dmlcpu
from dmlcpu.onnx.models.loops import FEW_COUNTS, MOST_COUNTS, MOST_NODES
from dmlcpu.onnx.models.model import load_model
from onnx_models import Builder, assert_like_onnxruntime, coded, floats, reasons_of, results_of_onnxruntime, steps_of
from template_checks import assert_templates_follow_the_rules

Array = NDArray[Any]

TRUE = np.array(True)


def parsed(text: str, opset: int = 17) -> onnx.ModelProto:
    model: onnx.ModelProto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> {text}')
    onnx.checker.check_model(model)
    return model


def loop(body: str, *, steps: str = "4", results: str = "float[3] y, float[4,3] ys", opset: int = 17) -> bytes:
    """A Loop of one state, x at first, and one result of each step; `body` is its nodes, from i, c and v."""
    text = f"""g (float[3] x) => ({results})
        <int64 n = {{{steps}}}, bool t = {{1}}, float[3] w = {{1.5, -2, 0.25}}>
        {{ y, ys = Loop (n, t, x) <body = b (int64 i, bool c, float[3] v) => (bool d, float[3] u, float[3] z)
            {{ {body} }}> }}"""
    return parsed(text, opset).SerializeToString()


X = np.float32([0.5, -1, 3])


def test_states_and_results() -> None:
    model = loop("d = Identity(c) u = Mul(v, w) z = Add(u, v)")
    assert_like_onnxruntime(model, {"x": X})
    assert steps_of(model).count("ELEMENT_WISE_BINARY") == 8


def test_versions_whose_axes_are_attributes() -> None:
    assert_like_onnxruntime(loop("d = Identity(c) u = Mul(v, w) z = Add(u, v)", opset=11), {"x": X})


def test_numbers_of_steps() -> None:
    """Constants of each step, as is what follows from them."""
    model = loop("d = Identity(c) k = Cast<to = 1>(i) u = Add(v, k) z = Mul(u, k)")
    assert_like_onnxruntime(model, {"x": X})


def test_what_all_steps_share() -> None:
    """Is computed once, in whatever order the nodes are."""
    model = loop("d = Identity(c) e = Exp(x) u = Mul(v, e) z = Identity(v)")
    assert_like_onnxruntime(model, {"x": X})
    assert steps_of(model).count("ELEMENT_WISE_UNARY") == 1


def test_states_that_pass_unchanged_or_change_places() -> None:
    text = """g (float[3] x, float[3] w) => (float[3] a, float[3] b, float[5,3] s)
        <int64 n = {5}, bool t = {1}>
        { a, b, s = Loop (n, t, x, w) <body = b (int64 i, bool c, float[3] p, float[3] q) =>
            (bool c, float[3] q, float[3] r, float[3] p) { r = Sub(p, q) }> }"""
    model = parsed(text).SerializeToString()
    assert_like_onnxruntime(model, {"x": X, "w": X[::-1].copy()})


def test_results_that_nobody_reads() -> None:
    model = onnx.load_model_from_string(loop("d = Identity(c) u = Mul(v, w) z = Neg(u)"))
    del model.graph.output[1]
    assert_like_onnxruntime(model.SerializeToString(), {"x": X})
    assert {*steps_of(model.SerializeToString())} == {"ELEMENT_WISE_BINARY"}
    model.graph.node[0].output[1] = ""  # which onnxruntime refuses
    [result] = dmlcpu.InferenceSession(model.SerializeToString()).run(None, {"x": X})
    np.testing.assert_array_equal(result, X * np.float32([1.5, -2, 0.25]) ** 4)


@pytest.mark.parametrize("trips", [[], [1]], ids=["scalar", "vector"])
@pytest.mark.parametrize("condition", ["", "t"])
def test_counts_and_conditions(trips: list[int], condition: str) -> None:
    model = onnx.load_model_from_string(loop("d = Identity(c) u = Mul(v, w) z = Add(u, v)"))
    model.graph.node[0].input[1] = condition
    del model.graph.initializer[0].dims[:]
    model.graph.initializer[0].dims.extend(trips)
    assert_like_onnxruntime(model.SerializeToString(), {"x": X})


@pytest.mark.parametrize("goes_on", ["d = Identity(t)", "d = Not(Not(c))", "d = Less(i, n)", "d = Cast<to = 9>(n)"])
def test_conditions_that_are_true_whatever_a_run_computes(goes_on: str) -> None:
    goes_on = goes_on.replace("d = Not(Not(c))", "o = Not(c) d = Not(o)")
    assert_like_onnxruntime(loop(f"{goes_on} u = Mul(v, w) z = Add(u, v)"), {"x": X})


@pytest.mark.parametrize(
    ("goes_on", "reason"),
    [
        ("m = ReduceMax<keepdims = 0>(v) k = Cast<to = 1>(i) d = Less(k, m)", "a condition that only a run tells"),
        ("two = Constant<value_int = 1>() d = Less(i, two)", "a condition that only a run tells"),
        ("d = Identity(c) r = RandomNormal<shape = [3]>()", "no kernel for this operator, nor for all that it repeats"),
    ],
)
def test_what_onnxruntime_computes(goes_on: str, reason: str) -> None:
    """What surrounds the loop is native as it would be if nobody had tried to unroll it."""
    model = onnx.load_model_from_string(loop(f"{goes_on} u = Mul(v, w) z = Add(u, v)"))
    model.graph.output[0].name = "out"
    first = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> g (float[3] x) => (float[3] e) {e=Exp(x)}')
    model.graph.node.insert(0, first.graph.node[0])
    model.graph.node[1].input[2] = "e"
    model.graph.node.append(onnx.helper.make_node("Neg", ["y"], ["out"]))
    session = dmlcpu.InferenceSession(model.SerializeToString())
    np.testing.assert_allclose(
        session.run(None, {"x": X})[0], results_of_onnxruntime(model.SerializeToString(), {"x": X})[0], rtol=1e-6
    )
    native, other, *_ = session.partitions()
    assert (native.provider, other.provider) == ("dmlcpu", "onnxruntime")
    assert [*native.nodes] == ["Exp_0"]
    assert reason in next(iter(other.reasons.values()))


def test_a_step_that_a_rule_refuses(random_numbers: np.random.Generator) -> None:
    """After others have been lowered: none of them is."""
    builder = Builder()
    x = builder.input("float32", (2, 3, 4, 4))
    inner = Builder(prefix="b")
    inner.input("int64", (), "i")
    inner.input("bool", (), "c")
    inner.input("float32", (2, 3, 4, 4), "v")
    inner.nodes.append(onnx.helper.make_node("Identity", ["c"], ["d"]))
    pooled = inner.node("LpPool", ["v"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], p=5)
    for name, dtype in (("d", "bool"), (pooled, "float32")):
        inner.output(name, dtype, () if dtype == "bool" else (2, 3, 4, 4))
    state = builder.node("Loop", [np.array(3), TRUE, x], body=inner.graph())
    builder.output(state, "float32")
    feeds = {"x": floats(random_numbers, (2, 3, 4, 4))}
    assert_like_onnxruntime(builder.build(), feeds, native=False)
    assert reasons_of(builder)[0].startswith("in a step ")


@pytest.mark.parametrize("steps", ["0", str(MOST_NODES)])
def test_no_steps_and_too_many(steps: str) -> None:
    model = loop("d = Identity(c) u = Mul(v, w) z = Abs(u)", steps=steps, results="float[3] y, float[N,3] ys")
    session = dmlcpu.InferenceSession(model)
    for result, expected in zip(session.run(None, {"x": X}), results_of_onnxruntime(model, {"x": X}), strict=True):
        np.testing.assert_array_equal(result, expected)
    [part] = session.partitions()
    assert [*part.reasons.values()] == [
        "a loop of no or too many steps, or of another number of them than the first ones"
    ]


def bags(rng: np.random.Generator) -> Builder:
    """What PyTorch writes for an EmbeddingBag: a step for each bag, which has rows of its own."""
    inner = Builder(prefix="b")
    inner.input("int64", (), "i")
    inner.input("bool", (), "c")
    start = inner.node("Unsqueeze", [inner.node("Gather", ["starts", "i"]), np.array([0])])
    end = inner.node("Unsqueeze", [inner.node("Gather", ["ends", "i"]), np.array([0])])
    rows = inner.node("Gather", ["table", inner.node("Slice", ["flat", start, end, np.array([0])])])
    inner.output(inner.node("Identity", ["c"]), "bool", ())
    inner.output(inner.node("ReduceMean", [rows], axes=[0], keepdims=0), "float32", (8,))
    builder = Builder()
    indices = builder.input("int64", ("bags", 4))
    builder.constant(floats(rng, (20, 8)), "table")
    count = builder.node("Squeeze", [builder.node("Shape", [indices], end=1)])
    one, four = np.array(1), np.array(4)
    builder.nodes.append(onnx.helper.make_node("Reshape", [indices, builder.constant(np.array([-1]))], ["flat"]))
    total = builder.node("Mul", [count, four])
    places = [np.array(0), total, builder.constant(four)]
    builder.nodes.append(
        onnx.helper.make_node("Range", [builder.constant(places[0]), total, places[2]], ["starts"]),
    )
    builder.nodes.append(onnx.helper.make_node("Add", ["starts", builder.constant(four)], ["ends"]))
    builder.output(builder.node("Loop", [count, builder.constant(one > 0)], body=inner.graph()), "float32")
    return builder


def test_counts_that_follow_from_shapes(random_numbers: np.random.Generator) -> None:
    """With slices that follow from the step."""
    builder = bags(random_numbers)
    for count in (3, 5, 5):
        assert_like_onnxruntime(builder.build(), {"x": random_numbers.integers(0, 20, (count, 4))})


def test_one_template_for_lengths_that_no_loop_counts(random_numbers: np.random.Generator) -> None:
    model = loop("d = Identity(c) u = Mul(v, w) z = Add(u, v)")
    proto = onnx.load_model_from_string(model)
    weights = onnx.numpy_helper.from_array(np.float32([[1.5], [-2]]), "w")
    proto.graph.initializer[2].CopyFrom(weights)
    values = [proto.graph.input[0], *proto.graph.output]
    for value in values:
        value.type.tensor_type.ClearField("shape")
    values[0].CopyFrom(onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (2, "n")))
    body = proto.graph.node[0].attribute[0].g
    for value in (body.input[2], *body.output[1:]):
        value.type.tensor_type.ClearField("shape")
    serialized = proto.SerializeToString()
    assert_templates_follow_the_rules(serialized, [{"x": (2, count)} for count in (3, 5, 9)], 1)
    assert_like_onnxruntime(serialized, {"x": floats(random_numbers, (2, 5))})


def test_counts_that_are_fed(random_numbers: np.random.Generator) -> None:
    """Up to so many different ones as are planned for."""
    model = onnx.load_model_from_string(loop("d = Identity(c) u = Mul(v, w) z = Add(u, v)"))
    del model.graph.initializer[0]
    model.graph.input.append(onnx.helper.make_tensor_value_info("n", onnx.TensorProto.INT64, ()))
    serialized = model.SerializeToString()
    session = dmlcpu.InferenceSession(serialized)
    assert session.deciding_inputs == ("n",)
    for steps in (3, 1, 3, 0, 2, 4, 5, 6, 7, 8, 9, 3):
        feeds = {"x": X, "n": np.array(steps)}
        for result, expected in zip(session.run(None, feeds), results_of_onnxruntime(serialized, feeds), strict=True):
            np.testing.assert_allclose(result, expected, rtol=1e-6, strict=True)
    assert [part.provider for part in session.partitions(values={"n": 3})] == ["dmlcpu"]
    assert [part.provider for part in session.partitions(values={"n": 0})] == ["onnxruntime"]


def test_counts_of_what_is_not_native_decide_nothing() -> None:
    model = onnx.load_model_from_string(
        loop("d = Identity(c) r = RandomNormal<shape = [3]>() u = Mul(v, r) z = Abs(u)")
    )
    del model.graph.initializer[0]
    model.graph.input.append(onnx.helper.make_tensor_value_info("n", onnx.TensorProto.INT64, ()))
    assert dmlcpu.InferenceSession(model.SerializeToString()).deciding_inputs == ()


def test_graphs_within_steps() -> None:
    """Branches that the step's number decides on, and a loop within each step."""
    inside = """e = Less(i, two) o = If (e) <then_branch = p () => (float[3] f) { f = Add(v, w) },
        else_branch = q () => (float[3] h) { h = Mul(v, w) }>
        u = Loop (two, t, o) <body = r (int64 j, bool k, float[3] v) => (bool k, float[3] s)
            { m = Cast<to = 1>(i) s = Sub(v, m) }>"""
    model = loop(f"d = Identity(c) two = Constant<value_int = 2>() {inside} z = Neg(u)")
    assert_like_onnxruntime(model, {"x": X})
    assert "ELEMENT_WISE_UNARY" in steps_of(model)


@pytest.mark.parametrize("makes_codes", [True, False])
def test_codes_within_steps(random_numbers: np.random.Generator, makes_codes: bool) -> None:
    """Of a state and of weights; the loop's result is quantized behind it."""
    inner = Builder(prefix="b")
    inner.input("int64", (), "i")
    inner.input("bool", (), "c")
    inner.input("float32", (4, 16), "v")
    weights = random_numbers.integers(-60, 60, (16, 16), np.int8)
    weight = inner.dequantized(weights, 0.004, np.int8(0))
    product = inner.node("MatMul", [coded(inner, "v") if makes_codes else "v", weight])
    inner.output(inner.node("Identity", ["c"]), "bool", ())
    inner.output(coded(inner, product) if makes_codes else product, "float32", (4, 16))
    builder = Builder()
    x = coded(builder, builder.input("float32", (4, 16)))
    result = builder.node("Loop", [np.array(4), TRUE, x], body=inner.graph())
    builder.output(builder.quantized(result, 0.05, np.uint8(128)), "uint8")
    assert_like_onnxruntime(builder.build(), {"x": floats(random_numbers, (4, 16))}, 1)
    products = ("MATRIX_MULTIPLY", "DEQUANTIZED_PRODUCT")
    assert sum(any(word in step for word in products) for step in steps_of(builder)) == 4


def without_body(model: onnx.ModelProto) -> None:
    del model.graph.node[0].attribute[:]


def with_fewer_states(model: onnx.ModelProto) -> None:
    del model.graph.node[0].input[2:]


def with_fewer_results(model: onnx.ModelProto) -> None:
    del model.graph.node[0].attribute[0].g.output[1:]


@pytest.mark.parametrize("spoil", [without_body, with_fewer_states, with_fewer_results])
def test_parts_that_do_not_fit_together(spoil: Callable[[onnx.ModelProto], None]) -> None:
    model = onnx.load_model_from_string(loop("d = Identity(c) u = Mul(v, w) z = Add(u, v)"))
    spoil(model)
    with pytest.raises(dmlcpu.DmlError):
        dmlcpu.InferenceSession(model.SerializeToString()).run(None, {"x": X})


def test_steps_of_the_first_counts_are_kept(random_numbers: np.random.Generator) -> None:
    """Others are left to another runtime, or memory would grow with each length."""
    model = load_model(bags(random_numbers).build())
    [node] = (node for node in model.nodes if node.operator == "Loop")

    first = model.loops.of(node, 3, MOST_NODES)
    assert first is not None
    assert len({step.name for step in first.graph.nodes}) == len(first.graph.nodes) == 3 * 8 + 2
    few = [model.loops.of(node, count, MOST_NODES, FEW_COUNTS) is not None for count in range(1, 50)]
    assert few == [True, False, True] + [False] * 46
    made = [model.loops.of(node, count, MOST_NODES) is not None for count in range(1, 50)]
    assert made == [True] * MOST_COUNTS + [False] * (49 - MOST_COUNTS)
    assert model.loops.of(node, 3, MOST_NODES) is first
    assert model.loops.of(node, 3, first.size - 1) is None
    assert model.loops.of(node, 3, first.size) is first


def test_counts_that_are_fed_are_all_unrolled() -> None:
    """Each is a variant of its own anyway."""
    body = "b (int64 i, bool c, float[3] v) => (bool d, float[3] u) { d = Identity(c) u = Abs(v) }"
    text = f"g (int64 n, float[3] x) => (float[3] y) <bool t = {{1}}> {{ y = Loop (n, t, x) <body = {body}> }}"
    session = dmlcpu.InferenceSession(parsed(text).SerializeToString())
    for count in range(2, 2 + MOST_COUNTS):
        feeds = {"n": np.int64(count), "x": X}
        np.testing.assert_array_equal(session.run(None, feeds)[0], np.abs(X))
        assert [part.provider for part in session.partitions({"x": (3,)}, {"n": count})] == ["dmlcpu"]


def nested(trips: int, levels: int) -> bytes:
    """Loops within a loop, each of so many steps."""
    body = "u0 = Neg(v0)"
    for level in range(levels):
        inputs = f"int64 i{level}, bool c{level}, float[3] v{level}"
        graph = f"b{level} ({inputs}) => (bool c{level}, float[3] u{level}) {{ {body} }}"
        body = f"u{level + 1} = Loop (n, t, v{level + 1}) <body = {graph}>"
    text = f"""g (float[3] v{levels}) => (float[3] u{levels}) <int64 n = {{{trips}}}, bool t = {{1}}> {{ {body} }}"""
    return parsed(text).SerializeToString()


@pytest.mark.parametrize(("trips", "levels", "is_native"), [(3, 2, True), (50, 2, False), (2000, 3, False)])
def test_steps_of_all_loops_are_limited(trips: int, levels: int, is_native: bool) -> None:
    """A file of a few hundred bytes may ask for any number of them."""
    session = dmlcpu.InferenceSession(nested(trips, levels))
    assert [part.provider for part in session.partitions()] == ["dmlcpu" if is_native else "onnxruntime"]
    if is_native:
        np.testing.assert_array_equal(session.run(None, {f"v{levels}": X})[0], -X)


def test_results_of_steps_are_limited() -> None:
    model = loop("d = Identity(c) u = Mul(v, w) z = Abs(u)", steps=str(MOST_NODES // 3 - 1))
    proto = onnx.load_model_from_string(model)
    for value in proto.graph.output[1:]:
        value.type.tensor_type.shape.dim[0].dim_param = "N"
    assert [part.provider for part in dmlcpu.InferenceSession(proto.SerializeToString()).partitions()] != ["dmlcpu"]


def test_steps_that_would_each_pack_large_weights() -> None:
    """They are left to another runtime, which has them once."""
    inner = Builder(prefix="b")
    inner.input("int64", (), "i")
    inner.input("bool", (), "c")
    inner.input("float32", (1, 1024), "v")
    inner.output(inner.node("Identity", ["c"]), "bool", ())
    inner.output(inner.node("MatMul", ["v", "weights"]), "float32", (1, 1024))
    builder = Builder()
    builder.constant(np.eye(1024, k=1, dtype=np.float32), "weights")
    x = builder.input("float32", (1, 1024))
    builder.output(builder.node("Loop", [np.array(20), TRUE, x], body=inner.graph()), "float32")
    assert_like_onnxruntime(builder.build(), {"x": np.arange(1024, dtype=np.float32)[None]}, native=False)
    assert "large constants" in reasons_of(builder)[0]
