"""OneHot beside onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import dmlcpu
from onnx_cases import POINTS, SCALE, ints
from onnx_models import Builder, assert_like_onnxruntime, results_of_onnxruntime
from template_checks import assert_templates_follow_the_rules

DEPTH = 5


def model_of(shape: Sequence[int | str], dtype: str, values: Any, axis: int, quantizes: bool = False) -> bytes:
    builder = Builder()
    x = builder.input(dtype, shape)
    result = builder.node("OneHot", [x, ints(DEPTH), values], axis=axis)
    if quantizes:
        builder.output(builder.quantized(result, SCALE, POINTS["uint8"]), "uint8")
    else:
        builder.output(result, values.dtype)
    return builder.build()


def feed_of(rng: np.random.Generator, dtype: str, shape: Sequence[int]) -> Any:
    """Of which some are no places."""
    return rng.integers(-DEPTH - 3, DEPTH + 3, shape).astype(dtype)


@pytest.mark.parametrize("values", [np.float32([0, 1]), np.float32([-0.5, 2.25]), ints(-3, 2**40)], ids=str)
@pytest.mark.parametrize("shape", [(9,), (3, 4), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("axis", [-1, 0, 1, -2])
def test_places(random_numbers: np.random.Generator, values: Any, shape: tuple[int, ...], axis: int) -> None:
    model = model_of(shape, "int64", values, axis)
    assert_like_onnxruntime(model, {"x": feed_of(random_numbers, "int64", shape)}, equal=True)


@pytest.mark.parametrize("axis", [-1, 0])
def test_codes(random_numbers: np.random.Generator, axis: int) -> None:
    """Chosen among two codes."""
    model = model_of((3, 4), "int64", np.float32([-0.5, 2.25]), axis, True)
    assert_like_onnxruntime(model, {"x": feed_of(random_numbers, "int64", (3, 4))}, equal=True)
    [part] = dmlcpu.InferenceSession(model).partitions()
    assert "ELEMENT_WISE_QUANTIZE_LINEAR" not in {step.type for step in part.steps}


def test_places_of_32_bits(random_numbers: np.random.Generator) -> None:
    """Onnxruntime has no kernel."""
    x = feed_of(random_numbers, "int32", (4, 6))
    session = dmlcpu.InferenceSession(model_of((4, 6), "int32", np.float32([0, 1]), -1))
    [result] = session.run(None, {"x": x})
    counted = np.where(x < 0, x + DEPTH, x)
    np.testing.assert_array_equal(result, np.float32(counted[..., np.newaxis] == np.arange(DEPTH)))
    assert {part.provider for part in session.partitions()} == {"dmlcpu"}


def test_values_that_are_computed(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    x, values = builder.input("int64", (4, 6)), builder.input("float32", (2,), "values")
    builder.output(builder.node("OneHot", [x, ints(DEPTH), values], axis=1), "float32")
    feeds = {"x": feed_of(random_numbers, "int64", (4, 6)), "values": np.float32([3.5, -1])}
    assert_like_onnxruntime(builder.build(), feeds, equal=True)


def test_free_lengths(random_numbers: np.random.Generator) -> None:
    """The depth, too: as many places as there are columns."""
    builder = Builder()
    x = builder.input("int64", ("N", "T"))
    depth = builder.node("Gather", [builder.node("Shape", [x]), ints(1)])
    builder.output(builder.node("OneHot", [x, depth, np.float32([0, 1])]), "float32")
    model = builder.build()
    shapes = [(2, 5), (3, 8), (6, 4)]
    assert_templates_follow_the_rules(model, [{"x": shape} for shape in shapes], 1)
    session = dmlcpu.InferenceSession(model)
    for shape in shapes:
        feeds = {"x": feed_of(random_numbers, "int64", shape)}
        np.testing.assert_array_equal(session.run(None, feeds)[0], results_of_onnxruntime(model, feeds)[0])
        assert {part.provider for part in session.partitions({"x": shape})} == {"dmlcpu"}
