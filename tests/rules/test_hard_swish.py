"""HardSwish as models spell it out on floats, and what is almost one, beside onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

import dmlcpu
from onnx_models import Builder, assert_like_onnxruntime, codes, floats, steps_of

SHAPE = (2, 9, 24)
SIXTH = np.float32(1 / 6)


def clipped(builder: Builder, x: str, shift: object = np.float32(3), most: object = np.float32(6)) -> str:
    result: str = builder.node("Clip", [builder.node("Add", [x, shift]), np.float32(0), most])
    return result


def hard_swish(builder: Builder, x: str, form: str) -> str:
    result: str
    if form == "HardSigmoid":
        return str(builder.node("Mul", [x, builder.node("HardSigmoid", [x], alpha=1 / 6)]))
    if form == "Add swapped":
        sum_ = builder.node("Add", [np.float32(3), x])
        product = builder.node("Mul", [builder.node("Clip", [sum_, np.float32(0), np.float32(6)]), x])
        result = builder.node("Div", [product, np.float32(6)])
    elif form == "Div last":
        result = builder.node("Div", [builder.node("Mul", [x, clipped(builder, x)]), np.float32(6)])
    elif form == "Mul last":
        result = builder.node("Mul", [builder.node("Mul", [x, clipped(builder, x)]), SIXTH])
    elif form == "Div first":
        result = builder.node("Mul", [x, builder.node("Div", [clipped(builder, x), np.float32(6)])])
    else:
        result = builder.node("Mul", [builder.node("Mul", [SIXTH, clipped(builder, x)]), x])
    return result


FORMS = ["Div last", "Mul last", "Div first", "Mul first", "Add swapped", "HardSigmoid"]


@pytest.mark.parametrize("form", FORMS)
def test_hard_swish_of_floats(random_numbers: np.random.Generator, form: str) -> None:
    builder = Builder()
    builder.output(hard_swish(builder, builder.input("float32", SHAPE), form), "float32")
    assert_like_onnxruntime(builder.build(), {"x": 3 * floats(random_numbers, SHAPE)})
    assert steps_of(builder) == ["ELEMENT_WISE_UNARY"]


@pytest.mark.parametrize("form", FORMS)
def test_the_bits_are_those_of_the_operator(random_numbers: np.random.Generator, form: str) -> None:
    x = 3 * floats(random_numbers, SHAPE)
    x.flat[:6] = -3, 3, np.inf, -np.inf, 3.4e38, -0.0
    results = []
    for is_spelled_out in (True, False):
        builder = Builder(14)
        value = builder.input("float32", SHAPE)
        y = hard_swish(builder, value, form) if is_spelled_out else builder.node("HardSwish", [value])
        builder.output(y, "float32")
        results += dmlcpu.InferenceSession(builder.build()).run(None, {"x": x})
    np.testing.assert_array_equal(results[0].view(np.uint32), results[1].view(np.uint32))


def test_clip_with_attributes(random_numbers: np.random.Generator) -> None:
    builder = Builder(10)
    x = builder.input("float32", SHAPE)
    sum_ = builder.node("Add", [x, np.float32(3)])
    product = builder.node("Mul", [x, builder.node("Clip", [sum_], min=0.0, max=6.0)])
    builder.output(builder.node("Div", [product, np.float32(6)]), "float32")
    assert_like_onnxruntime(builder.build(), {"x": 3 * floats(random_numbers, SHAPE)})
    assert steps_of(builder) == ["ELEMENT_WISE_UNARY"]


@pytest.mark.parametrize("form", FORMS)
def test_hard_swish_of_codes(random_numbers: np.random.Generator, form: str) -> None:
    builder = Builder()
    value = builder.dequantized(builder.input("uint8", SHAPE), 0.05, np.uint8(120))
    builder.output(builder.quantized(hard_swish(builder, value, form), 0.04, np.uint8(10)), "uint8")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", SHAPE)})
    assert steps_of(builder) == ["CODE_TABLE"]


@pytest.mark.parametrize(
    ("change", "count"),
    [
        ("another shift", 4), ("another bound", 4), ("another divisor", 4), ("another factor", 4), ("another x", 4),
        ("divisor first", 4), ("clip read", 3), ("more axes", 4), ("another slope", 2), ("another intercept", 2),
        ("sigmoid of another x", 2),
    ],
)  # fmt: skip
def test_what_is_no_hard_swish(random_numbers: np.random.Generator, change: str, count: int) -> None:
    """It is computed as it is written; what else reads a step gets that, beside the function as one."""
    builder = Builder()
    x = builder.input("float32", SHAPE)
    feeds = {"x": 3 * floats(random_numbers, SHAPE)}
    other = x
    if change.endswith("another x"):
        other = builder.input("float32", SHAPE, "other")
        feeds["other"] = 3 * floats(random_numbers, SHAPE)
    if count == 2:
        slope = {"another slope": 0.2}.get(change, 1 / 6)
        intercept = {"another intercept": 0.4}.get(change, 0.5)
        sigmoid = builder.node("HardSigmoid", [x], alpha=slope, beta=intercept)
        builder.output(builder.node("Mul", [other, sigmoid]), "float32")
    else:
        shift = np.float32(2 if change == "another shift" else 3)
        shift = shift.reshape((1,) * (len(SHAPE) + 1)) if change == "more axes" else shift
        clip = clipped(builder, x, shift, np.float32(5 if change == "another bound" else 6))
        product = builder.node("Mul", [other, clip])
        if change == "another factor":
            result = builder.node("Mul", [product, np.float32(0.2)])
        elif change == "divisor first":
            feeds = {"x": np.abs(feeds["x"]) + np.float32(0.5)}  # no quotient is infinite
            result = builder.node("Div", [np.float32(6), product])
        else:
            result = builder.node("Div", [product, np.float32(5 if change == "another divisor" else 6)])
        if change == "clip read":
            builder.output(clip, "float32")
        builder.output(result, "float32")
    assert_like_onnxruntime(builder.build(), feeds)
    steps = steps_of(builder)
    assert len(steps) == count, steps


def test_a_sum_behind_a_convolution_is_a_stage_of_it(random_numbers: np.random.Generator) -> None:
    """As detectors of text have it: a convolution, and a HardSwish of what it makes."""
    builder = Builder()
    x = builder.input("float32", (1, 8, 12, 12))
    weights = floats(random_numbers, (16, 8, 3, 3))
    y = builder.node("Conv", [x, weights, floats(random_numbers, (16,))], pads=[1] * 4)
    builder.output(hard_swish(builder, y, "Div last"), "float32")
    assert_like_onnxruntime(builder.build(), {"x": floats(random_numbers, (1, 8, 12, 12))})
    steps = steps_of(builder)
    assert steps == ["FLOAT_CONVOLUTION"], steps
