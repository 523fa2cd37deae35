"""Products of floats and weights that are codes: MatMulNBits."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from dmlcpu.onnx.coded_weights import ConstantOfBlocks, coded_matrix
from float_products import product_with
from onnx_models import Builder, assert_like_onnxruntime, floats, steps_of
from template_checks import assert_templates_follow_the_rules

Array = NDArray[Any]


class Blocks:
    """Weights of MatMulNBits, {rows, columns}."""

    def __init__(self, rng: np.random.Generator, rows: int, columns: int, bits: int, size: int, zero_points: bool):
        self.rows, self.columns, self.bits, self.size = rows, columns, bits, size
        count = -(-rows // size)
        self.codes = rng.integers(0, 256, (columns, count, size * bits // 8), np.uint8)
        self.scales = rng.random((columns, count), np.float32) + np.float32(0.5)
        self.zero_points = rng.integers(0, 256, (columns, -(-count * bits // 8)), np.uint8) if zero_points else None

    def halves(self, array: Array) -> Array:
        return np.stack([array & 15, array >> 4], -1).reshape(*array.shape[:-1], -1) if self.bits == 4 else array

    def floats(self) -> Array:
        codes, count = self.halves(self.codes).astype(np.float32), self.codes.shape[1]
        points = np.full((self.columns, count), 1 << (self.bits - 1), np.float32)
        if self.zero_points is not None:
            points = self.halves(self.zero_points)[:, :count].astype(np.float32)
        values = (codes - points[..., None]) * self.scales[..., None]
        return np.ascontiguousarray(values.reshape(self.columns, -1)[:, : self.rows].T)

    def add_to(self, builder: Builder, x: str, *others: Any, **attributes: Any) -> str:
        points = "" if self.zero_points is None else self.zero_points
        sizes = {"K": self.rows, "N": self.columns, "bits": self.bits, "block_size": self.size}
        inputs = [x, self.codes, self.scales.reshape(-1), points, *others]
        name: str = builder.node("com.microsoft.MatMulNBits", inputs, **{**sizes, **attributes})
        return name


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize(("rows", "size"), [(64, 16), (70, 32), (100, 128), (256, 128), (384, 256)])
@pytest.mark.parametrize("zero_points", [False, True])
@pytest.mark.parametrize("shape", [(1,), (7,), (2, 3), (2, 1, 2)])
def test_blocks(
    random_numbers: np.random.Generator, bits: int, rows: int, size: int, zero_points: bool, shape: tuple[int, ...]
) -> None:
    weights = Blocks(random_numbers, rows, 70, bits, size, zero_points)
    x = floats(random_numbers, (*shape, rows))
    builder = Builder()
    builder.output(weights.add_to(builder, builder.input("float32", x.shape)), "float32")
    model = builder.build()
    assert_like_onnxruntime(model, {"x": x})
    assert steps_of(model) == ["DEQUANTIZED_PRODUCT"]
    [result] = dmlcpu.InferenceSession(model).run(None, {"x": x})
    assert np.array_equal(result, product_with(weights.floats(), x))


def float_points(weights: Blocks, points: Array) -> Array:
    """Let blocks have zero points that are floats; return the floats of their codes."""
    weights.zero_points = points
    codes = weights.halves(weights.codes).astype(np.float32)
    values = (codes - points.reshape(*weights.scales.shape, 1)) * weights.scales[..., None]
    return np.ascontiguousarray(values.reshape(weights.columns, -1)[:, : weights.rows].T)


@pytest.mark.parametrize(("rows", "size"), [(16, 16), (64, 16), (256, 128), (384, 64)])
@pytest.mark.parametrize("shape", [(1,), (7,), (2, 3), (2, 1, 2, 2)])
@pytest.mark.parametrize("level", [0, 4])
def test_zero_points_of_floats(
    random_numbers: np.random.Generator, rows: int, size: int, shape: tuple[int, ...], level: int
) -> None:
    """As the HQQ quantizer makes them, also some beyond the codes."""
    weights = Blocks(random_numbers, rows, 70, 4, size, False)
    points = random_numbers.uniform(-3, 18, weights.scales.shape).astype(np.float32)
    values = float_points(weights, points if level else points.reshape(-1))
    x, bias = floats(random_numbers, (*shape, rows)), floats(random_numbers, (70,))
    builder = Builder()
    name = builder.input("float32", x.shape)
    builder.output(weights.add_to(builder, name, accuracy_level=level), "float32")
    builder.output(weights.add_to(builder, name, "", bias, accuracy_level=level), "float32")
    model = builder.build()
    assert_like_onnxruntime(model, {"x": x})
    assert steps_of(model).count("DEQUANTIZED_PRODUCT") == 2
    result, _ = dmlcpu.InferenceSession(model).run(None, {"x": x})
    np.testing.assert_allclose(result, x @ values, rtol=0, atol=3e-6 * float(np.abs(x @ values).max()))


def test_zero_points_of_floats_and_free_lengths(random_numbers: np.random.Generator) -> None:
    weights = Blocks(random_numbers, 64, 33, 4, 32, False)
    float_points(weights, random_numbers.uniform(0, 15, weights.scales.shape).astype(np.float32))
    builder = Builder()
    builder.output(weights.add_to(builder, builder.input("float32", ("N", "T", 64))), "float32")
    shapes = [{"x": (sequences, tokens, 64)} for sequences in (1, 2) for tokens in (1, 5, 9)]
    assert_templates_follow_the_rules(builder.build(), shapes, 2)


def test_zero_points_of_floats_of_8_bits(random_numbers: np.random.Generator) -> None:
    """Which onnxruntime has no kernels for."""
    weights = Blocks(random_numbers, 64, 33, 8, 32, False)
    values = float_points(weights, random_numbers.uniform(0, 255, weights.scales.shape).astype(np.float32))
    x, builder = floats(random_numbers, (5, 64)), Builder()
    builder.output(weights.add_to(builder, builder.input("float32", x.shape)), "float32")
    [result] = dmlcpu.InferenceSession(builder.build()).run(None, {"x": x})
    np.testing.assert_allclose(result, x @ values, rtol=0, atol=3e-6 * float(np.abs(x @ values).max()))


@pytest.mark.parametrize("level", [0, 4])
def test_zero_points_of_floats_that_are_integers(random_numbers: np.random.Generator, level: int) -> None:
    """Whose rows no level of accuracy quantizes: else results would hang on all of them being integers."""
    weights = Blocks(random_numbers, 64, 33, 4, 32, False)
    values = float_points(weights, random_numbers.integers(0, 16, weights.scales.shape).astype(np.float32))
    x, builder = floats(random_numbers, (5, 64)), Builder()
    result_name = weights.add_to(builder, builder.input("float32", x.shape), accuracy_level=level)
    builder.output(result_name, "float32")
    assert steps_of(builder.build()) == ["DEQUANTIZED_PRODUCT"]
    [result] = dmlcpu.InferenceSession(builder.build()).run(None, {"x": x})
    assert np.array_equal(result, product_with(values, x))


@pytest.mark.parametrize("case", ["fewer rows in a block", "no numbers"])
def test_zero_points_of_floats_that_are_left_to_onnxruntime(random_numbers: np.random.Generator, case: str) -> None:
    weights = Blocks(random_numbers, 70 if case == "fewer rows in a block" else 64, 33, 4, 32, False)
    points = random_numbers.uniform(0, 15, weights.scales.shape).astype(np.float32)
    points[3, 1] = np.nan if case == "no numbers" else 1.5
    float_points(weights, points)
    builder = Builder()
    builder.output(weights.add_to(builder, builder.input("float32", (5, weights.rows))), "float32")
    [part] = dmlcpu.InferenceSession(builder.build()).partitions()
    assert part.provider == "onnxruntime"


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize(("rows", "size"), [(64, 16), (70, 32), (100, 128), (384, 256)])
@pytest.mark.parametrize("zero_points", [False, True])
def test_blocks_of_quantized_rows(
    random_numbers: np.random.Generator, bits: int, rows: int, size: int, zero_points: bool
) -> None:
    """The accuracy_level that asks for integers: floats are quantized as onnxruntime quantizes them."""
    weights = Blocks(random_numbers, rows, 70, bits, size, zero_points)
    x = floats(random_numbers, (2, 3, rows))
    builder = Builder()
    builder.output(weights.add_to(builder, builder.input("float32", x.shape), accuracy_level=4), "float32")
    assert_like_onnxruntime(builder.build(), {"x": x})
    assert steps_of(builder.build()) == ["QUANTIZED_BLOCK_PRODUCT"]


def test_larger_blocks_are_of_floats(random_numbers: np.random.Generator) -> None:
    weights, builder = Blocks(random_numbers, 1024, 33, 4, 512, False), Builder()
    x = floats(random_numbers, (3, 1024))
    builder.output(weights.add_to(builder, builder.input("float32", x.shape), accuracy_level=4), "float32")
    assert steps_of(builder.build()) == ["DEQUANTIZED_PRODUCT"]
    [result] = dmlcpu.InferenceSession(builder.build()).run(None, {"x": x})
    assert np.array_equal(result, product_with(weights.floats(), x))


def test_a_bias(random_numbers: np.random.Generator) -> None:
    weights, x = Blocks(random_numbers, 64, 33, 4, 32, True), floats(random_numbers, (5, 64))
    builder = Builder()
    result = weights.add_to(builder, builder.input("float32", x.shape), "", floats(random_numbers, (33,)))
    builder.output(result, "float32")
    assert_like_onnxruntime(builder.build(), {"x": x})
    assert steps_of(builder.build()) == ["DEQUANTIZED_PRODUCT", "ELEMENT_WISE_BINARY"]


def test_any_number_of_rows(random_numbers: np.random.Generator) -> None:
    weights = Blocks(random_numbers, 64, 33, 4, 32, False)
    builder = Builder()
    builder.output(weights.add_to(builder, builder.input("float32", ("batch", "length", 64))), "float32")
    session = dmlcpu.InferenceSession(builder.build())
    for shape in [(1, 1, 64), (1, 9, 64), (1, 10, 64), (2, 3, 64), (1, 130, 64)]:
        x = floats(random_numbers, shape)
        [result] = session.run(None, {"x": x})
        assert np.array_equal(result, product_with(weights.floats(), x))


def test_float16_scales_of_blocks(random_numbers: np.random.Generator) -> None:
    weights, builder = Blocks(random_numbers, 64, 33, 4, 32, False), Builder()
    weights.scales = weights.scales.astype(np.float16)
    builder.output(weights.add_to(builder, builder.input("float16", (3, 64))), "float16")
    session = dmlcpu.InferenceSession(builder.build())
    assert [partition.provider for partition in session.partitions()] == ["dmlcpu"]
    x = floats(random_numbers, (3, 64)).astype(np.float16)
    weights.scales = weights.scales.astype(np.float32)
    expected = product_with(weights.floats(), x.astype(np.float32)).astype(np.float16)
    assert np.array_equal(session.run(None, {"x": x})[0], expected)


@pytest.mark.parametrize("case", ["order", "bits", "packed"])
def test_left_to_onnxruntime(random_numbers: np.random.Generator, case: str) -> None:
    weights = Blocks(random_numbers, 64, 33, 2 if case == "bits" else 4, 32, False)
    builder = Builder()
    others = [np.arange(64, dtype=np.int32) // 32] if case == "order" else []
    packed = {"weight_prepacked": int(case == "packed")}
    builder.output(weights.add_to(builder, builder.input("float32", (3, 64)), *others, **packed), "float32")
    session = dmlcpu.InferenceSession(builder.build())
    assert [partition.provider for partition in session.partitions()] == ["onnxruntime"]


def test_rows_that_do_not_fit(random_numbers: np.random.Generator) -> None:
    weights, builder = Blocks(random_numbers, 64, 33, 4, 32, False), Builder()
    builder.output(weights.add_to(builder, builder.input("float32", (3, 65))), "float32")
    message = (
        r"^node com\.microsoft\.MatMulNBits \(MatMulNBits_0\): shapes \(3, 65\) and \(64, 33\) do not fit together$"
    )
    with pytest.raises(dmlcpu.InvalidModelError, match=message):
        dmlcpu.InferenceSession(builder.build())


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"codes": (32, 2, 16)}, r"codes of shape \(32, 2, 16\), expected \(33, 2, 16\)"),
        ({"codes": (16, 2, 33)}, r"codes of shape \(16, 2, 33\), expected \(33, 2, 16\)"),
        ({"codes": (66,)}, r"codes of shape \(66,\), expected \(33, 2, 16\)"),
        ({"scales": (2, 33)}, r"scales of shape \(2, 33\), expected \(33, 2\)"),
        ({"scales": (65,)}, r"scales of shape \(65,\), expected \(33, 2\)"),
        ({"zero points": (33, 2)}, r"zero points of shape \(33, 2\), expected \(33, 1\)"),
        ({"bias": (1, 33)}, r"a bias of shape \(1, 33\), expected \(33,\)"),
    ],
    ids=str,
)
def test_shapes_that_do_not_fit(changed: dict[str, tuple[int, ...]], message: str) -> None:
    shapes = {"codes": (33, 2, 16), "scales": (33, 2), "zero points": (33, 1), "bias": (33,), **changed}
    codes, scales, points, bias = (
        np.zeros(shape, np.uint8 if name in ("codes", "zero points") else np.float32) for name, shape in shapes.items()
    )
    builder = Builder()
    inputs = [builder.input("float32", (3, 64)), codes, scales, points, "", bias]
    sizes = {"K": 64, "N": 33, "bits": 4, "block_size": 32}
    builder.output(builder.node("com.microsoft.MatMulNBits", inputs, **sizes), "float32")
    with pytest.raises(dmlcpu.InvalidModelError, match="MatMulNBits.*" + message):
        dmlcpu.InferenceSession(builder.build())


@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize("shape", [(64,), (0, 64), (2, 1, 3, 1, 64)], ids=str)
def test_any_number_of_axes(random_numbers: np.random.Generator, level: int, shape: tuple[int, ...]) -> None:
    weights, x = Blocks(random_numbers, 64, 33, 4, 32, True), floats(random_numbers, shape)
    builder = Builder()
    builder.output(weights.add_to(builder, builder.input("float32", shape), accuracy_level=level), "float32")
    assert_like_onnxruntime(builder.build(), {"x": x})


def test_a_code_that_ties(random_numbers: np.random.Generator) -> None:
    """Where the product with the inverse is a half after it is rounded, but not before."""
    x, codes = np.zeros((1, 16), np.float32), np.full((1, 1, 8), 0x88, np.uint8)
    x[0, :2] = 1.1369617, 0.8370545
    codes[0, 0, 0] = 0x98
    builder = Builder()
    inputs = [builder.input("float32", x.shape), codes, np.ones(1, np.float32)]
    sizes = {"K": 16, "N": 1, "bits": 4, "block_size": 16, "accuracy_level": 4}
    builder.output(builder.node("com.microsoft.MatMulNBits", inputs, **sizes), "float32")
    assert_like_onnxruntime(builder.build(), {"x": x})


@pytest.mark.parametrize("dtype", [ml_dtypes.int4, ml_dtypes.uint4, np.int8, np.uint8])
@pytest.mark.parametrize(("rows", "size"), [(64, 16), (70, 32), (45, 32), (13, 13), (1, 16)])
@pytest.mark.parametrize("transposed", [False, True])
def test_columns_of_codes(
    random_numbers: np.random.Generator, dtype: type[np.generic], rows: int, size: int, transposed: bool
) -> None:
    """The bytes of each column: unsigned codes, of 4 bits two in a byte, the first one in the lower half."""
    name, columns = np.dtype(dtype).name, 5
    bits, is_signed = 4 if name.endswith("4") else 8, name.startswith("int")
    unsigned = random_numbers.integers(0, 1 << bits, (rows, columns), np.uint8)
    unsigned[0, :2] = 0, (1 << bits) - 1
    codes = (unsigned.astype(np.int16) - is_signed * (1 << (bits - 1))).astype(np.int8 if is_signed else np.uint8)
    codes = codes.astype(dtype)
    if transposed:
        codes = np.ascontiguousarray(codes.T).T
    blocks = -(-rows // size)
    scale, points = np.ones((blocks, columns), np.float32), np.zeros((blocks, columns), dtype)
    matrix = coded_matrix(ConstantOfBlocks(codes, scale, points, size, 0))
    assert matrix is not None
    assert (matrix.bits, matrix.block_size, matrix.rows) == (bits, min(size, rows), rows)
    block = -(-matrix.block_size * bits // 8)
    assert matrix.codes.shape == (columns, blocks * block)
    halves = [matrix.codes & 15, matrix.codes >> 4] if bits == 4 else [matrix.codes]
    np.testing.assert_array_equal(np.stack(halves, -1).reshape(columns, -1)[:, :rows], unsigned.T)
    assert (matrix.zero_point == is_signed * (1 << (bits - 1))).all()
