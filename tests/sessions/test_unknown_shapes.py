"""Shapes that only a run tells, as those of what a detector finds: planned as they are met, but not without an end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from dmlcpu.onnx import planning
from onnx_models import Builder, coded, results_of_onnxruntime

Array = NDArray[Any]


def finder(form: str, length: int | str = 40) -> bytes:
    """The rows of codes whose first element is above 0, and a layer on each of them."""
    builder = Builder()
    x = coded(builder, builder.input("float32", (length, 8)))
    first = builder.node("Gather", [x, np.int64(0)], axis=1)
    found = builder.node("NonZero", [builder.node("Greater", [first, np.float32(0)])])
    rows = builder.node("Gather", [x, builder.node("Squeeze", [found, np.int64([0])])])
    random = np.random.default_rng(4)
    codes = random.integers(-128, 128, (8, 6), np.int8)
    if form == "QDQ":
        weights = builder.dequantized(codes, 0.01, np.int8(0))
        result = coded(builder, builder.node("MatMul", [coded(builder, rows), weights]))
    else:
        row_codes, scale, point = builder.node("DynamicQuantizeLinear", [rows], 3)
        product = builder.node("MatMulInteger", [row_codes, codes, point, np.int8(0)])
        result = builder.node("Mul", [builder.node("Cast", [product], to=1), scale])
    builder.output(result, "float32")
    builder.output(builder.node("Exp", [x]), "float32")
    return builder.build()


def rows(count: int, length: int = 40) -> Array:
    x = np.random.default_rng(count).uniform(-3, 3, (length, 8)).astype(np.float32)
    x[:, 0] = np.where(np.arange(length) < count, 1, -1)
    return x


@pytest.mark.parametrize("form", ["QDQ", "dynamic"])
def test_shapes_that_are_others_each_time(form: str) -> None:
    """After some plans for what each run tells, the rest of the model is onnxruntime's."""
    model = finder(form)
    session = dmlcpu.InferenceSession(model)
    for count in (*range(3, 17), 5, 3):
        feeds = {"x": rows(count)}
        results = session.run(None, feeds)
        for ours, expected in zip(results, results_of_onnxruntime(model, feeds), strict=True):
            assert ours.shape == expected.shape
            np.testing.assert_allclose(
                ours, expected, 0, 0.051 if form == "QDQ" else 4.0
            )  # a code of the rows, at most
    assert len(session._plans) == 2  # the last one that was continued, and the one that is whole
    [part] = [part for part in session.partitions() if part.provider == "onnxruntime"]
    names = {name.partition("_")[0] for name in part.nodes}
    assert names >= ({"MatMul", "DequantizeLinear"} if form == "QDQ" else {"MatMulInteger", "Mul"})


def test_shapes_that_come_again() -> None:
    """As long as there are few, the rest is native."""
    model = finder("QDQ")
    session = dmlcpu.InferenceSession(model)
    for count in (3, 4, 5, 6, 7) * 4:
        feeds = {"x": rows(count)}
        [ours, _], [expected, _] = session.run(None, feeds), results_of_onnxruntime(model, feeds)
        np.testing.assert_allclose(ours, expected, 0, 0.051)
    assert len(session._plans) == 1 + 5


def test_lengths_that_are_new_once_the_rest_is_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have a template, up to what onnxruntime goes on with."""
    model = finder("dynamic", "length")
    session = dmlcpu.InferenceSession(model)
    for count in range(3, 13):
        session.run(None, {"x": rows(count)})

    def planned(*_: Any) -> None:
        raise AssertionError("planned anew")

    session.run(None, {"x": rows(4, 30)})
    monkeypatch.setattr("dmlcpu.onnx.session.make_plan", planned)
    for count, length in ((3, 20), (5, 50), (1, 9), (9, 50)):
        feeds = {"x": rows(count, length)}
        for ours, expected in zip(session.run(None, feeds), results_of_onnxruntime(model, feeds), strict=True):
            assert ours.shape == expected.shape
            np.testing.assert_allclose(ours, expected, 0, 0.051)


def test_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has no elements is known, whatever computes it: no node is refused and the model planned anew without it."""
    builder = Builder()
    x = coded(builder, builder.input("float32", (40, 8)))
    first = builder.node("Gather", [x, np.int64(0)], axis=1)
    found = builder.node("NonZero", [builder.node("Greater", [first, np.float32(0)])])
    taken = coded(builder, builder.node("Gather", [x, builder.node("Squeeze", [found, np.int64([0])])]))
    low, high = (builder.node("Slice", [taken, np.int64([n]), np.int64([n + 3]), np.int64([1])]) for n in (0, 3))
    sides = builder.node("Sub", [high, low])
    for value in (taken, sides):  # onnxruntime reads both
        widest, _ = builder.node("TopK", [value, np.int64([2])], 2, axis=1)
        builder.output(coded(builder, widest), "float32")
    builder.output(builder.node("ReduceSum", [sides, np.int64([0])]), "float32")
    model = builder.build()
    made = []

    class Planner(planning._Planner):
        def __init__(self, *arguments: Any) -> None:
            made.append(self)
            super().__init__(*arguments)

    monkeypatch.setattr(planning, "_Planner", Planner)
    session = dmlcpu.InferenceSession(model)
    for count in (4, 0):
        made.clear()
        feeds = {"x": rows(count)}
        for ours, expected in zip(session.run(None, feeds), results_of_onnxruntime(model, feeds), strict=True):
            assert ours.shape == expected.shape
            np.testing.assert_allclose(ours, expected, 0, 1e-5)
        assert len(made) <= 3  # one for each shape that a run tells
