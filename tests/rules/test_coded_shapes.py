"""Shapes and positions of which some numbers are codes: quantizers do not tell them from what networks compute."""

from __future__ import annotations

import numpy as np
import pytest

import dmlcpu
from onnx_models import Builder, assert_like_onnxruntime, codes, steps_of
from template_checks import assert_templates_follow_the_rules

POINT = np.uint8(0)
INT64 = 7


def halved_and_doubled(builder: Builder, shape: str) -> str:
    """The height, rounded up to even: the 2 and what is rounded are codes, as MobileViT's are."""
    height = builder.node("Cast", [builder.node("Gather", [shape, np.int64(2)])], to=1)
    two = builder.dequantized(np.array(20, np.uint8), 0.1, POINT)
    rounded = builder.node("Ceil", [builder.node("Div", [height, two])])
    rounded = builder.dequantized(builder.quantized(rounded, 0.1, POINT), 0.1, POINT)
    whole = builder.node("Cast", [builder.node("Mul", [rounded, two])], to=INT64)
    return builder.node("Unsqueeze", [whole, np.array([0])])


def test_lengths() -> None:
    builder = Builder()
    x = builder.input("float32", ("N", 4, "H", 6))
    lengths = [np.array([-1]), halved_and_doubled(builder, builder.node("Shape", [x]))]
    value = builder.dequantized(builder.quantized(x, 0.1, POINT), 0.1, POINT)
    builder.output(builder.node("Reshape", [value, builder.node("Concat", lengths, axis=0)]), "float32")
    model = builder.build()
    feeds = {"x": np.linspace(0, 20, 2 * 4 * 8 * 6, dtype=np.float32).reshape(2, 4, 8, 6)}
    assert_like_onnxruntime(model, feeds, equal=True)
    session = dmlcpu.InferenceSession(model)
    session.run(None, feeds)
    assert [partition.provider for partition in session.partitions()] == ["dmlcpu"]
    assert_templates_follow_the_rules(model, [{"x": (count, 4, 2 * half, 6)} for count in (1, 3) for half in (2, 5)], 1)


@pytest.mark.parametrize("length", [1, 5])
def test_positions(length: int) -> None:
    """A Range has no rule; of known numbers it is computed at once."""
    builder = Builder()
    x = builder.input("float32", ("N", "T"))
    count = builder.node("Cast", [builder.node("Gather", [builder.node("Shape", [x]), np.int64(1)])], to=1)
    first, step = (builder.dequantized(np.array(code, np.uint8), 1 / 255, POINT) for code in (51, 255))
    places = builder.node("Range", [first, count, step])
    builder.output(builder.node("Add", [x, places]), "float32")
    model = builder.build()
    feeds = {"x": np.arange(2 * length, dtype=np.float32).reshape(2, length)}
    assert_like_onnxruntime(model, feeds, equal=True)
    session = dmlcpu.InferenceSession(model)
    session.run(None, feeds)
    assert [partition.provider for partition in session.partitions()] == ["dmlcpu"]


def same_margins(builder: Builder, shape: str, axis: int) -> tuple[str, str]:
    """How much goes before and behind an axis so that windows of 3, 2 apart, begin at each even place."""
    one, two, nothing = (builder.dequantized(np.array(code, np.uint8), 0.1, POINT) for code in (10, 20, 0))
    length = builder.node("Cast", [builder.node("Gather", [shape, np.int64(axis)])], to=1)
    last = builder.node(
        "Mul", [builder.node("Sub", [builder.node("Ceil", [builder.node("Div", [length, two])]), one]), two]
    )
    last = builder.dequantized(builder.quantized(last, 0.1, POINT), 0.1, POINT)
    reached = builder.node("Add", [builder.node("Add", [last, two]), one])
    lacking = builder.node("Clip", [builder.node("Sub", [reached, length]), nothing])
    before = builder.node("Floor", [builder.node("Div", [lacking, two])])
    margins = (before, builder.node("Sub", [lacking, before]))
    of_one_axis = (builder.node("Unsqueeze", [margin, np.array([0])]) for margin in margins)
    before, behind = (builder.dequantized(builder.quantized(margin, 0.1, POINT), 0.1, POINT) for margin in of_one_axis)
    return before, behind


