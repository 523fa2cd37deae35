"""Constants that follow from the lengths of inputs, such as masks and places: computed again, not planned anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import onnx
import pytest

import dmlcpu
from conftest import SEED
from dmlcpu.onnx.foreign.parts import ForeignModels
from dmlcpu.onnx.models.model import load_model
from dmlcpu.onnx.planning.planner import lowered_model
from dmlcpu.onnx.planning.plans import LoweredGraph
from dmlcpu.onnx.planning.templates import PlanTemplate
from onnx_cases import ints
from onnx_models import POINT, Builder, assert_like_onnxruntime, coded
from template_checks import assert_templates_follow_the_rules


def causal_bias(builder: Builder, tokens: str) -> str:
    """0 up to the diagonal, a large negative number behind it."""
    places = builder.node("Range", [np.array(0), tokens, np.array(1)])
    rows, columns = (builder.node("Unsqueeze", [places, np.array([axis])]) for axis in (1, 0))
    later = builder.node("Not", [builder.node("LessOrEqual", [columns, rows])])
    bias: str = builder.node("Where", [later, np.float32(-1e4), np.float32(0)])
    return bias


def triangular_bias(builder: Builder, tokens: str) -> str:
    """The same, as the upper triangle of a square."""
    side = builder.node("Unsqueeze", [tokens, np.array([0])])
    square = builder.node("Concat", [side, side], axis=0)
    lowest = builder.node("ConstantOfShape", [square], value=onnx.numpy_helper.from_array(np.float32([-1e4])))
    bias: str = builder.node("Trilu", [lowest, np.array(1)], upper=1)
    return bias


def relative_bias(builder: Builder, tokens: str) -> str:
    """A number for each distance, looked up in a table."""
    places = builder.node("Range", [np.array(0), tokens, np.array(1)])
    rows, columns = (builder.node("Unsqueeze", [places, np.array([axis])]) for axis in (1, 0))
    distances = builder.node("Max", [builder.node("Sub", [columns, rows]), np.int64(-4)])
    indices = builder.node("Add", [builder.node("Min", [distances, np.int64(4)]), np.int64(4)])
    bias: str = builder.node("Gather", [np.linspace(-1, 1, 9, dtype=np.float32), indices])
    return bias


def counted_bias(builder: Builder, tokens: str) -> str:
    """Places counted, which onnx's evaluator does."""
    side = builder.node("Unsqueeze", [tokens, np.array([0])])
    ones = builder.node("Expand", [np.ones(1, np.float32), side])
    counts = builder.node("CumSum", [ones, np.array(0)])
    bias: str = builder.node("Mul", [counts, builder.node("Unsqueeze", [counts, np.array([1])])])
    return bias


def dequantized_bias(builder: Builder, tokens: str) -> str:
    """Rows of a constant's codes, and these quantized anew."""
    codes = np.random.default_rng((SEED, 1)).integers(0, 256, (64, 1), np.uint8)
    places = builder.node("Range", [np.array(0), tokens, np.array(1)])
    rows = builder.node("Gather", [builder.dequantized(codes, 0.02, POINT), places])
    bias: str = builder.dequantized(builder.quantized(rows, 0.05, POINT), 0.05, POINT)
    return bias


BIASES: Final = [causal_bias, triangular_bias, relative_bias, counted_bias, dequantized_bias]
SCORES: Final = [{"x": (count, tokens, tokens)} for count in (2, 3) for tokens in (2, 5, 9, 33)]


@pytest.mark.parametrize("quantized", [False, True])
@pytest.mark.parametrize("bias", BIASES)
def test_constants_as_long_as_an_input(
    random_numbers: np.random.Generator, bias: Callable[[Builder, str], str], quantized: bool
) -> None:
    """One template for all lengths: the constants follow from them."""
    builder = Builder()
    x = coded(builder, builder.input("float32", ("batch", "tokens", "tokens")))
    tokens = builder.node("Gather", [builder.node("Shape", [x]), np.array(1)])
    total = builder.node("Add", [x, bias(builder, tokens)])
    builder.output(coded(builder, total) if quantized else builder.node("Softmax", [total], axis=-1), "float32")
    model = builder.build()
    assert_templates_follow_the_rules(model, SCORES, 1)
    feeds = {"x": random_numbers.normal(size=(2, 5, 5)).astype(np.float32)}
    assert_like_onnxruntime(model, feeds)


