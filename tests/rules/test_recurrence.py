"""Recurrent layers of floats, beside onnxruntime: operators, directions, activations and what does not fit."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

import dmlcpu
from onnx_models import Builder, assert_like_onnxruntime, results_of_onnxruntime, steps_of
from recurrent_layers import DIRECTIONS, HIDDEN, INPUTS, PARTS, SEQUENCES, STEPS, feeds_of, layer, uniform

Array = NDArray[Any]

# Activations of one direction.
FUNCTIONS: Final = {"RNN": 1, "LSTM": 3, "GRU": 2}


@pytest.mark.parametrize("operator", PARTS)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("states", [False, True])
def test_layers_of_floats(
    random_numbers: np.random.Generator, operator: str, direction: str, bias: bool, states: bool
) -> None:
    builder = layer(random_numbers, operator, direction, bias=bias, states=states)
    assert_like_onnxruntime(builder.build(), feeds_of(random_numbers, builder))
    addition = ["ELEMENT_WISE_BINARY"] * bias
    assert steps_of(builder)[: 2 + bias] == ["FLOAT_PRODUCT", *addition, operator]


@pytest.mark.parametrize("operator", PARTS)
def test_first_outputs_alone(random_numbers: np.random.Generator, operator: str) -> None:
    builder = layer(random_numbers, operator, "bidirectional", count=1)
    assert_like_onnxruntime(builder.build(), feeds_of(random_numbers, builder))


@pytest.mark.parametrize("operator", PARTS)
def test_last_states_alone(random_numbers: np.random.Generator, operator: str) -> None:
    builder = layer(random_numbers, operator)
    builder.nodes[0].output[0] = ""
    del builder.outputs[0]
    assert_like_onnxruntime(builder.build(), feeds_of(random_numbers, builder))


def test_a_layer_between_transposed_ones(random_numbers: np.random.Generator) -> None:
    """As readers of text have it: steps from columns of an image, both directions side by side behind it."""
    builder = Builder()
    x = builder.input("float32", (2, INPUTS, STEPS))
    steps = builder.node("Transpose", [x], perm=[2, 0, 1])
    weights = uniform(random_numbers, 2, 4 * HIDDEN, INPUTS), uniform(random_numbers, 2, 4 * HIDDEN, HIDDEN)
    states = builder.node("LSTM", [steps, *weights], hidden_size=HIDDEN, direction="bidirectional")
    sides = builder.node("Transpose", [states], perm=[0, 2, 1, 3])
    builder.output(builder.node("Reshape", [sides, np.array([STEPS, 2, 2 * HIDDEN])]), "float32")
    assert_like_onnxruntime(builder.build(), feeds_of(random_numbers, builder))


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("states", [False, True])
def test_resets_before_the_product(
    random_numbers: np.random.Generator, direction: str, bias: bool, states: bool
) -> None:
    """As ONNX has it where nothing is said."""
    builder = layer(random_numbers, "GRU", direction, bias=bias, states=states, linear_before_reset=0)
    assert_like_onnxruntime(builder.build(), feeds_of(random_numbers, builder))
    assert steps_of(builder)[1 + bias] == "GRU"


@pytest.mark.parametrize("operator", PARTS)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(
    "attributes",
    [
        {"activations": ["HardSigmoid", "Tanh", "Tanh"]},
        {
            "activations": ["HardSigmoid", "LeakyRelu", "HardSigmoid"],
            "activation_alpha": [0.3, 0.1, 0.25],
            "activation_beta": [0.4],
        },
        {"activations": ["Sigmoid", "Relu", "Softsign"]},
        {"activations": ["HardSigmoid", "Softplus", "Softsign"]},
        {"clip": 0.3},
        {"clip": 0.3, "linear_before_reset": 0},
        {"activations": ["Relu", "Sigmoid", "Sigmoid"], "clip": 1.5},
    ],
    ids=str,
)
def test_other_cells(
    random_numbers: np.random.Generator, operator: str, direction: str, attributes: dict[str, Any]
) -> None:
    """Of which Keras has the first."""
    given, times = dict(attributes), 1 + (direction == "bidirectional")
    if operator != "GRU":
        given.pop("linear_before_reset", None)
    if "activations" in given:
        given["activations"] = given["activations"][: FUNCTIONS[operator]] * times
    names = [*map(str.lower, given.get("activations", []))]
    for parameter, of in (("activation_alpha", ("hardsigmoid", "leakyrelu")), ("activation_beta", ("hardsigmoid",))):
        if parameter in given:
            count = sum(name in of for name in names[: FUNCTIONS[operator]])
            values = [*given[parameter], *[0.5] * count][:count] * times
            given[parameter] = values
    builder = layer(random_numbers, operator, direction, **given)
    assert_like_onnxruntime(builder.build(), feeds_of(random_numbers, builder))


@pytest.mark.parametrize(
    ("operator", "attributes", "changed"),
    [
        ("RNN", {"activations": ["ScaledTanh"]}, {}),
        ("RNN", {"activations": ["Tanh", "Relu"], "direction": "bidirectional"}, {}),
        ("GRU", {"activations": ["Sigmoid", "Elu"]}, {}),
        (
            "LSTM",
            {"activations": ["Sigmoid", "Tanh", "Tanh", "Sigmoid", "Tanh", "Relu"], "direction": "bidirectional"},
            {},
        ),
        ("LSTM", {"input_forget": 1}, {}),
        ("LSTM", {}, {7: np.full((1, 3 * HIDDEN), 0.3, np.float32)}),
    ],
    ids=str,
)
def test_what_onnxruntime_computes(
    random_numbers: np.random.Generator, operator: str, attributes: dict[str, Any], changed: dict[int, Array]
) -> None:
    builder = layer(random_numbers, operator, **attributes)
    for index, array in changed.items():
        del builder.nodes[0].input[index:]
        builder.nodes[0].input.append(builder.constant(array))
    feeds = {name: array for name, array in feeds_of(random_numbers, builder).items() if not changed or name == "x"}
    if changed:
        del builder.inputs[1:]
        builder.nodes[0].input[5:7] = ["", ""][: len(builder.nodes[0].input[5:7])]
    assert_like_onnxruntime(builder.build(), feeds, native=False)
    assert [part.provider for part in dmlcpu.InferenceSession(builder.build()).partitions()] == ["onnxruntime"]


@pytest.mark.parametrize("activations", [["Sigmoid", "Tanh", "Tanh"], ["sigmoid", "tanh", "TANH"] * 2])
def test_functions_that_are_the_cell_s_own(random_numbers: np.random.Generator, activations: list[str]) -> None:
    direction = DIRECTIONS[len(activations) // 3 * 2 - 2]
    builder = layer(random_numbers, "LSTM", direction, activations=activations)
    assert_like_onnxruntime(builder.build(), feeds_of(random_numbers, builder))


@pytest.mark.parametrize("activations", [["Relu"], ["Tanh"], ["Relu", "Relu"], ["Tanh", "Tanh"]], ids=str)
def test_functions_of_plain_cells(random_numbers: np.random.Generator, activations: list[str]) -> None:
    """In any case, which onnxruntime has for the other layers alone."""
    builder = layer(random_numbers, "RNN", DIRECTIONS[len(activations) * 2 - 2], activations=activations)
    feeds = feeds_of(random_numbers, builder)
    assert_like_onnxruntime(builder.build(), feeds)
    assert steps_of(builder)[2] == "RNN"
    expected = dmlcpu.InferenceSession(builder.build()).run(None, feeds)
    [said] = (attribute for attribute in builder.nodes[0].attribute if attribute.name == "activations")
    said.strings[:] = [function.lower().encode() for function in activations]
    actual = dmlcpu.InferenceSession(builder.build()).run(None, feeds)
    assert [array.tobytes() for array in actual] == [array.tobytes() for array in expected]


@pytest.mark.parametrize("operator", PARTS)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_sequences_first(random_numbers: np.random.Generator, operator: str, direction: str) -> None:
    """Which onnxruntime has no kernels for: with axes exchanged, what it computes of a layer with steps first."""
    builder = layer(random_numbers, operator, direction)
    feeds = feeds_of(random_numbers, builder)
    states, *last = results_of_onnxruntime(builder.build(), feeds)
    builder.nodes[0].attribute.append(onnx.helper.make_attribute("layout", 1))
    for value in builder.inputs:
        lengths = value.type.tensor_type.shape.dim
        lengths[0].dim_value, lengths[1].dim_value = lengths[1].dim_value, lengths[0].dim_value
    exchanged = {name: array.swapaxes(0, 1).copy() for name, array in feeds.items()}
    results = dmlcpu.InferenceSession(builder.build()).run(None, exchanged)
    expected = [states.transpose(2, 0, 1, 3), *(state.swapaxes(0, 1) for state in last)]
    for actual, array in zip(results, expected, strict=True):
        np.testing.assert_allclose(actual, array, rtol=0, atol=2e-6)


@pytest.mark.parametrize("operator", PARTS)
def test_what_nothing_computes(random_numbers: np.random.Generator, operator: str) -> None:
    """Onnxruntime has no layers with sequences first, and onnx's evaluator passes over functions."""
    functions = ["Affine"] * FUNCTIONS[operator]
    builder = layer(random_numbers, operator, states=False, layout=1, activations=functions)
    with pytest.raises(dmlcpu.InvalidModelError, match=operator):
        dmlcpu.InferenceSession(builder.build())


