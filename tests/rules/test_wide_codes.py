"""Codes of 16 bits between a QuantizeLinear and a DequantizeLinear, beside onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from onnx_models import (
    POINT,
    Builder,
    assert_like_onnxruntime,
    coded,
    codes,
    floats,
    reasons_of,
    results_of_onnxruntime,
    steps_of,
)
from wide_codes import POINTS, SCALE, SCALES, WIDE_POINT, numbers, rounded

Array = NDArray[Any]
DOMAINS: Final = ("", "com.microsoft.")


def assert_equal_bits(builder: Builder, feeds: Mapping[str, Array]) -> None:
    """No number is like any other that is none."""
    model = builder.build()
    session = dmlcpu.InferenceSession(model)
    assert [part.provider for part in session.partitions()] == ["dmlcpu"]
    for result, expected in zip(session.run(None, feeds), results_of_onnxruntime(model, feeds), strict=True):
        assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
        none = np.isnan(expected)
        assert np.array_equal(np.isnan(result), none)
        assert np.array_equal(result[~none].view(np.uint32), expected[~none].view(np.uint32))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("dtype", POINTS)
@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_bits(random_numbers: np.random.Generator, domain: str, dtype: str, scale: float) -> None:
    for point in POINTS[dtype]:
        x = numbers(random_numbers, scale)
        builder = Builder(21)
        value = builder.input("float32", x.shape)
        builder.output(rounded(builder, value, scale, np.asarray(point, dtype), domain), "float32")
        assert_equal_bits(builder, {"x": x})
        assert steps_of(builder) == ["ELEMENT_WISE_UNARY"]


@pytest.mark.parametrize("dtype", POINTS)
@pytest.mark.parametrize("scale", SCALES)
def test_of_constants(random_numbers: np.random.Generator, scale: float, dtype: str) -> None:
    """Known when the model is planned; of scalars as of others."""
    for point in POINTS[dtype]:
        builder = Builder(21)
        for index, array in enumerate((numbers(random_numbers, scale), np.float32(-scale))):
            one = builder.input("float32", array.shape, f"x{index}")
            constant = rounded(builder, array, scale, np.asarray(point, dtype))
            builder.output(builder.node("Mul", [one, constant]), "float32")
        feeds = {"x0": np.ones(80_008, np.float32), "x1": np.ones((), np.float32)}
        assert_equal_bits(builder, feeds)


@pytest.mark.parametrize("dtype", POINTS)
@pytest.mark.parametrize("scale", SCALES)
def test_of_functions_of_codes(scale: float, dtype: str) -> None:
    """They stay functions of codes: tables."""
    for point in POINTS[dtype]:
        builder = Builder(21)
        value = builder.dequantized(builder.input("uint8", (256,)), 77.7, POINT)
        builder.output(rounded(builder, value, scale, np.asarray(point, dtype)), "float32")
        assert_equal_bits(builder, {"x": np.arange(256, dtype=np.uint8)})
        assert steps_of(builder) == ["FLOAT_TABLE"]


def test_among_codes_of_8_bits(random_numbers: np.random.Generator) -> None:
    """A gate and a mean, as tools that quantize single tensors to 16 bits leave them."""
    builder = Builder(21)
    value = builder.dequantized(builder.input("uint8", (2, 8, 6, 5)), 0.05, POINT)
    weights = builder.dequantized(codes(random_numbers, "int8", (8, 8, 3, 3)), 0.001, np.int8(0))
    value = coded(builder, builder.node("Conv", [value, weights], pads=[1, 1, 1, 1]))
    gate = coded(builder, rounded(builder, builder.node("Sigmoid", [value])))
    value = coded(builder, builder.node("Mul", [value, gate]))
    value = rounded(builder, builder.node("GlobalAveragePool", [value]), 1e-4)
    others = builder.dequantized(codes(random_numbers, "int8", (5, 8, 1, 1)), 0.01, np.int8(0))
    builder.output(builder.quantized(builder.node("Conv", [value, others]), 0.02, POINT), "uint8")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", (2, 8, 6, 5))}, 1)
    assert steps_of(builder).count("ELEMENT_WISE_UNARY") == 1


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int16"])
@pytest.mark.parametrize("operator", ["MatMul", "Gemm", "Conv"])
def test_weights_beside_them(random_numbers: np.random.Generator, operator: str, dtype: str) -> None:
    """By one scale or by columns, with a bias of INT32."""
    x_shape, w_shape, axis = ((2, 6, 9), (6, 7, 3), 0) if operator == "Conv" else ((5, 6), (6, 7), 1)
    for scales in (np.float32(0.003), random_numbers.uniform(1e-3, 3e-3, w_shape[axis]).astype(np.float32)):
        builder = Builder(21)
        value = builder.input("float32", x_shape if operator != "Conv" else (2, 7, 9))
        array = codes(random_numbers, dtype, w_shape)
        points = np.full(scales.shape, 3, dtype)
        weights = builder.dequantized(array, scales, points, axis=axis)
        bias = [] if operator == "MatMul" else [builder.dequantized(np.int32([7] * w_shape[axis]), 1e-2, np.int32(0))]
        result = builder.node(operator, [rounded(builder, value), weights, *bias])
        builder.output(result, "float32")
        shape = x_shape if operator != "Conv" else (2, 7, 9)
        assert_like_onnxruntime(builder.build(), {"x": floats(random_numbers, shape)})


def test_several_readers_share_them(random_numbers: np.random.Generator) -> None:
    builder = Builder(21)
    quantized = builder.quantized(builder.input("float32", (3, 4)), SCALE, WIDE_POINT)
    values = [builder.dequantized(quantized, SCALE, WIDE_POINT) for _ in range(3)]
    for value in values:
        builder.output(builder.node("Neg", [value]), "float32")
    assert_equal_bits(builder, {"x": floats(random_numbers, (3, 4))})
    assert steps_of(builder).count("ELEMENT_WISE_UNARY") == 4


@pytest.mark.parametrize("dtype", POINTS)
def test_zero_points_that_are_left_out(random_numbers: np.random.Generator, dtype: str) -> None:
    """A DequantizeLinear without one has 0."""
    builder = Builder(21)
    quantized = builder.quantized(builder.input("float32", (3, 4)), SCALE, np.zeros((), dtype))
    builder.output(builder.node("DequantizeLinear", [quantized, SCALE]), "float32")
    assert_equal_bits(builder, {"x": floats(random_numbers, (3, 4))})
    assert steps_of(builder) == ["ELEMENT_WISE_UNARY"]


def test_of_free_lengths(random_numbers: np.random.Generator) -> None:
    """Of floats that have such lengths, and of the lengths."""
    builder = Builder(21)
    x = builder.input("float32", ("count", 2))
    lengths = rounded(builder, builder.node("Cast", [builder.node("Shape", [x])], to=1))
    builder.output(builder.node("Mul", [rounded(builder, x), lengths]), "float32")
    model = builder.build()
    for count in (1, 7, 30):
        assert_like_onnxruntime(model, {"x": floats(random_numbers, (count, 2))}, equal=True)
    assert [part.provider for part in dmlcpu.InferenceSession(model).partitions({"x": (5, 2)})] == ["dmlcpu"]


def test_scales_of_columns_are_left_to_onnxruntime(random_numbers: np.random.Generator) -> None:
    builder = Builder(21)
    scales = np.float32([0.1, 0.2, 0.3])
    builder.output(rounded(builder, builder.input("float32", (5, 3)), scales, np.uint16([7, 8, 9])), "float32")
    assert_like_onnxruntime(builder.build(), {"x": floats(random_numbers, (5, 3))}, native=False, equal=True)
    assert reasons_of(builder)[0] == "scales along an axis"


def convolved(builder: Builder, value: str, rng: np.random.Generator, attributes: Mapping[str, Any]) -> str:
    """A convolution of three channels between codes of 16 bits."""
    shape = 3, 3 // attributes.get("group", 1), *attributes["kernel_shape"]
    weights = builder.dequantized(codes(rng, "int8", shape), 0.01, np.int8(0))
    return rounded(builder, builder.node("Conv", [value, weights], **attributes))


WINDOW: Final = {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1)}
DEPTHWISE: Final = WINDOW | {"group": 3}
POINTWISE: Final = {"kernel_shape": (1, 1)}


@pytest.mark.parametrize(
    "convolutions", [[WINDOW], [WINDOW, DEPTHWISE], [POINTWISE, WINDOW, WINDOW], [DEPTHWISE]], ids=str
)
def test_models_of_them_that_convolve(
    random_numbers: np.random.Generator, convolutions: Sequence[Mapping[str, Any]]
) -> None:
    """In floats, whatever the windows."""
    builder = Builder(21)
    value = rounded(builder, builder.input("float32", (1, 3, 6, 5)))
    for attributes in convolutions:
        value = convolved(builder, value, random_numbers, attributes)
    builder.output(value, "float32")
    model, feeds = builder.build(), {"x": floats(random_numbers, (1, 3, 6, 5))}
    session = dmlcpu.InferenceSession(model)
    # Where a sum is near the middle between two codes, optimized sessions of onnxruntime choose the other.
    [result], [expected] = session.run(None, feeds), results_of_onnxruntime(model, feeds)
    np.testing.assert_allclose(result, expected, rtol=0, atol=2 * SCALE)
    assert "FLOAT_CONVOLUTION" in steps_of(builder)


def test_models_of_computed_filters(random_numbers: np.random.Generator) -> None:
    builder = Builder(21)
    value = rounded(builder, builder.input("float32", (1, 3, 6, 5)))
    weights = rounded(builder, builder.input("float32", (4, 3, 3, 3), "filter"))
    builder.output(rounded(builder, builder.node("Conv", [value, weights], **WINDOW)), "float32")
    assert reasons_of(builder) == []


@pytest.mark.parametrize("kernel", [2, 3])
@pytest.mark.parametrize("channels", [7, 8])
def test_models_of_them_with_nodes_without_a_kernel(
    random_numbers: np.random.Generator, kernel: int, channels: int
) -> None:
    """What follows such a node goes along, as it does elsewhere; to few channels, windows may not overlap."""
    builder = Builder(21)
    value = builder.input("float32", (1, 3, 8))
    value = rounded(builder, value)
    weights = builder.dequantized(codes(random_numbers, "int8", (3, channels, kernel)), 0.01, np.int8(0))
    value = builder.node("ConvTranspose", [value, weights], kernel_shape=(kernel,), strides=(2,))
    for _ in range(3):
        value = rounded(builder, value)
    builder.output(value, "float32")
    assert_like_onnxruntime(builder.build(), {"x": floats(random_numbers, (1, 3, 8))}, 1, native=False)
    parts = dmlcpu.InferenceSession(builder.build()).partitions()
    has_kernel = kernel == 2 or channels == 8
    assert [part.provider for part in parts] == ["dmlcpu"] + ["onnxruntime"] * (not has_kernel)


@pytest.mark.parametrize("array", [np.float32(0.5), np.float32([0.5, -2, 7])], ids=["scalar", "vector"])
def test_constants_beside_nodes_without_a_kernel(random_numbers: np.random.Generator, array: Any) -> None:
    """They go along as codes."""
    builder = Builder(21)
    value = builder.node("Neg", [rounded(builder, builder.input("float32", (3, 3)))])
    value = rounded(builder, builder.node("Det", [value]))
    builder.output(builder.node("Mul", [value, rounded(builder, array)]), "float32")
    assert_like_onnxruntime(builder.build(), {"x": floats(random_numbers, (3, 3))}, native=False)
    parts = dmlcpu.InferenceSession(builder.build()).partitions()
    assert [part.provider for part in parts] == ["dmlcpu", "onnxruntime"]


def test_nodes_of_lengths_need_no_kernel(random_numbers: np.random.Generator) -> None:
    """Such as a Range, which has none."""
    builder = Builder(21)
    x = builder.input("float32", (4, 3))
    length = builder.node("Squeeze", [builder.node("Slice", [builder.node("Shape", [x]), *map(np.int64, ([0], [1]))])])
    places = builder.node("Range", [np.int64(0), length, np.int64(1)])
    value = builder.node("Gather", [rounded(builder, x), places])
    for _ in range(3):
        value = rounded(builder, value)
    builder.output(value, "float32")
    assert_equal_bits(builder, {"x": floats(random_numbers, (4, 3))})


def test_zero_points_of_constant_nodes_and_by_type(random_numbers: np.random.Generator) -> None:
    """What says that codes have 16 bits."""
    import onnx

    for is_named in (False, True):
        builder = Builder(21)
        value = builder.input("float32", (1, 3, 6, 5))
        point = builder.node("Constant", [], value=onnx.numpy_helper.from_array(np.uint16(0)))
        named = {"output_dtype": onnx.TensorProto.UINT16} if is_named else {}
        operands = [SCALE] if is_named else [SCALE, point]
        value = builder.node("QuantizeLinear", [value, *operands], **named)
        value = builder.node("DequantizeLinear", [value, SCALE, point])
        weights = builder.dequantized(codes(random_numbers, "int8", (3, 3, 3, 3)), 0.01, np.int8(0))
        builder.output(builder.node("Conv", [value, weights], **WINDOW), "float32")
        feeds = {"x": floats(random_numbers, (1, 3, 6, 5))}
        assert_like_onnxruntime(builder.build(), feeds, 1)
        assert reasons_of(builder) == []
