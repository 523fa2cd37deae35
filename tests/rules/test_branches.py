"""If nodes whose condition is known: the nodes of a branch run natively, whatever their values are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

import dmlcpu
from branch_models import SHAPE, assert_both_ways, branch, choosing, conditional, scaled, uniform_floats
from dmlcpu.onnx.models.model import load_model
from dmlcpu.onnx.planning.deciding_inputs import deciding_inputs
from onnx_models import POINT, Builder, assert_like_onnxruntime, coded, results_of_onnxruntime
from template_checks import assert_templates_follow_the_rules

Array = NDArray[Any]


def by_length(builder: Builder, x: str, axis: int, length: int) -> str:
    """A condition that follows from a shape."""
    gathered = builder.node("Gather", [builder.node("Shape", [x]), np.int64(axis)])
    return str(builder.node("Equal", [gathered, np.int64(length)]))


@pytest.mark.parametrize("length", [2, 3])
def test_conditions_of_shapes(random_numbers: np.random.Generator, length: int) -> None:
    builder = Builder()
    x = coded(builder, builder.input("float32", SHAPE))
    condition = by_length(builder, x, 0, length)
    y = conditional(builder, condition, branch("a", scaled(x, 2)), branch("a", scaled(x, -1)))
    builder.output(builder.quantized(builder.node("Relu", [y]), 0.05, POINT), "uint8")
    assert_like_onnxruntime(builder.build(), {"x": uniform_floats(random_numbers)})


def test_conditions_of_free_shapes(random_numbers: np.random.Generator) -> None:
    """A template is for all lengths for which conditions are what they were."""
    builder = Builder()
    x = builder.input("float32", ("rows", "columns"))
    condition = by_length(builder, x, 0, 1)
    squeezed = conditional(
        builder,
        condition,
        branch("a", lambda inner: str(inner.node("Squeeze", [x, np.int64([0])]))),
        branch("b", lambda inner: str(inner.node("Transpose", [x], perm=[1, 0]))),
    )
    builder.output(builder.node("Mul", [squeezed, np.float32(3)]), "float32")
    model = builder.build()
    shapes = [(1, 4), (2, 4), (1, 7), (5, 3)]
    assert_templates_follow_the_rules(model, [{"x": shape} for shape in shapes], 2)
    session = dmlcpu.InferenceSession(model)
    for shape in shapes:
        fed = uniform_floats(random_numbers, shape)
        [result] = session.run(None, {"x": fed})
        np.testing.assert_array_equal(result, (fed[0] if shape[0] == 1 else fed.T) * np.float32(3))
        assert {part.provider for part in session.partitions({"x": shape})} == {"dmlcpu"}


def test_branches_within_branches(random_numbers: np.random.Generator) -> None:
    """Conditions of each kind, one in the other; names are the same in branches of which one runs, and of other Ifs."""
    builder = Builder()
    x, use = coded(builder, builder.input("float32", SHAPE)), builder.input("bool", (1,), "use")

    def nested(inner: Builder) -> str:
        y = inner.node("Sigmoid", [x])
        condition = by_length(inner, y, 2, 4)
        result = conditional(inner, condition, branch("deep", scaled(y, 3)), branch("deep", scaled(x, 4)))
        return str(inner.node("Neg", [result]))

    first = conditional(builder, use, branch("a", nested), branch("a", scaled(x, 0.5)))
    second = conditional(builder, use, branch("a", scaled(first, 2)), branch("a", nested))
    builder.output(second, "float32")
    model = builder.build()
    session, feeds = dmlcpu.InferenceSession(model), {"x": uniform_floats(random_numbers)}
    for value in (True, False):
        given = {**feeds, "use": np.array([value])}
        [result], [expected] = session.run(None, given), results_of_onnxruntime(model, given)
        np.testing.assert_allclose(result, expected, 0, 1e-6)
        assert {part.provider for part in session.partitions(values={"use": value})} == {"dmlcpu"}


@pytest.mark.parametrize("way", [True, False])
def test_outputs_that_no_node_of_the_branch_writes(random_numbers: np.random.Generator, way: bool) -> None:
    """A value from outside, an initializer, and one that is two outputs; another branch's names are no concern."""
    builder = Builder()
    x = builder.input("float32", SHAPE)
    condition = builder.constant(np.array(way))
    twice: list[Callable[[Builder], str]] = [lambda inner: str(inner.node("Abs", [x])), lambda inner: "avalue0_0"]
    given: list[Callable[[Builder], str]] = [lambda inner: x, lambda inner: inner.constant(np.float32([1, 2]))]
    results = conditional(builder, condition, branch("a", *twice, *given), branch("b", given[0], given[0], *given))
    for result in results:
        builder.output(result, "float32")
    model, feeds = builder.build(), {"x": uniform_floats(random_numbers)}
    # Onnxruntime takes no such branches.
    expected = [*[np.abs(feeds["x"]) if way else feeds["x"]] * 2, feeds["x"], np.float32([1, 2])]
    ours = dmlcpu.InferenceSession(model).run(None, feeds)
    for result, other in zip(ours, expected, strict=True):
        np.testing.assert_array_equal(result, other)
    assert len({result.ctypes.data for result in ours}) == len(ours)


