"""Results of products of codes that some nodes read as floats and others as codes: they are computed once."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest

from onnx_cases import IMAGE, POINTS, SCALE
from onnx_models import Builder, assert_like_onnxruntime, coded, codes, floats, steps_of

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
