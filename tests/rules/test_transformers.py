"""What transformer models are made of, beside onnxruntime: attention, GELU, dynamic quantization, spelled-out norms."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from onnx_models import POINT, Builder, assert_like_onnxruntime, coded, codes, results_of_onnxruntime, steps_of

Array = NDArray[Any]

SHAPE = (2, 9, 24)
ROOT_2 = np.float32(np.sqrt(2))


def normal_floats(rng: np.random.Generator, shape: tuple[int, ...], size: float = 1) -> Array:
    return rng.normal(0, size, shape).astype(np.float32)


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
    feed = codes(random_numbers, "uint8", SHAPE) if is_code else normal_floats(random_numbers, SHAPE, 3)
    value = builder.dequantized(x, 0.04, np.uint8(100)) if is_code else x
    weight, bias = normal_floats(random_numbers, SHAPE[-1:]), normal_floats(random_numbers, SHAPE[-1:])
    result = spelled_out_norm(builder, value, weight, bias, square)
    builder.output(builder.quantized(result, 0.05, np.uint8(120)) if is_code else result, feed.dtype)
    assert_like_onnxruntime(builder.build(), {"x": feed}, 1)
    assert steps_of(builder) == ["QUANTIZED_LAYER_NORMALIZATION" if is_code else "LAYER_NORMALIZATION"]


@pytest.mark.parametrize("read", range(7))
def test_steps_of_norms_that_are_read_besides(random_numbers: np.random.Generator, read: int) -> None:
    """Every value on the way, as an output of the model."""
    builder = Builder()
    x = builder.input("float32", SHAPE)
    weight, bias = normal_floats(random_numbers, SHAPE[-1:]), normal_floats(random_numbers, SHAPE[-1:])
    result = spelled_out_norm(builder, x, weight, bias, "Pow")
    builder.output(result, "float32")
    builder.output(builder.nodes[read].output[0], "float32")
    assert_like_onnxruntime(builder.build(), {"x": normal_floats(random_numbers, SHAPE)})


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
    feeds = {"x": normal_floats(random_numbers, SHAPE), "y": normal_floats(random_numbers, SHAPE)}
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
    assert_like_onnxruntime(builder.build(), {"x": normal_floats(random_numbers, (6, 6))})


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
    feed = codes(random_numbers, "uint8", SHAPE) if is_code else normal_floats(random_numbers, SHAPE, 3)
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
    weight = normal_floats(random_numbers, SHAPE[-1:])
    builder.output(spelled_out_root_mean_square(builder, value, weight, square, over), "float32")
    assert_like_onnxruntime(builder.build(), {"x": normal_floats(random_numbers, SHAPE)})
    if form != "codes":
        assert steps_of(builder) == [*["ELEMENT_WISE_UNARY"] * (form == "computed"), "LAYER_NORMALIZATION"]


@pytest.mark.parametrize("read", range(1, 7))
def test_norms_without_the_mean_whose_steps_are_read(random_numbers: np.random.Generator, read: int) -> None:
    builder = Builder()
    x = builder.input("float32", SHAPE)
    result = spelled_out_root_mean_square(builder, x, normal_floats(random_numbers, SHAPE[-1:]), "Pow", "1")
    builder.output(result, "float32")
    builder.output(builder.nodes[read - 1].output[0], "float32")
    assert_like_onnxruntime(builder.build(), {"x": normal_floats(random_numbers, SHAPE)})


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
    feeds = {"x": 1 + np.abs(normal_floats(random_numbers, SHAPE)), "y": normal_floats(random_numbers, SHAPE)}
    assert_like_onnxruntime(builder.build(), feeds)
    assert "LAYER_NORMALIZATION" not in steps_of(builder)


@pytest.mark.parametrize("axes", [[1], [0, 1], [-1], [1, 2], [0, 1, 2]])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_means_of_floats(random_numbers: np.random.Generator, axes: list[int], keepdims: int) -> None:
    builder = Builder()
    result = builder.node("ReduceMean", [builder.input("float32", SHAPE)], axes=axes, keepdims=keepdims)
    builder.output(result, "float32")
    assert_like_onnxruntime(builder.build(), {"x": normal_floats(random_numbers, SHAPE)})


def gelu(builder: Builder, x: str, form: str) -> str:
    erf = builder.node("Erf", [builder.node("Div", [x, ROOT_2])])
    sum_ = builder.node("Add", [erf, np.float32(1)])
    result: str
    if form == "half first":
        result = builder.node("Mul", [builder.node("Mul", [x, np.float32(0.5)]), sum_])
    else:
        result = builder.node("Mul", [builder.node("Mul", [x, sum_]), np.float32(0.5)])
    return result


@pytest.mark.parametrize("form", ["half first", "half last"])
def test_gelu_of_floats(random_numbers: np.random.Generator, form: str) -> None:
    builder = Builder()
    builder.output(gelu(builder, builder.input("float32", SHAPE), form), "float32")
    assert_like_onnxruntime(builder.build(), {"x": normal_floats(random_numbers, SHAPE, 2)})
    assert steps_of(builder) == ["ELEMENT_WISE_UNARY"]


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


@pytest.mark.parametrize("form", TANH_FORMS)
def test_gelu_by_tanh_of_floats(random_numbers: np.random.Generator, form: str) -> None:
    builder = Builder()
    builder.output(gelu_by_tanh(builder, builder.input("float32", SHAPE), form), "float32")
    assert_like_onnxruntime(builder.build(), {"x": normal_floats(random_numbers, SHAPE, 2)})
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
    feeds = {"x": normal_floats(random_numbers, SHAPE, 2)}
    if change == "another x":
        feeds["other"] = normal_floats(random_numbers, SHAPE, 2)
    if change == "cube read":
        builder.output(cube, "float32")
    assert_like_onnxruntime(builder.build(), feeds)
    steps = steps_of(builder)
    assert len(steps) == {"cube read": 3, "fourth power": 10, "reciprocal": 8}.get(change, 9), steps


def test_gelu_nodes_of_floats(random_numbers: np.random.Generator) -> None:
    builder = Builder(20)
    builder.output(builder.node("Gelu", [builder.input("float32", SHAPE)]), "float32")
    assert_like_onnxruntime(builder.build(), {"x": normal_floats(random_numbers, SHAPE, 2)})
    assert steps_of(builder) == ["ELEMENT_WISE_UNARY"]


def test_gelu_of_codes(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    value = builder.dequantized(builder.input("uint8", SHAPE), 0.03, np.uint8(120))
    builder.output(builder.quantized(gelu(builder, value, "half last"), 0.02, np.uint8(10)), "uint8")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", SHAPE)})
    assert steps_of(builder) == ["CODE_TABLE"]


@pytest.mark.parametrize("shapes", [((5, 7), (7, 6)), ((2, 5, 7), (7, 70)), ((2, 3, 5, 150), (2, 1, 150, 6))])
@pytest.mark.parametrize("transposed", [False, True])
def test_products_of_floats(
    random_numbers: np.random.Generator, shapes: tuple[tuple[int, ...], tuple[int, ...]], transposed: bool
) -> None:
    a_shape, b_shape = shapes
    given = (*b_shape[:-2], b_shape[-1], b_shape[-2]) if transposed else b_shape
    builder = Builder()
    b = builder.input("float32", given, "b")
    if transposed:
        order = [*range(len(given) - 2), len(given) - 1, len(given) - 2]
        b = builder.node("Transpose", [b], perm=order)
    builder.output(builder.node("MatMul", [builder.input("float32", a_shape, "a"), b]), "float32")
    assert_like_onnxruntime(
        builder.build(), {"a": normal_floats(random_numbers, a_shape), "b": normal_floats(random_numbers, given)}
    )
    assert steps_of(builder) == ["FLOAT_PRODUCT"]


@pytest.mark.parametrize("form", ["one scale", "of columns", "no bias", "bias first", "sums are read", "read twice"])
def test_dynamically_quantized_products(random_numbers: np.random.Generator, form: str) -> None:
    """Codes are inputs here: onnxruntime's dynamic quantization rounds otherwise."""
    w = codes(random_numbers, "int8", (24, 6))
    scales = random_numbers.uniform(0.01, 0.02, 6).astype(np.float32) if form == "of columns" else np.float32(0.01)
    builder = Builder()
    x, scale = builder.input("uint8", SHAPE), builder.input("float32", [], "s")
    product = builder.node("MatMulInteger", [x, w, np.uint8(99), np.int8(0)])
    cast = builder.node("Cast", [product], to=1)
    result = builder.node("Mul", [builder.node("Mul", [scale, scales]), cast])
    if form != "no bias":
        operands = [normal_floats(random_numbers, (6,)), result]
        result = builder.node("Add", operands if form == "bias first" else operands[::-1])
    builder.output(result, "float32")
    if form == "sums are read":
        builder.output(product, "int32")
    if form == "read twice":
        builder.output(builder.node("Relu", [cast]), "float32")
    feeds = {"x": codes(random_numbers, "uint8", SHAPE), "s": np.array(0.03, np.float32)}
    assert_like_onnxruntime(builder.build(), feeds)
    steps = steps_of(builder)
    if form == "sums are read":
        assert {"MATRIX_MULTIPLY_INTEGER", "CAST"} <= set(steps)
    elif form != "read twice":
        assert steps == ["ELEMENT_WISE_BINARY", "MATRIX_MULTIPLY_INTEGER_TO_FLOAT"]


