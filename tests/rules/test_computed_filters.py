"""Conv by filters that a model computes, as networks do that modulate theirs, beside onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlcpu
from onnx_models import POINT, Builder, assert_like_onnxruntime, codes, results_of_onnxruntime

WINDOWS: Any = [
    ((1, 5, 9, 8), (7, 5, 3, 3), {"pads": [1, 1, 1, 1]}),
    ((1, 12, 7, 6), (33, 4, 3, 3), {"group": 3, "strides": [2, 1]}),
    ((2, 16, 6, 5), (16, 1, 3, 3), {"group": 16, "pads": [1, 1, 1, 1]}),
    ((1, 20, 5, 5), (33, 20, 1, 1), {}),
    ((1, 4, 17), (6, 4, 5), {"dilations": [2]}),
]


@pytest.mark.parametrize("result", ["codes", "activated", "floats"])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize(("x_shape", "w_shape", "attributes"), WINDOWS, ids=str)
def test_filters_of_codes(
    random_numbers: np.random.Generator, x_shape: Any, w_shape: Any, attributes: Any, dtype: Any, result: str
) -> None:
    builder = Builder()
    x = builder.dequantized(builder.input("uint8", x_shape), 0.02, POINT)
    point = np.dtype(dtype).type(3)
    weights = builder.dequantized(builder.input(dtype, w_shape, "w"), 0.004, point)
    operands = [x, weights, random_numbers.normal(0, 1, w_shape[:1]).astype(np.float32)]
    value = builder.node("Conv", operands, **attributes)
    if result == "activated":
        value = builder.node("LeakyRelu", [value], alpha=0.2)
    if result != "floats":
        value = builder.quantized(value, 0.05, POINT)
    builder.output(value, "float32" if result == "floats" else "uint8")
    feeds = {"x": codes(random_numbers, "uint8", x_shape), "w": codes(random_numbers, dtype, w_shape)}
    model = builder.build()
    if result == "floats":
        assert_close(model, feeds)
    else:
        assert_like_onnxruntime(model, feeds, 1)


def assert_close(model: bytes, feeds: Any) -> None:
    """The bias is rounded to a code of the sums, as where it is quantized."""
    [ours], [expected] = dmlcpu.InferenceSession(model).run(None, feeds), results_of_onnxruntime(model, feeds)
    assert np.abs(ours - expected).max() <= 0.02 * 0.004
    assert {part.provider for part in dmlcpu.InferenceSession(model).partitions()} == {"dmlcpu"}


@pytest.mark.parametrize(("x_shape", "w_shape", "attributes"), WINDOWS, ids=str)
def test_filters_of_floats(random_numbers: np.random.Generator, x_shape: Any, w_shape: Any, attributes: Any) -> None:
    builder = Builder()
    operands = [builder.input("float32", x_shape), builder.input("float32", w_shape, "w"), np.ones(w_shape[0], "f4")]
    builder.output(builder.node("Conv", operands, **attributes), "float32")
    feeds = {
        "x": random_numbers.normal(0, 1, x_shape).astype(np.float32),
        "w": random_numbers.normal(0, 1, w_shape).astype(np.float32),
    }
    assert_like_onnxruntime(builder.build(), feeds)


def test_filters_that_are_modulated(random_numbers: np.random.Generator) -> None:
    """Those of each image, as groups of one convolution."""
    builder = Builder()
    weights = builder.dequantized(codes(random_numbers, "int8", (1, 6, 4, 3, 3)), 0.01, np.int8(0))
    styles = builder.dequantized(builder.input("uint8", (2, 1, 4, 1, 1), "styles"), 0.02, POINT)
    modulated = builder.quantized(builder.node("Mul", [weights, styles]), 0.02, POINT)
    filters = builder.node("Reshape", [builder.dequantized(modulated, 0.02, POINT), np.array([12, 4, 3, 3])])
    x = builder.dequantized(builder.input("uint8", (2, 4, 8, 8)), 0.02, POINT)
    value = builder.node("Conv", [builder.node("Reshape", [x, np.array([1, 8, 8, 8])]), filters], group=2)
    builder.output(builder.quantized(value, 0.1, POINT), "uint8")
    feeds = {
        "x": codes(random_numbers, "uint8", (2, 4, 8, 8)),
        "styles": codes(random_numbers, "uint8", (2, 1, 4, 1, 1)),
    }
    assert_like_onnxruntime(builder.build(), feeds, 1)


def test_a_volume_is_left_to_onnxruntime(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    x = builder.dequantized(builder.input("uint8", (1, 2, 4, 4, 4)), 0.02, POINT)
    weights = builder.dequantized(builder.input("int8", (3, 2, 2, 2, 2), "w"), 0.004, np.int8(0))
    builder.output(builder.quantized(builder.node("Conv", [x, weights]), 0.05, POINT), "uint8")
    feeds = {
        "x": codes(random_numbers, "uint8", (1, 2, 4, 4, 4)),
        "w": codes(random_numbers, "int8", (3, 2, 2, 2, 2)),
    }
    assert_like_onnxruntime(builder.build(), feeds, 1, native=False)
