"""LpPool and GlobalLpPool beside onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pytest

import dmlcpu
from onnx_cases import POINTS, SCALE
from onnx_models import Builder, assert_like_onnxruntime, codes, results_of_onnxruntime
from template_checks import assert_templates_follow_the_rules

SHAPES: Final = {1: (2, 3, 19), 2: (2, 5, 9, 8), 3: (2, 3, 7, 6, 8)}


def model_of(
    operator: str, shape: Sequence[int | str], attributes: dict[str, Any], dtype: str = "float32", before: str = ""
) -> bytes:
    builder = Builder(18)
    value = builder.input(dtype, shape)
    if dtype != "float32":
        value = builder.dequantized(value, SCALE, POINTS[dtype])
    value = builder.node(before, [value]) if before else value
    result = builder.node(operator, [value], **attributes)
    builder.output(result, "float32")
    if dtype != "float32":
        builder.output(builder.quantized(result, 0.07, POINTS["int8"]), "int8")
    return builder.build()


def feed_of(rng: np.random.Generator, dtype: str, shape: Sequence[int]) -> Any:
    return rng.normal(0, 2, shape).astype(np.float32) if dtype == "float32" else codes(rng, dtype, shape)


@pytest.mark.parametrize("p", [1, 2, 3, 4])
@pytest.mark.parametrize("rank", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "uint8", "int8"])
@pytest.mark.parametrize(
    "form", ["plain", "strided", "padded", "dilated", "SAME_UPPER", "SAME_LOWER", "VALID", "global"]
)
def test_norms(random_numbers: np.random.Generator, p: int, rank: int, dtype: str, form: str) -> None:
    attributes: dict[str, Any] = {"p": p, "kernel_shape": [3, 2, 4][:rank]}
    if form == "strided" or form.isupper():
        attributes["strides"] = [2, 1, 3][:rank]
    if form == "padded":
        attributes["pads"] = [1, 0, 2][:rank] + [2, 1, 1][:rank]
    if form == "dilated":
        attributes["dilations"] = [2, 3, 1][:rank]
    if form.isupper():
        attributes["auto_pad"] = form
    operator = "GlobalLpPool" if form == "global" else "LpPool"
    if form == "global":
        attributes = {"p": p}
    model = model_of(operator, SHAPES[rank], attributes, dtype)
    assert_like_onnxruntime(model, {"x": feed_of(random_numbers, dtype, SHAPES[rank])}, 1)


@pytest.mark.parametrize("p", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_norms_of_what_is_computed(random_numbers: np.random.Generator, p: int, dtype: str) -> None:
    model = model_of("LpPool", SHAPES[2], {"p": p, "kernel_shape": [2, 2]}, dtype, "Sin")
    assert_like_onnxruntime(model, {"x": feed_of(random_numbers, dtype, SHAPES[2])}, 1)


@pytest.mark.parametrize("attributes", [{"p": 5}, {"p": 2, "ceil_mode": 1}], ids=str)
def test_what_is_left_to_others(random_numbers: np.random.Generator, attributes: dict[str, Any]) -> None:
    model = model_of("LpPool", SHAPES[2], {"kernel_shape": [2, 3], "strides": [2, 2], **attributes})
    assert_like_onnxruntime(model, {"x": feed_of(random_numbers, "float32", SHAPES[2])}, native=False)


@pytest.mark.parametrize("p", [1, 2, 3, 4])
def test_windows_of_zeros_have_the_norm_0(p: int) -> None:
    model = model_of("LpPool", (1, 1, 2, 6), {"p": p, "kernel_shape": [2, 2], "pads": [1, 1, 1, 1]})
    x = np.float32([[0, -0.0, 0, 0, 0, 3], [0, 0, -0.0, 0, -2, 0]]).reshape(1, 1, 2, 6)
    [result] = dmlcpu.InferenceSession(model).run(None, {"x": x})
    [expected] = results_of_onnxruntime(model, {"x": x})
    np.testing.assert_allclose(result, expected, rtol=1e-6)


@pytest.mark.parametrize("operator", ["LpPool", "GlobalLpPool"])
def test_free_lengths(random_numbers: np.random.Generator, operator: str) -> None:
    attributes = {"kernel_shape": [3, 2]} if operator == "LpPool" else {}
    model = model_of(operator, ("N", 4, "H", "W"), attributes)
    shapes = [(2, 4, 5, 7), (5, 4, 8, 3), (4, 4, 4, 6)]
    assert_templates_follow_the_rules(model, [{"x": shape} for shape in shapes], 1)
    session = dmlcpu.InferenceSession(model)
    for shape in (*shapes, (1, 4, 3, 2), (2, 4, 90, 40)):
        feeds = {"x": feed_of(random_numbers, "float32", shape)}
        [result], [expected] = session.run(None, feeds), results_of_onnxruntime(model, feeds)
        np.testing.assert_allclose(result, expected, rtol=3e-6)
        assert {part.provider for part in session.partitions({"x": shape})} == {"dmlcpu"}
    [result] = session.run(None, {"x": np.zeros((0, 4, 5, 7), np.float32)})
    assert result.shape[0] == 0
