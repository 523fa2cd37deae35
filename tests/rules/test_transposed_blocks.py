"""Transposed convolutions of floats and of volumes whose windows do not overlap, beside onnxruntime."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import dmlcpu
from onnx_cases import POINTS, SCALE
from onnx_models import Builder, assert_like_onnxruntime, codes

BLOCKS: Final = (
    ((2, 5, 4, 3), (5, 6, 2, 2)),
    ((1, 24, 7, 9), (24, 1, 3, 2)),
    ((2, 5, 9), (5, 6, 4)),
    ((1, 3, 4, 5), (3, 7, 1, 1)),
)
VOLUMES: Final = (
    ((2, 5, 3, 4, 3), (5, 6, 2, 2, 2)),
    ((1, 24, 2, 3, 5), (24, 1, 1, 3, 2)),
)


@pytest.mark.parametrize("form", ["floats", "codes", "quantized filter"])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("shapes", [*BLOCKS, *VOLUMES], ids=str)
def test_blocks(random_numbers: np.random.Generator, shapes: Any, with_bias: bool, form: str) -> None:
    builder, (x_shape, w_shape) = Builder(), shapes
    x: Any = codes(random_numbers, "uint8", x_shape)
    value = builder.input("uint8" if form == "codes" else "float32", x_shape)
    if form == "codes":
        value = builder.dequantized(value, SCALE, POINTS["uint8"])
    else:
        x = np.float32(x) * np.float32(0.03)
    weights: Any = random_numbers.standard_normal(w_shape, np.float32)
    if form == "quantized filter":
        weights = builder.dequantized(codes(random_numbers, "int8", w_shape), 0.01, np.int8(0))
    bias = [random_numbers.standard_normal(w_shape[1], np.float32)] if with_bias else []
    result = builder.node("ConvTranspose", [value, weights, *bias], strides=list(w_shape[2:]))
    builder.output(builder.node("Neg", [result]), "float32")  # where nothing else reads it, the weights become codes
    builder.output(builder.quantized(result, 0.3, POINTS["uint8"]), "uint8")
    assert_like_onnxruntime(builder.build(), {"x": x}, 1)


@pytest.mark.parametrize("of_channels", [False, True])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("shapes", VOLUMES, ids=str)
def test_volumes_of_codes(random_numbers: np.random.Generator, shapes: Any, with_bias: bool, of_channels: bool) -> None:
    """With one scale of the filter, or one for each output channel."""
    builder, (x_shape, w_shape) = Builder(), shapes
    value = builder.dequantized(builder.input("uint8", x_shape), SCALE, POINTS["uint8"])
    count = w_shape[1] if of_channels else 1
    scales, points = random_numbers.uniform(0.01, 0.02, count).astype(np.float32), codes(random_numbers, "int8", count)
    filters = codes(random_numbers, "int8", w_shape)
    weights = builder.dequantized(filters, scales, points, axis=1)
    bias = [random_numbers.standard_normal(w_shape[1], np.float32)] if with_bias else []
    result = builder.node("ConvTranspose", [value, weights, *bias], strides=list(w_shape[2:]))
    builder.output(result, "float32")
    builder.output(builder.quantized(result, 0.3, POINTS["uint8"]), "uint8")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", x_shape)}, 1)


@pytest.mark.parametrize(
    "attributes",
    [
        {"strides": [2, 3]},
        {"strides": [2, 2], "pads": [0, 1, 0, 0]},
        {"strides": [2, 2], "output_padding": [1, 0]},
        {"strides": [2, 2], "dilations": [2, 1]},
        {"strides": [2, 2], "group": 2},
        {"strides": [2, 2], "output_shape": [7, 6]},
    ],
    ids=str,
)
def test_what_overlaps_is_left_to_onnxruntime(random_numbers: np.random.Generator, attributes: Any) -> None:
    """In a model that has no operators on codes."""
    builder = Builder()
    weights = random_numbers.standard_normal((4, 6, 2, 2), np.float32)
    builder.output(
        builder.node("ConvTranspose", [builder.input("float32", (2, 4, 4, 3)), weights], **attributes), "float32"
    )
    model, x = builder.build(), random_numbers.standard_normal((2, 4, 4, 3), np.float32)
    assert_like_onnxruntime(model, {"x": x}, native=False)
    assert [part.provider for part in dmlcpu.InferenceSession(model).partitions()] == ["onnxruntime"]


def beside_codes(builder: Builder) -> None:
    """Add an operator on codes, for which floats are convolved natively, too."""
    quantized = builder.node("DynamicQuantizeLinear", [builder.input("float32", (2, 4), "z")], 3)
    builder.output(builder.node("MatMulInteger", [quantized[0], np.ones((4, 4), np.int8), quantized[2]]), "int32")


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize(
    ("x_shape", "w_shape", "attributes"),
    [
        ((2, 5, 6, 7), (5, 8, 4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ((1, 6, 5, 4), (6, 33, 3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}),
        ((1, 3, 4, 5), (3, 9, 3, 2), {"strides": [1, 3], "dilations": [2, 1]}),
        ((2, 7, 19), (7, 12, 16), {"strides": [8], "pads": [4, 4]}),
        ((1, 4, 9), (4, 32, 5), {"strides": [2], "auto_pad": "SAME_LOWER"}),
        ((1, 4, 3, 3), (4, 8, 2, 2), {"strides": [2, 2], "output_shape": [5, 6]}),
        ((2, 6, 5, 7), (6, 1, 4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1], "group": 6}),
        ((1, 33, 17), (33, 1, 5), {"strides": [2], "group": 33}),
        ((1, 6, 5, 6), (6, 9, 3, 2), {"strides": [2, 3], "group": 2}),
    ],
)
def test_overlapping_windows_of_floats(
    random_numbers: np.random.Generator, x_shape: Any, w_shape: Any, attributes: Any, with_bias: bool
) -> None:
    builder = Builder()
    beside_codes(builder)
    weights = random_numbers.standard_normal(w_shape, np.float32)
    count = w_shape[1] * attributes.get("group", 1)
    bias = [random_numbers.standard_normal(count, np.float32)] if with_bias else []
    builder.output(
        builder.node("ConvTranspose", [builder.input("float32", x_shape), weights, *bias], **attributes), "f4"
    )
    feeds = {"x": random_numbers.standard_normal(x_shape, np.float32), "z": np.ones((2, 4), np.float32)}
    assert_like_onnxruntime(builder.build(), feeds)


SCALED_INPUTS: Final[Any] = (
    ((2, 5, 6, 7), (5, 8, 4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ((1, 6, 9), (6, 33, 5), {"strides": [2], "auto_pad": "SAME_LOWER"}),
    ((2, 5, 4, 3), (5, 6, 2, 2), {"strides": [2, 2]}),
    ((1, 24, 7, 9), (24, 1, 3, 2), {"strides": [3, 2]}),
    ((2, 5, 3, 4, 3), (5, 6, 2, 2, 2), {"strides": [2, 2, 2]}),
)


def scaled_inputs(
    rng: np.random.Generator, x_shape: Any, w_shape: Any, axis: int, bias: str, **attributes: Any
) -> bytes:
    """A transposed convolution of codes by a filter with scales along an axis that is not the output channels'."""
    builder = Builder()
    beside_codes(builder)
    value = builder.dequantized(builder.input("uint8", x_shape), SCALE, POINTS["uint8"])
    scales = rng.uniform(0.005, 0.02, w_shape[axis]).astype(np.float32)
    filters = codes(rng, "int8", w_shape)
    operands = [value, builder.dequantized(filters, scales, codes(rng, "int8", scales.shape), axis=axis)]
    channels = w_shape[1] * attributes.get("group", 1)
    if bias == "floats":
        operands.append(rng.standard_normal(channels, np.float32))
    elif bias == "codes":
        operands.append(builder.dequantized(rng.integers(-999, 999, channels, np.int32), 0.001, np.int32(0)))
    result = builder.node("ConvTranspose", operands, **attributes)
    builder.output(builder.quantized(result, 0.3, POINTS["uint8"]), "uint8")
    builder.output(builder.node("Neg", [result]), "float32")
    return builder.build()


