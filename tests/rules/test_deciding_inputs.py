"""If nodes whose condition follows from inputs of one element: what is fed decides which branch runs natively."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import onnx
import pytest

import dmlcpu
from branch_models import SHAPE, assert_both_ways, branch, choosing, conditional, scaled, uniform_floats
from dmlcpu.onnx.models.model import load_model
from dmlcpu.onnx.planning.deciding_inputs import deciding_inputs
from onnx_models import POINT, Builder, coded, results_of_onnxruntime


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
    session, fed = dmlcpu.InferenceSession(model), uniform_floats(random_numbers)
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
    fed = uniform_floats(random_numbers)
    session = dmlcpu.InferenceSession(builder.build())
    result, again = session.run(None, {"x": fed, "rate": np.array(rate)})
    np.testing.assert_array_equal(result, fed * np.float32(factor))
    assert (again.shape, again.item()) == ((), rate)
    assert {part.provider for part in session.partitions(values={"rate": rate})} == {"dmlcpu"}


def by_position() -> dmlcpu.InferenceSession:
    """Of a model whose x is doubled where the position is below 5, and tripled elsewhere."""
    builder = Builder()
    x, number = builder.input("float32", SHAPE), builder.input("int64", (1,), "position")
    condition = builder.node("Less", [number, np.int64([5])])
    then, other = ((lambda inner, by=by: inner.node("Mul", [x, np.float32(by)])) for by in (2, 3))
    builder.output(conditional(builder, condition, branch("a", then), branch("b", other)), "float32")
    return dmlcpu.InferenceSession(builder.build())


def test_more_values_than_plans_are_made_for(random_numbers: np.random.Generator) -> None:
    session, fed = by_position(), uniform_floats(random_numbers)
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


def test_what_decides_has_to_be_fed(random_numbers: np.random.Generator) -> None:
    session = assert_both_ways(choosing(branch("a", scaled("x", 2))).build(), uniform_floats(random_numbers))
    with pytest.raises(dmlcpu.BindingError, match="got no input 'use'"):
        session.run(None, {"x": uniform_floats(random_numbers)})


def test_looking_at_partitions_is_no_run(random_numbers: np.random.Generator) -> None:
    session = by_position()
    for position in range(12):
        assert {part.provider for part in session.partitions(values={"position": position})} == {"dmlcpu"}


@pytest.mark.parametrize("value", ["yes", 2**70, None, [[1], [2, 3]], np.nan, 1.5, 1j])
def test_values_that_are_no_whole_numbers(value: Any) -> None:
    session = by_position()
    with pytest.raises(dmlcpu.BindingError, match="for input 'position', expected one int64"):
        session.partitions(values={"position": value})


def test_threads_that_choose_differently(random_numbers: np.random.Generator) -> None:
    model, x = choosing(branch("a", scaled("x", 2))).build(), uniform_floats(random_numbers)
    session = pickle.loads(pickle.dumps(dmlcpu.InferenceSession(model)))
    feeds = [{"x": x, "use": np.array(value)} for value in (True, False)]
    expected = [results_of_onnxruntime(model, each)[0] for each in feeds]

    def work(index: int) -> bool:
        return all(np.array_equal(session.run(None, feeds[index])[0], expected[index]) for _ in range(50))

    with ThreadPoolExecutor(4) as executor:
        assert all(executor.map(work, [0, 1, 1, 0]))


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
