"""Why nodes are left to another runtime, which refuses most of them: operands and attributes that do not fit."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import dmlcpu
from onnx_models import Builder, codes, reasons_of

Shape = tuple[int, ...]
ONE: Final = np.float32(1)
VOLUME: Final = (1, 2, 5, 5, 5)


def assert_left(builder: Builder, reason: str) -> None:
    """The reason is told, by the plan or by the error of a model that nothing runs."""
    try:
        told = reasons_of(builder)
    except dmlcpu.InvalidModelError as error:
        told = [str(error)]
    assert any(reason in each for each in told), told


@pytest.mark.parametrize(
    ("shape", "filter_shape", "attributes", "reason"),
    [
        ((1, 2, 5, 5), (3, 2, 3), {}, "shapes (1, 2, 5, 5) and (3, 2, 3) do not fit together"),
        ((1, 2, 5, 5), (3, 2, 3, 3), {"pads": [1, 1]}, "do not fit the number of its spatial axes"),
        ((1, 2, 5, 5), (3, 2, 3, 3), {"strides": [1]}, "do not fit the number of its spatial axes"),
        (
            (1, 2, 5, 5),
            (3, 2, 3, 3),
            {"dilations": [1] * 3},
            "do not fit the number of its spatial axes",
        ),
        ((1, 2, 5, 5), (3, 2, 3, 3), {"pads": [0, -1, 0, 0]}, "negative padding"),
        ((1, 2, 5, 5), (3, 2, 3, 0), {"strides": [2, 2]}, "kernel below 1"),
        ((1, 2, 5, 2), (3, 2, 3, 3), {}, "a window that is larger than the padded input"),
        ((1, 2, 5, 5), (3, 1, 3, 3), {"group": 2}, "(1, 2, 5, 5) and (3, 1, 3, 3) do not fit together in 2 groups"),
        ((1, 2, 5, 5), (3, 1, 3, 3), {}, "shapes (1, 2, 5, 5) and (3, 1, 3, 3) do not fit together in 1 group"),
        (VOLUME, (3, 1, 3, 3, 3), {"group": 2}, "2 groups of 2 channels with a filter of shape (3, 1, 3, 3, 3)"),
        (VOLUME, (3, 2, 3, 3), {}, "1 groups of 2 channels with a filter of shape (3, 2, 3, 3)"),
    ],
    ids=str,
)
def test_convolutions(
    random_numbers: np.random.Generator, shape: Shape, filter_shape: Shape, attributes: Any, reason: str
) -> None:
    builder = Builder()
    x = builder.dequantized(builder.input("uint8", shape), 0.1, np.uint8(3))
    weights = builder.dequantized(codes(random_numbers, "int8", filter_shape), 0.1, np.int8(0))
    result = builder.node("Conv", [x, weights], **attributes)
    builder.output(builder.quantized(result, 0.2, np.uint8(0)), "uint8")
    assert_left(builder, reason)


@pytest.mark.parametrize("filter_shape", [(2, 3, 3), (3, 2, 3, 3)], ids=str)
def test_transposed_convolutions(random_numbers: np.random.Generator, filter_shape: Shape) -> None:
    builder = Builder()
    x = builder.dequantized(builder.input("uint8", (1, 2, 5, 5)), 0.1, np.uint8(3))
    weights = builder.dequantized(codes(random_numbers, "int8", filter_shape), 0.1, np.int8(0))
    builder.output(builder.quantized(builder.node("ConvTranspose", [x, weights]), 0.2, np.uint8(0)), "uint8")
    assert_left(builder, f"1 groups of 2 channels with a filter of {filter_shape[0]} for each")


def test_a_kernel_that_is_not_the_filters(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    x = builder.dequantized(builder.input("uint8", (1, 2, 5, 5)), 0.1, np.uint8(3))
    weights = builder.dequantized(codes(random_numbers, "int8", (3, 2, 3, 3)), 0.1, np.int8(0))
    result = builder.node("Conv", [x, weights], kernel_shape=[3, 2])
    builder.output(builder.quantized(result, 0.2, np.uint8(0)), "uint8")
    assert_left(builder, "got kernel_shape (3, 2), expected the filter's (3, 3)")


@pytest.mark.parametrize(
    ("name", "array", "reason"),
    [
        ("x_zero_point", np.zeros(2, np.uint8), "a zero point of shape (2,)"),
        ("w_scale", np.full(2, ONE), "scales of shape (2,)"),
        ("bias", np.zeros(2, np.int32), "a bias of shape (2,)"),
    ],
)
def test_convolutions_of_computed_codes(name: str, array: Any, reason: str) -> None:
    builder, point = Builder(), np.uint8(1)
    operands = {"x": builder.input("uint8", (1, 2, 5, 5)), "x_scale": builder.input("float32", (), "scale")}
    operands |= {"x_zero_point": point, "w": np.zeros((3, 2, 3, 3), np.int8), "w_scale": ONE}
    operands |= {"w_zero_point": np.int8(0), "y_scale": ONE, "y_zero_point": point, "bias": np.zeros(3, np.int32)}
    operands[name] = array
    builder.output(builder.node("QLinearConv", [*operands.values()]), "uint8")
    assert_left(builder, reason)


@pytest.mark.parametrize(
    ("operator", "indices", "updates", "types", "reason"),
    [
        ("ScatterND", (2, 1), (2, 4), ("int64", "float32"), "updates of shape (2, 4) by indices of shape (2, 1)"),
        ("ScatterND", (2, 3), (2,), ("int64", "float32"), "updates of shape (2,) by indices of shape (2, 3)"),
        ("ScatterND", (2, 1), (2, 5), ("int64", "float64"), "updates of type float64 in float32"),
        ("ScatterElements", (2, 5), (2, 5), ("int8", "float32"), "updates of type float32 by int8 in float32"),
        ("ScatterElements", (2, 5), (2, 5), ("int64", "float64"), "updates of type float64 by int64 in float32"),
    ],
)
def test_scattering(operator: str, indices: Shape, updates: Shape, types: tuple[str, str], reason: str) -> None:
    builder = Builder()
    operands = [
        builder.input("float32", (4, 5)),
        builder.input(types[0], indices, "indices"),
        builder.input(types[1], updates, "updates"),
    ]
    builder.output(builder.node(operator, operands), "float32")
    assert_left(builder, reason)


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"direction": "sideways", "hidden_size": 4}, "a layer of direction b'sideways' and size 4"),
        ({"hidden_size": 5}, "a layer of direction b'forward' and size 5"),
    ],
    ids=str,
)
def test_recurrent_layers(attributes: Any, reason: str) -> None:
    builder = Builder()
    weights = [np.ones((1, 4, length), np.float32) for length in (3, 4)]
    builder.output(builder.node("RNN", [builder.input("float32", (2, 1, 3)), *weights], **attributes), "float32")
    assert_left(builder, reason)


def test_codes_with_scales_that_are_not_of_their_axis() -> None:
    builder = Builder()
    operands = [builder.input("float32", (2, 3)), np.ones(2, np.float32), np.zeros(2, np.uint8)]
    builder.output(builder.node("QuantizeLinear", operands, axis=1), "uint8")
    assert_left(builder, "2 scales along axis 1 of (2, 3)")


def test_wide_codes_of_integers() -> None:
    builder = Builder(21)
    builder.output(builder.quantized(builder.input("int32", (2, 3)), 1, np.uint16(0)), "uint16")
    assert_left(builder, "an input of type int32")


def test_transforms_of_more_axes_than_tensors_have() -> None:
    builder = Builder()
    builder.output(builder.node("DFT", [builder.input("float32", (1, 4, 1, 1, 1, 1, 1))], axis=1), "float32")
    assert_left(builder, "a transform of float32 (1, 4, 1, 1, 1, 1, 1)")


@pytest.mark.parametrize("pasts", [[(1, 2, 3, 4)], [(1, 2, 3, 4), (1, 2, 2, 4)], [(1, 2, 3, 5)] * 2], ids=str)
def test_pasts_of_attention(pasts: list[Shape]) -> None:
    builder = Builder()
    operands = [builder.input("float32", (1, 2, 8), name) for name in "qkv"]
    given = [builder.input("float32", shape, f"past{place}") for place, shape in enumerate(pasts)]
    operands += ["", "", "", *given]
    builder.output(builder.node("com.microsoft.MultiHeadAttention", operands, num_heads=2), "float32")
    assert_left(builder, f"a past of shapes {pasts}")