def test_conditions_that_are_computed(random_numbers: np.random.Generator) -> None:
    """Onnxruntime chooses, and within a branch that is known too, where renamed values are read."""
    builder = Builder()
    x, use = builder.input("float32", SHAPE), builder.input("bool", (), "use")

    def chosen(inner: Builder) -> str:
        y = inner.node("Abs", [x])
        total = inner.node("ReduceSum", [x], keepdims=0)
        condition = inner.node("Greater", [total, np.float32(0)])
        return str(conditional(inner, condition, branch("c", scaled(y, 2)), branch("d", scaled(y, 3))))

    builder.output(conditional(builder, use, branch("a", chosen), branch("b", chosen)), "float32")
    model = builder.build()
    assert deciding_inputs(load_model(model)) == ("use",)
    session = dmlcpu.InferenceSession(model)
    for sign in (1, -1):
        for value in (True, False):
            feeds = {"x": sign * np.abs(uniform_floats(random_numbers)), "use": np.array(value)}
            [result], [expected] = session.run(None, feeds), results_of_onnxruntime(model, feeds)
            np.testing.assert_array_equal(result, expected)


def test_results_that_nobody_reads(random_numbers: np.random.Generator) -> None:
    """Of a node without a kernel: onnxruntime makes no part without results."""
    then = branch("a", scaled("x", 2), lambda inner: str(inner.node("Tan", ["x"])))
    session = assert_both_ways(choosing(then, 2).build(), uniform_floats(random_numbers))
    assert {part.provider for part in session.partitions(values={"use": 1})} == {"dmlcpu"}


@pytest.mark.parametrize("known", [False, True])
def test_names_that_graphs_within_have_too(random_numbers: np.random.Generator, known: bool) -> None:
    """A branch within writes a value of the very name that the outer If's result has."""
    inner = Builder(prefix="a")
    v = inner.node("Abs", ["x"])
    total = inner.node("ReduceSum", ["x"], keepdims=0)
    condition = inner.constant(np.array(True)) if known else inner.node("Greater", [total, np.float32(-1e9)])
    deep = Builder(prefix="deep")
    deep.nodes.append(onnx.helper.make_node("Mul", [v, deep.constant(np.float32(2))], ["value0_0"]))
    deep.output("value0_0", "float32")
    w = inner.node("If", [condition], then_branch=deep.graph(), else_branch=deep.graph())
    for value in (v, w):
        inner.output(value, "float32")
    builder = choosing(inner.graph(), 2)
    builder.output("value0_1", "float32")
    assert_both_ways(builder.build(), uniform_floats(random_numbers))