def test_margins() -> None:
    """The padding is joined in codes, and whole numbers are made of all of these together, as EfficientNet's are."""
    builder = Builder()
    x = builder.input("float32", ("N", 4, "H", "W"))
    shape = builder.node("Shape", [x])
    rows, columns = same_margins(builder, shape, 2), same_margins(builder, shape, 3)
    joined = builder.node("Concat", [rows[0], columns[0], rows[1], columns[1]], axis=0)
    whole = builder.node("Cast", [builder.dequantized(builder.quantized(joined, 0.1, POINT), 0.1, POINT)], to=INT64)
    before, behind = builder.node("Split", [whole, np.array([2, 2])], 2, axis=0)
    pads = builder.node("Concat", [np.zeros(2, np.int64), before, np.zeros(2, np.int64), behind], axis=0)
    value = builder.dequantized(builder.quantized(x, 0.1, POINT), 0.1, POINT)
    padded = builder.node("Pad", [value, pads])
    builder.output(builder.quantized(padded, 0.1, POINT), "uint8")
    model = builder.build()
    session = dmlcpu.InferenceSession(model)
    for height, width in ((8, 5), (7, 6), (9, 9)):
        feeds = {"x": np.linspace(0, 20, 2 * 4 * height * width, dtype=np.float32).reshape(2, 4, height, width)}
        assert_like_onnxruntime(model, feeds, equal=True)
        session.run(None, feeds)
        assert [partition.provider for partition in session.partitions()] == ["dmlcpu"]
    assert_templates_follow_the_rules(model, [{"x": (count, 4, 8, 5)} for count in (1, 3)], 1)


@pytest.mark.parametrize("operator", ["QLinearMul", "QLinearAdd"])
def test_lengths_of_operators_on_codes(operator: str) -> None:
    """The height, plus itself by QLinearAdd, or times 2; only kernels compute these."""
    builder = Builder()
    x = builder.input("uint8", ("N", 4, "H", 6))
    height = builder.node("Cast", [builder.node("Gather", [builder.node("Shape", [x]), np.int64(2)])], to=1)
    coded = [builder.quantized(height, 1, POINT), np.float32(1), POINT]
    other = coded if operator == "QLinearAdd" else [np.array(20, np.uint8), np.float32(0.1), POINT]
    doubled = builder.node(f"com.microsoft.{operator}", [*coded, *other, np.float32(0.5), POINT])
    whole = builder.node("Cast", [builder.dequantized(doubled, 0.5, POINT)], to=INT64)
    lengths = [np.array([-1]), builder.node("Unsqueeze", [whole, np.array([0])])]
    builder.output(builder.node("Reshape", [x, builder.node("Concat", lengths, axis=0)]), "uint8")
    model = builder.build()
    session = dmlcpu.InferenceSession(model)
    for height in (8, 3):
        feeds = {"x": np.arange(2 * 4 * height * 6, dtype=np.uint8).reshape(2, 4, height, 6)}
        assert_like_onnxruntime(model, feeds, equal=True)
        [result] = session.run(None, feeds)
        assert result.shape == (24, 2 * height)
        assert [partition.provider for partition in session.partitions()] == ["dmlcpu"]
    assert_templates_follow_the_rules(model, [{"x": (count, 4, height, 6)} for count in (1, 3) for height in (2, 5)], 1)


def test_places_of_doubles() -> None:
    """Angles by an Einsum of places and frequencies, as RT-DETR's positions are."""
    builder = Builder()
    x = builder.input("float32", ("N", "T", 8))
    count = builder.node("Cast", [builder.node("Gather", [builder.node("Shape", [x]), np.int64(1)])], to=11)
    places = builder.node("Range", [np.float64(0), count, np.float64(1)])
    angles = builder.node("Einsum", [places, np.float64([1, 0.1, 0.01, 0.001])], equation="i,j->ij")
    waves = builder.node("Concat", [builder.node("Sin", [angles]), builder.node("Cos", [angles])], axis=1)
    builder.output(builder.node("Add", [x, builder.node("Cast", [waves], to=1)]), "float32")
    model = builder.build()
    session = dmlcpu.InferenceSession(model)
    for length in (5, 1, 9):
        feeds = {"x": np.linspace(-1, 1, 2 * length * 8, dtype=np.float32).reshape(2, length, 8)}
        assert_like_onnxruntime(model, feeds, 1)
        session.run(None, feeds)
        assert [partition.provider for partition in session.partitions()] == ["dmlcpu"]
    assert_templates_follow_the_rules(model, [{"x": (count, length, 8)} for count in (1, 3) for length in (2, 5)], 1)


@pytest.mark.parametrize("mover", ["Identity", "Transpose", "Reshape"])
def test_weights_of_one_element_stay_codes(random_numbers: np.random.Generator, mover: str) -> None:
    builder = Builder()
    value = builder.dequantized(builder.input("uint8", (1, 1, 8, 9)), 0.1, POINT)
    weights = builder.dequantized(np.full((1, 1, 1, 1), 3, np.int8), 0.1, np.int8(0))
    moved = builder.node(mover, [weights, *([np.array([1, 1, 1, 1])] if mover == "Reshape" else [])])
    builder.output(builder.quantized(builder.node("Conv", [value, moved]), 0.1, POINT), "uint8")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", (1, 1, 8, 9))}, 1)
    assert steps_of(builder) == ["QUANTIZED_LINEAR_CONVOLUTION"]
