"""GELU as models spell it out, by the error function and by tanh, and what is almost one, beside onnxruntime."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import dmlcpu
from onnx_models import Builder, assert_like_onnxruntime, codes, floats, steps_of

SHAPE = (2, 9, 24)
ROOT_2 = np.float32(np.sqrt(2))


def gelu(builder: Builder, x: str, form: str) -> str:
    erf = builder.node("Erf", [builder.node("Div", [x, ROOT_2])])
    sum_ = builder.node("Add", [erf, np.float32(1)])
    result: str
    if form == "half first":
        result = builder.node("Mul", [builder.node("Mul", [x, np.float32(0.5)]), sum_])
    else:
        result = builder.node("Mul", [builder.node("Mul", [x, sum_]), np.float32(0.5)])
    return result


def gelu_by_tanh(builder: Builder, x: str, form: str) -> str:
    """As models write it: "power" is GPT-2's, "fast" is BLOOM's, "cube" is what torch exports."""
    linear, cubic, half = np.float32(0.7978845608), np.float32(0.044715), np.float32(0.5)
    if form == "fast":
        square = builder.node("Mul", [builder.node("Mul", [cubic, x]), x])
        sum_ = builder.node("Add", [square, np.float32(1)])
        argument = builder.node("Mul", [builder.node("Mul", [linear, x]), sum_])
    else:
        by_power = form == "power"
        cube = (
            builder.node("Pow", [x, np.float32(3)])
            if by_power
            else builder.node("Mul", [x, builder.node("Mul", [x, x])])
        )
        sum_ = builder.node("Add", [x, builder.node("Mul", [cube, cubic])])
        argument = builder.node("Mul", [sum_, linear])
    sum_ = builder.node("Add", [builder.node("Tanh", [argument]), np.float32(1)])
    result: str
    if form == "cube":
        result = builder.node("Mul", [half, builder.node("Mul", [x, sum_])])
    else:
        result = builder.node("Mul", [builder.node("Mul", [x, half]), sum_])
    return result


TANH_FORMS = ["power", "fast", "cube"]


@pytest.mark.parametrize(
    ("spelled_out", "form"),
    [*((gelu, form) for form in ("half first", "half last")), *((gelu_by_tanh, form) for form in TANH_FORMS)],
)
def test_gelu_of_floats(
    random_numbers: np.random.Generator, spelled_out: Callable[[Builder, str, str], str], form: str
) -> None:
    builder = Builder()
    builder.output(spelled_out(builder, builder.input("float32", SHAPE), form), "float32")
    assert_like_onnxruntime(builder.build(), {"x": 2 * floats(random_numbers, SHAPE)})
    assert steps_of(builder) == ["ELEMENT_WISE_UNARY"]


@pytest.mark.parametrize("form", TANH_FORMS)
def test_gelu_by_tanh_of_codes(random_numbers: np.random.Generator, form: str) -> None:
    builder = Builder()
    value = builder.dequantized(builder.input("uint8", SHAPE), 0.03, np.uint8(120))
    builder.output(builder.quantized(gelu_by_tanh(builder, value, form), 0.02, np.uint8(10)), "uint8")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", SHAPE)})
    assert steps_of(builder) == ["CODE_TABLE"]


@pytest.mark.parametrize(
    "change", ["cube read", "another x", "another half", "more axes", "no 1", "fourth power", "reciprocal"]
)
def test_what_is_no_gelu_by_tanh(random_numbers: np.random.Generator, change: str) -> None:
    """It is computed as it is written, and whatever else reads a step of it gets that."""
    builder = Builder()
    x = builder.input("float32", SHAPE)
    other = builder.input("float32", SHAPE, "other") if change == "another x" else x
    cube = builder.node("Pow", [x, np.float32(-1 if change == "reciprocal" else 3)])
    if change == "fourth power":
        cube = builder.node("Mul", [cube, x])
    factor = np.float32(0.044715).reshape((1,) * (len(SHAPE) + 1) if change == "more axes" else ())
    sum_ = builder.node("Add", [other, builder.node("Mul", [cube, factor])])
    tanh = builder.node("Tanh", [builder.node("Mul", [sum_, np.float32(0.8)])])
    one = builder.node("Add", [tanh, np.float32(0.9 if change == "no 1" else 1)])
    half = np.float32(0.4 if change == "another half" else 0.5)
    builder.output(builder.node("Mul", [builder.node("Mul", [x, half]), one]), "float32")
    feeds = {"x": 2 * floats(random_numbers, SHAPE)}
    if change == "another x":
        feeds["other"] = 2 * floats(random_numbers, SHAPE)
    if change == "cube read":
        builder.output(cube, "float32")
    assert_like_onnxruntime(builder.build(), feeds)
    steps = steps_of(builder)
    assert len(steps) == {"cube read": 2, "fourth power": 9}.get(change, 8), steps


def test_gelu_nodes_of_floats(random_numbers: np.random.Generator) -> None:
    builder = Builder(20)
    builder.output(builder.node("Gelu", [builder.input("float32", SHAPE)]), "float32")
    assert_like_onnxruntime(builder.build(), {"x": 2 * floats(random_numbers, SHAPE)})
    assert steps_of(builder) == ["ELEMENT_WISE_UNARY"]


def test_gelu_of_codes(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    value = builder.dequantized(builder.input("uint8", SHAPE), 0.03, np.uint8(120))
    builder.output(builder.quantized(gelu(builder, value, "half last"), 0.02, np.uint8(10)), "uint8")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", SHAPE)})
    assert steps_of(builder) == ["CODE_TABLE"]


def test_gelu_of_the_largest_floats() -> None:
    """Is what they are: no product of it is larger."""
    builder = Builder(20)
    builder.output(builder.node("Gelu", [builder.input("float32", (4,))]), "float32")
    x = np.float32([3.4e38, np.inf, -3.4e38, 2e38])
    [result] = dmlcpu.InferenceSession(builder.build()).run(None, {"x": x})
    np.testing.assert_array_equal(result, np.float32([3.4e38, np.inf, -0.0, 2e38]))


@pytest.mark.parametrize("factor", [None, 1.702])
@pytest.mark.parametrize("swap", [False, True])
def test_silu_of_floats(random_numbers: np.random.Generator, swap: bool, factor: float | None) -> None:
    builder = Builder()
    x = builder.input("float32", SHAPE)
    argument = x if factor is None else builder.node("Mul", [x, np.float32(factor)])
    operands = [x, builder.node("Sigmoid", [argument])]
    builder.output(builder.node("Mul", operands[::-1] if swap else operands), "float32")
    assert_like_onnxruntime(builder.build(), {"x": 2 * floats(random_numbers, SHAPE)})
    assert steps_of(builder) == ["ELEMENT_WISE_UNARY"]


def test_a_sigmoid_that_others_read_too(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    x = builder.input("float32", SHAPE)
    gate = builder.node("Sigmoid", [x])
    builder.output(builder.node("Add", [gate, builder.node("Mul", [gate, x])]), "float32")
    assert_like_onnxruntime(builder.build(), {"x": 2 * floats(random_numbers, SHAPE)})
    assert steps_of(builder) == ["ELEMENT_WISE_UNARY", "ELEMENT_WISE_UNARY", "ELEMENT_WISE_BINARY"]


def test_a_sigmoid_times_something_else(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    x, y = builder.input("float32", SHAPE, "x"), builder.input("float32", SHAPE, "y")
    builder.output(builder.node("Mul", [y, builder.node("Sigmoid", [x])]), "float32")
    assert_like_onnxruntime(builder.build(), {name: floats(random_numbers, SHAPE) for name in ("x", "y")})
    assert steps_of(builder) == ["ELEMENT_WISE_UNARY", "ELEMENT_WISE_BINARY"]
