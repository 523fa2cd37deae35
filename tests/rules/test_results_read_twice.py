"""Results of products of codes that several nodes read, as floats or as codes: they are computed once."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest

import dmlcpu
from onnx_cases import IMAGE, POINTS, SCALE
from onnx_models import POINT, Builder, assert_like_onnxruntime, coded, codes, floats, steps_of

CHANNELS: Final = IMAGE[1]


def given(builder: Builder) -> str:
    return builder.dequantized(builder.input("uint8", IMAGE), SCALE, POINTS["uint8"])


def convolved(builder: Builder, rng: np.random.Generator, value: str) -> str:
    weights = builder.dequantized(codes(rng, "int8", (CHANNELS, CHANNELS, 3, 3)), np.float32(0.003), np.int8(0))
    return str(builder.node("Conv", [value, weights], pads=[1, 1, 1, 1]))


@pytest.mark.parametrize("is_clipped", [False, True])
@pytest.mark.parametrize("comes_first", ["codes", "floats"])
def test_a_residual_branch_begins_with_floats(
    random_numbers: np.random.Generator, is_clipped: bool, comes_first: str
) -> None:
    builder = Builder()
    value = convolved(builder, random_numbers, given(builder))
    value = builder.node("Relu", [value]) if is_clipped else value
    other = builder.input("float32", IMAGE, "other")
    if comes_first == "floats":
        other = builder.node("Mul", [value, other])
    branch = convolved(builder, random_numbers, coded(builder, value))
    builder.output(builder.node("Add", [branch, builder.node("Add", [value, other])]), "float32")
    steps = steps_of(builder)
    assert "QUANTIZED_LINEAR_CONVOLUTION" not in steps
    assert steps.count("CONVOLUTION_INTEGER_TO_FLOAT") == 2
    feeds = {"x": codes(random_numbers, "uint8", IMAGE), "other": floats(random_numbers, IMAGE)}
    assert_like_onnxruntime(builder.build(), feeds)


def test_what_the_caller_reads_too_is_quantized(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    value = convolved(builder, random_numbers, given(builder))
    builder.output(convolved(builder, random_numbers, coded(builder, value)), "float32")
    builder.output(value, "float32")
    assert "QUANTIZED_LINEAR_CONVOLUTION" not in steps_of(builder)
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", IMAGE)})


def test_what_codes_alone_are_made_of_is_computed_in_codes(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    value = convolved(builder, random_numbers, given(builder))
    builder.output(convolved(builder, random_numbers, coded(builder, value)), "float32")
    assert steps_of(builder) == ["QUANTIZED_LINEAR_CONVOLUTION", "CONVOLUTION_INTEGER_TO_FLOAT"]


ROWS, COLUMNS, HEADS, WIDTH = 10, 24, 2, 16


def split_along(builder: Builder, layer: str, how: str) -> list[str]:
    """Return three matrices {HEADS, ROWS, WIDTH} of a layer's columns."""
    if how == "split":
        parts = builder.node("Split", [builder.node("Reshape", [layer, np.int64([1, ROWS, -1])])], 3, axis=2)
        parts = [builder.node("Reshape", [part, np.int64([ROWS, HEADS, WIDTH])]) for part in parts]
        return [builder.node("Transpose", [part], perm=[1, 0, 2]) for part in parts]
    heads = builder.node("Reshape", [layer, np.int64([ROWS, 3, HEADS, WIDTH])])
    together = builder.node("Transpose", [heads], perm=[1, 2, 0, 3])
    return [builder.node("Gather", [together, np.int64(place)], axis=0) for place in range(3)]


def projected(rng: np.random.Generator, how: str, scales: str, bias: bool) -> Builder:
    """Return a layer's columns as codes, with parameters of their own but for those that are multiplied before."""
    builder = Builder()
    x = builder.dequantized(builder.input("uint8", (ROWS, COLUMNS)), SCALE, POINTS["uint8"])
    count = 3 * HEADS * WIDTH
    of_columns = rng.uniform(0.001, 0.01, count).astype(np.float32), np.zeros(count, np.int8)
    parameters = of_columns if scales == "of columns" else (np.float32(0.004), np.int8(3))
    weights = builder.dequantized(codes(rng, "int8", (COLUMNS, count)), *parameters, axis=1)
    operands = [x, weights, floats(rng, (count,))] if bias else [x, weights]
    parts = split_along(builder, builder.node("Gemm", operands), how)
    if scales == "of what is multiplied":
        parts[0] = builder.node("Mul", [parts[0], floats(rng, (ROWS, WIDTH))])
    for place, part in enumerate(parts):
        builder.output(builder.quantized(part, 0.2 + 0.1 * place, POINT), "uint8")
    return builder


@pytest.mark.parametrize("how", ["split", "gathered"])
@pytest.mark.parametrize("scales", ["of columns", "one", "of what is multiplied"])
@pytest.mark.parametrize("bias", [False, True])
def test_columns_of_a_layer_that_become_codes_are_layers(
    random_numbers: np.random.Generator, how: str, scales: str, bias: bool
) -> None:
    builder = projected(random_numbers, how, scales, bias)
    [partition] = dmlcpu.InferenceSession(builder.build()).partitions()
    layers = [step for step in partition.steps if "channels in 1 group" in step.plan]
    if scales == "of what is multiplied":  # the floats of all are there
        assert [step.type for step in layers] == ["CONVOLUTION_INTEGER_TO_FLOAT"]
    else:
        assert [step.type for step in layers] == ["QUANTIZED_LINEAR_CONVOLUTION"] * 3
        assert all(f"1 x {HEADS * WIDTH} channels" in step.plan for step in layers)
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", (ROWS, COLUMNS))}, 1)
