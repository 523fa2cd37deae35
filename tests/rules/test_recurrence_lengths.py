"""Recurrent layers whose sequences have lengths of their own, or whose batch is free, beside onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import dmlcpu
from onnx_models import Builder, assert_like_onnxruntime, steps_of
from recurrent_layers import DIRECTIONS, HIDDEN, INPUTS, PARTS, SEQUENCES, SHORTER, STEPS, feeds_of, layer, uniform
from template_checks import assert_templates_follow_the_rules


@pytest.mark.parametrize("operator", PARTS)
def test_lengths_of_all_sequences(random_numbers: np.random.Generator, operator: str) -> None:
    """That are the input's own."""
    builder = layer(random_numbers, operator)
    builder.nodes[0].input[4] = builder.constant(np.full(SEQUENCES, STEPS, np.int32))
    assert_like_onnxruntime(builder.build(), feeds_of(random_numbers, builder))


@pytest.mark.parametrize("operator", PARTS)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("bias", [False, True])
def test_lengths_of_each_sequence(
    random_numbers: np.random.Generator, operator: str, direction: str, bias: bool
) -> None:
    """Also of none."""
    builder = layer(random_numbers, operator, direction, bias=bias)
    builder.nodes[0].input[4] = builder.constant(SHORTER)
    feeds = feeds_of(random_numbers, builder)
    assert_like_onnxruntime(builder.build(), feeds)
    builder.nodes[0].input[4] = builder.input("int32", (SEQUENCES,), "lengths")
    for lengths in ([2, 4, 3], [0, 5, 0], [5, 5, 5], [0, 0, 0]):
        assert_like_onnxruntime(builder.build(), feeds | {"lengths": np.array(lengths, np.int32)})
    assert operator in steps_of(builder)


@pytest.mark.parametrize("operator", PARTS)
def test_lengths_that_are_computed(random_numbers: np.random.Generator, operator: str) -> None:
    """Of a mask, as models of texts have it, for any number of steps and sequences."""
    builder = layer(random_numbers, operator, "bidirectional", states=False)
    for length, name in zip(builder.inputs[0].type.tensor_type.shape.dim, ("steps", "sequences"), strict=False):
        length.dim_param = name
    mask = builder.input("int64", ("sequences", "steps"), "mask")
    count = builder.node("ReduceSum", [mask, np.array([1])], keepdims=0)
    builder.nodes[0].input[4] = builder.node("Cast", [count], to=onnx.TensorProto.INT32)
    for steps, ends in ((5, [5, 2]), (3, [1, 2, 3]), (4, [4, 0])):
        masks = (np.arange(steps) < np.array(ends)[:, np.newaxis]).astype(np.int64)
        feeds = {"x": uniform(random_numbers, steps, len(ends), INPUTS), "mask": masks}
        assert_like_onnxruntime(builder.build(), feeds)


@pytest.mark.parametrize("wrong", [-1, STEPS + 1])
def test_lengths_that_no_sequence_has(random_numbers: np.random.Generator, wrong: int) -> None:
    builder = layer(random_numbers, "GRU", states=False)
    builder.nodes[0].input[4] = builder.input("int32", (SEQUENCES,), "lengths")
    feeds = {"x": uniform(random_numbers, STEPS, SEQUENCES, INPUTS), "lengths": np.array([1, wrong, 1], np.int32)}
    with pytest.raises(dmlcpu.BindingError, match=rf"^node GRU_0: got a sequence of {wrong} steps, expected 0 to 5$"):
        dmlcpu.InferenceSession(builder.build()).run(None, feeds)


@pytest.mark.parametrize("operator", PARTS)
def test_free_lengths(random_numbers: np.random.Generator, operator: str) -> None:
    """A template for several steps and sequences is right for all of these, and one for single ones elsewhere."""
    builder = layer(random_numbers, operator, states=False)
    for length, name in zip(builder.inputs[0].type.tensor_type.shape.dim, ("steps", "sequences"), strict=False):
        length.dim_param = name
    single, several = [(1, 1), (1, 7), (9, 1)], [(4, 2), (6, 5), (3, 64)]
    for steps, sequences in (*single, several[0]):
        assert_like_onnxruntime(builder.build(), {"x": uniform(random_numbers, steps, sequences, INPUTS)})
    shapes = [{"x": (*pair, INPUTS)} for pair in (*several, *single)]
    assert_templates_follow_the_rules(builder.build(), shapes[:3], 1)
    assert_templates_follow_the_rules(builder.build(), shapes, 3)


@pytest.mark.parametrize("operator", PARTS)
@pytest.mark.parametrize("spelled", ["Expand", "ConstantOfShape"])
def test_first_states_of_a_free_batch(random_numbers: np.random.Generator, operator: str, spelled: str) -> None:
    """Exporters make them of zeros, as many as there are sequences: no batch is planned anew for them."""
    builder = Builder()
    x = builder.input("float32", (STEPS, "sequences", INPUTS))
    columns = PARTS[operator] * HIDDEN
    weights = uniform(random_numbers, 1, columns, INPUTS), uniform(random_numbers, 1, columns, HIDDEN)
    sequences = builder.node("Shape", [x], start=1, end=2)
    shape = builder.node("Concat", [np.array([1]), sequences, np.array([HIDDEN])], axis=0)
    state = builder.node(spelled, [np.zeros((1, 1, 1), np.float32), shape] if spelled == "Expand" else [shape])
    attributes = {"linear_before_reset": 1} if operator == "GRU" else {}
    states = [state] * (2 if operator == "LSTM" else 1)
    result = builder.node(operator, [x, *weights, "", "", *states], hidden_size=HIDDEN, **attributes)
    builder.output(result, "float32")
    model, counts = builder.build(), (2, 3, 4, 9)
    assert_templates_follow_the_rules(model, [{"x": (STEPS, count, INPUTS)} for count in counts], 1)
    for count in (1, *counts):
        assert_like_onnxruntime(model, {"x": uniform(random_numbers, STEPS, count, INPUTS)})


@pytest.mark.parametrize("operator", PARTS)
def test_lengths_of_a_free_batch(random_numbers: np.random.Generator, operator: str) -> None:
    """Keras tells each sequence that it is as long as all."""
    builder = Builder()
    x = builder.input("float32", (STEPS, "sequences", INPUTS))
    columns = PARTS[operator] * HIDDEN
    weights = uniform(random_numbers, 1, columns, INPUTS), uniform(random_numbers, 1, columns, HIDDEN)
    sequences = builder.node("Shape", [x], start=1, end=2)
    lengths = builder.node("Expand", [np.array([STEPS], np.int32), sequences])
    attributes = {"linear_before_reset": 1} if operator == "GRU" else {}
    result = builder.node(operator, [x, *weights, "", lengths], hidden_size=HIDDEN, **attributes)
    builder.output(result, "float32")
    model, counts = builder.build(), (2, 3, 4, 9)
    assert_templates_follow_the_rules(model, [{"x": (STEPS, count, INPUTS)} for count in counts], 1)
    for count in (1, *counts):
        assert_like_onnxruntime(model, {"x": uniform(random_numbers, STEPS, count, INPUTS)})