def test_a_row_as_long_as_an_input() -> None:
    """Of floats it is no number for each channel of codes."""
    builder = Builder()
    x = builder.node("Exp", [builder.input("float32", ("batch", "tokens"))])
    tokens = builder.node("Gather", [builder.node("Shape", [x]), np.array(1)])
    places = builder.node("Cast", [builder.node("Range", [np.array(0), tokens, np.array(1)])], to=1)
    builder.output(builder.node("Mul", [builder.node("Add", [places, x]), places]), "float32")
    assert_templates_follow_the_rules(builder.build(), [{"x": (2, tokens)} for tokens in (2, 5, 9, 33)], 1)


def test_places_in_an_image(random_numbers: np.random.Generator) -> None:
    """As detectors add them to boxes: a column and a row for each place, joined to what is computed."""
    builder = Builder()
    x = coded(builder, builder.input("float32", ("batch", 2, "height", "width")))
    shape = builder.node("Shape", [x])
    height, width = (builder.node("Gather", [shape, np.array(axis)]) for axis in (2, 3))
    zero, one = np.float32(0), np.float32(1)
    rows, columns = (
        builder.node("Range", [zero, builder.node("Cast", [length], to=1), one]) for length in (height, width)
    )
    sides = builder.node("Slice", [shape, np.array([2]), np.array([4])])
    rows = builder.node("Expand", [builder.node("Unsqueeze", [rows, np.array([1])]), sides])
    columns = builder.node("Expand", [columns, sides])
    places = builder.node(
        "Concat", [builder.node("Unsqueeze", [value, np.array([0, 1])]) for value in (columns, rows)], axis=1
    )
    builder.output(builder.node("Mul", [builder.node("Add", [x, places]), np.float32(8)]), "float32")
    model = builder.build()
    shapes = [{"x": (count, 2, height, width)} for count in (2, 3) for height, width in ((2, 3), (5, 5), (16, 9))]
    assert_templates_follow_the_rules(model, shapes, 1)
    assert_like_onnxruntime(model, {"x": random_numbers.normal(size=(2, 2, 4, 6)).astype(np.float32)})


def test_places_in_an_image_as_codes() -> None:
    """Sums and joins of constant codes: operators, since nothing computes them beforehand."""
    builder = Builder()
    x = builder.quantized(builder.input("float32", ("batch", 2, "width")), 0.5, POINT)
    width = builder.node("Gather", [builder.node("Shape", [x]), np.array(2)])
    zero, one = np.float32(0), np.float32(1)
    places = builder.node("Range", [zero, builder.node("Cast", [width], to=1), one])
    codes = builder.quantized(places, 0.5, np.uint8(0))
    parameters = [np.float32(0.5), np.uint8(0)]
    middles = builder.node(
        "com.microsoft.QLinearAdd",
        [codes, *parameters, np.array([1], np.uint8), *parameters, *parameters],
    )
    rows = [builder.node("Unsqueeze", [value, np.array([0, 1])]) for value in (codes, middles)]
    both = builder.node(
        "com.microsoft.QLinearConcat",
        [*parameters, rows[0], *parameters, rows[1], *parameters],
        axis=1,
    )
    own = [np.float32(0.5), POINT]
    total = builder.node("com.microsoft.QLinearAdd", [x, *own, both, *parameters, *own])
    builder.output(builder.dequantized(total, *own), "float32")
    model = builder.build()
    assert_templates_follow_the_rules(model, [{"x": (2, 2, width)} for width in (2, 5, 9, 33)], 1)
    assert_like_onnxruntime(model, {"x": np.linspace(-9, 9, 20, dtype=np.float32).reshape(2, 2, 5)})


