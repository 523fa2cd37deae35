"""If nodes whose condition is known, from shapes or from an input of one element: nodes of a branch run natively."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

import dmlcpu
from dmlcpu.onnx.models.model import load_model
from dmlcpu.onnx.planning.deciding_inputs import deciding_inputs
from onnx_models import POINT, Builder, assert_like_onnxruntime, coded, results_of_onnxruntime
from template_checks import assert_templates_follow_the_rules

Array = NDArray[Any]
SHAPE: Final = (2, 3, 4)


def branch(prefix: str, *results: Callable[[Builder], str]) -> onnx.GraphProto:
    """A branch whose outputs functions add to it."""
    builder = Builder(prefix=prefix)
    for result in results:
        builder.output(result(builder), "float32")
    return builder.graph()


def scaled(x: str, factor: float) -> Callable[[Builder], str]:
    """Codes between operators on them, so that what is on both sides of the branch's ends can be one operator."""
    return lambda builder: coded(builder, builder.node("Mul", [coded(builder, x), np.float32(factor)]))


def conditional(builder: Builder, condition: str, then: onnx.GraphProto, other: onnx.GraphProto) -> Any:
    count = len(then.output)
    return builder.node("If", [condition], count, then_branch=then, else_branch=other)


def by_length(builder: Builder, x: str, axis: int, length: int) -> str:
    """A condition that follows from a shape."""
    gathered = builder.node("Gather", [builder.node("Shape", [x]), np.int64(axis)])
    return str(builder.node("Equal", [gathered, np.int64(length)]))


def floats(random_numbers: np.random.Generator, shape: Sequence[int] = SHAPE) -> Array:
    return random_numbers.uniform(-5, 5, shape).astype(np.float32)


@pytest.mark.parametrize("length", [2, 3])
def test_conditions_of_shapes(random_numbers: np.random.Generator, length: int) -> None:
    builder = Builder()
    x = coded(builder, builder.input("float32", SHAPE))
    condition = by_length(builder, x, 0, length)
    y = conditional(builder, condition, branch("a", scaled(x, 2)), branch("a", scaled(x, -1)))
    builder.output(builder.quantized(builder.node("Relu", [y]), 0.05, POINT), "uint8")
    assert_like_onnxruntime(builder.build(), {"x": floats(random_numbers)})


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
        fed = floats(random_numbers, shape)
        [result] = session.run(None, {"x": fed})
        np.testing.assert_array_equal(result, (fed[0] if shape[0] == 1 else fed.T) * np.float32(3))
        assert {part.provider for part in session.partitions({"x": shape})} == {"dmlcpu"}


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_conditions_that_are_fed(random_numbers: np.random.Generator, shape: tuple[int, ...]) -> None:
    """Each way has a plan of its own; both have the same constants."""
    builder = Builder()
    x = coded(builder, builder.input("float32", SHAPE))
    use = builder.input("bool", shape, "use")
    weights = builder.dequantized(np.arange(-10, 10, dtype=np.int8).reshape(4, 5), 0.1, np.int8(0))
    product: Callable[[Builder], str] = lambda inner: str(inner.node("MatMul", [x, weights]))  # noqa: E731
    doubled: Callable[[Builder], str] = lambda inner: str(inner.node("Add", [product(inner), product(inner)]))  # noqa: E731
    y = conditional(builder, use, branch("a", product), branch("b", doubled))
    builder.output(builder.quantized(y, 0.05, POINT), "uint8")
    model = builder.build()
    session, fed = dmlcpu.InferenceSession(model), floats(random_numbers)
    for value in (True, False, False, True):
        feeds = {"x": fed, "use": np.full(shape, value)}
        [result] = session.run(None, feeds)
        [expected] = results_of_onnxruntime(model, feeds)
        assert np.abs(result.astype(int) - expected).max() <= 1
        np.testing.assert_array_equal(session.run_async(None, feeds).result()[0], result)
        parts = session.partitions(values={"use": value})
        assert [part.provider for part in parts] == ["dmlcpu"]
        assert len([step for step in parts[0].steps if "MATRIX" in step.type]) == 2 - value, parts[0].description


