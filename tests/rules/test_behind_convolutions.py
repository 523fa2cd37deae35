"""Nodes behind a convolution without codes in between, beside onnxruntime: factors and addends become its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pytest

from onnx_cases import IMAGE, ints, small_convolution
from onnx_models import Builder, assert_like_onnxruntime, codes, steps_of

BEHIND_CONVOLUTIONS: Final[Mapping[str, tuple[str, Sequence[Any], Mapping[str, Any]]]] = {
    "batch normalization": (
        "BatchNormalization",
        [np.float32(row) for row in ([1, -2, 0.5, 3], [0, 1, 0.1, -9], [0.3, 0.1, -0.2, 4], [1, 0.5, 2, 7])],
        {},
    ),
    "factors of 0": ("Mul", [np.float32([1, 0, 2, 3]).reshape(4, 1, 1)], {}),
    "addends": ("Add", [np.float32([1, 0, 2, 3]).reshape(4, 1, 1)], {}),
    "factors of rows of each channel": ("Mul", [np.linspace(0, 2, 28, dtype=np.float32).reshape(4, 7, 1)], {}),
    "maxima": ("MaxPool", [], {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    "averages": ("AveragePool", [], {"kernel_shape": [3, 3], "strides": [2, 2]}),
    "padding": ("Pad", [ints(0, 0, 1, 1, 0, 0, 0, 2)], {}),
    "reflection": ("Pad", [ints(0, 0, 1, 1, 0, 0, 0, 2)], {"mode": "reflect"}),
    "pixel shuffle": ("DepthToSpace", [], {"blocksize": 2}),
    "means of rows": ("ReduceMean", [], {"axes": [3]}),
    "pixels that repeat": (
        "Resize",
        ["", np.float32([1, 1, 2, 3])],
        {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    ),
    "halves": ("Mul", [np.float32(0.5)], {}),
    "quotients": ("Div", [np.float32([[[3]]])], {}),
    "several slopes": ("PRelu", [np.float32([0.1, -0.2, 0.3, 2]).reshape(4, 1, 1)], {}),
    "hard swish": ("HardSwish", [], {}),
}


@pytest.mark.parametrize("name", BEHIND_CONVOLUTIONS)
@pytest.mark.parametrize("quantize", [False, True])
def test_behind_convolutions(random_numbers: np.random.Generator, name: str, quantize: bool) -> None:
    """Without codes in between."""
    operator, others, attributes = BEHIND_CONVOLUTIONS[name]
    builder = Builder()
    result = builder.node(operator, [small_convolution(builder, "x", IMAGE, random_numbers), *others], **attributes)
    if quantize:
        builder.output(builder.quantized(builder.node("Relu", [result]), 0.1, np.uint8(3)), "uint8")
    else:
        builder.output(result, "float32")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", IMAGE)}, 1)


def test_maxima_are_those_of_codes(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    result = builder.node("MaxPool", [small_convolution(builder, "x", IMAGE, random_numbers)], kernel_shape=[2, 3])
    builder.output(builder.quantized(result, 0.1, np.uint8(3)), "uint8")
    assert steps_of(builder) == ["QUANTIZED_LINEAR_CONVOLUTION", "MAX_POOLING"]
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", IMAGE)}, 1)


@pytest.mark.parametrize("name", ["batch normalization", "addends", "halves", "quotients", "halves of codes"])
def test_factors_and_addends_are_those_of_the_convolution(random_numbers: np.random.Generator, name: str) -> None:
    builder = Builder()
    if name == "halves of codes":
        operator, others = "Mul", [builder.dequantized(np.uint8(2), 0.25, np.uint8(0))]
    else:
        operator, others, _ = BEHIND_CONVOLUTIONS[name]
    result = builder.node(operator, [small_convolution(builder, "x", IMAGE, random_numbers), *others])
    builder.output(builder.quantized(result, 0.1, np.uint8(3)), "uint8")
    assert steps_of(builder) == ["QUANTIZED_LINEAR_CONVOLUTION"]


@pytest.mark.parametrize("operator", ["Pad", "Concat"])
def test_sums_of_codes_beside_others(random_numbers: np.random.Generator, operator: str) -> None:
    """INT32 that no node has computed yet stays INT32."""
    builder = Builder()
    x = builder.input("uint8", (3, 4))
    weights = random_numbers.integers(-9, 9, (4, 5), np.int8)
    sums = [builder.node("MatMulInteger", [x, weights]) for _ in range(2)]
    operands = [sums[0], ints(1, 0, 0, 2), np.array(2**30 + 1, np.int32)] if operator == "Pad" else sums
    moved = builder.node(operator, operands, **({} if operator == "Pad" else {"axis": 0}))
    builder.output(moved, "int32")
    builder.output(builder.node("Mul", [builder.node("Cast", [moved], to=1), np.float32(0.5)]), "float32")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", (3, 4))}, equal=True)
