"""MaxPool with its indices beside onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from onnx_models import (
    POINT,
    Builder,
    assert_like_onnxruntime,
    coded,
    codes,
    floats,
    reasons_of,
    results_of_onnxruntime,
    steps_of,
)
from template_checks import assert_templates_follow_the_rules

Array = NDArray[Any]

SHAPES: Final = {1: (2, 3, 19), 2: (2, 5, 9, 8), 3: (2, 3, 7, 6, 8)}
FORMS: Final[Mapping[str, dict[str, list[int] | int | str]]] = {
    "plain": {},
    "strided": {"strides": [2, 1, 3]},
    "padded": {"pads": [1, 0, 2, 1, 1, 0]},
    "dilated": {"dilations": [2, 3, 1]},
    "rounded up": {"strides": [2, 3, 3], "ceil_mode": 1},
    "SAME_UPPER": {"strides": [2, 1, 3], "auto_pad": "SAME_UPPER"},
    "SAME_LOWER": {"strides": [2, 1, 3], "auto_pad": "SAME_LOWER"},
}


def window(form: str, rank: int) -> dict[str, Any]:
    attributes: dict[str, Any] = {"kernel_shape": [3, 2, 4][:rank]}
    for name, entries in FORMS[form].items():
        if name == "pads":
            assert isinstance(entries, list)
            attributes[name] = entries[:rank] + entries[3 : 3 + rank]
        else:
            attributes[name] = entries[:rank] if isinstance(entries, list) else entries
    return attributes


def pooled(builder: Builder, value: str, dtype: str, **attributes: Any) -> None:
    """Maxima, quantized again where they are dequantized codes, and places."""
    maxima, places = builder.node("MaxPool", [value], 2, **attributes)
    builder.output(maxima, dtype)
    builder.output(places, "int64")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rank", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "uint8", "int8"])
@pytest.mark.parametrize("storage_order", [0, 1])
def test_windows(random_numbers: np.random.Generator, form: str, rank: int, dtype: str, storage_order: int) -> None:
    """Of few numbers, so that windows have several maxima."""
    builder = Builder()
    x = builder.input(dtype, SHAPES[rank])
    pooled(builder, x, dtype, storage_order=storage_order, **window(form, rank))
    lowest = 0 if dtype == "uint8" else -4
    feeds = {"x": random_numbers.integers(lowest, 5, SHAPES[rank]).astype(dtype)}
    assert_like_onnxruntime(builder.build(), feeds, equal=True)
    assert "MAX_POOLING_INDICES" in steps_of(builder)


def test_floats_that_are_no_numbers(random_numbers: np.random.Generator) -> None:
    """The maximum is at its place, NaN too, which onnxruntime passes over; of windows without one all is the same."""
    builder = Builder()
    pooled(builder, builder.input("float32", (2, 3, 20, 30)), "float32", kernel_shape=[3, 2], strides=[2, 2])
    x = random_numbers.choice(np.float32([np.nan, np.inf, -np.inf, 0, -0.0, 1, 2]), (2, 3, 20, 30))
    model = builder.build()
    maxima, places = dmlcpu.InferenceSession(model).run(None, {"x": x})
    np.testing.assert_array_equal(maxima, x.reshape(-1)[places])
    others = results_of_onnxruntime(model, {"x": x})
    plain = ~np.isnan(maxima)
    assert 0.2 < plain.mean() < 0.8
    np.testing.assert_array_equal(maxima[plain], others[0][plain])
    np.testing.assert_array_equal(places[plain], others[1][plain])


@pytest.mark.parametrize("scale", [0.05, -0.05])
def test_dequantized_codes(random_numbers: np.random.Generator, scale: float) -> None:
    """Their places are those of the codes, where these have the floats' order: with a scale below 0 they have not."""
    builder = Builder()
    value = builder.dequantized(builder.input("uint8", SHAPES[2]), scale, POINT)
    maxima, places = builder.node("MaxPool", [value], 2, kernel_shape=[2, 2])
    builder.output(builder.quantized(maxima, 0.05, POINT), "uint8")
    builder.output(places, "int64")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", SHAPES[2])})
    assert ("ELEMENT_WISE_DEQUANTIZE_LINEAR" in steps_of(builder)) == (scale < 0)


