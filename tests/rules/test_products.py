"""The rules of convolutions and matrix products, in both quantized forms, beside onnxruntime.

They differ by one code at most, as test_rules says.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import dmlcpu
from onnx_cases import POINTS, SCALE, TYPES
from onnx_models import Builder, assert_like_onnxruntime, codes, results_of_onnxruntime

CONVOLUTIONS: Final = {
    "pointwise": ((2, 8, 5, 4), (6, 8, 1, 1), {}),
    "square": ((1, 5, 9, 8), (7, 5, 3, 3), {"pads": [1, 1, 1, 1]}),
    "strided": ((2, 3, 11, 9), (4, 3, 3, 2), {"strides": [2, 3], "pads": [0, 1, 2, 0], "dilations": [2, 1]}),
    "depthwise": ((2, 6, 7, 7), (6, 1, 3, 3), {"group": 6, "auto_pad": "SAME_UPPER"}),
    "grouped": ((1, 8, 5, 5), (12, 2, 3, 3), {"group": 4}),
    "1-D": ((2, 5, 17), (4, 5, 3), {"pads": [1, 1], "strides": [2]}),
    "1-D depthwise": ((2, 5, 17), (5, 1, 3), {"group": 5}),
}


@pytest.mark.parametrize("shapes", CONVOLUTIONS, ids=repr)
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize(("x_type", "w_type"), [(x, w) for x in TYPES for w in TYPES])
def test_convolutions(
    random_numbers: np.random.Generator, shapes: str, per_channel: bool, x_type: str, w_type: str
) -> None:
    x_shape, w_shape, attributes = CONVOLUTIONS[shapes]
    x, w = codes(random_numbers, x_type, x_shape), codes(random_numbers, w_type, w_shape)
    count = w_shape[0]
    scales = random_numbers.uniform(0.001, 0.01, count).astype(np.float32) if per_channel else np.float32(0.004)
    # onnxruntime's integer convolutions take UINT8 filters with a zero point, INT8 ones by channel with none.
    points = np.zeros(count, w_type) if per_channel else np.array(0 if w_type == "int8" else 131, w_type)
    bias = random_numbers.integers(-9999, 9999, count, np.int32)
    point, y_scale = POINTS[x_type], np.array(0.9, np.float32)

    builder = Builder()
    value = builder.dequantized(builder.input(x_type, x_shape), SCALE, point)
    weights = builder.dequantized(w, scales, points, axis=0)
    unit = (np.float32(SCALE) * scales).astype(np.float32)
    biases = builder.dequantized(bias, unit, np.zeros(unit.shape, np.int32), axis=0)
    result = builder.node("Conv", [value, weights, biases], **attributes)
    builder.output(builder.quantized(result, y_scale, point), x_type)
    builder.output(result, "float32")
    assert_like_onnxruntime(builder.build(), {"x": x}, 1)

    if (x_type, w_type) == ("int8", "uint8"):
        return  # onnxruntime has no such convolution of codes
    for computed in (False, True):
        builder = Builder()
        name = builder.input(x_type, x_shape)
        filter_name = builder.input(w_type, w_shape, "w") if computed else builder.constant(w)
        feeds = {"x": x, "w": w} if computed else {"x": x}
        if computed:
            builder.input("float32", [], "s")
            feeds["s"] = y_scale
        operands = [
            name,
            np.float32(SCALE),
            point,
            filter_name,
            scales,
            points,
            "s" if computed else y_scale,
            point,
            bias,
        ]
        builder.output(builder.node("QLinearConv", operands, **attributes), x_type)
        assert_like_onnxruntime(builder.build(), feeds, 1)
        if not per_channel and x_type == "uint8":
            builder = Builder()
            name = builder.input(x_type, x_shape)
            filter_name = builder.input(w_type, w_shape, "w") if computed else builder.constant(w)
            builder.output(builder.node("ConvInteger", [name, filter_name, point, points], **attributes), "int32")
            assert_like_onnxruntime(builder.build(), {"x": x, "w": w} if computed else {"x": x})


def test_filters_with_scales_along_the_input_channels(random_numbers: np.random.Generator) -> None:
    """As many as output channels: no kernel of codes scales inputs."""
    x, w = codes(random_numbers, "uint8", (1, 5, 6, 6)), codes(random_numbers, "int8", (5, 5, 3, 3))
    scales = random_numbers.uniform(0.001, 0.01, 5).astype(np.float32)
    builder = Builder()
    value = builder.dequantized(builder.input("uint8", x.shape), SCALE, POINTS["uint8"])
    weights = builder.dequantized(w, scales, np.zeros(5, np.int8), axis=1)
    builder.output(builder.node("Conv", [value, weights]), "float32")
    assert_like_onnxruntime(builder.build(), {"x": x}, native=False)


def test_biases_with_a_zero_point(random_numbers: np.random.Generator) -> None:
    """They are what they are without one."""
    x, w = codes(random_numbers, "uint8", (1, 5, 6, 6)), codes(random_numbers, "int8", (4, 5, 3, 3))
    bias = random_numbers.integers(-9999, 9999, 4, np.int32)
    results = []
    for point in (0, 5000):
        builder = Builder()
        value = builder.dequantized(builder.input("uint8", x.shape), SCALE, POINTS["uint8"])
        weights = builder.dequantized(w, 0.004, np.int8(0))
        addend = builder.dequantized(bias + point, np.float32(SCALE) * np.float32(0.004), np.int32(point))
        builder.output(builder.node("Conv", [value, weights, addend]), "float32")
        results += dmlcpu.InferenceSession(builder.build()).run(None, {"x": x})
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize(("a_type", "b_type"), [("uint8", "uint8"), ("uint8", "int8"), ("int8", "int8")])
@pytest.mark.parametrize("shapes", [((5, 7), (7, 6)), ((2, 5, 7), (7, 6)), ((2, 3, 5, 7), (2, 1, 7, 6))])
@pytest.mark.parametrize("per_column", [False, True])
def test_matrix_products(
    random_numbers: np.random.Generator,
    a_type: str,
    b_type: str,
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
    per_column: bool,
) -> None:
    a, b = (codes(random_numbers, dtype, shape) for dtype, shape in zip((a_type, b_type), shapes, strict=True))
    columns = b.shape[-1]
    scales = random_numbers.uniform(0.001, 0.01, columns).astype(np.float32) if per_column else np.float32(0.004)
    points = np.full(columns, 3, b_type) if per_column else np.array(3, b_type)
    point, y_scale = POINTS[a_type], np.float32(0.4)

    builder = Builder()
    left = builder.dequantized(builder.input(a_type, a.shape, "a"), SCALE, point)
    result = builder.node("MatMul", [left, builder.dequantized(b, scales, points, axis=b.ndim - 1)])
    builder.output(builder.quantized(result, y_scale, point), a_type)
    builder.output(result, "float32")
    assert_like_onnxruntime(builder.build(), {"a": a}, 1)

    if b.ndim > 2 and per_column:
        return  # scales of such operands have more axes
    builder = Builder()
    operands = [builder.input(a_type, a.shape, "a"), np.float32(SCALE), point, b, scales, points, y_scale, point]
    builder.output(builder.node("QLinearMatMul", operands), a_type)
    assert_like_onnxruntime(builder.build(), {"a": a}, 1)
    builder = Builder()
    builder.output(builder.node("MatMulInteger", [builder.input(a_type, a.shape, "a"), b, point, points]), "int32")
    assert_like_onnxruntime(builder.build(), {"a": a})
    bias = random_numbers.normal(size=columns).astype(np.float32)
    builder = Builder()
    operands = [builder.input(a_type, a.shape, "a"), b, np.float32(SCALE), scales, point, points, bias]
    builder.output(builder.node("com.microsoft.MatMulIntegerToFloat", operands), "float32")
    assert_like_onnxruntime(builder.build(), {"a": a})


@pytest.mark.parametrize("per_column", [False, True])
@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("with_scale", [False, True])
def test_gemm(random_numbers: np.random.Generator, per_column: bool, transposed: int, with_scale: bool) -> None:
    a, b = codes(random_numbers, "uint8", (5, 7)), codes(random_numbers, "int8", (6, 7) if transposed else (7, 6))
    scales = random_numbers.uniform(0.001, 0.01, 6).astype(np.float32) if per_column else np.float32(0.004)
    points = np.zeros(6, np.int8) if per_column else np.int8(0)
    bias, point = random_numbers.integers(-9999, 9999, 6, np.int32), POINTS["uint8"]
    builder = Builder()
    operands: list[Any] = [builder.input("uint8", (5, 7)), np.float32(SCALE), point, b, scales, points, bias]
    operands += [np.float32(0.4), point] if with_scale else []
    builder.output(
        builder.node("com.microsoft.QGemm", operands, transB=transposed), "uint8" if with_scale else "float32"
    )
    assert_like_onnxruntime(builder.build(), {"x": a}, 1)

    builder = Builder()
    value = builder.dequantized(builder.input("uint8", (5, 7)), SCALE, point)
    matrix = builder.dequantized(b, scales, points, axis=1 - transposed)
    unit = (np.float32(SCALE) * scales).astype(np.float32)
    biases = builder.dequantized(bias, unit, np.zeros(unit.shape, np.int32), axis=0)
    result = builder.node("Gemm", [value, matrix, biases], transB=transposed)
    if with_scale:
        builder.output(builder.quantized(result, 0.4, point), "uint8")
    else:
        builder.output(result, "float32")
    assert_like_onnxruntime(builder.build(), {"x": a}, 1)


@pytest.mark.parametrize("form", ["normal", "positive", "negative", "zeros", "one", "tiny"])
def test_dynamic_quantization(random_numbers: np.random.Generator, form: str) -> None:
    """As ONNX says, not as DirectML's operator does it: scales, codes and sums are onnxruntime's, bit for bit."""
    w = codes(random_numbers, "int8", (6, 4))
    builder = Builder()
    quantized, scale, point = builder.node("DynamicQuantizeLinear", [builder.input("float32", ("n", 6))], count=3)
    product = builder.node("MatMulInteger", [quantized, w, point, np.int8(2)])
    floats = builder.node("Mul", [builder.node("Cast", [product], to=1), scale])
    for name, dtype in ((quantized, "uint8"), (point, "uint8"), (scale, "float32"), (floats, "float32")):
        builder.output(name, dtype)
    session = dmlcpu.InferenceSession(builder.build())
    for _ in range(40):
        x = random_numbers.normal(size=(5, 6)) * 10 ** random_numbers.uniform(-3, 3)
        one, tiny = np.full_like(x, x[0, 0]), x * 1e-35
        forms = {"positive": np.abs(x), "negative": -np.abs(x), "zeros": 0 * x, "one": one, "tiny": tiny}
        feeds = {"x": forms.get(form, x).astype(np.float32)}
        expected = results_of_onnxruntime(builder.build(), feeds)
        for result, wanted in zip(session.run(None, feeds), expected, strict=True):
            assert result.tobytes() == wanted.tobytes()
    assert [part.provider for part in session.partitions({"x": (5, 6)})] == ["dmlcpu"]


def test_biases_of_integers(random_numbers: np.random.Generator) -> None:
    """As early tools for dynamic quantization left them: divided by the scale of the sums, rounded down and added."""
    bias = random_numbers.normal(0, 3, 4).astype(np.float32)
    builder = Builder()
    scale = builder.input("float32", [], "scale")
    sums = builder.node(
        "ConvInteger", [builder.input("uint8", (1, 3, 9, 9)), codes(random_numbers, "int8", (4, 3, 3, 3))]
    )
    whole = builder.node("Cast", [builder.node("Floor", [builder.node("Div", [bias, scale])])], to=6)
    biased = builder.node("Add", [sums, builder.node("Reshape", [whole, np.array([1, 4, 1, 1])])])
    builder.output(builder.node("Mul", [builder.node("Cast", [biased], to=1), scale]), "float32")
    feeds = {"scale": np.array(0.0173, np.float32), "x": codes(random_numbers, "uint8", (1, 3, 9, 9))}
    assert_like_onnxruntime(builder.build(), feeds, equal=True)


@pytest.mark.parametrize("function", ["Where", "Relu", "Clip"])
@pytest.mark.parametrize("reader", ["caller", "Cast", "scaled", "DequantizeLinear"])
def test_functions_of_integer_sums(random_numbers: np.random.Generator, function: str, reader: str) -> None:
    """They are INT32 as the sums are."""
    builder = Builder()
    sums = builder.node("MatMulInteger", [builder.input("uint8", (2, 3)), codes(random_numbers, "int8", (3, 4))])
    if function == "Where":
        result = builder.node("Where", [np.array([[True, False, True, True]]), sums, np.int32(7)])
    else:
        result = builder.node(function, [sums, *([np.int32(-500)] if function == "Clip" else [])])
    if reader == "DequantizeLinear":
        result = builder.node("DequantizeLinear", [result, np.float32(0.1)])
    elif reader != "caller":
        result = builder.node("Cast", [result], to=1)
    if reader == "scaled":
        result = builder.node("Mul", [result, np.float32(0.1)])
    builder.output(result, "int32" if reader == "caller" else "float32")
    feeds = {"x": codes(random_numbers, "uint8", (2, 3))}
    is_native = function == "Where" and reader != "DequantizeLinear"
    assert_like_onnxruntime(builder.build(), feeds, native=is_native, equal=True)


QUERIES: Final = 2 * 3 * 8
KEYS: Final = 2 * 40 * 8


@pytest.mark.parametrize(
    ("of_a", "of_b", "read_again", "multiplied"),
    [
        (None, None, False, []),
        (None, 1.0, False, []),
        (1.0, None, False, []),
        (0.125, None, False, [QUERIES]),  # it is the smaller one's already
        (None, 0.3, False, [QUERIES]),
        (0.3, -3.5, False, [QUERIES]),
        (None, 0.3, True, [QUERIES, KEYS]),
        (None, 1e30, False, [KEYS]),  # a's elements would become too large
    ],
)
def test_factors_of_the_larger_operand(
    random_numbers: np.random.Generator,
    of_a: float | None,
    of_b: float | None,
    read_again: bool,
    multiplied: list[int],
) -> None:
    """Keys that are multiplied by a number are not: the queries, which are fewer, are."""
    builder = Builder()
    operands = [builder.input("float32", (2, 3, 8), "a"), builder.input("float32", (2, 40, 8), "b")]
    operands[1] = builder.node("Transpose", [operands[1]], perm=[0, 2, 1])
    for index, factor in enumerate((of_a, of_b)):
        if factor is not None:
            operands[index] = builder.node("Mul", [operands[index], builder.constant(np.float32(factor))])
    builder.output(builder.node("MatMul", operands), "float32")
    if read_again:
        builder.output(operands[1], "float32")
    feeds = {
        name: random_numbers.standard_normal(shape, np.float32) for name, shape in (("a", (2, 3, 8)), ("b", (2, 40, 8)))
    }
    session = dmlcpu.InferenceSession(builder.build())
    expected = (
        (of_a or 1) * feeds["a"].astype(np.float64) @ ((of_b or 1) * feeds["b"].astype(np.float64).swapaxes(1, 2))
    )
    product, *others = session.run(None, feeds)
    np.testing.assert_allclose(product, expected, 1e-5, 1e-5 * np.abs(expected).max())
    if read_again:
        np.testing.assert_array_equal(others[0], feeds["b"].swapaxes(1, 2) * np.float32(of_b))
    [part] = session.partitions()
    sizes = [step.size for step in part.steps if step.type == "ELEMENT_WISE_BINARY"]
    assert sorted(sizes) == [8 * count + 4 for count in multiplied]  # bytes of an operand, a number and the product


@pytest.mark.parametrize("operator", ["Div", "Mul", "Pow"])
def test_quotients_and_powers_are_no_multiples(random_numbers: np.random.Generator, operator: str) -> None:
    """What they are computed of is not what is multiplied, nor is the other operand by the number beside it."""
    builder = Builder()
    a, b = builder.input("float32", (2, 3, 8), "a"), builder.input("float32", (2, 8, 40), "b")
    b = builder.node(operator, [b, b if operator == "Mul" else np.float32(3)])
    builder.output(builder.node("MatMul", [a, b]), "float32")
    feeds = {
        name: random_numbers.standard_normal(shape, np.float32) for name, shape in (("a", (2, 3, 8)), ("b", (2, 8, 40)))
    }
    assert_like_onnxruntime(builder.build(), feeds)


@pytest.mark.parametrize("operator", ["MatMulInteger", "QLinearMatMul"])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_sums_of_nothing(operator: str, batch: tuple[int, ...]) -> None:
    """Are 0, or its code: onnxruntime writes nothing."""
    builder = Builder()
    a = builder.input(np.uint8, (*batch, 2, "K"), "a")
    b = builder.input(np.uint8, (*batch, "K", 5), "b")
    of_codes = operator == "QLinearMatMul"
    quantization: list[Any] = [np.float32(0.5), np.uint8(7)]
    operands = [a, *quantization, b, *quantization, *quantization] if of_codes else [a, b]
    dtype = np.uint8 if of_codes else np.int32
    builder.output(builder.node(operator, operands), dtype)
    session = dmlcpu.InferenceSession(builder.build())
    for length in (3, 0, 4, 0):
        feeds = {"a": np.zeros((*batch, 2, length), np.uint8), "b": np.zeros((*batch, length, 5), np.uint8)}
        [result] = session.run(None, feeds)
        assert (result.dtype, result.shape) == (dtype, (*batch, 2, 5))
        if length == 0:
            assert (result == (7 if of_codes else 0)).all()


def test_sums_of_nothing_that_only_onnxruntime_takes() -> None:
    builder = Builder()
    operands = [builder.input(np.uint8, ("K",), "a"), builder.input(np.uint8, ("K", 5), "b")]
    builder.output(builder.node("MatMulInteger", operands), np.int32)
    session = dmlcpu.InferenceSession(builder.build())
    with pytest.raises(dmlcpu.BindingError, match="no elements to compute with"):
        session.run(None, {"a": np.zeros(0, np.uint8), "b": np.zeros((0, 5), np.uint8)})
