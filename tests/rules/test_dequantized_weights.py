"""Products of floats and of weights that a DequantizeLinear makes of codes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

import dmlcpu
from float_products import product_with
from onnx_models import POINT, Builder, assert_like_onnxruntime, codes, floats, steps_of

Array = NDArray[Any]


def dequantized_weights(
    builder: Builder, rng: np.random.Generator, dtype: str, shape: tuple[int, int], axis: int, block_size: int
) -> tuple[str, Array]:
    """The name and the floats of a matrix with scales of blocks along an axis, or with block_size 0 one an index."""
    sizes = list(shape)
    if block_size:
        sizes[axis] = -(-sizes[axis] // block_size)
    else:
        sizes = [shape[axis]]
    bits = int(dtype.removeprefix("u").removeprefix("int"))
    least = -(1 << (bits - 1)) if dtype.startswith("int") else 0
    codes = rng.integers(least, least + (1 << bits), shape)
    zero_points = rng.integers(least, least + (1 << bits), sizes)
    scales = rng.random(sizes, np.float32) + np.float32(0.5)
    element = getattr(onnx.TensorProto, dtype.upper())
    for name, array in (("codes", codes), ("zero_points", zero_points)):
        builder.initializers.append(onnx.helper.make_tensor(name, element, array.shape, array.reshape(-1)))
    options = {"axis": axis, **({"block_size": block_size} if block_size else {})}
    name: str = builder.node("DequantizeLinear", ["codes", scales, "zero_points"], **options)
    of_block = np.arange(shape[axis]) // (block_size or 1)
    points, scales = (np.take(array, of_block, axis if block_size else 0) for array in (zero_points, scales))
    if not block_size:
        points, scales = (array[:, None] if axis == 0 else array for array in (points, scales))
    return name, (codes - points).astype(np.float32) * scales


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int8", "uint8"])
@pytest.mark.parametrize("block_size", [0, 16, 64])
@pytest.mark.parametrize("rows", [64, 67])
@pytest.mark.parametrize("axis", [0, 1])
def test_dequantized_weights(
    random_numbers: np.random.Generator, dtype: str, block_size: int, rows: int, axis: int
) -> None:
    """Scales of columns, or of blocks of rows: others, or blocks that are no whole words, are dequantized once."""
    builder = Builder(21)
    x = floats(random_numbers, (3, rows))
    name = builder.input("float32", x.shape)
    weights, values = dequantized_weights(builder, random_numbers, dtype, (rows, 40), axis, block_size)
    builder.output(builder.node("MatMul", [name, weights]), "float32")
    model = builder.build()
    is_coded = axis == (0 if block_size else 1)
    assert steps_of(model) == ["DEQUANTIZED_PRODUCT" if is_coded else "FLOAT_PRODUCT"]
    [result] = dmlcpu.InferenceSession(model).run(None, {"x": x})
    assert np.array_equal(result, product_with(values, x))


def test_blocks_that_are_no_whole_words(random_numbers: np.random.Generator) -> None:
    builder = Builder(21)
    x = floats(random_numbers, (3, 60))
    name = builder.input("float32", x.shape)
    weights, values = dequantized_weights(builder, random_numbers, "int8", (60, 40), 0, 6)
    builder.output(builder.node("MatMul", [name, weights]), "float32")
    assert steps_of(builder.build()) == ["FLOAT_PRODUCT"]
    [result] = dmlcpu.InferenceSession(builder.build()).run(None, {"x": x})
    assert np.array_equal(result, product_with(values, x))


@pytest.mark.parametrize("block_size", [16, 1 << 28, (1 << 31) - 1])
@pytest.mark.parametrize("dtype", ["int4", "int8"])
def test_blocks_larger_than_the_matrix(random_numbers: np.random.Generator, dtype: str, block_size: int) -> None:
    builder = Builder(21)
    x = floats(random_numbers, (3, 15))
    name = builder.input("float32", x.shape)
    weights, values = dequantized_weights(builder, random_numbers, dtype, (15, 40), 0, block_size)
    builder.output(builder.node("MatMul", [name, weights]), "float32")
    assert steps_of(builder.build()) == ["DEQUANTIZED_PRODUCT"]
    [result] = dmlcpu.InferenceSession(builder.build()).run(None, {"x": x})
    assert np.array_equal(result, product_with(values, x))


@pytest.mark.parametrize("block_size", [0, 16])
def test_weights_behind_a_transposition(random_numbers: np.random.Generator, block_size: int) -> None:
    builder = Builder(21)
    x = floats(random_numbers, (3, 64))
    name = builder.input("float32", x.shape)
    axis = 1 if block_size else 0
    weights, values = dequantized_weights(builder, random_numbers, "int4", (40, 64), axis, block_size)
    turned = builder.node("Transpose", [weights], perm=[1, 0])
    builder.output(builder.node("MatMul", [name, turned]), "float32")
    assert steps_of(builder.build()) == ["DEQUANTIZED_PRODUCT"]
    [result] = dmlcpu.InferenceSession(builder.build()).run(None, {"x": x})
    assert np.array_equal(result, product_with(values.T, x))


def test_weights_beside_a_factor(random_numbers: np.random.Generator) -> None:
    """Of many rows, where floats would take the factor."""
    builder = Builder(21)
    x = floats(random_numbers, (128, 64))
    scaled = builder.node("Mul", [builder.input("float32", x.shape), np.float32(0.125)])
    weights, values = dequantized_weights(builder, random_numbers, "int8", (64, 40), 1, 0)
    builder.output(builder.node("MatMul", [scaled, weights]), "float32")
    assert "DEQUANTIZED_PRODUCT" in steps_of(builder.build())
    [result] = dmlcpu.InferenceSession(builder.build()).run(None, {"x": x})
    assert np.array_equal(result, product_with(values, x * np.float32(0.125)))


@pytest.mark.parametrize("count", [1, 40])
def test_float16_scales(random_numbers: np.random.Generator, count: int) -> None:
    builder = Builder(21)
    name = builder.input("float16", (3, 64))
    codes, scales = np.ones((64, 40), np.int8), np.full((count,) if count > 1 else (), 0.5, np.float16)
    builder.output(builder.node("MatMul", [name, builder.node("DequantizeLinear", [codes, scales], axis=1)]), "f2")
    x = random_numbers.integers(-9, 9, (3, 64)).astype(np.float16)
    [result] = dmlcpu.InferenceSession(builder.build()).run(None, {"x": x})
    assert result.dtype == np.float16
    np.testing.assert_allclose(result, x @ np.full((64, 40), 0.5, np.float16), atol=0.5)


@pytest.mark.parametrize("axis", [-3, 2, 5])
@pytest.mark.parametrize("block_size", [0, 16])
def test_an_axis_that_there_is_not(axis: int, block_size: int) -> None:
    builder = Builder(21)
    name = builder.input("float32", (3, 64))
    scales = np.ones((4, 40) if block_size else 40, np.float32)
    options = {"axis": axis, **({"block_size": block_size} if block_size else {})}
    weights = builder.node("DequantizeLinear", [np.ones((64, 40), np.int8), scales], **options)
    builder.output(builder.node("MatMul", [name, weights]), "float32")
    with pytest.raises(dmlcpu.InvalidModelError, match=rf"along axis {axis} of \(64, 40\)"):
        dmlcpu.InferenceSession(builder.build())


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
@pytest.mark.parametrize("form", ["whole", "columns", "blocks"])
@pytest.mark.parametrize("opset", [17, 21, 23])
def test_constants_quantized_to_4_bits(random_numbers: np.random.Generator, dtype: str, form: str, opset: int) -> None:
    """As onnxruntime's quantizer adds pairs to weights, in its own domain before ONNX had codes of 4 bits."""
    builder = Builder(opset)
    x, weights = floats(random_numbers, (3, 64)), floats(random_numbers, (64, 40))
    shape = {"whole": (), "columns": (40,), "blocks": (4, 40)}[form]
    options = {"axis": 0, "block_size": 16} if form == "blocks" else {"axis": 1}
    scales = random_numbers.uniform(0.1, 0.4, shape).astype(np.float32)
    points = np.zeros(shape, np.int64)
    if opset < 23:
        points = random_numbers.integers(*((-2, 3) if dtype == "int4" else (5, 10)), shape)
    parameters = [scales, points.astype(getattr(ml_dtypes, dtype))]
    domain = "com.microsoft." if opset < 21 else ""
    name = builder.input("float32", x.shape)
    if opset == 23:  # the type alone says what there is
        named = {"output_dtype": onnx.helper.np_dtype_to_tensor_dtype(parameters[1].dtype)}
        codes = builder.node("QuantizeLinear", [builder.constant(weights), scales], **options, **named)
    else:
        codes = builder.node(f"{domain}QuantizeLinear", [builder.constant(weights), *parameters], **options)
    values = builder.node(f"{domain}DequantizeLinear", [codes, *parameters], **options)
    builder.output(builder.node("MatMul", [name, values]), "float32")
    each = (np.repeat(array, 16, 0) if form == "blocks" else array for array in (scales, points))
    scale, point = (np.broadcast_to(array, weights.shape) for array in each)
    lowest = -8 if dtype == "int4" else 0
    expected = (np.clip(np.rint(weights / scale) + point, lowest, lowest + 15) - point).astype(np.float32) * scale
    [result] = dmlcpu.InferenceSession(builder.build()).run(None, {"x": x})
    assert np.array_equal(result, product_with(expected, x))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("block_size", [0, 16])
