"""ReverseSequence beside onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pytest

import dmlcpu
from onnx_cases import POINTS, SCALE, ints
from onnx_models import Builder, assert_like_onnxruntime, codes, results_of_onnxruntime
from template_checks import assert_templates_follow_the_rules

FORMS: Final = ("float32", "int64", "codes", "function of codes", "quantized")
LENGTHS: Final = {
    "all": ints(7, 7, 7, 7),
    "alike": ints(4, 4, 4, 4),
    "their own": ints(1, 7, 3, 5),
    "none": ints(0, 1, 0, 1),
}


def model_of(form: str, shape: Sequence[int | str], lengths: Any, sequences_first: bool) -> bytes:
    """Lengths may be one for all sequences, of which there are as many as are fed."""
    dtype = form if form in ("float32", "int64") else "uint8"
    builder = Builder()
    value = builder.input(dtype, shape)
    if dtype == "uint8" and form != "codes":
        value = builder.dequantized(value, SCALE, POINTS["uint8"])
    if form == "function of codes":
        value = builder.node("Sin", [value])
    if isinstance(lengths, int):
        axis = 0 if sequences_first else 1
        lengths = builder.node("Expand", [ints(lengths), builder.node("Shape", [value], start=axis, end=axis + 1)])
    axes = {"batch_axis": 0, "time_axis": 1} if sequences_first else {"batch_axis": 1, "time_axis": 0}
    result = builder.node("ReverseSequence", [value, lengths], **axes)
    if form == "quantized":
        builder.output(builder.quantized(result, SCALE, POINTS["uint8"]), "uint8")
    else:
        builder.output(result, "float32" if form == "function of codes" else dtype)
    return builder.build()


def feed_of(rng: np.random.Generator, form: str, shape: Sequence[int]) -> Any:
    if form == "float32":
        return rng.standard_normal(shape, np.float32)
    return codes(rng, "int64" if form == "int64" else "uint8", shape)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("sequences_first", [False, True])
@pytest.mark.parametrize("rest", [(), (5,), (3, 2)], ids=str)
def test_reversed(
    random_numbers: np.random.Generator, form: str, lengths: str, sequences_first: bool, rest: tuple[int, ...]
) -> None:
    shape = ((4, 7) if sequences_first else (7, 4)) + rest
    model = model_of(form, shape, LENGTHS[lengths], sequences_first)
    # What is a function of codes is looked up in floats, where onnxruntime computes it.
    assert_like_onnxruntime(model, {"x": feed_of(random_numbers, form, shape)}, equal=form != "function of codes")


def test_many_steps(random_numbers: np.random.Generator) -> None:
    """One by one, as they are more than a few slices."""
    shape = (90, 3, 5)
    for form in FORMS:
        model = model_of(form, shape, ints(90, 33, 71), False)
        assert_like_onnxruntime(model, {"x": feed_of(random_numbers, form, shape)}, equal=form != "function of codes")


@pytest.mark.parametrize("lengths", [ints(3, 5), ints(8, 1, 1), ints(-1, 1, 1)], ids=str)
def test_lengths_that_no_sequence_has(lengths: Any) -> None:
    model = model_of("float32", (7, 3, 2), lengths, False)
    with pytest.raises(dmlcpu.DmlError):
        dmlcpu.InferenceSession(model).run(None, {"x": np.zeros((7, 3, 2), np.float32)})


def test_lengths_that_are_computed(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    x, lengths = builder.input("float32", (7, 4, 2)), builder.input("int64", (4,), "lengths")
    builder.output(builder.node("ReverseSequence", [x, lengths]), "float32")
    feeds = {"x": feed_of(random_numbers, "float32", (7, 4, 2)), "lengths": LENGTHS["their own"]}
    assert_like_onnxruntime(builder.build(), feeds, native=False)


def test_free_lengths(random_numbers: np.random.Generator) -> None:
    model = model_of("float32", ("T", 4, "C"), ints(20, 33, 26, 41), False)
    shapes = [(60, 4, 3), (70, 4, 5), (41, 4, 2)]
    assert_templates_follow_the_rules(model, [{"x": shape} for shape in shapes], 1)
    session = dmlcpu.InferenceSession(model)
    for shape in shapes:
        feeds = {"x": feed_of(random_numbers, "float32", shape)}
        np.testing.assert_array_equal(session.run(None, feeds)[0], results_of_onnxruntime(model, feeds)[0])
        assert {part.provider for part in session.partitions({"x": shape})} == {"dmlcpu"}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sequences_first", [False, True])
@pytest.mark.parametrize("length", [30, 29])
def test_free_counts_of_sequences(
    random_numbers: np.random.Generator, form: str, sequences_first: bool, length: int
) -> None:
    """They are as long as each other: as backward layers have them, whatever the batch."""
    model = model_of(form, ("b", 30, 130) if sequences_first else (30, "b", 130), length, sequences_first)
    shapes = [(count, 30, 130) if sequences_first else (30, count, 130) for count in (2, 5, 3, 8)]
    assert_templates_follow_the_rules(model, [{"x": shape} for shape in shapes], 1)
    for shape in shapes[:2]:
        feeds = {"x": feed_of(random_numbers, form, shape)}
        assert_like_onnxruntime(model, feeds, equal=form != "function of codes")