def of_any_length(builder: Builder) -> dmlcpu.InferenceSession:
    for value in builder.inputs:
        for length, name in zip(value.type.tensor_type.shape.dim, (f"{value.name}0", f"{value.name}1"), strict=False):
            length.dim_param = name
    return dmlcpu.InferenceSession(builder.build())


@pytest.mark.parametrize("operator", PARTS)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("states", [False, True])
@pytest.mark.parametrize("shape", [(0, SEQUENCES), (STEPS, 0), (0, 0)])
@pytest.mark.parametrize("clip", [{}, {"clip": 0.5}], ids=str)
def test_no_steps(
    random_numbers: np.random.Generator,
    operator: str,
    direction: str,
    states: bool,
    shape: tuple[int, int],
    clip: dict[str, float],
) -> None:
    """Nor sequences: the first states are the last ones. Of some onnxruntime would end the process."""
    builder = layer(random_numbers, operator, direction, states=states, **clip)
    directions = 1 + (direction == "bidirectional")
    first = {name: uniform(random_numbers, directions, shape[1], HIDDEN) for name in ("hidden", "cell") if states}
    known = [value.name for value in builder.inputs[1:]]
    feeds = {"x": np.zeros((*shape, INPUTS), np.float32), **{name: first[name] for name in known}}
    session = of_any_length(builder)
    for _ in range(2):
        result, *last = session.run(None, feeds)
        assert (result.dtype, result.shape) == (np.float32, (shape[0], directions, shape[1], HIDDEN))
        zeros = [np.zeros((directions, shape[1], HIDDEN), np.float32)] * len(last)
        for state, expected in zip(last, [feeds[name] for name in known] or zeros, strict=True):
            np.testing.assert_array_equal(state, expected)