@pytest.mark.parametrize("bias", ["", "floats", "codes"])
@pytest.mark.parametrize("axis", [0, 2])
@pytest.mark.parametrize(("x_shape", "w_shape", "attributes"), SCALED_INPUTS, ids=str)
def test_scales_that_are_not_the_output_channels(
    random_numbers: np.random.Generator, x_shape: Any, w_shape: Any, attributes: Any, axis: int, bias: str
) -> None:
    """Products of its codes have no unit to be summed in: floats are convolved."""
    model = scaled_inputs(random_numbers, x_shape, w_shape, axis, bias, **attributes)
    feeds = {"x": codes(random_numbers, "uint8", x_shape), "z": np.ones((2, 4), np.float32)}
    assert_like_onnxruntime(model, feeds, 1)


@pytest.mark.parametrize(("channels", "groups", "axis"), [(7, 1, 0), (7, 2, 0), (2, 4, 2)])
def test_floats_of_such_scales_that_are_left_to_onnxruntime(
    random_numbers: np.random.Generator, channels: int, groups: int, axis: int
) -> None:
    shapes = (1, 4, 5, 5), (4, channels, 4, 4)
    model = scaled_inputs(random_numbers, *shapes, axis, "", strides=[2, 2], group=groups)
    feeds = {"x": codes(random_numbers, "uint8", shapes[0]), "z": np.ones((2, 4), np.float32)}
    assert_like_onnxruntime(model, feeds, 1, native=False)
    providers = {part.provider for part in dmlcpu.InferenceSession(model).partitions()}
    assert providers == {"dmlcpu", "onnxruntime"}


@pytest.mark.parametrize("case", ["single products", "few channels", "computed filter", "computed bias"])
def test_floats_that_are_left_to_onnxruntime(random_numbers: np.random.Generator, case: str) -> None:
    builder = Builder()
    beside_codes(builder)
    channels = 7 if case == "few channels" else 8
    group, filters = (4, (4, 1, 2, 2)) if case == "single products" else (1, (4, channels, 3, 3))
    weights: Any = random_numbers.standard_normal(filters, np.float32)
    bias: Any = np.ones(filters[1] * group, np.float32)
    feeds = {"x": random_numbers.standard_normal((1, 4, 5, 5), np.float32), "z": np.ones((2, 4), np.float32)}
    if case == "computed filter":
        feeds["y"], weights = weights, builder.input("float32", weights.shape, "y")
    if case == "computed bias":
        feeds["y"], bias = bias, builder.input("float32", bias.shape, "y")
    operands = [builder.input("float32", (1, 4, 5, 5)), weights, bias]
    builder.output(builder.node("ConvTranspose", operands, strides=[2, 2], group=group), "float32")
    assert_like_onnxruntime(builder.build(), feeds, native=False)
    shapes = {name: array.shape for name, array in feeds.items()}
    providers = {part.provider for part in dmlcpu.InferenceSession(builder.build()).partitions(shapes)}
    assert providers == {"dmlcpu", "onnxruntime"}