@pytest.mark.parametrize(("rate", "factor"), [(16000, 2.0), (8000, 3.0), (7, 3.0)])
def test_conditions_that_follow_from_a_number(random_numbers: np.random.Generator, rate: int, factor: float) -> None:
    builder = Builder()
    x, number = builder.input("float32", SHAPE), builder.input("int64", (), "rate")
    condition = builder.node("Not", [builder.node("Equal", [number, np.int64(16000)])])
    other, then = ((lambda inner, by=by: inner.node("Mul", [x, np.float32(by)])) for by in (2, 3))
    builder.output(conditional(builder, condition, branch("a", then), branch("b", other)), "float32")
    builder.output(number, "int64")
    fed = floats(random_numbers)
    session = dmlcpu.InferenceSession(builder.build())
    result, again = session.run(None, {"x": fed, "rate": np.array(rate)})
    np.testing.assert_array_equal(result, fed * np.float32(factor))
    assert (again.shape, again.item()) == ((), rate)
    assert {part.provider for part in session.partitions(values={"rate": rate})} == {"dmlcpu"}


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
    session, feeds = dmlcpu.InferenceSession(model), {"x": floats(random_numbers)}
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
    model, feeds = builder.build(), {"x": floats(random_numbers)}
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
            feeds = {"x": sign * np.abs(floats(random_numbers)), "use": np.array(value)}
            [result], [expected] = session.run(None, feeds), results_of_onnxruntime(model, feeds)
            np.testing.assert_array_equal(result, expected)


def test_more_values_than_plans_are_made_for(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    x, number = builder.input("float32", SHAPE), builder.input("int64", (1,), "position")
    condition = builder.node("Less", [number, np.int64([5])])
    then, other = ((lambda inner, by=by: inner.node("Mul", [x, np.float32(by)])) for by in (2, 3))
    builder.output(conditional(builder, condition, branch("a", then), branch("b", other)), "float32")
    session, fed = dmlcpu.InferenceSession(builder.build()), floats(random_numbers)
    for position in [*range(12), 3, 11]:
        [result] = session.run(None, {"x": fed, "position": np.array([position])})
        np.testing.assert_array_equal(result, fed * np.float32(2 if position < 5 else 3))
    providers = {part.provider for part in session.partitions(values={"position": 7})}
    assert providers == {"dmlcpu"}
    assert "onnxruntime" in {part.provider for part in session.partitions(values={"position": 11})}


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ({"x": 1}, r"values: got input 'x', expected one of use"),
        ({"use": 2}, r"values: got 2 for input 'use', expected one bool"),
        ({"use": [True, False]}, r"values: got \[True, False\] for input 'use', expected one bool"),
        ({"use": "yes"}, r"values: got 'yes' for input 'use', expected one bool"),
    ],
)
def test_values_that_no_input_has(values: dict[str, Any], match: str) -> None:
    builder = Builder()
    x, use = builder.input("float32", SHAPE), builder.input("bool", (1,), "use")
    other: Callable[[Builder], str] = lambda inner: str(inner.node("Abs", [x]))  # noqa: E731
    builder.output(conditional(builder, use, branch("a", other), branch("b", other)), "float32")
    with pytest.raises(dmlcpu.BindingError, match=match):
        dmlcpu.InferenceSession(builder.build()).partitions(values=values)


def choosing(then: onnx.GraphProto, count: int = 1, shape: Sequence[int] = SHAPE) -> Builder:
    """A model of one If, whose other branch has the absolute value for all outputs; only the first one is wanted."""
    builder = Builder()
    builder.input("float32", shape)
    use = builder.input("bool", (), "use")
    other = branch("other", *[lambda inner: str(inner.node("Abs", ["x"]))] * count)
    results = builder.node("If", [use], count, then_branch=then, else_branch=other)
    builder.output(results if count == 1 else results[0], "float32")
    return builder


def assert_both_ways(model: bytes, x: Array) -> dmlcpu.InferenceSession:
    session = dmlcpu.InferenceSession(model)
    for value in (True, False):
        feeds = {"x": x, "use": np.array(value)}
        for ours, expected in zip(session.run(None, feeds), results_of_onnxruntime(model, feeds), strict=True):
            np.testing.assert_array_equal(ours, expected)
    return session


def test_what_decides_has_to_be_fed(random_numbers: np.random.Generator) -> None:
    session = assert_both_ways(choosing(branch("a", scaled("x", 2))).build(), floats(random_numbers))
    with pytest.raises(dmlcpu.BindingError, match="got no input 'use'"):
        session.run(None, {"x": floats(random_numbers)})


def test_results_that_nobody_reads(random_numbers: np.random.Generator) -> None:
    """Of a node without a kernel: onnxruntime makes no part without results."""
    then = branch("a", scaled("x", 2), lambda inner: str(inner.node("Tan", ["x"])))
    session = assert_both_ways(choosing(then, 2).build(), floats(random_numbers))
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
    assert_both_ways(builder.build(), floats(random_numbers))


