"""Layer normalization in models: on codes, on floats, in one node or spelled out, beside onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from onnx_models import Builder, assert_like_onnxruntime, codes

Array = NDArray[Any]

SHAPE = (2, 5, 40)
POINT = {"uint8": np.uint8(121), "int8": np.int8(-7)}


def parameters(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Array, Array]:
    return rng.normal(1, 0.3, shape).astype(np.float32), rng.normal(0, 0.3, shape).astype(np.float32)


def steps_of(model: bytes) -> list[str]:
    """The operators that a model became, which is one native graph."""
    [partition] = dmlcpu.InferenceSession(model).partitions()
    return [step.type for step in partition.steps]


@pytest.mark.parametrize(("x_type", "y_type"), [(x, y) for x in POINT for y in POINT])
@pytest.mark.parametrize("axis", [-1, 1, -3])
@pytest.mark.parametrize("is_quantized", [False, True])
def test_of_codes(random_numbers: np.random.Generator, x_type: str, y_type: str, axis: int, is_quantized: bool) -> None:
    """Codes to codes, and the floats read besides."""
    shape = SHAPE[axis:]
    builder = Builder()
    value = builder.dequantized(builder.input(x_type, SHAPE), 0.043, POINT[x_type])
    others: list[Any] = list(parameters(random_numbers, shape))
    if is_quantized:
        others = [
            builder.dequantized(codes(random_numbers, "int8", shape), 0.01, np.int8(0)),
            builder.dequantized(random_numbers.integers(-999, 999, shape, np.int32), 0.001, np.int32(0)),
        ]
    result = builder.node("LayerNormalization", [value, *others], axis=axis, epsilon=1e-3)
    builder.output(builder.quantized(result, 0.02, POINT[y_type]), y_type)
    builder.output(result, "float32")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, x_type, SHAPE)}, 1)


def test_codes_stay_codes(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    value = builder.dequantized(builder.input("uint8", SHAPE), 0.043, np.uint8(9))
    result = builder.node("LayerNormalization", [value, *parameters(random_numbers, SHAPE[-1:])])
    builder.output(builder.quantized(result, 0.02, np.uint8(100)), "uint8")
    assert steps_of(builder.build()) == ["QUANTIZED_LAYER_NORMALIZATION"]


@pytest.mark.parametrize("axis", [-1, 1])
@pytest.mark.parametrize("with_bias", [False, True])
def test_of_floats(random_numbers: np.random.Generator, axis: int, with_bias: bool) -> None:
    weight, bias = parameters(random_numbers, SHAPE[axis:])
    builder = Builder()
    operands = [builder.input("float32", SHAPE), weight, *([bias] if with_bias else [])]
    result = builder.node("LayerNormalization", operands, axis=axis)
    builder.output(builder.quantized(result, 0.02, np.uint8(100)), "uint8")
    builder.output(result, "float32")
    x = random_numbers.normal(1, 3, SHAPE).astype(np.float32)
    assert_like_onnxruntime(builder.build(), {"x": x}, 1)


def test_of_a_function_of_codes(random_numbers: np.random.Generator) -> None:
    """Of a table that is no scale, and of one weight for all places."""
    builder = Builder()
    value = builder.node("Sigmoid", [builder.dequantized(builder.input("uint8", SHAPE), 0.043, np.uint8(99))])
    result = builder.node("LayerNormalization", [value, np.full(1, 1.5, np.float32)])
    builder.output(builder.quantized(result, 0.02, np.uint8(100)), "uint8")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", SHAPE)}, 1)


@pytest.mark.parametrize("case", ["mean", "computed weight", "FLOAT16"])
def test_others_run_elsewhere(random_numbers: np.random.Generator, case: str) -> None:
    weight, bias = parameters(random_numbers, SHAPE[-1:])
    builder = Builder()
    x = random_numbers.normal(1, 3, SHAPE).astype(np.float16 if case == "FLOAT16" else np.float32)
    feeds = {"x": x}
    operands: list[Any] = [builder.input(x.dtype, SHAPE), weight.astype(x.dtype), bias.astype(x.dtype)]
    if case == "computed weight":
        operands[1] = builder.input("float32", weight.shape, "w")
        feeds["w"] = weight
    results = builder.node("LayerNormalization", operands, count=2 if case == "mean" else 1)
    for result in [results] if isinstance(results, str) else results:
        builder.output(result, x.dtype)
    model = builder.build()
    assert_like_onnxruntime(model, feeds, native=False)
    session = dmlcpu.InferenceSession(model)
    session.run(None, feeds)
    assert [partition.provider for partition in session.partitions()] == ["onnxruntime"]