def decoder() -> bytes:
    """Attention of new tokens to those before and to themselves, whose keys it returns with the others."""
    builder = Builder()
    random = np.random.default_rng((SEED, 1))
    tokens = builder.input("float32", ("batch", "tokens", 16), "tokens")
    past = builder.input("float32", ("batch", "past", 16), "past")

    def dense(value: str) -> str:
        weights = random.integers(-128, 128, (16, 16), np.int8)
        result: str = builder.node("MatMul", [coded(builder, value), builder.dequantized(weights, 0.01, np.int8(0))])
        return result

    keys = builder.node("Concat", [past, dense(tokens)], axis=1)
    scores = builder.node("MatMul", [dense(tokens), builder.node("Transpose", [keys], perm=[0, 2, 1])])
    count, all_count = (
        builder.node("Gather", [builder.node("Shape", [value]), np.array(1)]) for value in (tokens, keys)
    )
    before = builder.node("Sub", [all_count, count])
    places = builder.node("Range", [before, all_count, np.array(1)])
    columns = builder.node("Range", [np.array(0), all_count, np.array(1)])
    seen = builder.node("LessOrEqual", [columns, builder.node("Unsqueeze", [places, np.array([1])])])
    scores = builder.node("Add", [scores, builder.node("Where", [seen, np.float32(0), np.float32(-1e4)])])
    states = builder.node("MatMul", [builder.node("Softmax", [scores], axis=-1), keys])
    builder.output(dense(states), "float32", ("batch", "tokens", 16))
    builder.output(keys, "float32", ("batch", "all", 16))
    return builder.build()


def test_a_decoder(random_numbers: np.random.Generator) -> None:
    """Token by token, each with one more before it, from none on; then the same for another text."""
    model = decoder()
    shapes = [{"tokens": (1, 1, 16), "past": (1, past, 16)} for past in (2, 3, 9, 40)]
    assert_templates_follow_the_rules(model, shapes, 1)
    session = dmlcpu.InferenceSession(model)
    for prompt in (5, 3):
        past = np.zeros((1, 0, 16), np.float32)
        for count in (prompt, *(1,) * 12):
            feeds = {"tokens": random_numbers.normal(size=(1, count, 16)).astype(np.float32), "past": past}
            ours = session.run(None, feeds)
            for result, expected in zip(ours, dmlcpu.InferenceSession(model).run(None, feeds), strict=True):
                np.testing.assert_array_equal(result, expected)
            past = ours[1]
    assert {partition.provider for shape in shapes for partition in session.partitions(shape)} == {"dmlcpu"}
    assert_like_onnxruntime(model, feeds)


@pytest.mark.parametrize("lengths", [(0, 3), (2, 0, 3), (0, 4, 0)])
def test_nothing_joined_to_something(lengths: tuple[int, ...]) -> None:
    builder = Builder()
    parts = [builder.input("float32", (2, length, 3), f"x{place}") for place, length in enumerate(lengths)]
    joined = builder.node("Concat", parts, axis=1)
    builder.output(builder.dequantized(builder.quantized(joined, 0.05, POINT), 0.05, POINT), "float32")
    feeds = {
        f"x{place}": np.linspace(-1, 1, 6 * length, dtype=np.float32).reshape(2, length, 3)
        for place, length in enumerate(lengths)
    }
    assert_like_onnxruntime(builder.build(), feeds)


def test_indices_in_other_shapes() -> None:
    """The same six indices, in as many rows as the input has: their bytes alone do not tell."""
    builder = Builder()
    x = builder.input("float32", ("batch", 8))
    count = builder.node("Gather", [builder.node("Shape", [x]), np.array([0])])
    shape = builder.node("Concat", [count, np.array([-1])], axis=0)
    indices = builder.node("Reshape", [np.array([5, 1, 4, 0, 7, 2]), shape])
    builder.output(builder.node("Gather", [x, indices], axis=1), "float32")
    assert_templates_follow_the_rules(builder.build(), [{"x": (count, 8)} for count in (1, 2, 3, 6)], 4)


def test_a_condition_without_axes() -> None:
    builder = Builder()
    x = builder.input("float32", ("batch", 3))
    count = builder.node("Gather", [builder.node("Shape", [x]), np.array(0)])
    is_other = builder.node("Not", [builder.node("Equal", [count, np.array(5)])])
    builder.output(builder.node("Mul", [x, builder.node("Cast", [is_other], to=1)]), "float32")
    builder.output(is_other, "bool")
    for length in (2, 5):
        assert_like_onnxruntime(builder.build(), {"x": np.ones((length, 3), np.float32)})


@pytest.mark.parametrize("operator", ["Add", "Mul"])
def test_codes_without_axes(operator: str) -> None:
    builder = Builder()
    x = builder.input("float32", ("batch", 3))
    width = builder.node("Cast", [builder.node("Gather", [builder.node("Shape", [x]), np.array(-1)])], to=1)
    codes = builder.quantized(width, 1.0, POINT)
    parameters = [np.float32(0.5), POINT]
    operands = [codes, *parameters, codes, *parameters, *parameters]
    builder.output(builder.node(f"com.microsoft.QLinear{operator}", operands), "uint8")
    builder.output(codes, "uint8")
    builder.output(builder.node("Neg", [x]), "float32")
    assert_like_onnxruntime(builder.build(), {"x": np.ones((2, 3), np.float32)})


