"""What is added to matrix products of codes, and sums of integers, beside onnxruntime."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

from onnx_cases import POINTS, SCALE
from onnx_models import Builder, assert_like_onnxruntime, codes, steps_of


@pytest.mark.parametrize("shape", [(6, 1), (6, 6), (1, 6), (1, 1), (1,), ()])
def test_addends_of_a_dense_layer(random_numbers: np.random.Generator, shape: tuple[int, ...]) -> None:
    """A number, or one for each column, is a bias of codes; what each row or element has is added to the product."""
    x, w = codes(random_numbers, "uint8", (6, 7)), codes(random_numbers, "int8", (7, 6))
    builder = Builder()
    value = builder.dequantized(builder.input("uint8", x.shape), SCALE, POINTS["uint8"])
    addend = random_numbers.normal(size=shape).astype(np.float32)
    result = builder.node("Gemm", [value, builder.dequantized(w, 0.004, np.int8(0)), addend])
    builder.output(builder.quantized(result, 0.03, POINTS["uint8"]), "uint8")
    assert_like_onnxruntime(builder.build(), {"x": x}, 1)
    of_columns = "QUANTIZED_LINEAR_CONVOLUTION" in steps_of(builder)
    assert of_columns == (shape not in ((6, 1), (6, 6)))


OF_ROWS: Final = ((5, 6), (5, 1))
ADDENDS: Final = [
    *((kind, shape) for kind in ("codes", "floats") for shape in (*OF_ROWS, (1, 6), (6,), (1,), ())),
    *((kind, shape) for kind in ("constant", "constant codes") for shape in OF_ROWS),
]


@pytest.mark.parametrize(
    "attributes", [{}, {"beta": -2.5, "transB": 1}, {"alpha": 0.5, "transA": 1}, {"beta": 0.0}], ids=str
)
@pytest.mark.parametrize(("kind", "shape"), ADDENDS, ids=str)
def test_addends_that_are_no_bias(
    random_numbers: np.random.Generator, kind: str, shape: tuple[int, ...], attributes: dict[str, Any]
) -> None:
    """As a MatMul and an Add that an optimizer has joined."""
    x = codes(random_numbers, "uint8", (7, 5) if "transA" in attributes else (5, 7))
    w = codes(random_numbers, "int8", (6, 7) if "transB" in attributes else (7, 6))
    c = codes(random_numbers, "uint8", shape)
    builder, feeds = Builder(), {"x": x}
    value = builder.dequantized(builder.input("uint8", x.shape), SCALE, POINTS["uint8"])
    scales = random_numbers.uniform(0.002, 0.006, 6).astype(np.float32)
    weights = builder.dequantized(w, scales, np.zeros(6, np.int8), axis=0 if "transB" in attributes else 1)
    addend: Any = np.asarray(np.float32(0.02) * (c.astype(np.float32) - 121))
    if kind == "constant codes":
        addend = builder.dequantized(c, 0.02, POINTS["uint8"])
    elif kind != "constant":
        feeds["c"] = addend if kind == "floats" else c
        addend = builder.input(feeds["c"].dtype, shape, "c")
        addend = builder.dequantized(addend, 0.02, POINTS["uint8"]) if kind == "codes" else addend
    result = builder.node("Gemm", [value, weights, addend], **attributes)
    builder.output(result, "float32")
    builder.output(builder.quantized(result, 0.03, POINTS["uint8"]), "uint8")
    assert_like_onnxruntime(builder.build(), feeds, 1)


@pytest.mark.parametrize("shape", [(6,), (1, 6), (1, 1), (), (6, 1), (6, 6)])
@pytest.mark.parametrize("transposed", [0, 1])
def test_addends_of_a_dense_layer_of_codes(
    random_numbers: np.random.Generator, transposed: int, shape: tuple[int, ...]
) -> None:
    """What each row or element has is left to onnxruntime, of as many rows as there are columns too."""
    x, w = codes(random_numbers, "uint8", (6, 7)), codes(random_numbers, "int8", (6, 7) if transposed else (7, 6))
    builder = Builder()
    addend = np.asarray(random_numbers.integers(-9999, 9999, shape, np.int32))
    operands = [builder.input("uint8", x.shape), np.float32(SCALE), POINTS["uint8"]]
    operands += [w, np.float32(0.004), np.int8(0), addend]
    builder.output(builder.node("com.microsoft.QGemm", operands, transB=transposed), "float32")
    assert_like_onnxruntime(builder.build(), {"x": x}, native=shape not in ((6, 1), (6, 6)))


def test_scales_along_the_columns_of_a_left_operand(random_numbers: np.random.Generator) -> None:
    a, b = codes(random_numbers, "int8", (6, 6)), codes(random_numbers, "uint8", (6, 5))
    scales = random_numbers.uniform(0.001, 0.01, 6).astype(np.float32)
    builder = Builder()
    left = builder.dequantized(a, scales, np.zeros(6, np.int8), axis=1)
    right = builder.dequantized(builder.input("uint8", b.shape), SCALE, POINTS["uint8"])
    builder.output(builder.node("MatMul", [left, right]), "float32")
    assert_like_onnxruntime(builder.build(), {"x": b})


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 1), (1, 1, 6), (6,)])
def test_scales_of_more_axes_than_the_sums(random_numbers: np.random.Generator, shape: tuple[int, ...]) -> None:
    a, b = codes(random_numbers, "uint8", (4, 7)), codes(random_numbers, "int8", (7, 6))
    builder = Builder()
    sums = builder.node("MatMulInteger", [builder.input("uint8", a.shape), b, POINTS["uint8"], np.int8(0)])
    scales = random_numbers.uniform(0.1, 0.9, shape).astype(np.float32)
    builder.output(builder.node("Mul", [builder.node("Cast", [sums], to=1), scales]), "float32")
    assert_like_onnxruntime(builder.build(), {"x": a})
