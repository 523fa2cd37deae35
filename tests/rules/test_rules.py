"""Every rule by which nodes are lowered, in both quantized forms, beside onnxruntime.

Where elements only move, or a table is looked up, results are equal. Where floating point is computed another way
(exact integer sums instead of sums of floats; scales multiplied in DirectML's order; zero points added after rounding)
they differ by one code at most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from onnx_cases import IMAGE, POINTS, SCALE, TYPES, Case, ints, qdq_of
from onnx_models import Builder, assert_like_onnxruntime, codes, results_of_onnxruntime

Array = NDArray[Any]


def resizes() -> list[Case]:
    cases = []
    for kind in ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"):
        opset = 19 if kind == "half_pixel_symmetric" else 13
        options = {"coordinate_transformation_mode": kind, "opset": opset}
        for last in ([np.float32([1, 1, 2, 1.7])], [np.float32([1, 1, 0.7, 0.5])], ["", ints(2, 3, 11, 5)]):
            cases.append(Case("Resize", IMAGE, ["", *last], 1, mode="linear", **options))
            for nearest in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
                cases.append(Case("Resize", IMAGE, ["", *last], mode="nearest", nearest_mode=nearest, **options))
    # Where places are integers, the last bit decides.
    options = {"coordinate_transformation_mode": "half_pixel_symmetric", "nearest_mode": "floor", "opset": 19}
    cases.append(Case("Resize", (2, 3, 3, 5), ["", "", ints(2, 3, 11, 3)], mode="nearest", **options))
    return cases


UNARY: Final = (
    *(Case(name, IMAGE) for name in ("Relu", "Abs", "Neg", "Identity", "Sqrt", "HardSwish", "HardSigmoid", "Sign")),
    *(Case(name, IMAGE) for name in ("Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh")),
    Case("ThresholdedRelu", IMAGE, alpha=0.7),
    Case("Shrink", IMAGE, lambd=0.7, bias=0.4),
    Case("Shrink", IMAGE),
    *(Case(name, IMAGE, most=1) for name in ("Sigmoid", "Tanh", "Exp", "Erf", "Softplus", "Elu", "Selu", "Log")),
    *(Case(name, IMAGE, most=1) for name in ("Sin", "Cos")),
    Case("Gelu", IMAGE, most=1, opset=20),
    Case("Mish", IMAGE, most=1, opset=18),
    Case("LeakyRelu", IMAGE, alpha=0.3),
    Case("PRelu", IMAGE, [np.full((1, 1, 1), 0.25, np.float32)]),
    Case("Clip", IMAGE, [np.float32(-0.5), np.float32(1.5)]),
    Case("Clip", IMAGE, ["", np.float32(6)]),
    Case("Pow", IMAGE, [np.float32(2)], 1),
    Case("Add", IMAGE, [np.float32(0.7)]),
    Case("Div", IMAGE, [np.float32([[1.3]])]),
    Case("MaxPool", IMAGE, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1]),
    Case("MaxPool", (2, 3, 9), kernel_shape=[3]),
    Case("AveragePool", IMAGE, most=1, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1]),
    Case("AveragePool", IMAGE, most=1, kernel_shape=[2, 2], count_include_pad=1, auto_pad="SAME_UPPER"),
    Case("GlobalAveragePool", IMAGE, most=1),
    Case("ReduceMean", IMAGE, most=1, axes=[2, 3]),
    Case("ReduceMean", IMAGE, most=1, axes=[-1, 2], keepdims=0),
    Case("Softmax", (2, 10), most=1, y_scale=1 / 256),
    Case("Softmax", IMAGE, most=1, axis=1, y_scale=1 / 256),
    Case("Reshape", IMAGE, [ints(0, -1, 6)]),
    Case("Flatten", IMAGE, axis=2),
    Case("Squeeze", (1, 5, 1, 3), [ints(0, 2)]),
    Case("Squeeze", (1, 5, 1, 3), [ints()]),
    Case("Unsqueeze", IMAGE, [ints(-1)]),
    Case("Transpose", IMAGE, perm=[0, 2, 3, 1]),
    Case("Slice", IMAGE, [ints(1, -5), ints(9, 99), ints(1, 2), ints(1, 2)]),
    Case("Slice", IMAGE, [ints(1), ints(3), ints(3)]),
    Case("Expand", (2, 3, 1, 1), [ints(2, 3, 4, 5)]),
    Case("Gather", IMAGE, [ints(2, 4, 6)], axis=2),
    Case("Gather", IMAGE, [np.array(-1, np.int64)], axis=1),
    Case("Pad", IMAGE, [ints(0, 0, 1, 2, 0, 0, 3, 0)]),
    Case("Sum", IMAGE),
    Case("Mean", IMAGE),
    *resizes(),
    Case("Resize", (2, 3, 9), ["", np.float32([1, 1, 2])], 1, opset=13, mode="linear"),
    Case("Resize", IMAGE, ["", "", ints(2, 5, 9, 6)], 1, mode="linear"),
    Case("Resize", IMAGE, [np.float32([1, 1, 2, 0.5])], opset=10, mode="nearest"),
    Case("Resize", IMAGE, [np.float32([1, 1, 3, 2])], opset=10, mode="nearest"),
)


@pytest.mark.parametrize(("x_type", "y_type"), [(x, y) for x in TYPES for y in TYPES])
@pytest.mark.parametrize("case", UNARY, ids=repr)
def test_dequantize_operate_quantize(random_numbers: np.random.Generator, case: Case, x_type: str, y_type: str) -> None:
    model = qdq_of(case.operator, x_type, y_type, case.shape, case.others, **case.options)
    assert_like_onnxruntime(model, {"x": codes(random_numbers, x_type, case.shape)}, case.most)


SHAPES: Final = (
    ((2, 3, 5, 4), (2, 3, 5, 4)),
    ((2, 3, 5, 4), (2, 3, 1, 1)),
    ((2, 3, 1, 1), (2, 3, 5, 4)),
    ((2, 3, 5, 4), (4,)),
    ((2, 3, 1, 4), (3, 5, 1)),
    ((2, 3, 5, 4), (1,)),
)


@pytest.mark.parametrize("operator", ["Add", "Mul", "Sub", "Div", "Max", "Min", "Sum", "Mean"])
@pytest.mark.parametrize(("a_shape", "b_shape"), SHAPES)
@pytest.mark.parametrize("is_constant", [False, True])
def test_pairs(
    random_numbers: np.random.Generator,
    operator: str,
    a_shape: tuple[int, ...],
    b_shape: tuple[int, ...],
    is_constant: bool,
) -> None:
    for a_type, b_type in zip(TYPES, reversed(TYPES), strict=True):
        builder = Builder()
        b = codes(random_numbers, b_type, b_shape)
        feeds = {"a": codes(random_numbers, a_type, a_shape), **({} if is_constant else {"b": b})}
        left = builder.dequantized(builder.input(a_type, a_shape, "a"), SCALE, POINTS[a_type])
        right = b if is_constant else builder.input(b_type, b_shape, "b")
        result = builder.node(operator, [left, builder.dequantized(right, 0.02, POINTS[b_type])])
        builder.output(builder.quantized(result, 0.07, POINTS[a_type]), a_type)
        assert_like_onnxruntime(builder.build(), feeds, 1)
        if operator not in ("Add", "Mul"):
            continue
        builder = Builder()
        left, right = builder.input(a_type, a_shape, "a"), (b if is_constant else builder.input(a_type, b_shape, "b"))
        b = b.astype(a_type)
        feeds = {"a": feeds["a"], **({} if is_constant else {"b": b})}
        scale, point = np.float32(0.02), POINTS[a_type]
        operands = [left, np.float32(SCALE), point, b if is_constant else right, scale, point, np.float32(0.07), point]
        builder.output(builder.node(f"com.microsoft.QLinear{operator}", operands), a_type)
        assert_like_onnxruntime(builder.build(), feeds, 1)


@pytest.mark.parametrize("operator", ["Add", "Mul", "Sub", "Div"])
def test_numbers_of_more_axes_than_the_codes(random_numbers: np.random.Generator, operator: str) -> None:
    builder = Builder()
    value = builder.dequantized(builder.input("uint8", (5,)), SCALE, POINTS["uint8"])
    builder.output(builder.node(operator, [value, np.full((1, 1), 0.5, np.float32)]), "float32")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", (5,))})


QLINEAR: Final = (
    Case("QLinearSigmoid", IMAGE, most=1),
    Case("QLinearLeakyRelu", IMAGE, most=1, alpha=0.2),
    Case("QLinearAveragePool", IMAGE, most=1, kernel_shape=[3, 2], strides=[1, 2], pads=[1, 0, 1, 1]),
    Case(
        "QLinearAveragePool",
        (2, 3, 8, 6),
        most=1,
        kernel_shape=[3, 3],
        strides=[2, 2],
        ceil_mode=1,
        count_include_pad=1,
    ),
    Case("QLinearGlobalAveragePool", IMAGE, most=1),
    Case("QLinearSoftmax", IMAGE, most=1, axis=1, opset=13),
    Case("QLinearSoftmax", (2, 10), most=1, axis=1, opset=11),
)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("case", QLINEAR, ids=repr)
def test_operators_on_codes(random_numbers: np.random.Generator, case: Case, dtype: str) -> None:
    builder = Builder()
    scale = np.float32(1 / 256 if "Softmax" in case.operator else 0.031)
    operands = [builder.input(dtype, case.shape), np.float32(SCALE), POINTS[dtype], scale, POINTS[dtype]]
    builder.output(builder.node(f"com.microsoft.{case.operator}", operands, **case.options), dtype)
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, dtype, case.shape)}, case.most)


@pytest.mark.parametrize("dtype", TYPES)
def test_mean_of_codes(random_numbers: np.random.Generator, dtype: str) -> None:
    """onnxruntime has no kernel for QLinearReduceMean: beside the float form."""
    x = codes(random_numbers, dtype, IMAGE)
    builder = Builder()
    operands = [builder.input(dtype, IMAGE), np.float32(SCALE), POINTS[dtype], np.float32(0.031), POINTS[dtype]]
    result = builder.node("com.microsoft.QLinearReduceMean", operands, axes=[2, 3], keepdims=0)
    builder.output(result, dtype)
    [actual] = dmlcpu.InferenceSession(builder.build()).run(None, {"x": x})
    model = qdq_of("ReduceMean", dtype, dtype, IMAGE, y_scale=0.031, axes=[2, 3], keepdims=0)
    [expected] = results_of_onnxruntime(model, {"x": x})
    assert np.abs(actual.astype(int) - expected.astype(int)).max() <= 1
    assert actual.shape == expected.shape


@pytest.mark.parametrize("dtype", TYPES)
def test_concatenation(random_numbers: np.random.Generator, dtype: str) -> None:
    a, b = codes(random_numbers, dtype, (2, 3, 4)), codes(random_numbers, dtype, (2, 5, 4))
    point = POINTS[dtype]
    builder = Builder()
    names = [builder.input(dtype, a.shape, "a"), builder.input(dtype, b.shape, "b")]
    floats = [builder.dequantized(name, scale, point) for name, scale in zip(names, (0.02, 0.03), strict=True)]
    builder.output(builder.quantized(builder.node("Concat", floats, axis=1), 0.025, point), dtype)
    assert_like_onnxruntime(builder.build(), {"a": a, "b": b})
    builder = Builder()
    names = [builder.input(dtype, a.shape, "a"), builder.input(dtype, b.shape, "b")]
    operands = [np.float32(0.025), point, names[0], np.float32(0.02), point, names[1], np.float32(0.03), point]
    builder.output(builder.node("com.microsoft.QLinearConcat", operands, axis=-2), dtype)
    assert_like_onnxruntime(builder.build(), {"a": a, "b": b}, 1)


@pytest.mark.parametrize("dtype", TYPES)
def test_split(random_numbers: np.random.Generator, dtype: str) -> None:
    builder = Builder()
    value = builder.dequantized(builder.input(dtype, (2, 7, 3)), SCALE, POINTS[dtype])
    for part in builder.node("Split", [value, ints(2, 4, 1)], count=3, axis=1):
        builder.output(builder.quantized(part, 0.05, POINTS[dtype]), dtype)
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, dtype, (2, 7, 3))})


FLOAT_FUNCTIONS: Final[Mapping[str, Callable[[Builder, str], Any]]] = {
    "table": lambda builder, value: builder.node("HardSwish", [value]),
    "clip": lambda builder, value: builder.node("Clip", [value, np.float32(-0.5), np.float32(0.75)]),
    "relu": lambda builder, value: builder.node("Relu", [value]),
    "hard sigmoid": lambda builder, value: builder.node("HardSigmoid", [value], alpha=0.3, beta=0.4),
    "leaky relu": lambda builder, value: builder.node("LeakyRelu", [value], alpha=-0.3),
    "pad": lambda builder, value: builder.node("Clip", [value, np.float32(-3), ""]),
}


@pytest.mark.parametrize(
    ("function", "is_code"),
    [(name, is_code) for name in FLOAT_FUNCTIONS for is_code in (False, True) if is_code or name != "table"],
)
def test_functions_as_floats(random_numbers: np.random.Generator, function: str, is_code: bool) -> None:
    """Read as floats: of codes through a table of floats, of floats by the operator. Two readers share them."""
    builder = Builder()
    if is_code:
        value = builder.dequantized(builder.input("int8", IMAGE), SCALE, np.int8(-7))
        feed: Array = codes(random_numbers, "int8", IMAGE)
    else:
        value = builder.input("float32", IMAGE)
        feed = random_numbers.normal(size=IMAGE).astype(np.float32)
    result = FLOAT_FUNCTIONS[function](builder, value)
    builder.output(result, "float32")
    builder.output(builder.node("Mul", [result, result]), "float32")
    assert_like_onnxruntime(builder.build(), {"x": feed})


def test_functions_of_codes_themselves(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    builder.output(builder.node("Clip", [builder.input("int8", IMAGE), np.int8(-5), np.int8(100)]), "int8")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "int8", IMAGE)})


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("computed", [False, True])
def test_quantization_along_an_axis(random_numbers: np.random.Generator, axis: int, dtype: str, computed: bool) -> None:
    x = random_numbers.normal(size=(3, 4, 5)).astype(np.float32)
    count = x.shape[axis]
    scales = random_numbers.uniform(0.01, 0.02, count).astype(np.float32)
    points = codes(random_numbers, dtype, (count,))
    feeds: dict[str, Array] = {"x": x}
    builder = Builder()
    name, scale, point = builder.input("float32", x.shape), scales, points
    if computed:
        scale, point = builder.input("float32", [count], "s"), builder.input(dtype, [count], "z")
        feeds |= {"s": scales, "z": points}
    quantized = builder.node("QuantizeLinear", [name, scale, point], axis=axis)
    builder.output(quantized, dtype)
    builder.output(builder.node("DequantizeLinear", [quantized, scale, point], axis=axis), "float32")
    assert_like_onnxruntime(builder.build(), feeds, equal=True)


def test_quantization_along_an_axis_without_zero_points(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    x = random_numbers.normal(size=(4, 6)).astype(np.float32)
    scales = random_numbers.uniform(0.01, 0.1, 6).astype(np.float32)
    builder.output(builder.node("QuantizeLinear", [builder.input("float32", x.shape), scales], axis=1), "uint8")
    assert_like_onnxruntime(builder.build(), {"x": x})


@pytest.mark.parametrize("source", ["input", "sums"])
@pytest.mark.parametrize("scale", ["one", "along an axis", "computed"])
@pytest.mark.parametrize("dtype", TYPES)
def test_quantization_of_integers(random_numbers: np.random.Generator, source: str, scale: str, dtype: str) -> None:
    """They are divided as floats, as ONNX says; onnxruntime has a kernel for floats alone."""
    feeds: dict[str, Array] = {"x": random_numbers.integers(-40000, 40000, (9, 6), np.int32)}
    if source == "sums":
        feeds["x"] = codes(random_numbers, "uint8", (9, 6))
    matrix = codes(random_numbers, "int8", (6, 6))
    points = codes(random_numbers, dtype, (6,) if scale == "along an axis" else ())
    scales = random_numbers.integers(1, 5000, points.shape).astype(np.float32) / np.float32(8)
    if scale == "computed":
        feeds["s"] = np.asarray(scales)
    models = []
    for cast in (False, True):
        builder = Builder()
        value = builder.input(feeds["x"].dtype, (9, 6))
        if source == "sums":
            value = builder.node("MatMulInteger", [value, matrix])
        if cast:
            value = builder.node("Cast", [value], to=1)
        divisor = builder.input("float32", (), "s") if scale == "computed" else scales
        builder.output(builder.node("QuantizeLinear", [value, divisor, points], axis=1), dtype)
        models.append(builder.build())
    session = dmlcpu.InferenceSession(models[0])
    np.testing.assert_array_equal(session.run(None, feeds)[0], results_of_onnxruntime(models[1], feeds)[0])
    assert {part.provider for part in session.partitions()} == {"dmlcpu"}


def test_reflections_of_one_element() -> None:
    """Which onnxruntime refuses."""
    builder = Builder()
    x = builder.input("float32", (1, 3))
    builder.output(builder.node("Pad", [x, ints(1, 0, 1, 0)], mode="reflect"), "float32")
    [result] = dmlcpu.InferenceSession(builder.build()).run(None, {"x": np.float32([[1, 2, 3]])})
    assert result.tolist() == [[1, 2, 3]] * 3


def codes_without_means_of_0(rng: np.random.Generator) -> Array:
    """Images of which no 3 x 3 window has the zero point for its mean, whose rounding would decide on infinities."""
    while True:
        x = codes(rng, "uint8", (2, 3, 6, 5))
        if np.lib.stride_tricks.sliding_window_view(x - 121.0, (3, 3), axis=(2, 3)).sum((-2, -1)).all():
            return x


@pytest.mark.parametrize("scale", [-0.3, np.inf, -np.inf, -0.0, 0.0, np.nan, 1e-45, 0.3])
@pytest.mark.parametrize("bounds", ["Relu", "Clip", "GlobalMaxPool"])
@pytest.mark.parametrize("operator", ["Conv", "AveragePool"])
def test_bounds_before_codes_of_any_scale(
    random_numbers: np.random.Generator, operator: str, bounds: str, scale: float
) -> None:
    """Codes of a scale below 0 have the other order; of no size they are the zero point, whatever the bounds."""
    builder = Builder()
    value = builder.dequantized(builder.input("uint8", (2, 3, 6, 5)), 0.02, np.uint8(121))
    filters = builder.dequantized(codes(random_numbers, "int8", (4, 3, 3, 3)), 0.004, np.int8(0))
    kernel = {"kernel_shape": [3, 3]}
    value = builder.node(operator, [value, filters] if operator == "Conv" else [value], **kernel)
    value = builder.node(bounds, [value, *([np.float32(-0.5), np.float32(0.75)] if bounds == "Clip" else [])])
    builder.output(builder.quantized(value, scale, np.uint8(100)), "uint8")
    assert_like_onnxruntime(builder.build(), {"x": codes_without_means_of_0(random_numbers)})


@pytest.mark.parametrize("operator", ["Conv", "ConvTranspose", "Gemm"])
@pytest.mark.parametrize("scale", [1e-9, 1e-3, 0.0])
@pytest.mark.parametrize("is_quantized", [False, True])
def test_biases_beyond_the_sums_of_codes(
    random_numbers: np.random.Generator, operator: str, scale: float, is_quantized: bool
) -> None:
    """A channel without weights has a scale next to nothing, and in units of that its bias is no INT32."""
    builder = Builder()
    shape, filters = ((5, 3), (3, 2)) if operator == "Gemm" else ((1, 3, 5, 4), (2, 3, 1, 1))
    axis = 0 if operator == "Conv" else 1
    if operator == "ConvTranspose":
        filters = (3, 2, 1, 1)
    value = builder.dequantized(builder.input("uint8", shape), 0.02, np.uint8(128))
    scales, weights = np.float32([0.01, scale]), codes(random_numbers, "int8", filters)
    weights = builder.dequantized(weights, scales, np.zeros(2, np.int8), axis=axis)
    result = builder.node(operator, [value, weights, np.float32([0.3, -1])])
    if is_quantized:
        builder.output(builder.quantized(result, 0.02, np.uint8(100)), "uint8")
    else:
        builder.output(result, "float32")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", shape)}, 1)


def test_the_bias_of_no_product(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    value = builder.dequantized(builder.input("uint8", (5, 3)), 0.02, np.uint8(128))
    weights = builder.dequantized(codes(random_numbers, "int8", (3, 2)), 0.01, np.int8(0))
    builder.output(builder.node("Gemm", [value, weights, np.float32([0.3, -1])], alpha=0.0), "float32")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", (5, 3))})


def test_axes_that_are_named_twice(random_numbers: np.random.Generator) -> None:
    builder = Builder(18)
    x = builder.input("float32", (3, 4))
    builder.output(builder.node("ReduceMean", [x, np.array([-1, 1, 1])], keepdims=0), "float32")
    assert_like_onnxruntime(builder.build(), {"x": random_numbers.normal(size=(3, 4)).astype(np.float32)})


@pytest.mark.parametrize("second", [np.uint8(10), np.int8(-118)], ids=repr)
def test_codes_by_scales_of_0_and_of_minus_0(second: Any) -> None:
    """Which are equal, but floats are divided by them to other infinities."""
    builder = Builder()
    x = builder.input("float32", (4,))
    for scale, point in ((0.0, np.uint8(10)), (-0.0, second), (0.0, np.uint8(10))):
        builder.output(builder.quantized(x, scale, point), point.dtype)
    assert_like_onnxruntime(builder.build(), {"x": np.float32([1, -1, 2, -3])})
