"""Boxes that suppress others, which a function of arrays computes, and the nodes around it: NonMaxSuppression."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from conftest import SEED
from dispatching import assert_equal
from dmlcpu import _core
from onnx_models import Builder, coded, results_of_onnxruntime

Array = NDArray[Any]

NODE = "NonMaxSuppression"

SCALE = 2**-4


def suppressed(
    boxes: Array, scores: Array, most: int, overlap: float, least: float | None, centred: bool
) -> list[tuple[int, int, int]]:
    """Which boxes are kept, one by one."""
    kept: list[tuple[int, int, int]] = []
    corners = boxes.astype(np.float32)
    if centred:
        half = corners[..., 2:] / np.float32(2)
        low, high = corners[..., :2] - half, corners[..., :2] + half
    else:
        low, high = np.minimum(corners[..., :2], corners[..., 2:]), np.maximum(corners[..., :2], corners[..., 2:])
    area = (high - low).prod(-1)
    for image, label in np.ndindex(*scores.shape[:2]):
        own: list[int] = []
        for box in np.argsort(-scores[image, label], kind="stable").tolist():
            if len(own) == most or (least is not None and not scores[image, label, box] > np.float32(least)):
                break
            sides = np.minimum(high[image, own], high[image, box]) - np.maximum(low[image, own], low[image, box])
            shared = np.where((sides > 0).all(-1), sides.prod(-1), np.float32(0))
            joined = area[image, own] + area[image, box] - shared
            counts = (shared > 0) & (area[image, own] > 0) & (area[image, box] > 0) & (joined > 0)
            if not (counts & (shared / np.where(counts, joined, 1) > np.float32(overlap))).any():
                own.append(box)
        kept.extend((image, label, box) for box in own)
    return kept


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 33, 1100])
@pytest.mark.parametrize("centred", [False, True])
def test_kept_boxes(
    devices: Mapping[str, dmlcpu.Device], centred: bool, count: int, random_numbers: np.random.Generator
) -> None:
    """Corners and scores of few values: shares are at the limit, and scores equal, often."""
    boxes = (random_numbers.integers(0, 9, (2, count, 4)) / 4).astype(np.float32)
    scores = (random_numbers.integers(-3, 4, (2, 3, count)) / 2).astype(np.float32)
    scores[scores == 0] *= random_numbers.choice([-1, 1], (scores == 0).sum())  # zeros of both signs are equal
    for most, overlap, least in (
        (1000, 0.5, None),
        (7, 0.25, -1.0),
        (1000, 0.0, 0.5),
        (1000, 1.0, -5.0),
        (0, 0.5, None),
    ):
        share = float(np.float32(overlap))
        expected = np.array(suppressed(boxes, scores, most, share, least, centred), np.int64).reshape(-1, 3)
        for label, device in devices.items():
            kept = _core.non_max_suppression(boxes, scores, most, share, least, centred, device.isa, device.num_threads)
            assert_equal(kept, expected, label)


def test_boxes_and_scores_that_are_no_numbers(isa: str) -> None:
    boxes = np.float32([[[0, 0, 1, 1], [0, 0, 1, 1], [0, 0, np.nan, 1], [0, 0, np.inf, 1], [2, 2, 2, 2]]])
    scores = np.float32([[[1, np.nan, 2, 3, 4]]])
    kept = _core.non_max_suppression(boxes, scores, 9, 0.5, None, False, isa, 1)
    assert kept[:, 2].tolist() == [4, 3, 2, 0]  # the one without a score is met last
    kept = _core.non_max_suppression(boxes[:, :2], scores[:, :, :2] * np.float32(np.nan), 9, 0.5, 0.0, False, isa, 1)
    assert kept.shape == (0, 3)


@pytest.mark.parametrize(
    ("boxes", "scores", "isa_name", "num_threads", "message"),
    [
        ((1, 2, 3), (1, 1, 2), "scalar", 1, "boxes are"),
        ((1, 2, 4), (1, 1, 3), "scalar", 1, "boxes are"),
        ((2, 2, 4), (1, 1, 2), "scalar", 1, "boxes are"),
        ((2, 4), (1, 1, 2), "scalar", 1, "boxes are"),
        ((1, 2, 4), (1, 1, 2), "none", 1, "instruction set of this machine is named none"),
        ((1, 2, 4), (1, 1, 2), "scalar", 0, "threads are 1 to"),
    ],
)
def test_what_the_function_refuses(boxes: Any, scores: Any, isa_name: str, num_threads: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _core.non_max_suppression(
            np.zeros(boxes, np.float32), np.zeros(scores, np.float32), 1, 0.5, None, False, isa_name, num_threads
        )


def detector(length: int | str, is_forked: bool) -> bytes:
    """A layer, the best of the boxes that it finds, and another layer on each of these; within an If, or not.

    Scales are powers of two: sums are exact, and one amid two codes, which may decide on a box, is so to everyone.
    """
    builder = Builder()
    x = coded(builder, builder.input("float32", (length, 8)), SCALE)
    random = np.random.default_rng((SEED, 1))
    weights = builder.dequantized(random.integers(-128, 128, (8, 5), np.int8), 2**-7, np.int8(0))
    found = coded(builder, builder.node("MatMul", [x, weights]), SCALE)
    corners, score = builder.node("Split", [found, np.int64([4, 1])], 2, axis=1)
    boxes = builder.node("Unsqueeze", [corners, np.int64([0])])
    scores = builder.node("Unsqueeze", [builder.node("Transpose", [score], perm=[1, 0]), np.int64([0])])
    limit = builder.constant(np.float32([0.15]), "limit")
    if is_forked:
        builder.node("ReduceMax", [score], keepdims=0)
        condition = builder.node("Greater", [builder.nodes[-1].output[0], np.float32(1)])
        branch, other = Builder(prefix="then_"), Builder(prefix="else_")
        chosen = branch.node(NODE, [branch.node("Abs", [boxes]), scores, np.int64([12]), limit, np.float32([-9])])
        third = branch.node("Gather", [chosen, np.int64([2])], axis=1)
        branch.output(branch.node("Squeeze", [third, np.int64([1])]), "int64")
        other.output(other.constant(np.int64([1, 0])), "int64")
        kept = builder.node("If", [condition], then_branch=branch.graph(), else_branch=other.graph())
    else:
        chosen = builder.node(NODE, [builder.node("Abs", [boxes]), scores, np.int64([12]), limit])
        kept = builder.node("Squeeze", [builder.node("Gather", [chosen, np.int64([2])], axis=1), np.int64([1])])
    best = coded(builder, builder.node("Gather", [x, kept]), SCALE)
    more = builder.dequantized(random.integers(-128, 128, (8, 6), np.int8), 2**-7, np.int8(0))
    offset = builder.node("ReduceMean", [x], axes=[0, 1], keepdims=1)  # nothing before the suppression reads it
    layer = coded(builder, builder.node("MatMul", [best, more]), SCALE)
    builder.output(coded(builder, builder.node("Add", [layer, offset]), SCALE), "float32")
    builder.output(kept, "int64")
    return builder.build()


@pytest.mark.parametrize("is_forked", [False, True])
@pytest.mark.parametrize("length", [12, "rows"])
def test_nodes_around_a_suppression(random_numbers: np.random.Generator, length: int | str, is_forked: bool) -> None:
    """Planned for what each run finds, and later for anything: with the same results."""
    model = detector(length, is_forked)
    session = dmlcpu.InferenceSession(model)
    counts, taken = set(), set()
    for number in range(20):
        codes = random_numbers.integers(-60, 40, (12, 8))
        if is_forked and number % 2:
            codes //= 32  # the sums of eight are 1 at most
        feeds = {"x": (SCALE * codes).astype(np.float32)}
        ours, kept = session.run(None, feeds)
        layer, indices = results_of_onnxruntime(model, feeds)
        assert np.array_equal(kept, indices)
        np.testing.assert_allclose(ours, layer, 0, 1.001 * SCALE)  # a code of the sum with a mean
        counts.add(len(kept))
        taken.add(kept.tolist() == [1, 0])
    assert len(counts) > 2
    assert taken == {True, False} if is_forked else taken == {False}
    providers = {name: part.provider for part in session.partitions() for name in part.nodes}
    [suppressing] = [provider for name, provider in providers.items() if NODE in name]
    assert suppressing == "dmlcpu"
    assert ("onnxruntime" in providers.values()) == is_forked
    assert np.array_equal(session.run([session.get_outputs()[1].name], feeds)[0], indices)


def test_a_model_that_is_only_a_suppression(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    inputs = [builder.input("float32", (1, 5, 4), "boxes"), builder.input("float32", (1, 2, 5), "scores")]
    limits = [builder.input("int64", (1,), "most"), builder.input("float32", (1,), "overlap")]
    builder.output(builder.node(NODE, [*inputs, *limits], center_point_box=1), "int64", ("kept", 3))
    model = builder.build()
    session = dmlcpu.InferenceSession(model)
    [part] = session.partitions()
    assert (part.provider, part.reasons) == ("dmlcpu", {})
    feeds: dict[str, Any] = {
        "boxes": random_numbers.random((1, 5, 4)).astype(np.float32),
        "scores": random_numbers.random((1, 2, 5)).astype(np.float32),
        "most": np.int64([3]),
        "overlap": np.float32([0.1]),
    }
    assert np.array_equal(session.run(None, feeds)[0], results_of_onnxruntime(model, feeds)[0])
    assert session.run(None, {**feeds, "most": np.int64([-1])})[0].shape == (0, 3)
    with pytest.raises(dmlcpu.InvalidModelError, match=r"got iou_threshold 1.5, expected 0 to 1"):
        session.run(None, {**feeds, "overlap": np.float32([1.5])})


@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        (((1, 5, 4), (1, 2, 6), (1,)), r"boxes of shape \(1, 5, 4\) and scores of shape \(1, 2, 6\)"),
        (((1, 5, 4), (1, 2, 5), (2,)), r"got max_output_boxes_per_class of shape \(2,\), expected one number"),
    ],
)
def test_what_a_suppression_refuses(inputs: Any, told: str) -> None:
    builder = Builder()
    names = [
        builder.input(dtype, [None] * len(shape), name)
        for name, dtype, shape in zip("abc", ("float32", "float32", "int64"), inputs, strict=True)
    ]
    builder.output(builder.node(NODE, names), "int64")
    session = dmlcpu.InferenceSession(builder.build())
    feeds = {
        name: np.zeros(shape, np.int64 if name == "c" else np.float32)
        for name, shape in zip("abc", inputs, strict=True)
    }
    with pytest.raises(dmlcpu.InvalidModelError, match=told):
        session.run(None, feeds)


def test_no_onnxruntime_is_needed_for_a_suppression_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = Builder()
    boxes, scores = builder.input("float32", ("n", 5, 4), "boxes"), builder.input("float32", ("n", 2, 5), "scores")
    builder.output(builder.node(NODE, [boxes, scores, np.int64([2])]), "int64")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    session = dmlcpu.InferenceSession(builder.build())
    for images in (1, 2, 3):
        feeds = {"boxes": np.zeros((images, 5, 4), np.float32), "scores": np.zeros((images, 2, 5), np.float32)}
        [kept] = session.run(None, feeds)
        assert kept.tolist() == [[n, c, i] for n in range(images) for c in range(2) for i in range(2)]


def test_no_onnxruntime_is_needed_for_what_follows(
    random_numbers: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = detector("rows", False)
    feeds = [
        {"x": (SCALE * random_numbers.integers(-60, 40, (rows, 8))).astype(np.float32)} for rows in (12, 12, 3, 9, 12)
    ]
    expected = [results_of_onnxruntime(model, each) for each in feeds]
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    session = dmlcpu.InferenceSession(model)
    for each, (layer, indices) in zip(feeds, expected, strict=True):
        ours, kept = session.run(None, each)
        assert np.array_equal(kept, indices)
        np.testing.assert_allclose(ours, layer, 0, 1.001 * SCALE)


def test_types_that_are_not_known_leave_the_nodes_together(random_numbers: np.random.Generator) -> None:
    """What an operator that ONNX does not know writes is passed on within one part."""
    builder = Builder()
    boxes = builder.node("com.microsoft.Gelu", [builder.input("float32", (1, 4, 4), "boxes")])
    scores = builder.node("com.microsoft.Gelu", [builder.input("float32", (1, 1, 4), "scores")])
    count = builder.node("Size", [builder.node("NonZero", [boxes])])
    builder.output(builder.node(NODE, [boxes, scores, count]), "int64")
    feeds = {
        "boxes": random_numbers.random((1, 4, 4)).astype(np.float32),
        "scores": random_numbers.random((1, 1, 4), np.float32),
    }
    session = dmlcpu.InferenceSession(builder.build())
    assert np.array_equal(session.run(None, feeds)[0], results_of_onnxruntime(builder.build(), feeds)[0])


def test_no_part_runs_twice(random_numbers: np.random.Generator, tmp_path: Path) -> None:
    """The layer before what a run tells makes what all of the parts behind that read."""
    session = dmlcpu.InferenceSession(detector(12, False))
    feeds = {"x": (SCALE * random_numbers.integers(-60, 40, (12, 8))).astype(np.float32)}
    parts = []
    results = []
    for _ in range(2):
        session.profile(tmp_path / "trace.json", feeds)
        events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
        parts.append(sum(event.get("name") in ("dmlcpu", "onnxruntime") for event in events))
        results.append(session.run(None, feeds))
    assert parts == [len(session.partitions())] * 2
    assert all(np.array_equal(first, second) for first, second in zip(*results, strict=True))
