"""Functions of one float that are composed of others, beside onnxruntime."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import dmlcpu
from onnx_models import Builder, assert_like_onnxruntime, results_of_onnxruntime, steps_of

# The operator, its attributes, and the opset.
FUNCTIONS: Final = (
    ("Abs", {}, 17),
    ("Sign", {}, 17),
    ("Celu", {"alpha": 0.7}, 17),
    ("Celu", {}, 17),
    ("Ceil", {}, 17),
    ("Elu", {}, 17),
    ("Elu", {"alpha": 1.7}, 17),
    ("Floor", {}, 17),
    ("Mish", {}, 18),
    ("Round", {}, 17),
    ("Selu", {}, 17),
    ("Selu", {"alpha": 1.1, "gamma": 2.0}, 17),
    ("Softplus", {}, 17),
    ("Softsign", {}, 17),
    ("Swish", {}, 24),
    ("Swish", {"alpha": 1.7}, 24),
    *((operator, {}, 17) for operator in ("Atan", "Sinh", "Cosh")),
)
GATED: Final = (
    ("Gelu", {}, 20),
    ("Gelu", {"approximate": "tanh"}, 20),
    ("com.microsoft.Gelu", {}, 17),
    ("com.microsoft.QuickGelu", {}, 17),
)
SPECIAL: Final = np.float32([0, -0.0, 1e-30, -1e-30, 87, 89, -87, -104, 1e30, -1e30, np.inf, -np.inf, np.nan])


@pytest.mark.parametrize("function", FUNCTIONS, ids=str)
def test_functions_of_floats(random_numbers: np.random.Generator, function: Any) -> None:
    operator, attributes, opset = function
    builder = Builder(opset)
    builder.output(builder.node(operator, [builder.input("float32", (3, 50))], **attributes), "float32")
    assert_like_onnxruntime(builder.build(), {"x": 4 * random_numbers.standard_normal((3, 50), np.float32)})


@pytest.mark.parametrize("function", [*FUNCTIONS, *GATED], ids=str)
def test_functions_of_one_float_without_axes(function: Any) -> None:
    operator, attributes, opset = function
    builder = Builder(opset)
    builder.output(builder.node(operator, [builder.input("float32", ())], **attributes), "float32")
    for number in (-0.625, 1.375):
        assert_like_onnxruntime(builder.build(), {"x": np.array(number, np.float32)})


@pytest.mark.parametrize("function", FUNCTIONS, ids=str)
def test_special_numbers(function: Any) -> None:
    operator, attributes, opset = function
    builder = Builder(opset)
    # Zero times an infinity is no number in the formulas of these two; others of them have a limit there.
    special = SPECIAL[:-3] if operator in ("Mish", "Swish") else SPECIAL
    builder.output(builder.node(operator, [builder.input("float32", special.shape)], **attributes), "float32")
    model = builder.build()
    [result] = dmlcpu.InferenceSession(model).run(None, {"x": special})
    [expected] = results_of_onnxruntime(model, {"x": special})
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "operator",
    [
        *("Abs", "HardSwish", "Mish", "Softplus", "Softsign", "Elu", "Celu", "Sign"),
        *("Asin", "Acos", "Atan", "Sinh", "Cosh"),
    ],
)
def test_one_function_is_one_step(operator: str) -> None:
    builder = Builder(18)
    builder.output(builder.node(operator, [builder.input("float32", (3, 50))]), "float32")
    assert steps_of(builder) == ["ELEMENT_WISE_UNARY"]


@pytest.mark.parametrize("operator", ["HardSwish", "Mish", "Softplus", "Softsign", "Elu", "Swish"])
def test_codes_are_no_floats(operator: str) -> None:
    builder = Builder(24)
    builder.output(builder.node(operator, [builder.input("uint8", (3, 5))]), "uint8")
    with pytest.raises(dmlcpu.InvalidModelError, match=operator):
        dmlcpu.InferenceSession(builder.build()).run(None, {"x": np.full((3, 5), 2, np.uint8)})


@pytest.mark.parametrize("operator", ["Asin", "Acos"])
def test_angles_of_numbers_up_to_1(random_numbers: np.random.Generator, operator: str) -> None:
    builder = Builder()
    builder.output(builder.node(operator, [builder.input("float32", (3, 50))]), "float32")
    feed = random_numbers.uniform(-1, 1, (3, 50)).astype(np.float32)
    feed[0, :5] = 1, -1, 0.5, -0.5, -0.0
    assert_like_onnxruntime(builder.build(), {"x": feed})
    [beyond] = dmlcpu.InferenceSession(builder.build()).run(None, {"x": np.full((3, 50), 1.5, np.float32)})
    assert np.isnan(beyond).all()


@pytest.mark.parametrize("exponent", [3, 0.5, -0.5, -1])
def test_one_power_is_one_step(exponent: float) -> None:
    builder = Builder()
    builder.output(builder.node("Pow", [builder.input("float32", (3, 50)), np.float32(exponent)]), "float32")
    assert steps_of(builder) == ["ELEMENT_WISE_UNARY"]


def test_signs_are_those_of_onnx() -> None:
    """A zero stays as it is, and so does what is no number."""
    builder = Builder()
    builder.output(builder.node("Sign", [builder.input("float32", (8,))]), "float32")
    feed = np.float32([0, -0.0, 1e-45, -1e-45, np.inf, -np.inf, np.nan, -3])
    [result] = dmlcpu.InferenceSession(builder.build()).run(None, {"x": feed})
    np.testing.assert_array_equal(result, np.float32([0, -0.0, 1, -1, 1, -1, np.nan, -1]))
    assert [*np.signbit(result[:2])] == [False, True]


def test_distances_to_0_have_no_sign() -> None:
    builder = Builder()
    builder.output(builder.node("Abs", [builder.input("float32", (4,))]), "float32")
    [result] = dmlcpu.InferenceSession(builder.build()).run(None, {"x": np.float32([0, -0.0, -np.inf, np.nan])})
    np.testing.assert_array_equal(result, np.float32([0, 0, np.inf, np.nan]))
    assert not np.signbit(result).any()


@pytest.mark.parametrize("slope", [0.25, 1, 0, -0.25, 3])
@pytest.mark.parametrize("shape", [(1,), (1, 1)], ids=str)
def test_one_slope_is_one_function(slope: float, shape: tuple[int, ...]) -> None:
    builder = Builder()
    x = builder.input("float32", (2, len(SPECIAL)))
    builder.output(builder.node("PRelu", [x, np.full(shape, slope, np.float32)]), "float32")
    feed = np.stack([SPECIAL, np.linspace(-3, 3, len(SPECIAL), dtype=np.float32)])
    if slope == 0:
        feed[np.isinf(feed)] = 5
    model = builder.build()
    session = dmlcpu.InferenceSession(model)
    [result] = session.run(None, {"x": feed})
    [expected] = results_of_onnxruntime(model, {"x": feed})
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(np.signbit(result), np.signbit(expected))
    [part] = session.partitions()
    assert len(part.steps) == 1


def test_one_slope_may_have_more_axes_than_the_floats() -> None:
    builder = Builder()
    x = builder.input("float32", (2, 3))
    builder.output(builder.node("PRelu", [x, np.full((1, 1, 1), 0.25, np.float32)]), "float32")
    feed = np.float32([[-1, 2, -3], [4, -5, 6]])
    [result] = dmlcpu.InferenceSession(builder.build()).run(None, {"x": feed})
    np.testing.assert_array_equal(result, np.where(feed > 0, feed, feed / 4)[np.newaxis])


def test_mish_far_below_zero() -> None:
    """Where the logarithm of 1 + exp(x) would lose all of it."""
    feed = np.linspace(-80, 30, 1001, dtype=np.float32)
    builder = Builder(18)
    builder.output(builder.node("Mish", [builder.input("float32", feed.shape)]), "float32")
    [result] = dmlcpu.InferenceSession(builder.build()).run(None, {"x": feed})
    x = feed.astype(np.float64)
    np.testing.assert_allclose(result, x * np.tanh(np.logaddexp(0, x)), rtol=2e-6)


@pytest.mark.parametrize("exponent", [0.5, -0.5, -1, 1 / 3, -0.7, 2, 3])
def test_powers(random_numbers: np.random.Generator, exponent: float) -> None:
    """Means of powers, such as those of a generalized mean, are no codes."""
    builder = Builder()
    x = builder.input("float32", (3, 50))
    builder.output(builder.node("Pow", [x, np.float32([exponent])]), "float32")
    feed = random_numbers.uniform(1e-3, 9, (3, 50)).astype(np.float32)
    feed[0, :4] = 0, 1, 1e-30, 1e30
    model = builder.build()
    [result] = dmlcpu.InferenceSession(model).run(None, {"x": feed})
    [expected] = results_of_onnxruntime(model, {"x": feed})
    np.testing.assert_allclose(result, expected, rtol=6e-6)
    assert [part.provider for part in dmlcpu.InferenceSession(model).partitions()] == ["dmlcpu"]


@pytest.mark.parametrize("alpha", [None, 0.0, -0.5])
def test_thresholds(random_numbers: np.random.Generator, alpha: float | None) -> None:
    builder = Builder()
    x = builder.input("float32", (3, 50))
    attributes = {} if alpha is None else {"alpha": alpha}
    builder.output(builder.node("ThresholdedRelu", [x], **attributes), "float32")
    feed = random_numbers.normal(size=(3, 50)).astype(np.float32)
    feed[0, :6] = np.nan, np.inf, -np.inf, -0.0, 1.0, -0.5
    session = dmlcpu.InferenceSession(builder.build())
    [result] = session.run(None, {"x": feed})
    [expected] = results_of_onnxruntime(builder.build(), {"x": feed})
    np.testing.assert_array_equal(result.view(np.int32), expected.view(np.int32))
    assert [part.provider for part in session.partitions()] == ["dmlcpu"]


@pytest.mark.parametrize("operator", ["Shrink", "Tan", "Asinh", "Acosh"])
def test_what_is_a_table_alone_is_left_to_onnxruntime_on_floats(
    random_numbers: np.random.Generator, operator: str
) -> None:
    builder = Builder()
    builder.output(builder.node(operator, [builder.input("float32", (3, 5))]), "float32")
    model = builder.build()
    feeds = {"x": 1 + random_numbers.random((3, 5), np.float32)}
    assert_like_onnxruntime(model, feeds, native=False)
    [part] = dmlcpu.InferenceSession(model).partitions()
    assert [*part.reasons.values()] == ["no kernel for it on floats"]


@pytest.mark.parametrize("below", [0, 1])
@pytest.mark.parametrize("above", [0, 1])
@pytest.mark.parametrize("scale", [None, 0.1, 2e38], ids=["floats", "codes", "codes that overflow"])
def test_infinities(below: int, above: int, scale: float | None) -> None:
    builder = Builder(20)
    x = builder.input("float32" if scale is None else "int8", SPECIAL.shape)
    value = x if scale is None else builder.dequantized(x, scale, np.int8(0))
    builder.output(builder.node("IsInf", [value], detect_negative=below, detect_positive=above), "bool")
    feed = SPECIAL if scale is None else np.arange(-6, SPECIAL.size - 6, dtype=np.int8)
    assert_like_onnxruntime(builder.build(), {"x": feed}, equal=True)


@pytest.mark.parametrize("operator", ["Elu", "Selu"])
def test_an_infinite_slope(operator: str) -> None:
    """Is one of what is below 0 alone."""
    builder = Builder()
    builder.output(builder.node(operator, [builder.input("float32", (3,))], alpha=np.inf), "float32")
    feeds = {"x": np.float32([2, 0.5, -1])}
    [result], [expected] = (
        dmlcpu.InferenceSession(builder.build()).run(None, feeds),
        results_of_onnxruntime(builder.build(), feeds),
    )
    np.testing.assert_array_equal(result, expected)
