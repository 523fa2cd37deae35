"""Reductions that are composed of others, beside onnxruntime."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from onnx_models import Builder, assert_like_onnxruntime, coded, codes, results_of_onnxruntime, steps_of
from template_checks import assert_templates_follow_the_rules

REDUCTIONS: Final = ("ReduceMin", "ReduceL1", "ReduceLogSum", "ReduceLogSumExp", "ReduceProd")
SHAPE: Final = (2, 3, 5, 7)


def reduced(operator: str, shape: Any, opset: int, axes: list[int] | None, **attributes: int) -> bytes:
    """Axes are an input from opset 18 on, an attribute before."""
    builder = Builder(opset)
    x = builder.input("float32", shape)
    operands = [x, np.int64(axes)] if opset >= 18 and axes is not None else [x]
    if opset < 18 and axes is not None:
        attributes["axes"] = axes  # type: ignore[assignment]
    builder.output(builder.node(operator, operands, **attributes), "float32")
    return builder.build()


@pytest.mark.parametrize("operator", REDUCTIONS)
@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize("axes", [None, [1], [-1], [2, 3], [0, 2], [0, 1, 2, 3]], ids=str)
@pytest.mark.parametrize("keepdims", [0, 1])
def test_reductions(
    random_numbers: np.random.Generator, operator: str, opset: int, axes: list[int] | None, keepdims: int
) -> None:
    x = random_numbers.uniform(0.5, 1.5, SHAPE).astype(np.float32)
    if operator != "ReduceLogSum":
        x *= random_numbers.choice(np.float32([-1, 1]), SHAPE)
    assert_like_onnxruntime(reduced(operator, SHAPE, opset, axes, keepdims=keepdims), {"x": x})


@pytest.mark.parametrize("operator", ["ReduceSum", "ReduceMean", "ReduceL2", "ReduceSumSquare", "ReduceL1"])
@pytest.mark.parametrize("axes", [[0, 3], [1, 3], [0, 2], [0, 2, 3], [0, 1, 3], [2, 3], [0, 1, 2, 3]], ids=str)
@pytest.mark.parametrize("width", [7, 130])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_sums_over_axes_wherever_they_lie(
    random_numbers: np.random.Generator, operator: str, axes: list[int], width: int, keepdims: int
) -> None:
    """Neighbouring axes are one; of axes that are apart there are means of means, or sums of sums."""
    shape = (3, 4, 5, width)
    model = reduced(operator, shape, 18, axes, keepdims=keepdims)
    assert_like_onnxruntime(model, {"x": random_numbers.uniform(0.5, 1.5, shape).astype(np.float32)})
    [part] = dmlcpu.InferenceSession(model).partitions()
    apart = sum(axis + 1 not in axes for axis in axes)
    reductions = [step.type for step in part.steps if step.type in ("REDUCE_MEAN", "REDUCE_SUM")]
    assert reductions == ["REDUCE_MEAN" if operator == "ReduceMean" else "REDUCE_SUM"] * apart
    assert "FLOAT_POOLING" not in [step.type for step in part.steps]


@pytest.mark.parametrize("operator", ["GlobalAveragePool", "AveragePool"])
def test_averages_of_whole_images_are_means(random_numbers: np.random.Generator, operator: str) -> None:
    builder = Builder()
    attributes = {} if operator.startswith("Global") else {"kernel_shape": SHAPE[2:]}
    builder.output(builder.node(operator, [builder.input("float32", SHAPE)], **attributes), "float32")
    assert_like_onnxruntime(builder.build(), {"x": random_numbers.normal(size=SHAPE).astype(np.float32)})
    [part] = dmlcpu.InferenceSession(builder.build()).partitions()
    types = [step.type for step in part.steps]
    assert types.count("REDUCE_MEAN") == 1
    assert "FLOAT_POOLING" not in types


@pytest.mark.parametrize("operator", REDUCTIONS)
@pytest.mark.parametrize("axes", [None, []], ids=str)
def test_reductions_over_no_axes(random_numbers: np.random.Generator, operator: str, axes: list[int] | None) -> None:
    """Nothing is reduced, but the functions before and behind are computed."""
    x = random_numbers.uniform(0.5, 1.5, SHAPE).astype(np.float32)
    assert_like_onnxruntime(reduced(operator, SHAPE, 18, axes, noop_with_empty_axes=1), {"x": x})


@pytest.mark.parametrize("operator", [*REDUCTIONS, "ReduceMean", "ReduceSum"])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axes", [None, []], ids=str)
def test_reductions_of_one_float_without_axes(operator: str, keepdims: int, axes: list[int] | None) -> None:
    model = reduced(operator, (), 18, axes, keepdims=keepdims)
    assert_like_onnxruntime(model, {"x": np.array(1.375, np.float32)})


@pytest.mark.parametrize("operator", REDUCTIONS)
def test_reductions_of_free_lengths(random_numbers: np.random.Generator, operator: str) -> None:
    model = reduced(operator, ("N", 3, "H", "W"), 18, [-1, -2])
    session = dmlcpu.InferenceSession(model)
    shapes = [(2, 3, 5, 7), (1, 3, 8, 4), (2, 3, 1, 1), (3, 3, 9, 2), (1, 3, 5, 7), (4, 3, 6, 11)]
    for shape in shapes:
        x = random_numbers.uniform(0.5, 1.5, shape).astype(np.float32)
        [result], [expected] = session.run(None, {"x": x}), results_of_onnxruntime(model, {"x": x})
        np.testing.assert_allclose(result, expected, rtol=3e-6, atol=1e-6)
        assert {part.provider for part in session.partitions({"x": shape})} == {"dmlcpu"}
    assert_templates_follow_the_rules(
        model, [{"x": shape} for shape in shapes], 1 if operator == "ReduceMin" else len(shapes)
    )


ROWS: Final[NDArray[np.float32]] = np.float32(
    [
        [np.nan, 1, 2],
        [np.nan, np.nan, np.nan],
        [np.inf, 1, 2],
        [-np.inf, 1, 2],
        [-np.inf, -np.inf, -np.inf],
        [np.inf, np.inf, np.inf],
        [np.inf, -np.inf, 1],
        [3e38, 3e38, 1],
        [-3e38, -3e38, 1],
        [0, -0.0, 0],
        [1e-40, 1e-40, 0],
        [88, 89, 90],
        [1000, -1000, 1000],
    ]
)


@pytest.mark.parametrize("operator", REDUCTIONS)
def test_special_numbers(operator: str) -> None:
    model = reduced(operator, ROWS.shape, 18, [1])
    [result] = dmlcpu.InferenceSession(model).run(None, {"x": ROWS})
    [expected] = results_of_onnxruntime(model, {"x": ROWS})
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-44)


def test_a_minimum_of_what_is_no_number_is_none_wherever_it_stands() -> None:
    """As a maximum is; onnxruntime's is of the other elements, unless it stands first."""
    model = reduced("ReduceMin", (3, 3), 18, [1], keepdims=0)
    rows = np.float32([[np.nan, 1, 2], [1, np.nan, 2], [1, 2, np.nan]])
    [result] = dmlcpu.InferenceSession(model).run(None, {"x": rows})
    assert np.isnan(result).all()


