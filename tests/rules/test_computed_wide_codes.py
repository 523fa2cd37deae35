"""Codes of 16 bits that others than a DequantizeLinear by their own parameters read, beside onnxruntime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from onnx_models import POINT, Builder, assert_like_onnxruntime, floats, results_of_onnxruntime
from wide_codes import POINTS, SCALE, SCALES, WIDE_POINT, numbers

Array = NDArray[Any]


def add_codes(builder: Builder, value: str, scale: float, point: Array) -> None:
    """The codes, and what they are dequantized to."""
    quantized = builder.quantized(value, scale, point)
    builder.output(quantized, point.dtype)
    builder.output(builder.dequantized(quantized, scale, point), "float32")


def assert_equal_codes(builder: Builder, feeds: Mapping[str, Array], devices: Sequence[dmlcpu.Device | None]) -> None:
    model = builder.build()
    expected = results_of_onnxruntime(model, feeds)
    for device in devices:
        session = dmlcpu.InferenceSession(model, device=device)
        assert [part.provider for part in session.partitions()] == ["dmlcpu"]
        for result, other in zip(session.run(None, feeds), expected, strict=True):
            assert (result.dtype, result.shape) == (other.dtype, other.shape)
            assert np.array_equal(result, other, equal_nan=result.dtype.kind == "f")


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("dtype", POINTS)
def test_codes_of_floats(random_numbers: np.random.Generator, dtype: str, scale: float) -> None:
    """The caller reads them."""
    for point in POINTS[dtype]:
        x = numbers(random_numbers, scale)
        builder = Builder(21)
        add_codes(builder, builder.input("float32", x.shape), scale, np.asarray(point, dtype))
        assert_equal_codes(builder, {"x": x}, [None])


def test_codes_on_each_isa(random_numbers: np.random.Generator, isa: str) -> None:
    x = numbers(random_numbers, float(SCALE))
    builder = Builder(21)
    add_codes(builder, builder.input("float32", x.shape), SCALE, WIDE_POINT)
    assert_equal_codes(builder, {"x": x}, [dmlcpu.Device(isa=isa, num_threads=threads) for threads in (1, 2)])


@pytest.mark.parametrize("dtype", POINTS)
@pytest.mark.parametrize("scale", SCALES)
def test_codes_of_functions_of_codes(scale: float, dtype: str) -> None:
    for point in POINTS[dtype]:
        builder = Builder(21)
        value = builder.dequantized(builder.input("uint8", (256,)), 77.7, POINT)
        add_codes(builder, value, scale, np.asarray(point, dtype))
        assert_equal_codes(builder, {"x": np.arange(256, dtype=np.uint8)}, [None])


@pytest.mark.parametrize("shape", [(), (1,), (2, 3, 4, 1, 2, 1, 3), ("count", 2)], ids=str)
def test_codes_of_any_shape(random_numbers: np.random.Generator, shape: Sequence[Any]) -> None:
    builder = Builder(21)
    add_codes(builder, builder.node("Neg", [builder.input("float32", shape)]), SCALE, WIDE_POINT)
    for count in (1, 7, 30):
        lengths = [count if length == "count" else length for length in shape]
        assert_like_onnxruntime(builder.build(), {"x": np.asarray(floats(random_numbers, lengths))}, equal=True)


@pytest.mark.parametrize(
    ("length", "is_dequantized", "is_native"), [(256, False, True), (257, False, False), (257, True, True)]
)
def test_many_codes_for_the_caller_alone(
    random_numbers: np.random.Generator, length: int, is_dequantized: bool, is_native: bool
) -> None:
    """Onnxruntime makes them in one pass."""
    builder = Builder(21)
    value = builder.node("Neg", [builder.input("float32", ("length", 256))])
    quantized = builder.quantized(value, SCALE, WIDE_POINT)
    builder.output(quantized, "uint16")
    if is_dequantized:
        builder.output(builder.node("Neg", [builder.dequantized(quantized, SCALE, WIDE_POINT)]), "float32")
    feeds = {"x": floats(random_numbers, (length, 256))}
    assert_like_onnxruntime(builder.build(), feeds, native=is_native, equal=True)
    parts = dmlcpu.InferenceSession(builder.build()).partitions({"x": (length, 256)})
    assert [part.provider for part in parts] == ["dmlcpu", *["onnxruntime"] * (not is_native)]


def add_other_parameters(builder: Builder, quantized: str) -> None:
    builder.output(builder.dequantized(quantized, 2 * SCALE, WIDE_POINT), "float32")


def add_scales_of_columns(builder: Builder, quantized: str) -> None:
    scales, points = np.float32([1, 2, 3, 4, 5, 6]), np.uint16([0, 1, 65535, 9, 9, 9])
    builder.output(builder.dequantized(quantized, scales, points, axis=1), "float32")


def add_computed_scale(builder: Builder, quantized: str) -> None:
    scale = builder.input("float32", (), "scale")
    builder.output(builder.node("DequantizeLinear", [quantized, scale, WIDE_POINT]), "float32")


@pytest.mark.parametrize("add", [add_other_parameters, add_scales_of_columns, add_computed_scale])
def test_codes_that_others_dequantize(random_numbers: np.random.Generator, add: Callable[[Builder, str], None]) -> None:
    builder = Builder(21)
    value = builder.node("Neg", [builder.input("float32", (5, 6))])
    quantized = builder.quantized(value, SCALE, WIDE_POINT)
    builder.output(builder.dequantized(quantized, SCALE, WIDE_POINT), "float32")
    add(builder, quantized)
    feeds = {"x": floats(random_numbers, (5, 6)), "scale": np.asarray(0.3, np.float32)}
    assert_like_onnxruntime(builder.build(), {value.name: feeds[value.name] for value in builder.inputs}, equal=True)


def test_codes_that_nodes_without_a_kernel_read(random_numbers: np.random.Generator) -> None:
    """They are computed for whoever runs these."""
    builder = Builder(21)
    quantized = builder.quantized(builder.node("Neg", [builder.input("float32", (5, 6))]), SCALE, WIDE_POINT)
    builder.output(builder.dequantized(quantized, SCALE, WIDE_POINT), "float32")
    builder.output(builder.node("Cast", [quantized], to=11), "float64")
    assert_like_onnxruntime(builder.build(), {"x": floats(random_numbers, (5, 6))}, native=False, equal=True)
    parts = dmlcpu.InferenceSession(builder.build()).partitions()
    assert [part.provider for part in parts] == ["dmlcpu", "onnxruntime"]
    assert [*parts[1].reasons.values()] == ["a cast from uint16 to float64"]