def test_names_that_inputs_have_too(random_numbers: np.random.Generator) -> None:
    builder = choosing(branch("a", scaled("x", 2)))
    name = builder.input("float32", (2,), "If_0/avalue0_0")
    builder.output(builder.node("Neg", [name]), "float32")
    session = dmlcpu.InferenceSession(builder.build())
    feeds = {"x": floats(random_numbers), "use": np.array(True), name: np.float32([1, 2])}
    np.testing.assert_array_equal(session.run(None, feeds)[1], [-1, -2])


def test_initializers_that_are_listed_as_inputs(random_numbers: np.random.Generator) -> None:
    then = branch("a", scaled("x", 2))
    for tensor in then.initializer:
        then.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    assert_both_ways(choosing(then).build(), floats(random_numbers))


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


def test_looking_at_partitions_is_no_run(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    x, number = builder.input("float32", SHAPE), builder.input("int64", (1,), "position")
    condition = builder.node("Less", [number, np.int64([5])])
    builder.output(conditional(builder, condition, branch("a", scaled(x, 2)), branch("b", scaled(x, 3))), "float32")
    session = dmlcpu.InferenceSession(builder.build())
    for position in range(12):
        assert {part.provider for part in session.partitions(values={"position": position})} == {"dmlcpu"}


@pytest.mark.parametrize("value", ["yes", 2**70, None, [[1], [2, 3]], np.nan, 1.5, 1j])
def test_values_that_are_no_whole_numbers(value: Any) -> None:
    builder = Builder()
    x, number = builder.input("float32", SHAPE), builder.input("int64", (1,), "position")
    condition = builder.node("Less", [number, np.int64([5])])
    builder.output(conditional(builder, condition, branch("a", scaled(x, 2)), branch("b", scaled(x, 3))), "float32")
    with pytest.raises(dmlcpu.BindingError, match="for input 'position', expected one int64"):
        dmlcpu.InferenceSession(builder.build()).partitions(values={"position": value})


def test_threads_that_choose_differently(random_numbers: np.random.Generator) -> None:
    model, x = choosing(branch("a", scaled("x", 2))).build(), floats(random_numbers)
    session = pickle.loads(pickle.dumps(dmlcpu.InferenceSession(model)))
    feeds = [{"x": x, "use": np.array(value)} for value in (True, False)]
    expected = [results_of_onnxruntime(model, each)[0] for each in feeds]

    def work(index: int) -> bool:
        return all(np.array_equal(session.run(None, feeds[index])[0], expected[index]) for _ in range(50))

    with ThreadPoolExecutor(4) as executor:
        assert all(executor.map(work, [0, 1, 1, 0]))


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
        feeds = {"x": floats(random_numbers), **{name: np.array(value) for name, value in values.items()}}
        np.testing.assert_array_equal(session.run(None, feeds)[0], results_of_onnxruntime(model, feeds)[0])
        assert {part.provider for part in session.partitions(values=values)} == {"dmlcpu"}


def test_more_sources_than_are_followed() -> None:
    builder = Builder()
    x = builder.input("float32", SHAPE)
    condition = builder.input("bool", (), "first")
    for index in range(4):
        condition = builder.node("And", [condition, builder.input("bool", (), f"other{index}")])
    builder.output(conditional(builder, condition, branch("a", scaled(x, 2)), branch("b", scaled(x, 3))), "float32")
    assert deciding_inputs(load_model(builder.build())) == ()


def test_inputs_that_do_not_decide() -> None:
    """Of several elements, of a free shape, fractions, and what is only beside what a run computes."""
    builder = Builder()
    x = builder.input("float32", SHAPE)
    inputs = [
        builder.input("bool", (2,), "two"),
        builder.input("bool", ("n",), "free"),
        builder.input("float32", (1,), "fraction"),
        builder.input("int64", (1,), "beside"),
    ]
    total = builder.node("Cast", [builder.node("ReduceSum", [x], keepdims=0)], to=onnx.TensorProto.INT64)
    conditions = [
        builder.node("ReduceMin", [builder.node("Cast", [inputs[0]], to=onnx.TensorProto.INT32)], keepdims=0),
        inputs[1],
        builder.node("Greater", [inputs[2], np.float32([0])]),
        builder.node("Greater", [inputs[3], total]),
    ]
    other: Callable[[Builder], str] = lambda inner: str(inner.node("Abs", [x]))  # noqa: E731
    for index, condition in enumerate(conditions):
        graphs = branch(f"a{index}", other), branch(f"b{index}", other)
        builder.output(conditional(builder, condition, *graphs), "float32")
    assert deciding_inputs(load_model(builder.build())) == ()
