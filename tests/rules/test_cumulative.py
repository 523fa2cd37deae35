"""CumSum and CumProd beside onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pytest

import dmlcpu
from onnx_models import Builder, assert_like_onnxruntime, coded, reasons_of, results_of_onnxruntime, steps_of
from template_checks import assert_templates_follow_the_rules

NATIVE: Final = {"CumSum": "CUMULATIVE_SUMMATION", "CumProd": "CUMULATIVE_PRODUCT"}
# The first that has both.
OPSET: Final = 26


def cumulative(
    operator: str, dtype: str, shape: Sequence[int | str], axis: int | None, of_codes: bool = False, **options: int
) -> Builder:
    """A node along a constant axis, or one that is fed."""
    builder = Builder(OPSET)
    x = builder.input(dtype, shape)
    x = coded(builder, x) if of_codes else x
    along = builder.input("int64", (), "axis") if axis is None else np.array(axis)
    builder.output(builder.node(operator, [x, along], **options), dtype)
    return builder


@pytest.mark.parametrize("operator", NATIVE)
@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "uint32"])
@pytest.mark.parametrize("options", [{}, {"exclusive": 1}, {"reverse": 1}, {"exclusive": 1, "reverse": 1}], ids=str)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_totals(
    random_numbers: np.random.Generator, operator: str, dtype: str, options: dict[str, int], axis: int
) -> None:
    """Of integers that wrap; of UINT32, of which onnxruntime has no sums, as those of INT32."""
    builder = cumulative(operator, dtype, (4, 19), axis, **options)
    feed = (
        random_numbers.integers(-9, 9, (4, 19)) if dtype == "float32" else random_numbers.integers(0, 1 << 31, (4, 19))
    )
    feed = (feed | 1).astype(dtype)  # 0 would be the product of all that follow
    if (operator, dtype) == ("CumSum", "uint32"):
        [ours] = dmlcpu.InferenceSession(builder.build()).run(None, {"x": feed})
        of_int32 = cumulative(operator, "int32", (4, 19), axis, **options).build()
        [expected] = dmlcpu.InferenceSession(of_int32).run(None, {"x": feed.view(np.int32)})
        np.testing.assert_array_equal(ours, expected.view(np.uint32), strict=True)
    else:
        assert_like_onnxruntime(builder.build(), {"x": feed}, equal=True)
    assert steps_of(builder) == [NATIVE[operator]]


NUMBERS: Final = np.float32([np.nan, 0, -0.0, np.inf, -np.inf, 1e38, -3e-38, 1e-40])


@pytest.mark.parametrize("operator", NATIVE)
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
def test_floats_that_round_and_are_no_numbers(
    random_numbers: np.random.Generator, operator: str, exclusive: int, axis: int
) -> None:
    builder = cumulative(operator, "float32", (40, 50), axis, exclusive=exclusive)
    x = random_numbers.normal(0, 1.5, (40, 50)).astype(np.float32)
    x = np.where(random_numbers.random((40, 50)) < 0.02, random_numbers.choice(NUMBERS, (40, 50)), x)
    model, feeds = builder.build(), {"x": x}
    [ours], [expected] = dmlcpu.InferenceSession(model).run(None, feeds), results_of_onnxruntime(model, feeds)
    np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("operator", NATIVE)
def test_codes_are_dequantized(random_numbers: np.random.Generator, operator: str) -> None:
    builder = cumulative(operator, "float32", (3, 7), 1, of_codes=True)
    assert_like_onnxruntime(builder.build(), {"x": random_numbers.normal(0, 1, (3, 7)).astype(np.float32)})


@pytest.mark.parametrize("operator", NATIVE)
def test_any_lengths(random_numbers: np.random.Generator, operator: str) -> None:
    model = cumulative(operator, "float32", ("rows", "columns"), -1, reverse=1).build()
    assert_templates_follow_the_rules(model, [{"x": shape} for shape in ((3, 5), (2, 9), (7, 4))], 1)
    for shape in ((3, 5), (2, 9)):
        assert_like_onnxruntime(model, {"x": random_numbers.normal(0, 1, shape).astype(np.float32)}, equal=True)


@pytest.mark.parametrize("operator", NATIVE)
@pytest.mark.parametrize("axis", [-3, 2])
def test_an_axis_that_there_is_not(operator: str, axis: int) -> None:
    with pytest.raises(dmlcpu.InvalidModelError, match=f"got axis {axis}, expected one from -2 to 1"):
        dmlcpu.InferenceSession(cumulative(operator, "float32", (3, 4), axis).build())


@pytest.mark.parametrize("operator", NATIVE)
@pytest.mark.parametrize(("dtype", "axis"), [("float64", 0), ("float32", None)], ids=["float64", "an axis that is fed"])
def test_what_is_left_to_onnxruntime(operator: str, dtype: str, axis: int | None) -> None:
    builder = cumulative(operator, dtype, (3, 4), axis)
    feeds = {"x": np.arange(12).reshape(3, 4).astype(dtype), **({} if axis == 0 else {"axis": np.array(1)})}
    assert_like_onnxruntime(builder.build(), feeds, native=False, equal=True)
    assert reasons_of(builder)


@pytest.mark.parametrize("operator", NATIVE)
def test_constants(operator: str) -> None:
    """By an axis of one element; a constant without axes is refused as what is computed is."""
    for dtype in ("int64", "uint32"):
        builder = Builder(OPSET)
        totals = builder.node(operator, [np.array([2, 3, 4], dtype), np.array([0])])
        builder.output(builder.node("Add", [builder.input(dtype, (3,)), totals]), dtype)
        [result] = dmlcpu.InferenceSession(builder.build()).run(None, {"x": np.zeros(3, dtype)})
        expected = np.cumsum([2, 3, 4]) if operator == "CumSum" else np.cumprod([2, 3, 4])
        np.testing.assert_array_equal(result, expected.astype(dtype), strict=True)
    builder = Builder(OPSET)
    total = builder.node(operator, [np.array(3), np.array(0)])
    builder.output(builder.node("Add", [builder.input("int64", (1,)), total]), "int64")
    model = builder.build()
    with pytest.raises((dmlcpu.BindingError, dmlcpu.InvalidModelError)):
        dmlcpu.InferenceSession(model).run(None, {"x": np.zeros(1, np.int64)})


def test_uint64_is_left_to_onnxruntime() -> None:
    builder = cumulative("CumProd", "uint64", (2, 3), 1)
    x = np.array([[3, 1 << 40, 1 << 30], [1, 2, 3]], np.uint64)
    [ours] = dmlcpu.InferenceSession(builder.build()).run(None, {"x": x})
    np.testing.assert_array_equal(ours, np.cumprod(x, 1))
    assert reasons_of(builder)
