"""Casts to integers of 8 bits, beside onnxruntime: numbers that have more bits lose the upper ones."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from conftest import SEED
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


LIKE: Final = {"bool": 9, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "float32": 1}


@pytest.mark.parametrize("target", LIKE)
@pytest.mark.parametrize("source", ["int64", "float32", "uint8"])
def test_casts_to_the_type_of_another_value(random_numbers: np.random.Generator, source: str, target: str) -> None:
    builder = Builder()
    other = builder.node("Transpose", [builder.input(target, (3, 2), "other")])
    builder.output(builder.node("CastLike", [builder.input(source, (4, 9)), other]), target)
    feeds = {"x": numbers(random_numbers, source, (4, 9)), "other": numbers(random_numbers, target, (3, 2))}
    assert_like_onnxruntime(builder.build(), feeds, equal=True)


def network(rng: np.random.Generator, is_like: bool) -> Builder:
    """Casts as exporters write them, of a constant, a condition and a length."""
    builder = Builder()

    def cast(value: Any, like: str) -> str:
        result: str = builder.node("CastLike", [value, like]) if is_like else builder.node("Cast", [value], to=1)
        return result

    value = builder.dequantized(builder.input("uint8", ("rows", 16)), 0.02, np.uint8(128))
    weights = builder.dequantized(codes(rng, "int8", (16, 16)), 0.01, np.int8(0))
    product = builder.node("MatMul", [value, weights])
    product = builder.quantized(builder.node("Add", [product, cast(np.arange(16), product)]), 0.2, np.uint8(10))
    value = builder.dequantized(product, 0.2, np.uint8(10))
    mask = cast(builder.node("Greater", [value, np.float32(0.5)]), value)
    length = builder.node("Gather", [builder.node("Shape", [value]), np.array(0)])
    value = builder.node("Div", [builder.node("Mul", [mask, value]), cast(length, value)])
    builder.output(builder.quantized(value, 0.3, np.uint8(0)), "uint8")
    return builder


def test_types_of_what_is_computed(random_numbers: np.random.Generator) -> None:
    """Nothing is computed for a type, what is constant stays so, and what alone reads a value otherwise still does."""
    steps = {}
    for is_like in (False, True):
        model = network(np.random.default_rng((SEED, 1)), is_like).build()
        for rows in (3, 5):
            assert_like_onnxruntime(model, {"x": codes(random_numbers, "uint8", (rows, 16))}, 1)
        [partition] = dmlcpu.InferenceSession(model).partitions({"x": (3, 16)})
        steps[is_like] = [step.type for step in partition.steps]
    assert steps[True] == steps[False]


def test_types_without_a_kernel(random_numbers: np.random.Generator) -> None:
    """Onnxruntime is given the type."""
    builder = Builder()
    x = builder.node("Neg", [builder.input("float32", (3, 4))])
    builder.output(builder.node("CastLike", [x, builder.input("float64", (2,), "other")]), "float64")
    feeds = {"x": numbers(random_numbers, "float32", (3, 4)), "other": np.zeros(2)}
    assert_like_onnxruntime(builder.build(), feeds, native=False, equal=True)