@pytest.mark.parametrize("x_type", ["uint8", "int8"])
def test_minima_of_codes_are_taken_of_the_codes(random_numbers: np.random.Generator, x_type: str) -> None:
    builder = Builder()
    x = builder.input(x_type, (2, 3, 4, 5))
    point = np.zeros((), x_type)
    result = builder.node("ReduceMin", [builder.dequantized(x, 0.1, point)], axes=[2, 3])
    builder.output(builder.quantized(result, 0.1, point), x_type)
    feed = random_numbers.integers(0, 100, (2, 3, 4, 5)).astype(x_type)
    assert_like_onnxruntime(builder.build(), {"x": feed})
    [part] = dmlcpu.InferenceSession(builder.build()).partitions()
    assert [step.type for step in part.steps] == ["CODE_TABLE", "MAX_POOLING", "CODE_TABLE"]


@pytest.mark.parametrize("operator", ["ReduceSum", "ReduceLogSum", "ReduceMean"])
@pytest.mark.parametrize("of_codes", [False, True])
@pytest.mark.parametrize("rows", [0, "rows"])
def test_sums_of_nothing(operator: str, of_codes: bool, rows: int | str) -> None:
    """They are left to onnxruntime, with what they are of."""
    builder = Builder(18)
    x = builder.input("float32", (rows, 3))
    value = coded(builder, x) if of_codes else builder.node("Exp", [x])
    builder.output(builder.node(operator, [value, np.int64([0])]), "float32")
    assert_like_onnxruntime(builder.build(), {"x": np.zeros((0, 3), np.float32)}, native=False)


@pytest.mark.parametrize(
    ("shape", "axes"), [((1, 12, 50), [1, 2]), ((2, 12, 50), [0, 2]), ((2, 3, 5, 7), [1])], ids=str
)
def test_a_mean_reads_the_floats_that_others_do(
    random_numbers: np.random.Generator, shape: tuple[int, ...], axes: list[int]
) -> None:
    """As the normalization of what a PRelu has made of codes: their table of floats is looked through once."""
    builder = Builder(17)
    x = builder.dequantized(builder.input("uint8", shape), 0.1, np.uint8(128))
    floats = builder.node("PRelu", [x, np.float32(0.25)])
    mean = builder.node("ReduceMean", [floats], axes=axes)
    builder.output(builder.node("Sub", [floats, mean]), "float32")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", shape)})
    assert steps_of(builder).count("FLOAT_TABLE") == 1
