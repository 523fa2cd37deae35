"""Results that are as long as numbers say which a run computes: Range, ConstantOfShape, Expand and Compress."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

import dmlcpu
from dmlcpu import InvalidModelError
from onnx_models import Builder, coded, results_of_onnxruntime

Array = NDArray[Any]


def assert_same(ours: Sequence[Array], expected: Sequence[Array]) -> None:
    for own, other in zip(ours, expected, strict=True):
        assert (own.dtype, own.shape) == (other.dtype, other.shape)
        assert np.array_equal(own, other)


def assert_alone(builder: Builder, all_feeds: Sequence[Mapping[str, Array]]) -> None:
    """What onnxruntime makes is made without it."""
    expected = [results_of_onnxruntime(builder.build(), feeds) for feeds in all_feeds]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "onnxruntime", None)
        session = dmlcpu.InferenceSession(builder.build())
        for feeds, other in zip(all_feeds, expected, strict=True):
            assert_same(session.run(None, feeds), other)


@pytest.mark.parametrize("dtype", ["int16", "int32", "int64"])
def test_range(dtype: str) -> None:
    builder = Builder()
    operands = [builder.input(dtype, (), name) for name in ("start", "limit", "delta")]
    builder.output(builder.node("Range", operands), dtype)
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    numbers = [(0, 5, 1), (2, -9, -3), (0, 0, 1), (5, 0, 1), (0, 7, 3), (0, 6, 3), (most - 2, most, 1), (-3, 2, 2)]
    numbers += [(least, most, most // 2), (most, least, least // 3)]
    feeds = [dict(zip(operands, (np.array(each, dtype) for each in given), strict=True)) for given in numbers]
    assert_alone(builder, feeds)


def test_range_without_steps() -> None:
    builder = Builder()
    builder.output(
        builder.node("Range", [np.int64(0), builder.input("int64", ()), builder.input("int64", (), "y")]), "int64"
    )
    with pytest.raises(InvalidModelError, match="got delta 0"):
        dmlcpu.InferenceSession(builder.build()).run(None, {"x": np.array(3), "y": np.array(0)})


@pytest.mark.parametrize("value", [np.float32([3.5]), np.int64([-2]), np.array([True]), np.uint8([7]), None], ids=str)
def test_constant_of_shape(value: Array | None) -> None:
    builder = Builder()
    attributes = {} if value is None else {"value": onnx.numpy_helper.from_array(value)}
    filled = builder.node("ConstantOfShape", [builder.input("int64", (2,))], **attributes)
    builder.output(filled, np.float32 if value is None else value.dtype)
    assert_alone(builder, [{"x": np.int64(shape)} for shape in ([2, 3], [0, 4], [1, 1], [5, 2])])


def test_a_shape_below_0() -> None:
    builder = Builder()
    builder.output(builder.node("ConstantOfShape", [builder.input("int64", (2,))]), "float32")
    with pytest.raises(InvalidModelError, match=r"got a shape of \(2, -1\)"):
        dmlcpu.InferenceSession(builder.build()).run(None, {"x": np.int64([2, -1])})


@pytest.mark.parametrize("dtype", ["bool", "float32", "int64", "uint8"])
def test_expand(random_numbers: np.random.Generator, dtype: str) -> None:
    builder = Builder()
    x = builder.input(dtype, ("A", 1))
    builder.output(builder.node("Expand", [x, builder.input("int64", ("R",), "shape")]), dtype)
    given = random_numbers.integers(0, 2, (3, 1)).astype(dtype)
    assert_alone(builder, [{"x": given, "shape": np.int64(shape)} for shape in ([3, 4], [2, 1, 5], [1], [3, 0])])


def test_what_cannot_be_expanded() -> None:
    builder = Builder()
    x = builder.input("float32", (3, 1))
    builder.output(builder.node("Expand", [x, builder.input("int64", (2,), "shape")]), "float32")
    with pytest.raises(InvalidModelError, match=r"of shape \(3, 1\), which cannot be expanded to \(2, 4\)"):
        dmlcpu.InferenceSession(builder.build()).run(
            None, {"x": np.zeros((3, 1), np.float32), "shape": np.int64([2, 4])}
        )


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("count", [2, 3, 4, 5], ids=lambda count: f"{count} conditions")
def test_compress(random_numbers: np.random.Generator, axis: int | None, count: int) -> None:
    """There may be fewer conditions than parts, or more."""
    builder = Builder()
    operands = [builder.input("float32", (3, 4)), builder.input("bool", ("C",), "c")]
    builder.output(builder.node("Compress", operands, **({} if axis is None else {"axis": axis})), "float32")
    x = random_numbers.normal(size=(3, 4)).astype(np.float32)
    given = [random_numbers.integers(0, 2, count).astype(bool) for _ in range(3)]
    assert_alone(builder, [{"x": x, "c": each} for each in (*given, np.zeros(count, bool))])


def longer_by_durations() -> bytes:
    """Each row of codes as often as a number says, as a speech synthesizer lengthens phonemes."""
    builder = Builder()
    rows = coded(builder, builder.input("float32", ("N", 8)), 0.0625)
    ends = builder.node("CumSum", [builder.input("int64", ("N",), "durations"), np.int64(0)])
    total = builder.node("ReduceMax", [ends], keepdims=0)
    places = builder.node("Unsqueeze", [builder.node("Range", [np.int64(0), total, np.int64(1)]), np.int64([1])])
    passed = builder.node("Cast", [builder.node("GreaterOrEqual", [places, ends])], to=onnx.TensorProto.INT64)
    longer = builder.node("Gather", [rows, builder.node("ReduceSum", [passed, np.int64([1])], keepdims=0)])
    weights = builder.dequantized((np.arange(64) % 7 - 3).astype(np.int8).reshape(8, 8), 0.125, np.int8(0))
    builder.output(coded(builder, builder.node("MatMul", [longer, weights]), 0.0625), "float32")
    return builder.build()


def test_all_of_a_synthesizer_is_native(random_numbers: np.random.Generator) -> None:
    model = longer_by_durations()
    session = dmlcpu.InferenceSession(model)
    for durations in ([3, 1, 2], [1, 1, 1], [2, 5], [4, 1, 1, 1, 1, 1], [3, 1, 2]):
        x = random_numbers.uniform(-2, 2, (len(durations), 8)).astype(np.float32)
        feeds = {"x": x, "durations": np.int64(durations)}
        assert_same(session.run(None, feeds), results_of_onnxruntime(model, feeds))
        assert {part.provider for part in session.partitions()} == {"dmlcpu"}


def test_beside_other_nodes_without_a_kernel_they_are_onnxruntimes(random_numbers: np.random.Generator) -> None:
    """As fast there: no cut is made for them."""
    builder = Builder()
    x = builder.node("Det", [builder.input("float32", ("N", 2, 2))])
    total = builder.node("Cast", [builder.node("ReduceSum", [builder.node("Abs", [x])], keepdims=0)], to=7)
    builder.output(builder.node("Range", [np.int64(0), total, np.int64(1)]), "int64")
    session = dmlcpu.InferenceSession(builder.build())
    feeds = {"x": random_numbers.normal(size=(3, 2, 2)).astype(np.float32)}
    assert_same(session.run(None, feeds), results_of_onnxruntime(builder.build(), feeds))
    assert [part.provider for part in session.partitions()] == ["onnxruntime"]
