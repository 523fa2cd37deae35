"""Functions of one INT32 or INT64, beside onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlcpu
from onnx_models import Builder, assert_like_onnxruntime, results_of_onnxruntime

DTYPES = ("int32", "int64")


def extremes(rng: np.random.Generator, dtype: str) -> np.ndarray[Any, Any]:
    """Of either sign, and as far from 0 as there are; the lowest is its own negative."""
    limits = np.iinfo(dtype)
    some = rng.integers(-9, 10, 35).astype(dtype)
    return np.array([limits.min, limits.min + 1, limits.max, 0, *some], dtype).reshape(3, 13)


def assert_native(builder: Builder, feeds: dict[str, Any]) -> None:
    model = builder.build()
    assert_like_onnxruntime(model, feeds, equal=True)
    assert all(partition.provider == "dmlcpu" for partition in dmlcpu.InferenceSession(model).partitions())


@pytest.mark.parametrize(
    ("operator", "dtype"),
    [*((name, dtype) for name in ("Abs", "Neg", "Sign") for dtype in DTYPES), ("Relu", "int32")],
)
def test_functions(random_numbers: np.random.Generator, operator: str, dtype: str) -> None:
    builder = Builder()
    builder.output(builder.node(operator, [builder.input(dtype, (3, 13))]), dtype)
    assert_native(builder, {"x": extremes(random_numbers, dtype)})


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bounds", [(-3, 4), (None, 4), (-3, None), (None, None), (4, -3)], ids=str)
def test_clip(random_numbers: np.random.Generator, dtype: str, bounds: tuple[int | None, int | None]) -> None:
    builder = Builder()
    operands = ["" if bound is None else np.array(bound, dtype) for bound in bounds]
    builder.output(builder.node("Clip", [builder.input(dtype, (3, 13)), *operands]), dtype)
    assert_native(builder, {"x": extremes(random_numbers, dtype)})


def test_clip_by_computed_bounds(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    operands = [builder.input("int64", shape, name) for name, shape in (("x", (3, 13)), ("low", ()), ("high", ()))]
    builder.output(builder.node("Clip", operands), "int64")
    feeds = {"x": extremes(random_numbers, "int64"), "low": np.array(-2), "high": np.array(5)}
    assert_native(builder, feeds)


def test_sums_of_products(random_numbers: np.random.Generator) -> None:
    """What is computed only when it is read."""
    builder = Builder()
    weights = random_numbers.integers(-128, 128, (8, 5)).astype(np.int8)
    sums = builder.node("MatMulInteger", [builder.input("uint8", (3, 8)), weights])
    builder.output(builder.node("Relu", [builder.node("Neg", [sums])]), "int32")
    assert_native(builder, {"x": random_numbers.integers(0, 256, (3, 8)).astype(np.uint8)})


@pytest.mark.parametrize("dtype", DTYPES)
def test_clip_of_one_number_by_vectors_of_one(dtype: str) -> None:
    """The result has the number's shape."""
    builder = Builder()
    operands = [builder.input(dtype, ()), np.array([-3], dtype), np.array([3], dtype)]
    builder.output(builder.node("Clip", operands), dtype)
    builder.output(builder.node("Neg", [builder.input(dtype, (2,), "y")]), dtype)
    assert_native(builder, {"x": np.array(9, dtype), "y": np.zeros(2, dtype)})


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("operator", ["ReduceMax", "ReduceMin"])
@pytest.mark.parametrize(("axes", "keepdims"), [((1,), 0), ((0,), 1), ((0, -1), 1), ((1, 0), 0), (None, 0)], ids=str)
def test_extremes_along_axes(
    random_numbers: np.random.Generator, operator: str, dtype: str, axes: tuple[int, ...] | None, keepdims: int
) -> None:
    """Such as the longest of a batch, or the number of graphs that nodes are of."""
    builder = Builder()
    attributes: dict[str, Any] = {"keepdims": keepdims} if axes is None else {"axes": axes, "keepdims": keepdims}
    x = builder.input(dtype, ("A", "B", "C"))
    builder.output(builder.node(operator, [x], **attributes), dtype)
    for shape in ((3, 13, 1), (1, 3, 13), (13, 1, 3)):
        assert_native(builder, {"x": extremes(random_numbers, dtype).reshape(shape)})


@pytest.mark.parametrize("operator", ["ReduceMax", "ReduceMin"])
def test_extremes_of_what_is_computed(random_numbers: np.random.Generator, operator: str) -> None:
    builder = Builder(opset=18)
    lengths = builder.node("Add", [builder.input("int64", ("A",)), np.int64(1)])
    builder.output(builder.node(operator, [lengths], keepdims=0), "int64")
    assert_native(builder, {"x": random_numbers.integers(-99, 99, 7)})


def test_no_extreme_of_nothing() -> None:
    builder = Builder()
    builder.output(builder.node("ReduceMax", [builder.input("int64", ("A", 3))], axes=[0], keepdims=0), "int64")
    feeds = {"x": np.zeros((0, 3), np.int64)}
    [ours] = dmlcpu.InferenceSession(builder.build()).run(None, feeds)
    [expected] = results_of_onnxruntime(builder.build(), feeds)
    assert (ours.shape, ours.dtype) == (expected.shape, expected.dtype)
    assert np.array_equal(ours, expected)