def test_names_that_inputs_have_too(random_numbers: np.random.Generator) -> None:
    builder = choosing(branch("a", scaled("x", 2)))
    name = builder.input("float32", (2,), "If_0/avalue0_0")
    builder.output(builder.node("Neg", [name]), "float32")
    session = dmlcpu.InferenceSession(builder.build())
    feeds = {"x": uniform_floats(random_numbers), "use": np.array(True), name: np.float32([1, 2])}
    np.testing.assert_array_equal(session.run(None, feeds)[1], [-1, -2])


def test_initializers_that_are_listed_as_inputs(random_numbers: np.random.Generator) -> None:
    then = branch("a", scaled("x", 2))
    for tensor in then.initializer:
        then.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    assert_both_ways(choosing(then).build(), uniform_floats(random_numbers))


def test_refusals_are_remembered() -> None:
    then = branch("a", scaled("x", 2))
    cyclic(then)
    session = dmlcpu.InferenceSession(choosing(then).build())
    messages = set()
    for _ in range(3):
        with pytest.raises(dmlcpu.InvalidModelError) as raised:
            session.run(None, {"x": np.zeros(SHAPE, np.float32), "use": np.array(True)})
        messages.add(str(raised.value))
    assert len(messages) == 1


def empty(graph: onnx.GraphProto) -> None:
    del graph.output[:]


def unknown(graph: onnx.GraphProto) -> None:
    graph.node[0].input[0] = "nothing"


def cyclic(graph: onnx.GraphProto) -> None:
    graph.node[0].input[0] = graph.node[-1].output[0]


def written_twice(graph: onnx.GraphProto) -> None:
    graph.node.append(graph.node[0])


def with_input(graph: onnx.GraphProto) -> None:
    graph.input.append(onnx.helper.make_tensor_value_info("more", onnx.TensorProto.FLOAT, SHAPE))


def damaged_initializer(graph: onnx.GraphProto) -> None:
    graph.initializer[0].raw_data = b"12345"


def of_no_domain(graph: onnx.GraphProto) -> None:
    graph.node[0].domain = "unknown"


@pytest.mark.parametrize(
    "damage", [empty, unknown, cyclic, written_twice, with_input, damaged_initializer, of_no_domain]
)
def test_damaged_branches(damage: Callable[[onnx.GraphProto], None]) -> None:
    builder = Builder()
    x = builder.input("float32", SHAPE)
    then = branch("a", scaled(x, 2))
    damage(then)
    condition = builder.constant(np.array(True))
    y = builder.node("If", [condition], then_branch=then, else_branch=branch("b", scaled(x, 1)))
    builder.output(y, "float32")
    with pytest.raises(dmlcpu.InvalidModelError):
        dmlcpu.InferenceSession(builder.build())


def test_conditions_that_branches_make(random_numbers: np.random.Generator) -> None:
    """What an If chooses may be another one's condition, and follows from what decided and from what was chosen."""
    builder = Builder()
    x = builder.input("float32", SHAPE)
    first, second, third = (builder.input("bool", (), name) for name in ("first", "second", "third"))
    graphs = []
    for prefix, value in (("a", second), ("b", third)):
        inner = Builder(prefix=prefix)
        inner.output(inner.node("Not", [value]), "bool")
        graphs.append(inner.graph())
    condition = conditional(builder, first, *graphs)
    builder.output(conditional(builder, condition, branch("c", scaled(x, 2)), branch("d", scaled(x, 3))), "float32")
    model = builder.build()
    session = dmlcpu.InferenceSession(model)
    assert session.deciding_inputs == ("first", "second", "third")
    for bits in range(8):
        values = {name: bool(bits >> place & 1) for place, name in enumerate(session.deciding_inputs)}
        feeds = {"x": uniform_floats(random_numbers), **{name: np.array(value) for name, value in values.items()}}
        np.testing.assert_array_equal(session.run(None, feeds)[0], results_of_onnxruntime(model, feeds)[0])
        assert {part.provider for part in session.partitions(values=values)} == {"dmlcpu"}
