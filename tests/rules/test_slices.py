"""Slices at the limits of what they may ask for: of nothing, and backwards from beyond the ends."""

from __future__ import annotations

import numpy as np
import pytest

import dmlcpu
from onnx_cases import POINTS, SCALE, ints
from onnx_models import Builder, assert_like_onnxruntime, results_of_onnxruntime


@pytest.mark.parametrize("form", ["codes", "floats", "int64"])
def test_slices_of_nothing(random_numbers: np.random.Generator, form: str) -> None:
    """As of the part of each head that is not turned, where all of it is: joined to others it is nothing."""
    builder = Builder()
    x = builder.input({"codes": "uint8", "floats": "float32"}.get(form, "int64"), (2, 3, 8))
    feed = random_numbers.integers(0, 99, (2, 3, 8))
    value = builder.dequantized(x, SCALE, POINTS["uint8"]) if form == "codes" else x
    dtype = "int64" if form == "int64" else "float32"
    rest = builder.node("Slice", [value, ints(8), ints(1 << 40), ints(2)])
    kept = builder.node("Slice", [value, ints(-5), ints(4), ints(2), ints(-1)])
    for result in (builder.node("Concat", [value, rest, kept], axis=-1), rest, builder.node("Neg", [rest])):
        builder.output(result, dtype)
    feeds = {"x": feed.astype({"codes": "uint8", "floats": "float32"}.get(form, "int64"))}
    assert_like_onnxruntime(builder.build(), feeds, equal=True)


@pytest.mark.parametrize("start", [-3, -9, 1, 9])
@pytest.mark.parametrize("end", [-9, (1 << 31) - 1, (1 << 63) - 1])
@pytest.mark.parametrize("constant", [False, True])
def test_slices_backwards_from_beyond_the_ends(start: int, end: int, constant: bool) -> None:
    """From before the first element they begin there, as ONNX has it; in numpy they are empty.

    The largest ends are all that is left, as onnxruntime has it.
    """
    builder, x = Builder(), np.arange(6, dtype=np.float32).reshape(3, 2)
    value = builder.constant(x) if constant else builder.input("float32", ("n", 2))
    first = builder.node("Slice", [value, ints(start), ints(end), ints(1), ints(-1)])
    builder.output(builder.node("Neg", [first]), "float32")
    if constant:
        builder.output(builder.node("Neg", [builder.input("float32", ("n", 2))]), "float32")
    model = builder.build()
    assert_like_onnxruntime(model, {"x": x}, equal=True)
    session = dmlcpu.InferenceSession(model)
    for rows in (9, 3, 6, 4, 5):
        feeds = {"x": np.ones((rows, 2), np.float32)}
        for ours, expected in zip(session.run(None, feeds), results_of_onnxruntime(model, feeds), strict=True):
            np.testing.assert_array_equal(ours, expected)
