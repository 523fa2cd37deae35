"""Places of elements that are not 0, which a function of arrays finds, and the nodes that read them: NonZero."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from onnx_models import Builder, coded, results_of_onnxruntime

Array = NDArray[Any]


@pytest.mark.parametrize("shape", [(), (1,), (7,), (0,), (3, 0), (4, 5), (2, 1, 3), (2, 3, 4, 2)], ids=str)
@pytest.mark.parametrize("dtype", ["bool", "float32", "int32", "int64", "uint8"])
def test_places(random_numbers: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> None:
    builder = Builder()
    builder.output(builder.node("NonZero", [builder.input(dtype, [None] * len(shape))]), "int64")
    session = dmlcpu.InferenceSession(builder.build())
    given = random_numbers.integers(-1, 2, shape).astype(dtype)
    for x in (np.asarray(given), np.zeros_like(given), np.ones_like(given)):
        [places], [expected] = session.run(None, {"x": x}), results_of_onnxruntime(builder.build(), {"x": x})
        assert (places.dtype, places.shape) == (expected.dtype, expected.shape)
        assert np.array_equal(places, expected)
    assert [part.provider for part in session.partitions()] == ["dmlcpu"] * (given.size > 0)


def test_floats_that_are_no_numbers_are_not_0() -> None:
    builder = Builder()
    builder.output(builder.node("NonZero", [builder.input("float32", (5,))]), "int64")
    x = np.float32([np.nan, -0.0, np.inf, 0, 1e-45])
    assert dmlcpu.InferenceSession(builder.build()).run(None, {"x": x})[0].tolist() == [[0, 2, 4]]


@pytest.mark.parametrize("value", [0, 3])
def test_places_in_a_constant_without_axes(value: float) -> None:
    builder = Builder()
    builder.output(builder.node("Abs", [builder.input("float32", (1,))]), "float32")
    found = builder.node("NonZero", [builder.constant(np.array(value, np.float32), "value")])
    builder.output(found, "int64", (None, None))
    feeds = {"x": np.float32([5])}
    _, ours = dmlcpu.InferenceSession(builder.build()).run(None, feeds)
    _, expected = results_of_onnxruntime(builder.build(), feeds)
    assert ours.shape == expected.shape
    assert np.array_equal(ours, expected)


def chosen_rows() -> bytes:
    """The rows of codes whose first element is above 0, by Gather and by GatherND."""
    builder = Builder()
    x = coded(builder, builder.input("float32", (9, 4)))
    first = builder.node("Gather", [x, np.int64(0)], axis=1)
    found = builder.node("Transpose", [builder.node("NonZero", [builder.node("Greater", [first, np.float32(0)])])])
    rows = builder.node("GatherND", [x, found])
    same = builder.node("Gather", [x, builder.node("Squeeze", [found, np.int64([1])])])
    largest = builder.node("Max", [rows])
    builder.output(coded(builder, rows), "float32")
    builder.output(builder.node("Add", [same, largest]), "float32")
    builder.output(builder.node("Shape", [largest]), "int64")
    return builder.build()


@pytest.mark.parametrize("has_onnxruntime", [False, True])
def test_rows_that_a_run_chooses(
    random_numbers: np.random.Generator, has_onnxruntime: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of some, of others, of none, of all: native, whether or not there is another runtime."""
    model = chosen_rows()
    feeds = []
    for count in (4, 2, 0, 9, 0, 5, 4):
        x = random_numbers.uniform(-2.95, 3, (9, 4)).astype(np.float32)
        x[:, 0] = np.where(np.arange(9) < count, 1, -1)
        feeds.append({"x": x})
    expected = [results_of_onnxruntime(model, each) for each in feeds]
    if not has_onnxruntime:
        monkeypatch.setitem(sys.modules, "onnxruntime", None)
    session = dmlcpu.InferenceSession(model)
    for each, others in zip(feeds, expected, strict=True):
        for ours, other in zip(session.run(None, each), others, strict=True):
            assert (ours.dtype, ours.shape) == (other.dtype, other.shape)
            assert np.array_equal(ours, other)
    assert {part.provider for part in session.partitions()} == {"dmlcpu"}


def of_nothing(builder: Builder, operator: str, rows: str, places: str) -> str:
    """An operator on rows of 8 floats; of Split the first of its results, as of the others the only one."""
    weights = builder.dequantized(np.ones((8, 4), np.int8), 0.01, np.int8(0))
    images = builder.node("Reshape", [rows, np.int64([-1, 2, 2, 2])])
    filters = builder.dequantized(np.ones((3, 2, 1, 1), np.int8), 0.01, np.int8(0))
    table = np.ones((9, 8), np.float32)
    inputs, outputs, attributes = {
        "Gemm": ([rows, weights], 1, {}),
        "Conv": ([images, filters], 1, {}),
        "MaxPool": ([images], 1, {"kernel_shape": [2, 2]}),
        "ReduceMax": ([rows], 1, {"axes": [1]}),
        "TopK": ([rows, np.int64([2])], 2, {}),
        "Split": ([rows], 2, {"axis": 1}),
        "ScatterND": ([table, builder.node("Unsqueeze", [places, np.int64([1])]), rows], 1, {}),
    }.get(operator, ([rows], 1, {}))
    made = builder.node(operator, inputs, outputs, **attributes)
    return made if isinstance(made, str) else made[0]


@pytest.mark.parametrize(
    "operator",
    ["Abs", "Conv", "Exp", "Gemm", "MaxPool", "ReduceMax", "ScatterND", "Sigmoid", "Softmax", "Split", "TopK"],
)
def test_no_onnxruntime_is_needed_for_nothing(operator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is computed of rows of which none is found; and before it, and after it, of some."""
    builder = Builder()
    x = coded(builder, builder.input("float32", (9, 8)))
    first = builder.node("Gather", [x, np.int64(0)], axis=1)
    found = builder.node("NonZero", [builder.node("Greater", [first, np.float32(0)])])
    places = builder.node("Squeeze", [found, np.int64([0])])
    rows = coded(builder, builder.node("Gather", [x, places]))
    builder.output(of_nothing(builder, operator, rows, places), "float32")
    feeds = [
        {"x": np.where(np.arange(9) < count, 1, -1).repeat(8).reshape(9, 8).astype(np.float32)} for count in (4, 0, 3)
    ]
    expected = [results_of_onnxruntime(builder.build(), each)[0] for each in feeds]
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    session = dmlcpu.InferenceSession(builder.build())
    for each, other in zip(feeds, expected, strict=True):
        [ours] = session.run(None, each)
        assert (ours.dtype, ours.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(ours, other, 1e-5, 1e-6)
