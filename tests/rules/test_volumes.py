"""Convolutions and poolings of volumes, beside onnxruntime."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

from onnx_cases import POINTS, SCALE, TYPES
from onnx_models import Builder, assert_like_onnxruntime, codes, floats, reasons_of, steps_of
from template_checks import assert_templates_follow_the_rules

CONVOLUTIONS: Final = {
    "cube": ((2, 5, 6, 9, 8), (7, 5, 3, 3, 3), {"pads": [1, 1, 1, 1, 1, 1]}),
    "strided": ((2, 3, 11, 9, 7), (4, 3, 3, 2, 3), {"strides": [2, 3, 1], "pads": [0, 1, 2, 2, 0, 1]}),
    "dilated": ((1, 3, 9, 9, 7), (4, 3, 3, 2, 3), {"dilations": [3, 2, 1], "pads": [2, 1, 0, 0, 0, 1]}),
    "depthwise": ((2, 6, 5, 7, 7), (6, 1, 3, 3, 3), {"group": 6, "auto_pad": "SAME_UPPER"}),
    "depthwise windows": ((2, 40, 5, 7, 9), (40, 1, 3, 3, 3), {"group": 40, "pads": [1, 1, 1, 1, 1, 1]}),
    "depthwise steps": (
        (1, 33, 9, 9, 8),
        (33, 1, 3, 5, 5),
        {"group": 33, "strides": [2, 2, 1], "dilations": [2, 1, 1], "pads": [3, 2, 2, 1, 2, 2]},
    ),
    "depthwise rows": ((1, 34, 4, 5, 6), (34, 1, 3, 3, 1), {"group": 34}),
    "grouped": ((1, 8, 5, 5, 4), (12, 2, 2, 3, 1), {"group": 4}),
    "slices": ((2, 3, 4, 7, 6), (5, 3, 1, 3, 3), {"strides": [2, 2, 2], "pads": [0, 1, 1, 0, 1, 1]}),
    "depth": ((2, 3, 7, 3, 4), (5, 3, 5, 1, 1), {"pads": [2, 0, 0, 2, 0, 0]}),
    "depth apart": ((2, 4, 9, 3, 4), (6, 2, 3, 1, 1), {"group": 2, "strides": [2, 1, 1], "dilations": [3, 1, 1]}),
    "depth and steps": ((2, 3, 7, 3, 4), (5, 3, 3, 1, 1), {"strides": [1, 1, 2]}),
}
MAXIMA: Final = (
    {"kernel_shape": [3, 2, 2], "strides": [2, 2, 1], "pads": [1, 1, 0, 1, 0, 1]},
    {"kernel_shape": [2, 3, 3], "strides": [2, 2, 2], "ceil_mode": 1},
    {"kernel_shape": [1, 2, 2], "strides": [1, 2, 2]},
    {"kernel_shape": [2, 1, 2], "dilations": [3, 1, 2]},
)


@pytest.mark.parametrize("shapes", CONVOLUTIONS, ids=repr)
@pytest.mark.parametrize("x_type", TYPES)
def test_convolutions(random_numbers: np.random.Generator, shapes: str, x_type: str) -> None:
    x_shape, w_shape, attributes = CONVOLUTIONS[shapes]
    x, w, count = codes(random_numbers, x_type, x_shape), codes(random_numbers, "int8", w_shape), w_shape[0]
    scales, points = random_numbers.uniform(0.001, 0.01, count).astype(np.float32), np.zeros(count, np.int8)
    bias = random_numbers.integers(-9999, 9999, count, np.int32)
    point, y_scale = POINTS[x_type], np.float32(0.9)
    builder = Builder()
    name = builder.input(x_type, x_shape)
    value = builder.dequantized(name, SCALE, point)
    weights = builder.dequantized(w, scales, points, axis=0)
    biases = builder.dequantized(bias, np.float32(SCALE) * scales, np.zeros(count, np.int32), axis=0)
    result = builder.node("Conv", [value, weights, biases], **attributes)
    builder.output(builder.quantized(result, y_scale, point), x_type)
    builder.output(builder.quantized(builder.node("Relu", [result]), y_scale, point), x_type)
    builder.output(result, "float32")
    assert_like_onnxruntime(builder.build(), {"x": x}, 1)

    last = np.ascontiguousarray(np.moveaxis(x, 1, -1))
    for volume, operator, order in ((x, "QLinearConv", {}), (last, "com.microsoft.QLinearConv", {"channels_last": 1})):
        builder = Builder()
        name = builder.input(x_type, volume.shape)
        inputs = [name, np.float32(SCALE), point, w, scales, points, y_scale, point, bias]
        builder.output(builder.node(operator, inputs, **attributes, **order), x_type)
        assert_like_onnxruntime(builder.build(), {"x": volume}, 1)


@pytest.mark.parametrize("shapes", CONVOLUTIONS, ids=repr)
@pytest.mark.parametrize("weights", ["floats", "codes by channel"])
def test_convolutions_of_floats(random_numbers: np.random.Generator, shapes: str, weights: str) -> None:
    x_shape, w_shape, attributes = CONVOLUTIONS[shapes]
    builder = Builder()
    x: Any = builder.node("Relu", [builder.input("float32", x_shape)])
    w: Any = floats(random_numbers, w_shape)
    if weights != "floats":
        scales = random_numbers.uniform(0.001, 0.01, w_shape[0]).astype(np.float32)
        w = builder.dequantized(codes(random_numbers, "int8", w_shape), scales, np.zeros(w_shape[0], np.int8), axis=0)
    builder.output(builder.node("Conv", [x, w, floats(random_numbers, w_shape[:1])], **attributes), "float32")
    builder.output(builder.node("Conv", [x, w], **attributes), "float32")
    model = builder.build()
    assert_like_onnxruntime(model, {"x": floats(random_numbers, x_shape)}, 1)
    assert steps_of(model).count("FLOAT_CONVOLUTION") == 2


TRANSPOSED: Final = {
    "cube": ((2, 5, 3, 4, 3), (5, 9, 3, 3, 3), {"strides": [2, 2, 2], "pads": [1] * 6, "output_padding": [1, 1, 1]}),
    "even": ((1, 6, 3, 5, 4), (6, 8, 4, 4, 4), {"strides": [2, 2, 2], "pads": [1] * 6}),
    "planes": ((1, 4, 3, 4, 5), (4, 12, 1, 3, 3), {"strides": [1, 2, 2], "pads": [0, 1, 1, 0, 0, 1]}),
    "depth": ((2, 3, 4, 3, 2), (3, 32, 5, 1, 1), {"strides": [3, 1, 1], "pads": [2, 0, 0, 1, 0, 0]}),
    "gaps": ((1, 3, 3, 2, 4), (3, 8, 2, 1, 3), {"strides": [3, 2, 2], "output_padding": [0, 1, 0]}),
    "dilated": ((1, 3, 4, 3, 4), (3, 8, 3, 2, 3), {"strides": [2, 1, 3], "dilations": [3, 2, 2]}),
    "depthwise": ((1, 6, 3, 4, 5), (6, 1, 3, 4, 4), {"strides": [1, 2, 2], "pads": [1] * 6, "group": 6}),
    "grouped": ((1, 6, 3, 3, 4), (6, 8, 3, 2, 3), {"strides": [2, 1, 2], "group": 2, "auto_pad": "SAME_UPPER"}),
}


@pytest.mark.parametrize("shapes", TRANSPOSED, ids=repr)
@pytest.mark.parametrize("x_type", TYPES)
def test_transposed_convolutions(random_numbers: np.random.Generator, shapes: str, x_type: str) -> None:
    x_shape, w_shape, attributes = TRANSPOSED[shapes]
    count = w_shape[1] * int(attributes.get("group", 1))
    scales, points = random_numbers.uniform(0.001, 0.01, w_shape[1]).astype(np.float32), np.zeros(w_shape[1], np.int8)
    point = POINTS[x_type]
    builder = Builder()
    value = builder.dequantized(builder.input(x_type, x_shape), SCALE, point)
    weights = builder.dequantized(codes(random_numbers, "int8", w_shape), scales, points, axis=1)
    units = np.tile(np.float32(SCALE) * scales, count // w_shape[1])
    bias = random_numbers.integers(-9999, 9999, count, np.int32)
    biases = builder.dequantized(bias, units, np.zeros(count, np.int32), axis=0)
    result = builder.node("ConvTranspose", [value, weights, biases], **attributes)
    builder.output(builder.quantized(result, 0.3, point), x_type)
    builder.output(builder.quantized(builder.node("Relu", [result]), 0.3, point), x_type)
    builder.output(result, "float32")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, x_type, x_shape)}, 1)


@pytest.mark.parametrize("shapes", TRANSPOSED, ids=repr)
@pytest.mark.parametrize("with_bias", [False, True])
def test_transposed_convolutions_of_floats(random_numbers: np.random.Generator, shapes: str, with_bias: bool) -> None:
    x_shape, w_shape, attributes = TRANSPOSED[shapes]
    count = w_shape[1] * int(attributes.get("group", 1))
    builder = Builder()
    bias = [floats(random_numbers, (count,))] if with_bias else []
    operands = [builder.node("Relu", [builder.input("float32", x_shape)]), floats(random_numbers, w_shape), *bias]
    builder.output(builder.node("ConvTranspose", operands, **attributes), "float32")
    assert_like_onnxruntime(builder.build(), {"x": floats(random_numbers, x_shape)}, 1)


@pytest.mark.parametrize("of_codes", [False, True])
@pytest.mark.parametrize("operator", ["Conv", "ConvTranspose"])
def test_free_sizes(random_numbers: np.random.Generator, operator: str, of_codes: bool) -> None:
    builder = Builder()
    value = builder.input("float32", ("N", 4, "D", "H", "W"))
    weights: Any = floats(random_numbers, (8, 4, 3, 3, 3) if operator == "Conv" else (4, 8, 3, 3, 3))
    if of_codes:
        value = builder.dequantized(builder.quantized(value, SCALE, POINTS["uint8"]), SCALE, POINTS["uint8"])
        weights = builder.dequantized(codes(random_numbers, "int8", weights.shape), 0.01, np.int8(0))
    result = builder.node(operator, [value, weights], pads=[1] * 6, strides=[2, 2, 2])
    builder.output(builder.quantized(result, 0.3, POINTS["uint8"]) if of_codes else result, "u1" if of_codes else "f4")
    model = builder.build()
    shapes = [{"x": (count, 4, depth, 4, 5)} for count in (1, 2) for depth in (3, 4, 1)]
    assert_templates_follow_the_rules(model, shapes, 2)
    for shape in shapes:
        assert_like_onnxruntime(model, {"x": floats(random_numbers, shape["x"])}, 1)


def test_filters_of_many_slices_are_left_to_onnxruntime(random_numbers: np.random.Generator) -> None:
    for operator, filters in (("Conv", (8, 1, 65, 1, 1)), ("ConvTranspose", (1, 8, 65, 1, 1))):
        builder = Builder()
        builder.output(
            builder.node(operator, [builder.input("float32", (1, 1, 66, 2, 2)), floats(random_numbers, filters)]),
            "float32",
        )
        feeds = {"x": floats(random_numbers, (1, 1, 66, 2, 2))}
        assert_like_onnxruntime(builder.build(), feeds, 1, native=False)
        assert reasons_of(builder) == ["a convolution of 65 slices"]


@pytest.mark.parametrize("shapes", CONVOLUTIONS, ids=repr)
@pytest.mark.parametrize("zero_points", ["computed", "constant", "none"])
def test_sums_of_dynamic_codes(random_numbers: np.random.Generator, shapes: str, zero_points: str) -> None:
    """Slices around the volume hold the zero point, whatever that is in a run."""
    x_shape, w_shape, attributes = CONVOLUTIONS[shapes]
    w = codes(random_numbers, "int8", w_shape)
    builder = Builder()
    points: list[Any] = [] if zero_points == "none" else [np.uint8(77), np.int8(5)]
    feeds: dict[str, Any] = {"x": codes(random_numbers, "uint8", x_shape)}
    if zero_points == "computed":
        feeds = {"x": random_numbers.uniform(-2, 5, x_shape).astype(np.float32)}
        x, scale, points[0] = builder.node("DynamicQuantizeLinear", [builder.input("float32", x_shape)], 3)
    else:
        x, scale = builder.input("uint8", x_shape), np.float32(0.02)
    sums = builder.node("ConvInteger", [x, w, *points], **attributes)
    builder.output(sums, "int32")
    scales = builder.node("Mul", [scale, random_numbers.uniform(0.01, 0.1, (w_shape[0], 1, 1, 1)).astype(np.float32)])
    builder.output(builder.node("Mul", [builder.node("Cast", [sums], to=1), scales]), "float32")
    assert_like_onnxruntime(builder.build(), feeds)


@pytest.mark.parametrize("attributes", MAXIMA, ids=str)
@pytest.mark.parametrize("dtype", ["uint8", "int8", "float32"])
@pytest.mark.parametrize("before", ["", "Neg"])
def test_maxima(random_numbers: np.random.Generator, attributes: Any, dtype: str, before: str) -> None:
    shape = (2, 3, 7, 9, 6)
    builder = Builder()
    value = builder.input(dtype, shape)
    if dtype == "float32":
        x: Any = random_numbers.standard_normal(shape, np.float32)
    else:
        x, value = codes(random_numbers, dtype, shape), builder.dequantized(value, SCALE, POINTS[dtype])
    value = builder.node(before, [value]) if before else value
    result = builder.node("MaxPool", [value], **attributes)
    builder.output(result, "float32")
    builder.output(builder.quantized(result, SCALE, POINTS["uint8"]), "uint8")
    assert_like_onnxruntime(builder.build(), {"x": x})


@pytest.mark.parametrize("attributes", MAXIMA, ids=str)
def test_maxima_with_channels_last(random_numbers: np.random.Generator, attributes: Any) -> None:
    shape = (2, 7, 9, 6, 3)
    builder = Builder()
    builder.output(builder.node("com.microsoft.NhwcMaxPool", [builder.input("uint8", shape)], **attributes), "uint8")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", shape)})


AVERAGES: Final = (
    {"kernel_shape": [3, 2, 2], "strides": [2, 2, 1]},
    {"kernel_shape": [2, 3, 3], "strides": [1, 2, 2], "pads": [1, 1, 0, 0, 1, 1], "count_include_pad": 1},
    {"kernel_shape": [7, 9, 6]},
)


@pytest.mark.parametrize("attributes", AVERAGES, ids=str)
@pytest.mark.parametrize("before", ["", "Exp"])
def test_averages(random_numbers: np.random.Generator, attributes: Any, before: str) -> None:
    """Of floats, computed or not; those of codes are one operator."""
    shape = (2, 3, 7, 9, 6)
    builder = Builder()
    value = builder.input("float32", shape)
    value = builder.node(before, [value]) if before else value
    result = builder.node("AveragePool", [value], **attributes)
    builder.output(result, "float32")
    builder.output(builder.quantized(result, 0.017, POINTS["uint8"]), "uint8")
    assert_like_onnxruntime(builder.build(), {"x": random_numbers.standard_normal(shape, np.float32)}, 1)


def test_averages_whose_padding_does_not_count(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    x = builder.input("float32", (1, 2, 5, 5, 5))
    builder.output(builder.node("AveragePool", [x], kernel_shape=[3, 3, 3], pads=[1] * 6), "float32")
    feeds = {"x": random_numbers.standard_normal((1, 2, 5, 5, 5), np.float32)}
    assert_like_onnxruntime(builder.build(), feeds, native=False)


@pytest.mark.parametrize("operator", ["GlobalAveragePool", "GlobalMaxPool"])
@pytest.mark.parametrize("of_codes", [False, True])
def test_whole_volumes(random_numbers: np.random.Generator, operator: str, of_codes: bool) -> None:
    shape = (2, 3, 4, 5, 6)
    builder = Builder()
    value = builder.input("uint8" if of_codes else "float32", shape)
    x: Any = codes(random_numbers, "uint8", shape) if of_codes else random_numbers.standard_normal(shape, np.float32)
    value = builder.dequantized(value, SCALE, POINTS["uint8"]) if of_codes else value
    result = builder.node(operator, [value])
    builder.output(result, "float32")
    builder.output(builder.quantized(result, 0.013, POINTS["uint8"]), "uint8")
    assert_like_onnxruntime(builder.build(), {"x": x}, 1)
