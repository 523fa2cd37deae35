"""Factors and addends of channels where a convolution of codes cannot have them, and constants that are codes."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_cases import IMAGE, POINTS, SCALE, small_convolution
from onnx_models import Builder, assert_like_onnxruntime, codes, reasons_of, steps_of


@pytest.mark.parametrize("behind_a_convolution", [False, True])
def test_factors_that_are_beyond_float32_as_scales(
    random_numbers: np.random.Generator, behind_a_convolution: bool
) -> None:
    """Of the floats each is finite, and most products are not: of either sign, or 0."""
    builder = Builder()
    x = builder.dequantized(builder.input("uint8", IMAGE), 300, POINTS["uint8"])
    factors = np.float32([1, 3e38, -3e38]).reshape(3, 1, 1)
    if behind_a_convolution:
        x = builder.node("Conv", [x, builder.dequantized(np.eye(3, dtype=np.int8)[..., None, None], 300, np.int8(0))])
    y = builder.quantized(builder.node("Mul", [x, factors]), 100, POINTS["int8"])
    builder.output(y, "int8")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", IMAGE)})


def test_addends_that_no_bias_holds(random_numbers: np.random.Generator) -> None:
    """In units of the sums they are beyond INT32, and the results are the lowest and the highest codes."""
    builder = Builder()
    addends = np.float32([1e6, -1e6, 0, 1e6]).reshape(4, 1, 1)
    result = builder.node("Add", [small_convolution(builder, "x", IMAGE, random_numbers), addends])
    builder.output(builder.quantized(result, 0.1, np.uint8(3)), "uint8")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", IMAGE)}, 1)


def test_addends_at_the_ends_of_a_bias(random_numbers: np.random.Generator) -> None:
    """In sums of unit 1: one more than the highest bias, and the lowest one."""
    builder = Builder()
    x = builder.dequantized(builder.input("uint8", IMAGE), 1, np.uint8(0))
    weights = builder.dequantized(np.eye(3, dtype=np.int8)[..., None, None], 1, np.int8(0))
    addends = np.float32([2**31, -(2**31), 0]).reshape(3, 1, 1)
    result = builder.node("Add", [builder.node("Conv", [x, weights]), addends])
    builder.output(builder.quantized(result, 2**24, np.uint8(128)), "uint8")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", IMAGE)})


def test_statistics_of_the_batch_are_left_to_others() -> None:
    builder = Builder()
    value = builder.dequantized(builder.input("uint8", IMAGE), SCALE, POINTS["uint8"])
    numbers = [np.ones(3, np.float32)] * 4
    result, *_ = builder.node("BatchNormalization", [value, *numbers], 3, training_mode=1)
    builder.output(result, "float32")
    assert reasons_of(builder) == ["training"]


@pytest.mark.parametrize("operator", ["Add", "Mul"])
@pytest.mark.parametrize("shape", [(), (3, 1, 1)], ids=str)
def test_constant_codes_beside_codes(
    random_numbers: np.random.Generator, operator: str, shape: tuple[int, ...]
) -> None:
    """Of one scale they are read as codes, of several as floats."""
    builder = Builder()
    value = builder.dequantized(builder.input("uint8", IMAGE), SCALE, POINTS["uint8"])
    scales = random_numbers.uniform(0.01, 0.05, shape[:1]).astype(np.float32)
    numbers = codes(random_numbers, "uint8", (3, 7, 6))
    constant = builder.dequantized(numbers, scales, np.full(shape[:1], 100, np.uint8), axis=0)
    builder.output(builder.quantized(builder.node(operator, [value, constant]), 0.1, POINTS["uint8"]), "uint8")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", IMAGE)}, 1)
    assert ("ELEMENT_WISE_BINARY" in steps_of(builder)) == bool(shape)
