"""Sums of whole numbers, which are exact: no mean is rounded on the way."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from onnx_models import Builder

LENGTHS: Final = range(1, 131)


def opened(builder: Builder) -> dmlcpu.InferenceSession:
    return dmlcpu.InferenceSession(builder.build())


def reduced(operator: str, shape: tuple[str, ...], axes: list[int], keepdims: int = 0) -> dmlcpu.InferenceSession:
    builder = Builder(18)
    x = builder.input(np.float32, shape)
    builder.output(builder.node(operator, [x, np.int64(axes)], keepdims=keepdims), np.float32)
    return opened(builder)


def assert_native(session: dmlcpu.InferenceSession) -> None:
    assert {part.provider for part in session.partitions()} == {"dmlcpu"}


def masks(length: int) -> NDArray[Any]:
    """In each row one more, and as many in each column, from the other end on."""
    return np.tril(np.ones((length, length), np.float32))


@pytest.mark.parametrize("operator", ["ReduceSum", "ReduceL1", "ReduceSumSquare"])
@pytest.mark.parametrize("axis", [0, 1])
def test_along_one_axis(operator: str, axis: int) -> None:
    session = reduced(operator, ("N", "M"), [axis])
    for length in LENGTHS:
        [sums] = session.run(None, {"x": masks(length)})
        assert sums.tolist() == [*range(1, length + 1)][:: 1 if axis else -1]
    assert_native(session)


@pytest.mark.parametrize("axes", [[1], [1, 2], [0, 2], [2, 3], [1, 3], [0, 1, 2, 3]], ids=str)
@pytest.mark.parametrize("keepdims", [0, 1])
def test_over_several_axes(random_numbers: np.random.Generator, axes: list[int], keepdims: int) -> None:
    session = reduced("ReduceSum", ("A", "B", "C", "D"), axes, keepdims)
    for shape in ((2, 3, 5, 7), (3, 13, 22, 1), (1, 49, 11, 9), (2, 9, 6, 130), (1, 3, 2, 8200)):
        x = random_numbers.integers(-9, 99, shape).astype(np.float32)
        [sums] = session.run(None, {"x": x})
        expected = x.sum(axis=tuple(axes), keepdims=bool(keepdims), dtype=np.float64)
        assert sums.shape == expected.shape
        assert (sums == expected).all()
    assert_native(session)


@pytest.mark.parametrize("axes", [[1], [2, 3], [0, 3]], ids=str)
def test_of_codes(random_numbers: np.random.Generator, axes: list[int]) -> None:
    shape = (3, 22, 11, 9)
    builder = Builder(18)
    x = builder.dequantized(builder.input(np.uint8, shape), np.float32(1), np.uint8(7))
    builder.output(builder.node("ReduceSum", [x, np.int64(axes)]), np.float32)
    codes = random_numbers.integers(0, 256, shape, np.uint8)
    session = opened(builder)
    [sums] = session.run(None, {"x": codes})
    assert (sums == (codes.astype(np.int64) - 7).sum(axis=tuple(axes), keepdims=True)).all()
    assert_native(session)


@pytest.mark.parametrize("window", [None, (2, 3), (7, 7)], ids=str)
def test_of_windows(random_numbers: np.random.Generator, window: tuple[int, int] | None) -> None:
    shape = (2, 17, 13, 22)
    x = random_numbers.integers(0, 2, shape).astype(np.float32)
    builder = Builder(18)
    operator = "LpPool" if window else "GlobalLpPool"
    attributes = {"kernel_shape": window} if window else {}
    builder.output(builder.node(operator, [builder.input(np.float32, shape)], p=1, **attributes), np.float32)
    session = opened(builder)
    [sums] = session.run(None, {"x": x})
    windows = np.lib.stride_tricks.sliding_window_view(x, window or shape[2:], axis=(2, 3))
    assert (sums == windows.sum(axis=(4, 5))).all()
    assert_native(session)


def test_rows_over_their_lengths() -> None:
    builder = Builder(18)
    builder.output(builder.node("LpNormalization", [builder.input(np.float32, ("N", "M"))], p=1, axis=1), np.float32)
    session = opened(builder)
    for length in LENGTHS:
        [rows] = session.run(None, {"x": masks(length)})
        assert (rows == masks(length) / np.arange(1, length + 1, dtype=np.float32)[:, None]).all()


def test_the_last_token() -> None:
    """A mask's sum less 1 is the place of the last token, which a cast to integers would round down."""
    builder = Builder(18)
    mask = builder.input(np.int64, ("N", "M"), "mask")
    tokens = builder.input(np.float32, ("M",))
    total = builder.node("ReduceSum", [builder.node("Cast", [mask], to=1), np.int64([1])], keepdims=0)
    last = builder.node("Cast", [builder.node("Sub", [total, np.float32(1)])], to=7)
    builder.output(builder.node("Gather", [tokens, last]), np.float32)
    session = opened(builder)
    for length in LENGTHS:
        feeds = {"mask": masks(length).astype(np.int64), "x": np.arange(length, dtype=np.float32)}
        assert session.run(None, feeds)[0].tolist() == [*range(length)]
