"""Choices between codes in one node, beside onnxruntime."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

from onnx_models import Builder, assert_like_onnxruntime, codes

SCORES: Final = (2, 3, 5, 5)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("form", ["computed", "constant", "one point", "known mask", "settled", "all known"])
@pytest.mark.parametrize("of_result", [0.2, 0.1])
def test_choices_of_codes(random_numbers: np.random.Generator, of_result: float, form: str, dtype: str) -> None:
    """QLinearWhere: each operand becomes codes of the result by itself."""
    builder, feeds = Builder(), {}
    mask: Any = random_numbers.integers(0, 2, (2, 1, 1, 5)) == (1 if form != "settled" else 2)
    if form in ("computed", "constant", "one point"):
        feeds["mask"] = mask
        mask = builder.input("bool", mask.shape, "mask")
    operands = []
    for name, shape in (("x", SCORES), ("y", SCORES if form != "one point" else ())):
        value: Any = codes(random_numbers, dtype, shape)
        if form != "all known" and (name == "x" or form not in ("constant", "one point")):
            feeds[name] = value
            value = builder.input(dtype, shape, name)
        operands.append(value)
    points = [np.array(point, dtype) for point in (7, 90, 33)]
    x, y = operands
    scales = [np.float32(scale) for scale in (0.1, 0.07, of_result)]
    inputs = [mask, x, scales[0], points[0], y, scales[1], points[1], scales[2], points[0 if of_result == 0.1 else 2]]
    builder.output(builder.node("com.microsoft.QLinearWhere", inputs), dtype)
    assert_like_onnxruntime(builder.build(), feeds, equal=True)


def test_choices_of_codes_between_products(random_numbers: np.random.Generator) -> None:
    """As onnxruntime's tools write them: one graph, in codes throughout, whatever the lengths."""
    builder, scale, point = Builder(), np.float32(0.03), np.uint8(120)
    value: str = builder.quantized(builder.input("float32", ("rows", 8)), scale, point)
    mask = builder.node("Unsqueeze", [builder.input("bool", ("rows",), "mask"), np.array([1])])

    def product(value: str) -> str:
        weights = [codes(random_numbers, "int8", (8, 8)), np.float32(0.01), np.int8(0)]
        result: str = builder.node("QLinearMatMul", [value, scale, point, *weights, scale, point])
        return result

    operands = [mask, product(value), scale, point, np.uint8(3), np.float32(0.02), np.uint8(0), scale, point]
    value = product(builder.node("com.microsoft.QLinearWhere", operands))
    builder.output(value, "uint8")
    for rows in (3, 5):
        x = random_numbers.normal(0, 1, (rows, 8)).astype(np.float32)
        assert_like_onnxruntime(builder.build(), {"x": x, "mask": random_numbers.random(rows) < 0.5}, 1)
