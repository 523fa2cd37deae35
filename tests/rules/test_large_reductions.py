"""Averages and sums over large images, beside exact ones: no sum is so long that roundings add up."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from conftest import SEED
from onnx_models import Builder
from template_checks import assert_templates_follow_the_rules

SIZES: Final = ((1024, 1024), (129, 130), (3, 700_000))
OPERATORS: Final = ("GlobalAveragePool", "AveragePool", "ReduceMean", "ReduceSum")
POINT: Final = np.uint8(3)


def pooled(builder: Builder, operator: str, value: str, spatial: tuple[int, int]) -> str:
    axes = np.int64([2, 3])
    operands = [value, axes] if operator.startswith("Reduce") else [value]
    attributes = {"kernel_shape": spatial} if operator == "AveragePool" else {}
    result: str = builder.node(operator, operands, **attributes)
    return result


def assert_native(session: dmlcpu.InferenceSession) -> None:
    assert {part.provider for part in session.partitions()} == {"dmlcpu"}


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("spatial", SIZES, ids=str)
@pytest.mark.parametrize("content", ["equal", "random"])
def test_floats(operator: str, spatial: tuple[int, int], content: str) -> None:
    """Equal elements are all rounded in the same direction."""
    shape = (1, 2, *spatial)
    x = np.full(shape, 0.1, np.float32)
    if content == "random":
        x = np.random.default_rng(SEED).random(shape, dtype=np.float32)
    builder = Builder(18)
    builder.output(pooled(builder, operator, builder.input(np.float32, shape), spatial), np.float32)
    session = dmlcpu.InferenceSession(builder.build())
    [result] = session.run(None, {"x": x})
    exact = (np.sum if operator == "ReduceSum" else np.mean)(x, axis=(2, 3), keepdims=True, dtype=np.float64)
    assert np.abs(result / exact - 1).max() < 2**-13.8
    assert_native(session)


def exact_codes(codes: NDArray[np.uint8], factor: float) -> NDArray[np.float64]:
    exact: NDArray[np.float64] = np.mean(codes, axis=(2, 3), keepdims=True, dtype=np.float64) - float(POINT)
    return np.rint(exact * factor) + float(POINT)


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("spatial", SIZES, ids=str)
@pytest.mark.parametrize("content", ["equal", "random"])
def test_codes(operator: str, spatial: tuple[int, int], content: str) -> None:
    shape = (1, 2, *spatial)
    x = np.full(shape, 201, np.uint8)
    if content == "random":
        x = np.random.default_rng(SEED).integers(100, 255, shape, np.uint8)
    count = np.prod(spatial) if operator == "ReduceSum" else 1
    builder = Builder(18)
    value = pooled(builder, operator, builder.dequantized(builder.input(np.uint8, shape), 0.1, POINT), spatial)
    builder.output(builder.quantized(value, 0.1 * count, POINT), np.uint8)
    session = dmlcpu.InferenceSession(builder.build())
    [result] = session.run(None, {"x": x})
    assert (result == exact_codes(x, 1)).all()
    assert_native(session)


@pytest.mark.parametrize("spatial", SIZES, ids=str)
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_operators_on_codes(spatial: tuple[int, int], dtype: type[np.generic]) -> None:
    shape = (1, 2, *spatial)
    x = np.random.default_rng(SEED).integers(100, 125, shape, dtype)
    point, scale = np.array(POINT, dtype), np.float32(0.1)
    builder = Builder(18)
    operands = [builder.input(dtype, shape), scale, point, scale, point]
    value = builder.node("com.microsoft.QLinearGlobalAveragePool", operands, channels_last=0)
    builder.output(value, dtype)
    session = dmlcpu.InferenceSession(builder.build())
    [result] = session.run(None, {"x": x})
    assert (result == exact_codes(x.astype(np.uint8), 1)).all()
    assert_native(session)


def test_windows_up_to_the_bound_are_of_codes() -> None:
    """These are DirectML's own operator, which larger ones are too far from."""
    for width, is_native in ((256, True), (257, False)):
        builder = Builder(18)
        floats = builder.dequantized(builder.input(np.uint8, (1, 1, 256, width)), 0.1, POINT)
        builder.output(builder.quantized(builder.node("GlobalAveragePool", [floats]), 0.1, POINT), np.uint8)
        [part] = dmlcpu.InferenceSession(builder.build()).partitions()
        assert ("QUANTIZED_LINEAR_AVERAGE_POOLING" in part.description) == is_native


def test_free_lengths() -> None:
    """The same template serves the sizes on one side of the bound."""
    builder = Builder(18)
    floats = builder.dequantized(builder.input(np.uint8, (1, 1, "H", "W")), 0.1, POINT)
    builder.output(builder.quantized(builder.node("GlobalAveragePool", [floats]), 0.1, POINT), np.uint8)
    builder.output(builder.node("ReduceMean", [floats, np.int64([2, 3])]), np.float32)
    shapes = [(1, 1, 8, 9), (1, 1, 20, 5), (1, 1, 300, 400), (1, 1, 400, 300)]
    assert_templates_follow_the_rules(builder.build(), [{"x": shape} for shape in shapes], 2)