def test_nothing_to_compute(random_numbers: np.random.Generator) -> None:
    """Onnxruntime would end the process on a layer with peepholes."""
    builder = layer(random_numbers, "LSTM", states=False)
    builder.nodes[0].input.extend(["", "", builder.constant(uniform(random_numbers, 1, 3 * HIDDEN))])
    session = of_any_length(builder)
    with pytest.raises(dmlcpu.BindingError, match=r"input 'x' has a length of 0, .* has no elements to compute with"):
        session.run(None, {"x": np.zeros((0, SEQUENCES, INPUTS), np.float32)})


@pytest.mark.parametrize("shape", [(5, 0), (0, 3)])
def test_plain_cells_without_steps(random_numbers: np.random.Generator, shape: tuple[int, int]) -> None:
    """Onnxruntime takes these."""
    builder = layer(random_numbers, "RNN", states=False)
    of_any_length(builder)
    assert_like_onnxruntime(builder.build(), {"x": np.zeros((*shape, INPUTS), np.float32)})


@pytest.mark.parametrize(
    ("attributes", "lengths"),
    [
        ({"hidden_size": HIDDEN + 1}, None),
        ({"activations": ["Sigmoid", "Tanh"] * 2}, None),
        ({"clip": 0.0}, None),
        ({}, np.full(SEQUENCES + 1, STEPS, np.int32)),
        ({}, np.zeros(0, np.int32)),
        ({}, np.full(SEQUENCES, STEPS)),
    ],
    ids=str,
)
def test_what_does_not_fit_together(
    random_numbers: np.random.Generator, attributes: dict[str, Any], lengths: Array | None
) -> None:
    builder = layer(random_numbers, "GRU", states=False)
    for name, value in attributes.items():
        kept = [attribute for attribute in builder.nodes[0].attribute if attribute.name != name]
        del builder.nodes[0].attribute[:]
        builder.nodes[0].attribute.extend([*kept, onnx.helper.make_attribute(name, value)])
    if lengths is not None:
        builder.nodes[0].input[4] = builder.constant(lengths)
    with pytest.raises(dmlcpu.DmlError):
        dmlcpu.InferenceSession(builder.build()).run(None, feeds_of(random_numbers, builder))


@pytest.mark.parametrize("index", [1, 2, 3, 5, 6])
def test_operands_of_other_shapes(random_numbers: np.random.Generator, index: int) -> None:
    """Onnxruntime says what is wrong."""
    builder = layer(random_numbers, "LSTM", states=False)
    del builder.nodes[0].input[5:]
    builder.nodes[0].input.extend([""] * 2)
    builder.nodes[0].input[index] = builder.constant(np.zeros((1, 4, 5), np.float32))
    with pytest.raises(dmlcpu.DmlError):
        dmlcpu.InferenceSession(builder.build()).run(None, feeds_of(random_numbers, builder))
