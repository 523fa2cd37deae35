"""Softmax and its kin over several axes, and normalizations without weights, beside onnxruntime."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import dmlcpu
from onnx_models import Builder, assert_like_onnxruntime, codes, results_of_onnxruntime
from template_checks import assert_templates_follow_the_rules

SHAPE: Final = (2, 3, 4, 5)
FORMS: Final = ("floats", "codes", "function of codes", "quantized")


def function_of(form: str, operator: str, opset: int, scale: float, **attributes: Any) -> tuple[bytes, str]:
    """A model of one node, and the type that it is fed."""
    dtype = "float32" if form == "floats" else "uint8"
    builder = Builder(opset)
    value = builder.input(dtype, SHAPE)
    if form != "floats":
        value = builder.dequantized(value, 0.04, np.uint8(121))
    if form == "function of codes":
        value = builder.node("Sin", [value])
    result = builder.node(operator, [value], **attributes)
    if form == "quantized":
        builder.output(builder.quantized(result, scale, np.uint8(128)), "uint8")
    else:
        builder.output(result, "float32")
    return builder.build(), dtype


def assert_right(rng: np.random.Generator, model: bytes, dtype: str) -> None:
    feed = rng.normal(0, 2, SHAPE).astype(np.float32) if dtype == "float32" else codes(rng, dtype, SHAPE)
    assert_like_onnxruntime(model, {"x": feed}, 1)


@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize(
    ("opset", "attributes"),
    [
        (11, {}),
        *((11, {"axis": axis}) for axis in (0, 1, 2, 3, -2)),
        (13, {}),
        *((13, {"axis": axis}) for axis in (0, 1, -1)),
    ],
    ids=str,
)
@pytest.mark.parametrize("form", FORMS)
def test_shares(
    random_numbers: np.random.Generator, operator: str, opset: int, attributes: dict[str, int], form: str
) -> None:
    """Before opset 13 they are of all axes from the given one on."""
    model, dtype = function_of(form, operator, opset, 0.05 if operator == "LogSoftmax" else 1 / 127, **attributes)
    assert_right(random_numbers, model, dtype)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_shares_of_codes_over_several_axes(random_numbers: np.random.Generator, dtype: str, axis: int) -> None:
    builder = Builder()
    point = np.zeros((), dtype)
    operands = [builder.input(dtype, SHAPE), np.float32(0.04), point, np.float32(1 / 256), point]
    builder.output(builder.node("com.microsoft.QLinearSoftmax", operands, axis=axis, opset=11), dtype)
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, dtype, SHAPE)}, 1)
    [part] = dmlcpu.InferenceSession(builder.build()).partitions()
    assert "QUANTIZED_SOFTMAX" in [step.type for step in part.steps]


@pytest.mark.parametrize(
    ("scale", "row", "output_scale", "expected"),
    [
        (0.25, [0, 2, 255], 1e-28, [2, 3, 255]),
        (0.2, [250, 200, 150, 100], 1e-10, [255, 255, 21, 0]),
        (0.2, [250, 200, 150, 100], 1e-15, [255, 255, 255, 94]),
    ],
)
def test_shares_in_codes_of_a_tiny_scale(
    scale: float, row: list[int], output_scale: float, expected: list[int]
) -> None:
    """They are those of floats: the operator on codes rounds exponentials to multiples of 2^-31."""
    builder = Builder()
    x = builder.dequantized(builder.input("uint8", (1, len(row))), scale, np.uint8(0))
    builder.output(builder.quantized(builder.node("Softmax", [x]), output_scale, np.uint8(0)), "uint8")
    model, feeds = builder.build(), {"x": np.uint8([row])}
    assert_like_onnxruntime(model, feeds, 1)
    assert dmlcpu.InferenceSession(model).run(None, feeds)[0].tolist() == [expected]


@pytest.mark.parametrize("attributes", [{"axis": axis, "p": p} for axis in (0, 1, -1) for p in (1, 2)] + [{}], ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_lengths(random_numbers: np.random.Generator, attributes: dict[str, int], form: str) -> None:
    assert_right(random_numbers, *function_of(form, "LpNormalization", 17, 1 / 127, **attributes))


@pytest.mark.parametrize("p", [1, 2])
def test_rows_without_a_length(p: int) -> None:
    rows = np.float32([[0, 0, 0], [-0.0, 0, 0], [np.nan, 1, 2], [np.inf, 1, 2], [1e30, 1, 1], [3, -4, 0]])
    builder = Builder()
    builder.output(builder.node("LpNormalization", [builder.input("float32", rows.shape)], p=p), "float32")
    assert_same_with_nan(builder.build(), rows)


def assert_same_with_nan(model: bytes, feed: Any) -> None:
    [result], [expected] = (
        dmlcpu.InferenceSession(model).run(None, {"x": feed}),
        results_of_onnxruntime(model, {"x": feed}),
    )
    np.testing.assert_allclose(result, expected, rtol=1e-6)


@pytest.mark.parametrize("attributes", [{}, {"axes": [1]}, {"axes": [-1, -2]}, {"axes": [0, 1, 2, 3]}], ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_means_and_variances(random_numbers: np.random.Generator, attributes: dict[str, Any], form: str) -> None:
    assert_right(random_numbers, *function_of(form, "MeanVarianceNormalization", 13, 0.03, **attributes))


def test_elements_that_are_all_the_same_are_their_mean() -> None:
    """As ONNX has it; onnxruntime divides 0 by 0."""
    builder = Builder(13)
    builder.output(builder.node("MeanVarianceNormalization", [builder.input("float32", SHAPE)]), "float32")
    [result] = dmlcpu.InferenceSession(builder.build()).run(None, {"x": np.full(SHAPE, 7, np.float32)})
    np.testing.assert_array_equal(result, np.zeros(SHAPE))


@pytest.mark.parametrize(
    ("operator", "opset"),
    [("Softmax", 11), ("LogSoftmax", 11), ("Hardmax", 11), ("Hardmax", 13), ("LpNormalization", 13)],
)
def test_free_lengths(random_numbers: np.random.Generator, operator: str, opset: int) -> None:
    builder = Builder(opset)
    builder.output(builder.node(operator, [builder.input("float32", ("N", 3, "H"))], axis=1), "float32")
    model = builder.build()
    shapes = [(2, 3, 5), (5, 3, 8), (4, 3, 2), (3, 3, 9)]
    assert_templates_follow_the_rules(model, [{"x": shape} for shape in shapes], 1)
    session = dmlcpu.InferenceSession(model)
    for shape in shapes:
        feeds = {"x": random_numbers.normal(0, 1, shape).astype(np.float32)}
        [result], [expected] = session.run(None, feeds), results_of_onnxruntime(model, feeds)
        np.testing.assert_allclose(result, expected, rtol=3e-6, atol=1e-6)
        assert {part.provider for part in session.partitions({"x": shape})} == {"dmlcpu"}
