"""Conv by constant filters that nodes quantize, clip, reshape or transpose, beside onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_cases import IMAGE, POINTS, SCALE, ints
from onnx_models import Builder, assert_like_onnxruntime, codes, steps_of


@pytest.mark.parametrize("opset", [13, 21])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("narrow", [False, True])
def test_filters_quantized_by_the_model(
    random_numbers: np.random.Generator, opset: int, per_channel: bool, narrow: bool
) -> None:
    """As training with quantization leaves them: floats, quantized, clipped, dequantized."""
    filters = random_numbers.normal(size=(5, 3, 3, 3)).astype(np.float32)
    scales = random_numbers.uniform(0.01, 0.02, 5).astype(np.float32) if per_channel else np.float32(0.015)
    points = np.zeros(scales.shape, np.int8)
    builder = Builder(opset)
    value = builder.dequantized(builder.input("uint8", IMAGE), SCALE, POINTS["uint8"])
    quantized = builder.node("QuantizeLinear", [filters, scales, points], axis=0)
    if narrow:
        quantized = builder.node("Clip", [quantized, np.int8(-127), np.int8(127)])
    weights = builder.node("DequantizeLinear", [quantized, scales, points], axis=0)
    result = builder.node("Conv", [value, weights])
    builder.output(builder.quantized(result, 0.2, np.uint8(99)), "uint8")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", IMAGE)}, 1)


def test_filters_that_are_reshaped(random_numbers: np.random.Generator) -> None:
    """Scales of channels stay scales of channels: a linear layer as a convolution."""
    filters = codes(random_numbers, "int8", (5, 12))
    scales = random_numbers.uniform(0.01, 0.02, 5).astype(np.float32)
    builder = Builder()
    value = builder.dequantized(builder.input("uint8", (2, 3, 2, 2)), SCALE, POINTS["uint8"])
    weights = builder.dequantized(filters, scales, np.zeros(5, np.int8), axis=0)
    result = builder.node("Conv", [value, builder.node("Reshape", [weights, ints(5, 3, 2, 2)])])
    builder.output(builder.quantized(result, 0.2, np.uint8(99)), "uint8")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", (2, 3, 2, 2))}, 1)


def test_filters_of_one_scale_that_are_transposed(random_numbers: np.random.Generator) -> None:
    """It is along no axis, whatever becomes of the first one."""
    builder = Builder()
    value = builder.dequantized(builder.input("uint8", IMAGE), SCALE, POINTS["uint8"])
    weights = builder.dequantized(codes(random_numbers, "int8", (3, 5, 3, 2)), 0.01, np.int8(0))
    result = builder.node("Conv", [value, builder.node("Transpose", [weights], perm=[1, 0, 2, 3])])
    builder.output(builder.quantized(result, 0.2, np.uint8(99)), "uint8")
    assert steps_of(builder) == ["QUANTIZED_LINEAR_CONVOLUTION"]
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", IMAGE)}, 1)
