"""Elements chosen, padded and added by constants that follow from lengths: one template for all of these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pytest

from onnx_models import POINT, Builder, assert_like_onnxruntime, coded
from template_checks import assert_templates_follow_the_rules


def length_of(builder: Builder, value: str, axis: int) -> str:
    return str(builder.node("Gather", [builder.node("Shape", [value]), np.array(axis)]))


def places_of(builder: Builder, value: str, axis: int) -> str:
    return str(builder.node("Range", [np.array(0), length_of(builder, value, axis), np.array(1)]))


@pytest.mark.parametrize("quantized", [False, True])
def test_the_row_of_a_token(random_numbers: np.random.Generator, quantized: bool) -> None:
    """As of its position, which is added to a row of codes: for a single one it is a number for each channel."""
    builder = Builder()
    past = builder.input("float32", ("past", 8), "past")
    token = builder.dequantized(builder.input("uint8", (1, 1, 8), "token"), 0.02, POINT)
    first = builder.node("Add", [builder.node("Range", [np.array(0), np.array(1), np.array(1)]), np.int64(2)])
    place = builder.node("Add", [first, length_of(builder, past, 0)])
    rows = builder.dequantized(random_numbers.integers(0, 256, (64, 8), np.uint8), 0.01, np.uint8(100))
    total = builder.node("Add", [token, builder.node("Gather", [rows, place])])
    builder.output(coded(builder, total) if quantized else builder.node("Exp", [total]), "float32")
    builder.output(builder.node("Exp", [past]), "float32")
    model = builder.build()
    shapes = [{"past": (past, 8), "token": (1, 1, 8)} for past in (2, 3, 9, 40)]
    assert_templates_follow_the_rules(model, shapes, 1)
    feeds = {"past": np.ones((7, 8), np.float32), "token": random_numbers.integers(0, 256, (1, 1, 8), np.uint8)}
    assert_like_onnxruntime(model, feeds)


def windows(builder: Builder, value: str) -> str:
    """A window of three rows around each one, as slices beside each other."""
    moved = builder.node("Add", [places_of(builder, value, 1), np.int64([[0], [1], [2]])])
    padded = builder.node("Pad", [value, np.int64([0, 1, 0, 0, 1, 0])])
    return str(builder.node("Gather", [padded, moved], axis=1))


def scattered(builder: Builder, value: str) -> str:
    """Rows in an order that is no range: more slices than are joined, and all by their indices."""
    places = places_of(builder, value, 1)
    halves = builder.node("Mul", [places, np.int64(3)])
    length = builder.node("Unsqueeze", [length_of(builder, value, 1), np.int64([0])])
    return str(builder.node("Gather", [value, builder.node("Mod", [halves, length])], axis=1))


def backwards(builder: Builder, value: str) -> str:
    """Rows in the order from the last one on."""
    places = builder.node("Neg", [builder.node("Add", [places_of(builder, value, 1), np.int64(1)])])
    return str(builder.node("Gather", [value, places], axis=1))


def chosen_elements(builder: Builder, value: str) -> str:
    """An element of each row, by indices of all."""
    places = places_of(builder, value, 1)
    indices = builder.node("Unsqueeze", [builder.node("Mod", [places, np.int64(4)]), np.int64([0, 2])])
    return str(builder.node("GatherElements", [value, indices], axis=2))


def padded_to_blocks(builder: Builder, value: str) -> str:
    """Up to a multiple of four rows; the amounts are brought to their order as torch does it, last axis first."""
    missing = builder.node("Mod", [builder.node("Neg", [length_of(builder, value, 1)]), np.int64(4)])
    zero = np.zeros(2, np.int64)
    amounts = builder.node("Concat", [zero, np.int64([0]), builder.node("Unsqueeze", [missing, np.int64([0])])], axis=0)
    amounts = builder.node("Reshape", [builder.node("Concat", [amounts, zero], axis=0), np.int64([-1, 2])])
    amounts = builder.node("Slice", [amounts, np.int64([-1]), np.int64([-(1 << 62)]), np.int64([0]), np.int64([-1])])
    amounts = builder.node("Reshape", [builder.node("Transpose", [amounts], perm=[1, 0]), np.int64([-1])])
    padded = builder.node("Pad", [value, amounts])
    return str(builder.node("Reshape", [padded, np.int64([1, -1, 4, 4])]))


CHOICES: Final[dict[Callable[[Builder, str], str], int]] = {
    windows: 1,
    scattered: 1,
    backwards: 4,
    chosen_elements: 1,
    padded_to_blocks: 2,
}
"""And how many templates there may be: slices that are not as many are another graph."""


@pytest.mark.parametrize("choice", CHOICES)
def test_choices(random_numbers: np.random.Generator, choice: Callable[[Builder, str], str]) -> None:
    builder = Builder()
    x = builder.node("Exp", [builder.input("float32", (1, "rows", 4))])
    builder.output(builder.node("Neg", [choice(builder, x)]), "float32")
    model = builder.build()
    shapes = [{"x": (1, rows, 4)} for rows in (5, 7, 10, 22, 40, 41)]
    assert_templates_follow_the_rules(model, shapes, CHOICES[choice])
    for rows in (5, 22):
        feeds = {"x": random_numbers.normal(size=(1, rows, 4)).astype(np.float32)}
        assert_like_onnxruntime(model, feeds)
