"""TopK beside onnxruntime: of floats, integers and codes, along any axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlcpu
from onnx_models import POINT, Builder, assert_like_onnxruntime, codes, steps_of
from template_checks import assert_templates_follow_the_rules


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "int64", "int32", "uint8"])
@pytest.mark.parametrize(("axis", "count"), [(-1, 1), (-1, 7), (1, 3), (0, 2), (2, 40)])
def test_top_k(random_numbers: np.random.Generator, axis: int, count: int, dtype: str, largest: int) -> None:
    """Few numbers, of which many are equal."""
    builder = Builder(18)
    x = builder.input(dtype, (2, 5, 40))
    for value, kind in zip(
        builder.node("TopK", [x, np.array([count])], 2, axis=axis, largest=largest), (dtype, "int64"), strict=True
    ):
        builder.output(value, kind)
    feeds = {"x": random_numbers.integers(0, 9, (2, 5, 40)).astype(dtype)}
    assert_like_onnxruntime(builder.build(), feeds, equal=True)


@pytest.mark.parametrize("scale", [0.1, -0.1])
def test_codes(random_numbers: np.random.Generator, scale: float) -> None:
    """They are in the floats' order, unless their scale is below 0."""
    builder = Builder(18)
    x = builder.dequantized(builder.input("uint8", (3, 90)), scale, POINT)
    values, places = builder.node("TopK", [x, np.array([6])], 2)
    builder.output(builder.quantized(values, scale, POINT), "uint8")
    builder.output(places, "int64")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", (3, 90))}, equal=True)
    assert ("ELEMENT_WISE_DEQUANTIZE_LINEAR" in steps_of(builder)) == (scale < 0)


def test_free_lengths(random_numbers: np.random.Generator) -> None:
    """At most so many, of as many as there are: as detectors keep the best of their boxes."""
    builder = Builder(18)
    x = builder.input("float32", ("N", "length"))
    length = builder.node("Shape", [x], start=1)
    count = builder.node("Min", [length, np.array([5])])
    values, places = builder.node("TopK", [x, count], 2)
    builder.output(values, "float32")
    builder.output(places, "int64")
    model = builder.build()
    shapes = [{"x": (n, length)} for n in (1, 3) for length in (3, 5, 9, 40)]
    assert_templates_follow_the_rules(model, shapes, 2)
    for shape in shapes:
        x_values = random_numbers.normal(0, 1, shape["x"]).astype(np.float32)
        assert_like_onnxruntime(model, {"x": x_values}, equal=True)


@pytest.mark.parametrize("version", [1, 10])
def test_as_older_operators_have_it(random_numbers: np.random.Generator, version: int) -> None:
    builder = Builder(9 if version == 1 else 10)
    x = builder.input("float32", (4, 30))
    given: Any = {"k": 4} if version == 1 else {}
    operands = [x] if version == 1 else [x, np.array([4])]
    for value, kind in zip(builder.node("TopK", operands, 2, **given), ("float32", "int64"), strict=True):
        builder.output(value, kind)
    feed = random_numbers.normal(0, 1, (4, 30)).astype(np.float32)
    assert_like_onnxruntime(builder.build(), {"x": feed}, equal=True)


@pytest.mark.parametrize("case", ["a computed number", "float64"])
def test_what_is_left_to_onnxruntime(random_numbers: np.random.Generator, case: str) -> None:
    builder = Builder(18)
    dtype = "float64" if case == "float64" else "float32"
    feeds: dict[str, Any] = {"x": random_numbers.normal(0, 1, (4, 30)).astype(dtype)}
    count: Any = np.array([3])
    if case == "a computed number":
        feeds["count"], count = count, builder.input("int64", (1,), "count")
    builder.output(builder.node("TopK", [builder.input(dtype, (4, 30)), count], 2)[0], dtype)
    assert_like_onnxruntime(builder.build(), feeds, native=False, equal=True)
    assert {part.provider for part in dmlcpu.InferenceSession(builder.build()).partitions()} == {"onnxruntime"}


def test_a_count_that_is_no_integer() -> None:
    builder = Builder(9)
    for name, dtype in zip(
        builder.node("TopK", [builder.input("float32", (5,))], 2, k=2.0), ("float32", "int64"), strict=True
    ):
        builder.output(name, dtype)
    with pytest.raises(dmlcpu.DmlError):
        dmlcpu.InferenceSession(builder.build()).run(None, {"x": np.zeros(5, np.float32)})
