"""Products and means of transformer models, and long chains of nodes, beside onnxruntime."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from onnx_models import POINT, Builder, assert_like_onnxruntime, codes, floats, results_of_onnxruntime, steps_of

Array = NDArray[Any]

SHAPE = (2, 9, 24)


@pytest.mark.parametrize("axes", [[1], [0, 1], [-1], [1, 2], [0, 1, 2]])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_means_of_floats(random_numbers: np.random.Generator, axes: list[int], keepdims: int) -> None:
    builder = Builder()
    result = builder.node("ReduceMean", [builder.input("float32", SHAPE)], axes=axes, keepdims=keepdims)
    builder.output(result, "float32")
    assert_like_onnxruntime(builder.build(), {"x": floats(random_numbers, SHAPE)})


@pytest.mark.parametrize("shapes", [((5, 7), (7, 6)), ((2, 5, 7), (7, 70)), ((2, 3, 5, 150), (2, 1, 150, 6))])
@pytest.mark.parametrize("transposed", [False, True])
def test_products_of_floats(
    random_numbers: np.random.Generator, shapes: tuple[tuple[int, ...], tuple[int, ...]], transposed: bool
) -> None:
    a_shape, b_shape = shapes
    given = (*b_shape[:-2], b_shape[-1], b_shape[-2]) if transposed else b_shape
    builder = Builder()
    b = builder.input("float32", given, "b")
    if transposed:
        order = [*range(len(given) - 2), len(given) - 1, len(given) - 2]
        b = builder.node("Transpose", [b], perm=order)
    builder.output(builder.node("MatMul", [builder.input("float32", a_shape, "a"), b]), "float32")
    assert_like_onnxruntime(builder.build(), {"a": floats(random_numbers, a_shape), "b": floats(random_numbers, given)})
    assert steps_of(builder) == ["FLOAT_PRODUCT"]


@pytest.mark.parametrize("form", ["one scale", "of columns", "no bias", "bias first", "sums are read", "read twice"])
def test_dynamically_quantized_products(random_numbers: np.random.Generator, form: str) -> None:
    """Codes are inputs here: onnxruntime's dynamic quantization rounds otherwise."""
    w = codes(random_numbers, "int8", (24, 6))
    scales = random_numbers.uniform(0.01, 0.02, 6).astype(np.float32) if form == "of columns" else np.float32(0.01)
    builder = Builder()
    x, scale = builder.input("uint8", SHAPE), builder.input("float32", [], "s")
    product = builder.node("MatMulInteger", [x, w, np.uint8(99), np.int8(0)])
    cast = builder.node("Cast", [product], to=1)
    result = builder.node("Mul", [builder.node("Mul", [scale, scales]), cast])
    if form != "no bias":
        operands = [floats(random_numbers, (6,)), result]
        result = builder.node("Add", operands if form == "bias first" else operands[::-1])
    builder.output(result, "float32")
    if form == "sums are read":
        builder.output(product, "int32")
    if form == "read twice":
        builder.output(builder.node("Relu", [cast]), "float32")
    feeds = {"x": codes(random_numbers, "uint8", SHAPE), "s": np.array(0.03, np.float32)}
    assert_like_onnxruntime(builder.build(), feeds)
    steps = steps_of(builder)
    if form == "sums are read":
        assert {"MATRIX_MULTIPLY_INTEGER", "CAST"} <= set(steps)
    elif form != "read twice":
        assert steps == ["ELEMENT_WISE_BINARY", "MATRIX_MULTIPLY_INTEGER_TO_FLOAT"]


def test_what_is_moved_and_read_is_computed_once(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    x = builder.input("uint8", (5, 24))
    product = builder.node(
        "MatMul",
        [
            builder.dequantized(x, 0.02, np.uint8(99)),
            builder.dequantized(codes(random_numbers, "int8", (24, 6)), 0.01, np.int8(0)),
        ],
    )
    builder.output(product, "float32")
    builder.output(builder.node("Relu", [product]), "float32")
    builder.output(builder.node("Reshape", [product, np.array([6, 5], np.int64)]), "float32")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", (5, 24))})
    assert steps_of(builder).count("MATRIX_MULTIPLY_INTEGER_TO_FLOAT") == 1


LONG: Final = {
    "squares": lambda builder, value: builder.node("Mul", [value, value]),
    "products": lambda builder, value: builder.node("Mul", [value, np.float32(1.001)]),
    "quotients": lambda builder, value: builder.node("Relu", [builder.node("Div", [value, np.float32(1.01)])]),
    "means": lambda builder, value: builder.node("Add", [builder.node("ReduceMean", [value], axes=[1]), value]),
    "normalized codes": lambda builder, value: builder.node(
        "BatchNormalization",
        [
            value if builder.nodes else builder.dequantized(builder.quantized(value, 0.05, POINT), 0.05, POINT),
            *(np.linspace(0.99, 1.01, 4, dtype=np.float32),) * 2,
            np.zeros(4, np.float32),
            np.ones(4, np.float32),
        ],
    ),
    "moved": lambda builder, value: builder.node("Transpose", [builder.node("Mul", [value, np.float32(0.99)])]),
}


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("length", ["2", "n"])
def test_long_chains(random_numbers: np.random.Generator, name: str, length: str) -> None:
    """None of their values waits for all before it."""
    builder = Builder()
    value = builder.input("float32", (int(length) if length == "2" else length, 4))
    for _ in range(400):
        value = LONG[name](builder, value)
    builder.output(value, "float32")
    model, x = builder.build(), (1 + random_numbers.random((2, 4)) / 1e3).astype(np.float32)
    with np.errstate(all="ignore"):
        expected = results_of_onnxruntime(model, {"x": x})
    for ours, theirs in zip(dmlcpu.InferenceSession(model).run(None, {"x": x}), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3)
