"""Convolutions of floats, in models that quantize others of their operators or none, beside onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from onnx_models import POINT, Builder, assert_like_onnxruntime, coded, codes, floats, reasons_of, steps_of

Array = NDArray[Any]

CONVOLUTIONS: Final[Mapping[str, tuple[tuple[int, ...], tuple[int, ...], Mapping[str, Any]]]] = {
    "pointwise": ((2, 8, 5, 4), (6, 8, 1, 1), {}),
    "square": ((1, 5, 9, 8), (7, 5, 3, 3), {"pads": [1, 1, 1, 1]}),
    "strided": ((2, 3, 11, 9), (4, 3, 3, 2), {"strides": [2, 3], "pads": [0, 1, 2, 0], "dilations": [2, 1]}),
    "same upper": ((1, 3, 8, 9), (4, 3, 3, 4), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    "same lower": ((1, 3, 8, 9), (4, 3, 3, 4), {"strides": [2, 2], "auto_pad": "SAME_LOWER"}),
    "valid": ((1, 3, 8, 9), (4, 3, 3, 4), {"auto_pad": "VALID"}),
    "depthwise": ((2, 6, 7, 7), (6, 1, 3, 3), {"group": 6, "pads": [1, 1, 1, 1]}),
    "grouped": ((1, 8, 5, 5), (12, 2, 3, 3), {"group": 4}),
    "1-D": ((2, 5, 17), (4, 5, 3), {"pads": [1, 1], "strides": [2]}),
    "1-D depthwise": ((2, 5, 17), (5, 1, 3), {"group": 5}),
    "padding alone": ((1, 2, 3, 3), (4, 2, 2, 2), {"pads": [5, 4, 3, 6]}),
}


@pytest.mark.parametrize("shapes", CONVOLUTIONS, ids=repr)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("weights", ["floats", "codes", "codes by channel"])
def test_convolutions(random_numbers: np.random.Generator, shapes: str, bias: bool, weights: str) -> None:
    x_shape, w_shape, attributes = CONVOLUTIONS[shapes]
    builder = Builder()
    x, count = builder.input("float32", x_shape), w_shape[0]
    w: Any = floats(random_numbers, w_shape)
    if weights != "floats":
        by_channel = weights == "codes by channel"
        scales = random_numbers.uniform(0.01, 0.02, count if by_channel else ()).astype(np.float32)
        points = np.zeros(scales.shape, np.int8)
        w = builder.dequantized(codes(random_numbers, "int8", w_shape), scales, points, axis=0)
    others = [w, floats(random_numbers, (count,))] if bias else [w]
    builder.output(builder.node("Conv", [x, *others], **attributes), "float32")
    feeds = {"x": floats(random_numbers, x_shape)}
    assert_like_onnxruntime(builder.build(), feeds, 1)
    assert steps_of(builder.build()).count("FLOAT_CONVOLUTION") == 1


def test_the_first_and_last_ones_of_a_model(random_numbers: np.random.Generator) -> None:
    """They are left out when models are quantized."""
    builder = Builder()
    value = builder.input("float32", (1, 3, 20, 18))
    value = builder.node("Conv", [value, floats(random_numbers, (8, 3, 3, 3))], strides=[2, 2], pads=[1, 1, 1, 1])
    value = coded(builder, builder.node("Relu", [value]))
    weights = builder.dequantized(codes(random_numbers, "int8", (8, 8, 3, 3)), 0.001, np.int8(0))
    value = coded(builder, builder.node("Conv", [value, weights], pads=[1, 1, 1, 1]))
    last = builder.node("Conv", [value, floats(random_numbers, (5, 8, 1, 1)), floats(random_numbers, (5,))])
    builder.output(last, "float32")
    model = builder.build()
    steps = steps_of(model)
    assert [steps.count(name) for name in ("FLOAT_CONVOLUTION", "QUANTIZED_LINEAR_CONVOLUTION")] == [2, 1]
    [part] = dmlcpu.InferenceSession(model).partitions()
    assert part.provider == "dmlcpu"


@pytest.mark.parametrize(
    ("operator", "x_shape", "w_shape"),
    [
        ("Conv", (1, 4, 6, 6), (5, 4, 3, 3)),
        ("ConvTranspose", (1, 4, 6, 6), (4, 8, 3, 3)),
        ("Gemm", (6, 4), (4, 8)),
    ],
)
def test_of_a_function_of_codes(random_numbers: np.random.Generator, operator: str, x_shape: Any, w_shape: Any) -> None:
    """It is not dequantized codes that the operator reads, though its filter is."""
    builder = Builder()
    value = builder.dequantized(builder.input("uint8", x_shape), 0.03, POINT)
    weights = builder.dequantized(codes(random_numbers, "int8", w_shape), 0.01, np.int8(0))
    result = builder.node(operator, [builder.node("Sigmoid", [value]), weights])
    builder.output(result, "float32")
    feeds = {"x": codes(random_numbers, "uint8", x_shape)}
    assert_like_onnxruntime(builder.build(), feeds, 1)
    assert ("DEQUANTIZED_PRODUCT" if operator == "Gemm" else "FLOAT_CONVOLUTION") in steps_of(builder.build())


def test_images_of_free_sizes(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    value = builder.input("float32", ("count", 3, "height", "width"))
    for count, before in ((16, 3), (4, 16)):
        weights = floats(random_numbers, (count, before, 3, 3))
        value = builder.node("Conv", [value, weights], pads=[1, 1, 1, 1], strides=[2, 1])
    builder.output(value, "float32")
    model = builder.build()
    for shape in ((1, 3, 9, 8), (2, 3, 9, 5), (1, 3, 30, 31), (1, 3, 1, 1)):
        assert_like_onnxruntime(model, {"x": floats(random_numbers, shape)}, 1)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ("bias", "the bias is not a constant"),
        ("filter", "a 3-D convolution with a computed filter"),
    ],
)
def test_what_is_left_to_onnxruntime(random_numbers: np.random.Generator, changed: str, reason: str) -> None:
    builder = Builder()
    rank = 3 if changed == "filter" else 2
    w_shape, x_shape = (4, 3, *(2,) * rank), (1, 3, *(5,) * rank)
    feeds = {"x": floats(random_numbers, x_shape)}
    operands: list[Any] = [builder.input("float32", x_shape), floats(random_numbers, w_shape), np.ones(4, np.float32)]
    if changed == "bias":
        feeds["y"], operands[2] = operands[2], builder.input("float32", operands[2].shape, "y")
    else:
        feeds["y"], operands[1] = operands[1], builder.input("float32", operands[1].shape, "y")
    builder.output(builder.node("Conv", operands), "float32")
    assert_like_onnxruntime(builder.build(), feeds, 1, native=False)
    assert reasons_of(builder) == [reason]


def test_models_of_floats_alone(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    value = builder.input("float32", (1, 3, 9, 8))
    for _ in range(5):
        value = builder.node("Conv", [value, floats(random_numbers, (3, 3, 1, 1))])
    builder.output(value, "float32")
    assert_like_onnxruntime(builder.build(), {"x": floats(random_numbers, (1, 3, 9, 8))}, 1)
    assert steps_of(builder.build()) == ["FLOAT_CONVOLUTION"] * 5


@pytest.mark.parametrize("operator", ["Conv", "ConvTranspose"])
def test_images_without_elements_whose_padding_makes_results(
    random_numbers: np.random.Generator, operator: str
) -> None:
    builder = Builder()
    value = builder.input("float32", (1, 8, "rows", 6))
    attributes: dict[str, Any] = {"pads": [2] * 4} if operator == "Conv" else {"strides": [2, 2]}
    builder.output(builder.node(operator, [value, floats(random_numbers, (8, 8, 3, 3))], **attributes), "float32")
    model = builder.build()
    assert_like_onnxruntime(model, {"x": floats(random_numbers, (1, 8, 0, 6))}, 1, native=False)
    assert_like_onnxruntime(model, {"x": floats(random_numbers, (1, 8, 5, 6))}, 1)


@pytest.mark.parametrize("operator", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize("kernel", [[2, 2], [5, 5], [3]])
@pytest.mark.parametrize("of_codes", [False, True])
def test_a_kernel_shape_that_is_not_the_filters(
    random_numbers: np.random.Generator, operator: str, kernel: list[int], of_codes: bool
) -> None:
    builder, shape = Builder(), (8, 8, 3, 3)
    value: Any = builder.input("float32", (1, 8, 7, 7))
    weights: Any = floats(random_numbers, shape)
    if of_codes:
        value = coded(builder, value)
        weights = builder.dequantized(codes(random_numbers, "int8", shape), 0.01, np.int8(0))
    builder.output(builder.node(operator, [value, weights], kernel_shape=kernel, pads=[2] * 4), "float32")
    with pytest.raises(dmlcpu.InvalidModelError, match=operator):
        dmlcpu.InferenceSession(builder.build()).run(None, {"x": floats(random_numbers, (1, 8, 7, 7))})


@pytest.mark.parametrize("operator", ["Conv", "ConvTranspose"])
def test_filters_with_scales_along_an_axis_that_is_not_of_channels(
    random_numbers: np.random.Generator, operator: str
) -> None:
    """As many scales as there are groups, each of which has a channel: the convolution is one of floats."""
    builder, image = Builder(), codes(random_numbers, "uint8", (1, 2, 5, 5))
    x = builder.dequantized(builder.input("uint8", image.shape), 0.1, np.uint8(3))
    scales, points = np.array([0.1, 0.2], np.float32), np.zeros(2, np.int8)
    weights = builder.dequantized(codes(random_numbers, "int8", (2, 1, 2, 3)), scales, points, axis=2)
    result = builder.node(operator, [x, weights], group=2)
    builder.output(builder.quantized(result, 0.213, np.uint8(0)), "uint8")  # no result is midway between two codes
    assert_like_onnxruntime(builder.build(), {"x": image})