def test_large_numbers_of_a_shape_as_floats() -> None:
    """They are rounded once, whoever computes them."""
    builder = Builder()
    x = builder.input("float32", ("batch",))
    large = builder.node("Add", [builder.node("Shape", [x]), np.array([(1 << 60) + (1 << 36) - 4])])
    builder.output(builder.node("Add", [x, builder.node("Cast", [large], to=1)]), "float32")
    model = builder.build()
    session = dmlcpu.InferenceSession(model)
    for length in (2, 3, 5, 7, 11):
        feeds = {"x": np.zeros(length, np.float32)}
        [expected] = dmlcpu.InferenceSession(model).run(None, feeds)
        np.testing.assert_array_equal(session.run(None, feeds)[0], expected)


@pytest.mark.parametrize("what", ["length", "types"])
def test_arithmetic_of_shapes_that_is_not_valid(what: str) -> None:
    """It is refused for each shape, not for the first one alone."""
    builder = Builder(11)
    x = builder.input("int64", ("batch",))
    shape = builder.node("Shape", [x])
    if what == "length":
        made = builder.node("Reshape", [shape, np.array([-2])])
    else:
        is_five = builder.node("Equal", [shape, np.float32([5])])
        made = builder.node("Where", [is_five, shape, np.array([9])])
    builder.output(builder.node("Concat", [x, made], axis=0), "int64")
    session = dmlcpu.InferenceSession(builder.build())
    for length in (2, 3, 4, 5):
        with pytest.raises(dmlcpu.InvalidModelError):
            session.run(None, {"x": np.zeros(length, np.int64)})


@pytest.mark.parametrize("is_constant", [False, True])
def test_no_axes_squeezed_are_all(is_constant: bool) -> None:
    builder = Builder(11)
    x = builder.input("float32", (1, 3))
    given = np.float32([[1, 2, 3]]) if is_constant else x
    squeezed = builder.node("Squeeze", [given])
    builder.nodes[-1].attribute.append(onnx.AttributeProto(name="axes", type=onnx.AttributeProto.INTS))
    builder.output(builder.node("Add", [squeezed, x]), "float32")
    builder.output(squeezed, "float32")
    assert_like_onnxruntime(builder.build(), {"x": np.ones((1, 3), np.float32)})


def test_inference_that_would_end_the_process() -> None:
    """An EyeLike of what onnx knows nothing of."""
    builder = Builder()
    x = builder.input("float32", ("batch", 3))
    unknown = builder.node("com.microsoft.Unknown", [x])
    builder.output(builder.node("EyeLike", [unknown], dtype=1), "float32")
    with pytest.raises(dmlcpu.InvalidModelError):
        dmlcpu.InferenceSession(builder.build()).run(None, {"x": np.ones((2, 3), np.float32)})


def test_constants_too_large_to_be_computed_beforehand() -> None:
    """A template tells nothing of lengths for which each run computes them."""
    builder = Builder()
    x = coded(builder, builder.input("float32", ("batch", "tokens")))
    tokens = builder.node("Gather", [builder.node("Shape", [x]), np.array(1)])
    bias = relative_bias(builder, tokens)
    builder.output(builder.node("Add", [x, builder.node("ReduceMax", [bias])]), "float32")
    model, device = load_model(builder.build()), dmlcpu.Device(num_threads=1)

    def arrays(tokens: int) -> dict[str, Any]:
        return {"x": (np.dtype(np.float32), (2, tokens))}

    template = PlanTemplate.of(model, arrays(8), device, ForeignModels())
    assert template is not None
    assert template.replay(model, arrays(8)) is not None
    assert template.replay(model, arrays(1 << 16)) is None
    larger, smaller = (lowered_model(model, arrays(tokens), device, ForeignModels()) for tokens in (1 << 16, 8))
    assert larger is not None
    assert smaller is not None
    [larger_graph], [smaller_graph] = larger.parts, smaller.parts
    assert isinstance(larger_graph, LoweredGraph)
    assert isinstance(smaller_graph, LoweredGraph)
    assert len(larger_graph.graph.rows()[1]) > len(smaller_graph.graph.rows()[1])


