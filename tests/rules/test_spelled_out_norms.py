"""Normalizations spelled out as nodes, with the mean and without, and what is almost one, beside onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from onnx_models import Builder, assert_like_onnxruntime, coded, codes, floats, steps_of

Array = NDArray[Any]

SHAPE = (2, 9, 24)


def spelled_out_norm(builder: Builder, x: str, weight: Array, bias: Array, square: str) -> str:
    options = {"axes": [-1]} if builder.opset < 18 else {}
    axes = [] if builder.opset < 18 else [np.array([-1], np.int64)]
    distances = builder.node("Sub", [x, builder.node("ReduceMean", [x, *axes], **options)])
    operands = [distances, np.float32(2)] if square == "Pow" else [distances, distances]
    variance = builder.node("ReduceMean", [builder.node(square, operands), *axes], **options)
    deviation = builder.node("Sqrt", [builder.node("Add", [variance, np.float32(1e-5)])])
    scaled = builder.node("Mul", [builder.node("Div", [distances, deviation]), weight])
    result: str = builder.node("Add", [scaled, bias])
    return result


@pytest.mark.parametrize("square", ["Pow", "Mul"])
@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize("is_code", [False, True])
def test_spelled_out_norms(random_numbers: np.random.Generator, square: str, opset: int, is_code: bool) -> None:
    builder = Builder(opset)
    x = builder.input("uint8" if is_code else "float32", SHAPE)
    feed = codes(random_numbers, "uint8", SHAPE) if is_code else 3 * floats(random_numbers, SHAPE)
    value = builder.dequantized(x, 0.04, np.uint8(100)) if is_code else x
    weight, bias = floats(random_numbers, SHAPE[-1:]), floats(random_numbers, SHAPE[-1:])
    result = spelled_out_norm(builder, value, weight, bias, square)
    builder.output(builder.quantized(result, 0.05, np.uint8(120)) if is_code else result, feed.dtype)
    assert_like_onnxruntime(builder.build(), {"x": feed}, 1)
    assert steps_of(builder) == ["QUANTIZED_LAYER_NORMALIZATION" if is_code else "LAYER_NORMALIZATION"]


@pytest.mark.parametrize("read", range(7))
def test_steps_of_norms_that_are_read_besides(random_numbers: np.random.Generator, read: int) -> None:
    """Every value on the way, as an output of the model."""
    builder = Builder()
    x = builder.input("float32", SHAPE)
    weight, bias = floats(random_numbers, SHAPE[-1:]), floats(random_numbers, SHAPE[-1:])
    result = spelled_out_norm(builder, x, weight, bias, "Pow")
    builder.output(result, "float32")
    builder.output(builder.nodes[read].output[0], "float32")
    assert_like_onnxruntime(builder.build(), {"x": floats(random_numbers, SHAPE)})


@pytest.mark.parametrize("changed", ["other x", "axis", "exponent", "vector"])
def test_almost_norms(random_numbers: np.random.Generator, changed: str) -> None:
    """Nodes like those of a norm, which are none."""
    builder = Builder()
    x, y = builder.input("float32", SHAPE), builder.input("float32", SHAPE, "y")
    mean = builder.node("ReduceMean", [x], axes=[-1])
    distances = builder.node("Sub", [y if changed == "other x" else x, mean])
    squares = builder.node("Pow", [distances, np.float32(2)])
    if changed == "exponent":
        squares = builder.node("Mul", [distances, x])
    variance = builder.node("ReduceMean", [squares], axes=[1 if changed == "axis" else -1])
    epsilon = np.full(SHAPE[-1], 900, np.float32) if changed == "vector" else np.float32(900)
    deviation = builder.node("Sqrt", [builder.node("Add", [variance, epsilon])])
    builder.output(builder.node("Div", [distances, deviation]), "float32")
    feeds = {"x": floats(random_numbers, SHAPE), "y": floats(random_numbers, SHAPE)}
    assert_like_onnxruntime(builder.build(), feeds)
    # What is no distance to its own mean is over the root of its mean square, if anything.
    assert ("LAYER_NORMALIZATION" in steps_of(builder)) == (changed == "other x")


@pytest.mark.parametrize("changed", ["means without their axis", "a variance about other means"])
def test_what_is_no_norm_by_its_axes(random_numbers: np.random.Generator, changed: str) -> None:
    """As many rows as columns fit whichever axis is meant."""
    builder = Builder()
    x = builder.input("float32", (6, 6))
    keepdims = int(changed != "means without their axis")
    of_rows = builder.node("Sub", [x, builder.node("ReduceMean", [x], axes=[-1], keepdims=keepdims)])
    distances, axes = of_rows, [-1]
    if changed == "a variance about other means":
        distances, axes = builder.node("Sub", [x, builder.node("ReduceMean", [x], axes=[0, 1])]), [0, 1]
    variance = builder.node("ReduceMean", [builder.node("Mul", [of_rows, of_rows])], axes=axes)
    deviation = builder.node("Sqrt", [builder.node("Add", [variance, np.float32(0.5)])])
    builder.output(builder.node("Div", [distances, deviation]), "float32")
    assert_like_onnxruntime(builder.build(), {"x": floats(random_numbers, (6, 6))})


@pytest.mark.parametrize("scale", [0.03, 0.05])
def test_norms_of_codes_that_are_dequantized_twice(random_numbers: np.random.Generator, scale: float) -> None:
    """By another scale they are no distance from their own mean."""
    builder = Builder()
    x = builder.input("uint8", SHAPE)
    value, other = (builder.node("Neg", [builder.dequantized(x, each, np.uint8(128))]) for each in (0.03, scale))
    distances = builder.node("Sub", [other, builder.node("ReduceMean", [value], axes=[-1])])
    variance = builder.node("ReduceMean", [builder.node("Mul", [distances, distances])], axes=[-1])
    deviation = builder.node("Sqrt", [builder.node("Add", [variance, np.float32(0.1)])])
    builder.output(builder.node("Div", [distances, deviation]), "float32")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", SHAPE)})
    assert ("REDUCE_MEAN" in steps_of(builder)) == (scale != 0.03)


@pytest.mark.parametrize(
    ("of_distances", "of_squares", "of_variance"),
    [([1, 2], [1, 2], [2]), ([2], [2], [1, 2]), ([1, 2], [2], [2]), ([2], [1, 2], [1, 2])],
)
@pytest.mark.parametrize("is_code", [False, True])
def test_norms_over_several_axes(
    random_numbers: np.random.Generator,
    of_distances: list[int],
    of_squares: list[int],
    of_variance: list[int],
    is_code: bool,
) -> None:
    """Distances to a mean over other axes than the variance, or than the mean within it, are no norm."""
    builder = Builder()
    x = builder.input("uint8" if is_code else "float32", SHAPE)
    value = builder.dequantized(x, 0.04, np.uint8(100)) if is_code else x
    means = [builder.node("ReduceMean", [value], axes=axes) for axes in (of_distances, of_squares)]
    distances, others = (builder.node("Sub", [value, mean]) for mean in means)
    variance = builder.node("ReduceMean", [builder.node("Mul", [others, others])], axes=of_variance)
    deviation = builder.node("Sqrt", [builder.node("Add", [variance, np.float32(1e-5)])])
    builder.output(builder.node("Div", [distances, deviation]), "float32")
    feed = codes(random_numbers, "uint8", SHAPE) if is_code else 3 * floats(random_numbers, SHAPE)
    assert_like_onnxruntime(builder.build(), {"x": feed})


def spelled_out_root_mean_square(builder: Builder, x: str, weight: Array, square: str, over: str) -> str:
    """A normalization without the mean, as Llama and T5 have it; the last node but one is the quotient."""
    squares = builder.node("Pow", [x, np.float32(2)]) if square == "Pow" else builder.node("Mul", [x, x])
    mean = builder.node("ReduceMean", [squares], axes=[-1])
    root = builder.node("Sqrt", [builder.node("Add", [mean, np.float32(1e-3)])])
    if over == "x":
        result = builder.node("Div", [x, root])
    else:
        inverse = builder.node("Div", [np.float32(1), root]) if over == "1" else builder.node("Reciprocal", [root])
        result = builder.node("Mul", [inverse, x] if over == "1" else [x, inverse])
    return str(builder.node("Mul", [weight, result]))


@pytest.mark.parametrize("square", ["Pow", "Mul"])
@pytest.mark.parametrize("over", ["x", "1", "reciprocal"])
@pytest.mark.parametrize("form", ["floats", "computed", "codes"])
def test_norms_without_the_mean(random_numbers: np.random.Generator, square: str, over: str, form: str) -> None:
    builder = Builder()
    x = builder.input("float32", SHAPE)
    value = builder.node("Exp", [x]) if form == "computed" else coded(builder, x) if form == "codes" else x
    weight = floats(random_numbers, SHAPE[-1:])
    builder.output(spelled_out_root_mean_square(builder, value, weight, square, over), "float32")
    assert_like_onnxruntime(builder.build(), {"x": floats(random_numbers, SHAPE)})
    if form != "codes":
        assert steps_of(builder) == [*["ELEMENT_WISE_UNARY"] * (form == "computed"), "LAYER_NORMALIZATION"]


@pytest.mark.parametrize("read", range(1, 7))
def test_norms_without_the_mean_whose_steps_are_read(random_numbers: np.random.Generator, read: int) -> None:
    builder = Builder()
    x = builder.input("float32", SHAPE)
    result = spelled_out_root_mean_square(builder, x, floats(random_numbers, SHAPE[-1:]), "Pow", "1")
    builder.output(result, "float32")
    builder.output(builder.nodes[read - 1].output[0], "float32")
    assert_like_onnxruntime(builder.build(), {"x": floats(random_numbers, SHAPE)})


@pytest.mark.parametrize("changed", ["other x", "axis", "cube", "vector", "two over it", "root over x"])
def test_almost_norms_without_the_mean(random_numbers: np.random.Generator, changed: str) -> None:
    builder = Builder()
    x, y = builder.input("float32", SHAPE), builder.input("float32", SHAPE, "y")
    squares = builder.node("Pow", [x, np.float32(3 if changed == "cube" else 2)])
    mean = builder.node("ReduceMean", [squares], axes=[1 if changed == "axis" else -1])
    epsilon = np.full(SHAPE[-1], 900, np.float32) if changed == "vector" else np.float32(900)
    root = builder.node("Sqrt", [builder.node("Add", [mean, epsilon])])
    if changed == "root over x":
        result = builder.node("Div", [root, x])
    elif changed == "two over it":
        result = builder.node("Mul", [x, builder.node("Div", [np.float32(2), root])])
    else:
        result = builder.node("Div", [y if changed == "other x" else x, root])
    builder.output(result, "float32")
    feeds = {"x": 1 + np.abs(floats(random_numbers, SHAPE)), "y": floats(random_numbers, SHAPE)}
    assert_like_onnxruntime(builder.build(), feeds)
    assert "LAYER_NORMALIZATION" not in steps_of(builder)


@pytest.mark.parametrize("exponent", [2, 3])
@pytest.mark.parametrize("of_codes", [True, False])
def test_exponents_of_more_axes(random_numbers: np.random.Generator, exponent: int, of_codes: bool) -> None:
    """They give them to the result, where no function is recognised then."""
    builder = Builder()
    x = builder.input("float32", (2, 3))
    feeds = {"x": floats(random_numbers, (2, 3))}
    value = builder.dequantized(builder.quantized(x, 0.05, np.uint8(128)), 0.05, np.uint8(128)) if of_codes else x
    powers = builder.node("Pow", [value, np.full((1, 1, 1), exponent, np.float32)])
    mean = builder.node("ReduceMean", [powers], axes=[-1])
    builder.output(powers, "float32")
    builder.output(builder.node("Mul", [mean, np.float32(3)]), "float32")
    assert_like_onnxruntime(builder.build(), feeds, native=False)


def test_norms_with_an_exponent_of_more_axes(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    x = builder.input("float32", (2, 3))
    mean = builder.node("ReduceMean", [builder.node("Pow", [x, np.full((1, 1, 1), 2, np.float32)])], axes=[-1])
    root = builder.node("Sqrt", [builder.node("Add", [mean, np.float32(900)])])
    builder.output(builder.node("Div", [x, root]), "float32")
    assert_like_onnxruntime(builder.build(), {"x": floats(random_numbers, (2, 3))}, native=False)