def test_what_is_moved_and_read_is_computed_once(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    x = builder.input("uint8", (5, 24))
    product = builder.node(
        "MatMul",
        [
            builder.dequantized(x, 0.02, np.uint8(99)),
            builder.dequantized(codes(random_numbers, "int8", (24, 6)), 0.01, np.int8(0)),
        ],
    )
    builder.output(product, "float32")
    builder.output(builder.node("Relu", [product]), "float32")
    builder.output(builder.node("Reshape", [product, np.array([6, 5], np.int64)]), "float32")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", (5, 24))})
    assert steps_of(builder).count("MATRIX_MULTIPLY_INTEGER_TO_FLOAT") == 1


@pytest.mark.parametrize("exponent", [2, 3])
@pytest.mark.parametrize("of_codes", [True, False])
def test_exponents_of_more_axes(random_numbers: np.random.Generator, exponent: int, of_codes: bool) -> None:
    """They give them to the result, where no function is recognised then."""
    builder = Builder()
    x = builder.input("float32", (2, 3))
    feeds = {"x": normal_floats(random_numbers, (2, 3))}
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
    assert_like_onnxruntime(builder.build(), {"x": normal_floats(random_numbers, (2, 3))}, native=False)


LONG: Final = {
    "squares": lambda builder, value: builder.node("Mul", [value, value]),
    "products": lambda builder, value: builder.node("Mul", [value, np.float32(1.001)]),
    "quotients": lambda builder, value: builder.node("Relu", [builder.node("Div", [value, np.float32(1.01)])]),
    "means": lambda builder, value: builder.node("Add", [builder.node("ReduceMean", [value], axes=[1]), value]),
    "normalized codes": lambda builder, value: builder.node(
        "BatchNormalization",
        [
            value if builder.nodes else builder.dequantized(builder.quantized(value, 0.05, POINT), 0.05, POINT),
            *(np.linspace(0.99, 1.01, 4, dtype=np.float32),) * 2,
            np.zeros(4, np.float32),
            np.ones(4, np.float32),
        ],
    ),
    "moved": lambda builder, value: builder.node("Transpose", [builder.node("Mul", [value, np.float32(0.99)])]),
}


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("length", ["2", "n"])
def test_long_chains(random_numbers: np.random.Generator, name: str, length: str) -> None:
    """None of their values waits for all before it."""
    builder = Builder()
    value = builder.input("float32", (int(length) if length == "2" else length, 4))
    for _ in range(400):
        value = LONG[name](builder, value)
    builder.output(value, "float32")
    model, x = builder.build(), (1 + random_numbers.random((2, 4)) / 1e3).astype(np.float32)
    with np.errstate(all="ignore"):
        expected = results_of_onnxruntime(model, {"x": x})
    for ours, theirs in zip(dmlcpu.InferenceSession(model).run(None, {"x": x}), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3)