@pytest.mark.parametrize("projected", [False, True])
def test_products_with_relative_places(random_numbers: np.random.Generator, projected: bool) -> None:
    """As in encoders of speech: as many rows of a table as there are distances, as codes, times those of tokens."""
    builder = Builder()
    x = coded(builder, builder.input("float32", (1, "tokens", 16)))
    tokens = builder.node("Slice", [builder.node("Shape", [x]), np.array([1]), np.array([2])])
    first = builder.node("Sub", [np.int64([40]), tokens])
    last = builder.node("Sub", [builder.node("Add", [np.int64([40]), tokens]), np.int64([1])])
    table = random_numbers.normal(0, 1, (1, 79, 16)).astype(np.float32)
    rows = coded(builder, builder.node("Slice", [table, first, last, np.array([1])]))
    if projected:
        weights = builder.dequantized(random_numbers.integers(-90, 90, (16, 16), np.int8), 0.0123, np.int8(0))
        rows = coded(builder, builder.node("MatMul", [rows, weights]))
    scores = builder.node("MatMul", [x, builder.node("Transpose", [rows], perm=[0, 2, 1])])
    builder.output(scores, "float32")
    model = builder.build()
    assert_templates_follow_the_rules(model, [{"x": (1, tokens, 16)} for tokens in (3, 8, 9, 33)], 1)
    assert_like_onnxruntime(model, {"x": random_numbers.normal(0, 0.3, (1, 9, 16)).astype(np.float32)})


@pytest.mark.parametrize("operator", ["ReduceMin", "Min"])
def test_the_best_as_many_as_there_are(random_numbers: np.random.Generator, operator: str) -> None:
    """Of each class, as detectors choose candidates: four, or all."""
    builder = Builder()
    x = coded(builder, builder.input("float32", (3, "found")))
    found = builder.node("Slice", [builder.node("Shape", [x]), np.array([1]), np.array([2])])
    if operator == "Min":
        most = builder.node("Min", [found, np.int64([4])])
    else:
        most = builder.node("ReduceMin", [builder.node("Concat", [np.int64([4]), found], axis=0)], keepdims=1)
    best, _ = builder.node("TopK", [x, most], 2)
    builder.output(best, "float32")
    model = builder.build()
    assert_templates_follow_the_rules(model, [{"x": (3, found)} for found in (5, 9, 4, 3, 1)], 1)
    assert_like_onnxruntime(model, {"x": random_numbers.normal(0, 1, (3, 9)).astype(np.float32)})


NODES_OF_SHAPES: Final[dict[str, tuple[str, list[Any], dict[str, Any]]]] = {
    "beyond both ends": ("Slice", [ints(-100), ints(-200), ints(0), ints(-1)], {}),
    "product along no axis": ("ReduceProd", [], {"noop_with_empty_axes": 1}),
    **{
        f"{operator} to {('a scalar', 'one')[keeps]}": (operator, [ints(-1)], {"keepdims": keeps})
        for operator in ("ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum")
        for keeps in (0, 1)
    },
    **{f"to {shape}": ("Reshape", [ints(*shape)], {}) for shape in ([3, 1], [-1], [0], [0, -1], [1, 3])},
}


@pytest.mark.parametrize("name", NODES_OF_SHAPES)
def test_nodes_of_shapes(name: str) -> None:
    operator, inputs, attributes = NODES_OF_SHAPES[name]
    builder = Builder(18)
    shape = builder.node("Shape", [builder.input("float32", ("batch", 3, "tokens"))])
    builder.output(builder.node(operator, [shape, *inputs], **attributes), "int64")
    assert_like_onnxruntime(builder.build(), {"x": np.zeros((7, 3, 5), np.float32)})


@pytest.mark.parametrize("fmod", [0, 1])
def test_remainders_of_negative_lengths(fmod: int) -> None:
    """With the sign of the divisor, or of the length."""
    builder = Builder()
    shape = builder.node("Shape", [builder.input("float32", ("batch", 3, "tokens"))])
    remainder = builder.node("Mod", [builder.node("Neg", [shape]), np.int64([4])], fmod=fmod)
    builder.output(remainder, "int64")
    assert_like_onnxruntime(builder.build(), {"x": np.zeros((7, 3, 5), np.float32)})
