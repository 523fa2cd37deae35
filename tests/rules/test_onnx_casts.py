"""Casts to integers of 8 bits, beside onnxruntime: numbers that have more bits lose the upper ones."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

from onnx_models import Builder, assert_like_onnxruntime, codes

Array = NDArray[Any]
TARGETS: Final = {"uint8": 2, "int8": 3}
SHAPES: Final = ((), (1,), (4, 33), (2, 3, 5, 7))


def numbers(rng: np.random.Generator, source: str, shape: tuple[int, ...]) -> Array:
    if source == "float32":
        return np.asarray(rng.uniform(-1e5, 1e5, shape), np.float32)
    if source == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    limits = np.iinfo(source)
    return np.asarray(rng.integers(limits.min, limits.max, shape, source))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", ["int64", "int32", "uint16", "float32", "bool", "uint8", "int8"])
def test_casts(random_numbers: np.random.Generator, source: str, target: str, shape: tuple[int, ...]) -> None:
    builder = Builder()
    builder.output(builder.node("Cast", [builder.input(source, shape)], to=TARGETS[target]), target)
    assert_like_onnxruntime(builder.build(), {"x": numbers(random_numbers, source, shape)}, equal=True)


@pytest.mark.parametrize("target", TARGETS)
def test_casts_of_what_is_computed(random_numbers: np.random.Generator, target: str) -> None:
    """Floats of an image as bytes, and numbers behind a reduction, which other nodes read as well."""
    builder = Builder()
    x = builder.input("float32", (1, 3, 6, 5))
    moved = builder.node("Transpose", [builder.node("Mul", [x, np.float32(255)])], perm=(0, 2, 3, 1))
    builder.output(builder.node("Cast", [moved], to=TARGETS[target]), target)
    places = builder.node("ArgMax", [x], axis=1, keepdims=0)
    of_places = builder.node("Cast", [places], to=TARGETS[target])
    builder.output(of_places, target)
    builder.output(builder.node("Concat", [of_places, of_places], axis=0), target)
    builder.output(places, "int64")
    feeds = {"x": random_numbers.random((1, 3, 6, 5), np.float32)}
    assert_like_onnxruntime(builder.build(), feeds, equal=True)


@pytest.mark.parametrize("source", TARGETS)
@pytest.mark.parametrize("target", TARGETS)
def test_casts_of_dequantized_codes(random_numbers: np.random.Generator, target: str, source: str) -> None:
    """A function of the codes: a table."""
    builder = Builder()
    point = np.zeros((), source) + 77
    value = builder.dequantized(builder.input(source, (3, 50)), 3.7, point.astype(source))
    builder.output(builder.node("Cast", [value], to=TARGETS[target]), target)
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, source, (3, 50))}, equal=True)