def test_codes_of_equal_floats() -> None:
    """Of a scale by which the largest codes are all infinite the first one counts."""
    builder = Builder()
    value = builder.dequantized(builder.input("uint8", (1, 1, 2, 2)), 1e37, np.uint8(0))
    builder.output(builder.node("MaxPool", [value], 2, kernel_shape=[2, 2])[1], "int64")
    feeds = {"x": np.array([[[[200, 255], [255, 10]]]], np.uint8)}
    assert_like_onnxruntime(builder.build(), feeds, equal=True)


@pytest.mark.parametrize("length", [3, 6, 9])
def test_windows_that_end_before_the_input(length: int) -> None:
    """Padded automatically, by less than nothing: these begin within the input, as onnxruntime has them."""
    builder = Builder()
    attributes = {"kernel_shape": [1], "strides": [3], "auto_pad": "SAME_UPPER"}
    pooled(builder, builder.input("float32", (1, 1, length)), "float32", **attributes)
    feeds = {"x": np.arange(length, dtype=np.float32).reshape(1, 1, -1)}
    assert_like_onnxruntime(builder.build(), feeds, native=False, equal=True)


@pytest.mark.parametrize("odd", [False, True])
def test_back_where_they_were(random_numbers: np.random.Generator, odd: bool) -> None:
    """As in a SegNet of codes: all of it is one graph, and nothing is dequantized."""
    builder = Builder()
    x = builder.input("uint8", ("images", 3, "rows", "columns"))
    image = builder.dequantized(x, 0.05, POINT)
    weights = builder.dequantized(codes(random_numbers, "int8", (3, 3, 3, 3)), 0.01, np.int8(0))
    halves = {"kernel_shape": [2, 2], "strides": [2, 2]}
    maxima, places = builder.node("MaxPool", [image], 2, **halves)
    inner = coded(builder, builder.node("Conv", [coded(builder, maxima), weights], pads=[1, 1, 1, 1]))
    operands = [inner, places, *([builder.node("Shape", [image])] if odd else [])]
    builder.output(builder.quantized(builder.node("MaxUnpool", operands, **halves), 0.05, POINT), "uint8")
    model = builder.build()
    shapes: list[Sequence[int]] = [(2, 3, 9, 7), (1, 3, 6, 11)] if odd else [(2, 3, 8, 6), (1, 3, 6, 10)]
    for shape in shapes:
        assert_like_onnxruntime(model, {"x": codes(random_numbers, "uint8", shape)}, 1)
    [part] = dmlcpu.InferenceSession(model).partitions({"x": shapes[0]})
    assert "ELEMENT_WISE_DEQUANTIZE_LINEAR" not in {step.type for step in part.steps}


def test_any_lengths(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    pooled(builder, builder.input("float32", ("images", 3, "rows", "columns")), "float32", **window("strided", 2))
    shapes = [(2, 3, 4, 5), (1, 3, 7, 2), (4, 3, 3, 9)]
    assert_templates_follow_the_rules(builder.build(), [{"x": shape} for shape in shapes], 2)
    session = dmlcpu.InferenceSession(builder.build())
    for shape in shapes:
        feeds = {"x": floats(random_numbers, shape)}
        for ours, expected in zip(
            session.run(None, feeds), results_of_onnxruntime(builder.build(), feeds), strict=True
        ):
            np.testing.assert_array_equal(ours, expected)


def test_other_types_are_left_to_others() -> None:
    builder = Builder()
    pooled(builder, builder.input("float64", SHAPES[2]), "float64", kernel_shape=[2, 2])
    assert reasons_of(builder)
