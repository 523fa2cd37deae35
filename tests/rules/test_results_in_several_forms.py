"""Results that are quantized by several parameters, or by some and read as floats, themselves or moved: made once."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

from onnx_models import POINT, Builder, assert_like_onnxruntime, coded, codes, steps_of

SHAPE: Final = (1, 8, 7, 6)
SCALE: Final = 0.03125 * 1.37


def given(builder: Builder) -> str:
    return builder.dequantized(builder.input("uint8", SHAPE), SCALE, np.uint8(121))


def convolved(builder: Builder, rng: np.random.Generator, value: str, kernel: int = 3) -> str:
    weights = builder.dequantized(codes(rng, "int8", (8, 8, kernel, kernel)), np.float32(0.003), np.int8(0))
    return str(builder.node("Conv", [value, weights], pads=[kernel // 2] * 4))


def multiplied(builder: Builder, rng: np.random.Generator, value: str) -> str:
    weights = builder.dequantized(codes(rng, "int8", (8 * 42, 24)), np.float32(0.003), np.int8(0))
    return str(builder.node("Gemm", [builder.node("Flatten", [value]), weights]))


def transposed(builder: Builder, rng: np.random.Generator, value: str) -> str:
    weights = builder.dequantized(codes(rng, "int8", (8, 6, 4, 4)), np.float32(0.003), np.int8(0))
    return str(builder.node("ConvTranspose", [value, weights], strides=[2, 2], pads=[1, 1, 1, 1]))


def assert_made_once(builder: Builder, rng: np.random.Generator, most: float = 0) -> None:
    steps = steps_of(builder)
    assert "CONVOLUTION_INTEGER_TO_FLOAT" in steps
    assert "QUANTIZED_LINEAR_CONVOLUTION" not in steps
    assert_like_onnxruntime(builder.build(), {"x": codes(rng, "uint8", SHAPE)}, most)


@pytest.mark.parametrize("operator", [convolved, multiplied, transposed])
def test_codes_of_several_parameters_are_made_of_floats(random_numbers: np.random.Generator, operator: Any) -> None:
    builder = Builder()
    value = operator(builder, random_numbers, given(builder))
    for scale in (0.05, 0.07):
        builder.output(builder.quantized(value, scale, POINT), "uint8")
    assert_made_once(builder, random_numbers)


def test_halves_of_channels_have_parameters_of_their_own(random_numbers: np.random.Generator) -> None:
    """As units of ShuffleNetV2 do, where inputs of convolutions alone are quantized."""
    builder = Builder()
    value = builder.node("Relu", [convolved(builder, random_numbers, given(builder))])
    value = builder.node("MaxPool", [value], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for unit in range(3):
        kept, taken = builder.node("Split", [value], 2, axis=1)
        builder.output(builder.quantized(taken, 0.03 + 0.02 * unit, POINT), "uint8")
        together = builder.node("Reshape", [builder.node("Concat", [taken, kept], axis=1), np.int64([1, 2, 4, 4, 3])])
        shuffled = builder.node("Transpose", [together], perm=[0, 2, 1, 3, 4])
        value = builder.node("Reshape", [shuffled, np.int64([1, 8, 4, 3])])
    builder.output(builder.node("GlobalAveragePool", [value]), "float32")
    assert_made_once(builder, random_numbers)
    steps = steps_of(builder)
    assert steps.count("CONVOLUTION_INTEGER_TO_FLOAT") == steps.count("FLOAT_POOLING") == 1


def test_moved_floats_that_are_calculated_with_are_quantized(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    value = builder.node("Relu", [convolved(builder, random_numbers, given(builder))])
    first, second = builder.node("Split", [value], 2, axis=1)
    builder.output(builder.quantized(first, 0.05, POINT), "uint8")
    builder.output(builder.node("Add", [second, second]), "float32")
    assert_made_once(builder, random_numbers)


@pytest.mark.parametrize("other", [np.uint8(128), np.int8(0)])
def test_parameters_under_other_names_and_of_the_other_sign_are_the_same(
    random_numbers: np.random.Generator, other: Any
) -> None:
    builder = Builder()
    value = convolved(builder, random_numbers, given(builder))
    builder.output(builder.quantized(value, 0.05, POINT), "uint8")
    builder.output(builder.quantized(builder.node("Identity", [value]), 0.05, other), other.dtype)
    builder.output(builder.node("Shape", [value]), "int64")
    steps = steps_of(builder)
    assert steps.count("QUANTIZED_LINEAR_CONVOLUTION") == 1
    assert "CONVOLUTION_INTEGER_TO_FLOAT" not in steps
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", SHAPE)}, 1)


@pytest.mark.parametrize(("readers", "steps"), [(8, "QUANTIZED_LINEAR_CONVOLUTION"), (9, "QUANTIZE_LINEAR")])
def test_codes_of_few_products_are_made_again(random_numbers: np.random.Generator, readers: int, steps: str) -> None:
    """Eight products for an element and seven who read others than the first: fewer than 64."""
    builder = Builder()
    value = convolved(builder, random_numbers, given(builder), kernel=1)
    for reader in range(readers):
        builder.output(builder.quantized(value, 0.05 + 0.01 * reader, POINT), "uint8")
    assert sum(step.endswith(steps) for step in steps_of(builder)) == readers
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", SHAPE)}, 1)


def test_one_who_quantizes_and_one_who_is_dequantized_is_one_form(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    value = coded(builder, builder.node("Relu", [convolved(builder, random_numbers, given(builder))]))
    builder.output(builder.quantized(value, 0.03, POINT), "uint8")
    builder.output(builder.node("Add", [value, value]), "float32")
    assert steps_of(builder)[0] == "QUANTIZED_LINEAR_CONVOLUTION"
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", SHAPE)}, 1)