def test_gemm(random_numbers: np.random.Generator, block_size: int, transposed: bool) -> None:
    builder = Builder(21)
    x = floats(random_numbers, (3, 64))
    name = builder.input("float32", x.shape)
    shape = (40, 64) if transposed else (64, 40)
    axis = int(transposed) if block_size else int(not transposed)
    weights, values = dequantized_weights(builder, random_numbers, "int8", shape, axis, block_size)
    builder.output(builder.node("Gemm", [name, weights], transB=int(transposed)), "float32")
    assert steps_of(builder.build()) == ["DEQUANTIZED_PRODUCT"]
    [result] = dmlcpu.InferenceSession(builder.build()).run(None, {"x": x})
    assert np.array_equal(result, product_with(values.T if transposed else values, x))


@pytest.mark.parametrize("dtype", ["int16", "uint16"])
@pytest.mark.parametrize("form", ["MatMul", "Gemm", "Conv", "ConvTranspose", "blocks"])
def test_wide_weights_beside_codes_of_8_bits(random_numbers: np.random.Generator, dtype: str, form: str) -> None:
    """Products that have no kernel of codes are those of floats, by one scale or several, with a bias."""
    x_shape, w_shape = {
        "MatMul": ((3, 24), (24, 9)), "Gemm": ((3, 24), (9, 24)), "Conv": ((2, 5, 6, 7), (9, 5, 3, 3)),
        "ConvTranspose": ((2, 5, 6, 7), (5, 9, 3, 3)), "blocks": ((2, 5, 6, 7), (5, 9, 2, 2)),
    }[form]  # fmt: skip
    operator = "ConvTranspose" if form == "blocks" else form
    options = {"Gemm": {"transB": 1}, "ConvTranspose": {"strides": [2, 2]}, "blocks": {"strides": [2, 2]}}.get(form, {})
    axis = 0 if operator in ("Gemm", "Conv") else 1
    array = codes(random_numbers, dtype, w_shape)
    for count in ((), w_shape[axis]):
        builder = Builder(21)
        scale = random_numbers.uniform(1, 2, count).astype(np.float32) / np.float32(1e4)
        points = np.full(count, 3).astype(dtype)
        weights = builder.dequantized(array, scale, points, **({"axis": axis} if count else {}))
        value = builder.dequantized(builder.input("uint8", x_shape), 0.02, POINT)
        bias = [] if operator == "MatMul" else [floats(random_numbers, (w_shape[axis],))]
        result = builder.node(operator, [value, weights, *bias], **options)
        builder.output(builder.quantized(result, 0.3, POINT), "uint8")
        builder.output(builder.node("Neg", [result]), "float32")
        assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", x_shape)}, 1)
