"""Constant codes of one axis, such as biases, whose scales are said to be along the default axis, which is another."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray

import dmlcpu
from onnx_models import Builder, assert_like_onnxruntime, coded, codes

Array = NDArray[Any]
SCALES = np.linspace(0.01, 0.02, 4, dtype=np.float32)


def bias_of_codes(builder: Builder, rng: np.random.Generator, scales: Array, **attributes: Any) -> str:
    bias = rng.integers(-1000, 1000, 4, np.int32)
    return builder.dequantized(bias, scales, np.zeros(4, np.int32), **attributes)


def layer(rng: np.random.Generator, form: str, **attributes: Any) -> bytes:
    """A layer of codes, floats or codes of 16 bits, plus a bias of codes."""
    builder = Builder(21)
    x = builder.input("float32", (3, 8))
    if form == "codes":
        x = coded(builder, x)
    elif form == "wide codes":
        point = np.uint16(32768)
        x = builder.dequantized(builder.quantized(x, 0.001, point), 0.001, point)
    matrix = builder.dequantized(codes(rng, "int8", (8, 4)), SCALES, np.zeros(4, np.int8), axis=1)
    bias = bias_of_codes(builder, rng, np.float32(0.05) * SCALES, **attributes)
    if form == "gemm":
        value = builder.node("Gemm", [coded(builder, x), matrix, bias])
    else:
        value = builder.node("Add", [builder.node("MatMul", [x, matrix]), bias])
    builder.output(coded(builder, value) if form != "floats" else value, "float32")
    return builder.build()


@pytest.mark.parametrize("form", ["codes", "gemm", "wide codes", "floats"])
@pytest.mark.parametrize("attributes", [{}, {"axis": 1}], ids=str)
def test_a_bias_without_an_axis(random_numbers: np.random.Generator, form: str, attributes: dict[str, int]) -> None:
    """It is read along the axis that it has."""
    seed = int(random_numbers.integers(1 << 30))
    model, named = (layer(np.random.default_rng(seed), form, **each) for each in (attributes, {"axis": 0}))
    feeds = {"x": random_numbers.standard_normal((3, 8), np.float32)}
    [result], [expected] = (dmlcpu.InferenceSession(each).run(None, feeds) for each in (model, named))
    np.testing.assert_array_equal(result, expected)
    assert_like_onnxruntime(named, feeds, 1, equal=form != "floats", unit=0.05)
    if form in ("codes", "gemm"):  # where the node is fused, which has no axis then
        [optimized] = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feeds)
        assert np.abs(result - optimized).max() < 0.05 * 1.01


def test_a_bias_without_an_axis_beside_nodes_of_onnxruntime(random_numbers: np.random.Generator) -> None:
    """Which would refuse the node that dequantizes it."""
    seed = int(random_numbers.integers(1 << 30))

    def model(**attributes: Any) -> bytes:
        rng, builder = np.random.default_rng(seed), Builder(21)
        scales, points = np.full(4, 0.001, np.float32), np.full(4, 32768, np.uint16)  # along an axis
        value = builder.quantized(builder.input("float32", (1, 4, 6, 7)), scales, points)
        value = builder.dequantized(value, scales, points)
        filters = builder.dequantized(codes(rng, "int8", (4, 4, 3, 3)), 0.01, np.int8(0))
        bias = bias_of_codes(builder, rng, np.full(4, 1e-5, np.float32), **attributes)
        value = builder.quantized(builder.node("Conv", [value, filters, bias]), scales, points)
        builder.output(builder.dequantized(value, scales, points), "float32")
        return builder.build()

    feeds = {"x": random_numbers.standard_normal((1, 4, 6, 7), np.float32)}
    session = dmlcpu.InferenceSession(model())
    assert {part.provider for part in session.partitions()} == {"onnxruntime"}
    [result], [expected] = session.run(None, feeds), dmlcpu.InferenceSession(model(axis=0)).run(None, feeds)
    assert np.abs(result - expected).max() < 0.0015  # a code


@pytest.mark.parametrize(("axis", "count"), [(2, 4), (-2, 4), (1, 3)])
def test_axes_and_counts_that_fit_no_bias(random_numbers: np.random.Generator, axis: int, count: int) -> None:
    builder = Builder()
    bias = builder.dequantized(np.ones(4, np.int32), np.ones(count), np.zeros(count, np.int32), axis=axis)
    builder.output(builder.node("Add", [builder.input("float32", (3, 4)), bias]), "float32")
    with pytest.raises(dmlcpu.DmlError):
        dmlcpu.InferenceSession(builder.build()).run(None, {"x": np.ones((3, 4), np.float32)})


def test_codes_of_a_bias_in_the_unit_of_the_sums_count() -> None:
    """And not the floats that they stand for, by a scale that a quantizer has rounded."""
    builder = Builder()
    x = builder.dequantized(builder.input("uint8", (1, 32, 2, 3)), 1, np.uint8(0))
    filters = builder.dequantized(np.full((1, 32, 1, 1), -127, np.int8), 1, np.int8(0))
    lowest = -127 * 32 * 255
    bias = builder.dequantized(np.int32([100 - lowest]), 1 + 5e-6, np.int32(0))
    builder.output(builder.quantized(builder.node("Conv", [x, filters, bias]), 1, np.uint8(0)), "uint8")
    [result] = dmlcpu.InferenceSession(builder.build()).run(None, {"x": np.full((1, 32, 2, 3), 255, np.uint8)})
    np.testing.assert_array_equal(result, np.full((1, 1, 2, 3), 100, np.uint8))
