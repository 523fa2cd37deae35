"""LRN beside onnxruntime, and beside its formula where onnxruntime refuses it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pytest

import dmlcpu
from onnx_cases import POINTS, SCALE, small_convolution
from onnx_models import Builder, assert_like_onnxruntime, codes
from template_checks import assert_templates_follow_the_rules

ATTRIBUTES: Final = (
    {"size": 5},
    {"size": 3, "alpha": 0.3, "beta": 0.75, "bias": 2.0},
    {"size": 5, "alpha": 2.0, "beta": 0.5, "bias": 0.25},
    {"size": 1, "alpha": 0.7, "beta": 0.25},
    {"size": 3, "alpha": 0.7, "beta": 1.0},
    {"size": 7, "alpha": 0.7, "beta": 0.6},
    {"size": 5, "alpha": 0.9, "beta": 2.75, "bias": 1.5},
    {"size": 3, "alpha": 0.9, "beta": 1.1, "bias": 1.5},
    {"size": 13, "alpha": 5.0},
)
# Onnxruntime takes squares off its sums again, which may leave little but what they were rounded by.
WITHOUT_BIAS: Final = {"size": 3, "alpha": 0.9, "beta": 0.75, "bias": 0.0}
SHAPE: Final = (2, 6, 5, 7)


def model_of(shape: Sequence[int | str], attributes: dict[str, Any], dtype: str = "float32") -> bytes:
    builder = Builder()
    value = builder.input(dtype, shape)
    if dtype != "float32":
        value = builder.dequantized(value, SCALE, POINTS[dtype])
    result = builder.node("LRN", [value], **attributes)
    builder.output(result, "float32")
    if dtype != "float32":
        builder.output(builder.quantized(result, 0.03, POINTS["int8"]), "int8")
    return builder.build()


def by_formula(x: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Any:
    """In float64, with windows that reach ``ceil((size - 1) / 2)`` channels further."""
    squares, sums = np.square(x.astype(np.float64)), np.zeros(x.shape)
    for channel in range(x.shape[1]):
        window = slice(max(channel - math.floor((size - 1) / 2), 0), channel + math.ceil((size - 1) / 2) + 1)
        sums[:, channel] = squares[:, window].sum(axis=1)
    return x / (bias + alpha / size * sums) ** beta


@pytest.mark.parametrize("attributes", ATTRIBUTES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "uint8", "int8"])
def test_like_onnxruntime(random_numbers: np.random.Generator, attributes: dict[str, Any], dtype: str) -> None:
    floats = random_numbers.normal(0, 3, SHAPE).astype(np.float32)
    feed = floats if dtype == "float32" else codes(random_numbers, dtype, SHAPE)
    assert_like_onnxruntime(model_of(SHAPE, attributes, dtype), {"x": feed}, 1)


@pytest.mark.parametrize("attributes", [*ATTRIBUTES, WITHOUT_BIAS], ids=str)
@pytest.mark.parametrize("size", [1, 2, 3, 4, 6, 9, 40])
@pytest.mark.parametrize("shape", [(2, 6), (3, 5, 4), SHAPE, (2, 3, 2, 3, 4), (1, 1, 2, 2), (1, 70, 3, 3)], ids=str)
def test_like_the_formula(
    random_numbers: np.random.Generator, attributes: dict[str, Any], size: int, shape: tuple[int, ...]
) -> None:
    """Of each element, more closely where no logarithm is taken: onnxruntime has odd sizes and images alone."""
    own = {**attributes, "size": size}
    session = dmlcpu.InferenceSession(model_of(shape, own))
    x = (random_numbers.normal(0, 1, shape) * 10.0 ** random_numbers.uniform(-3, 3, shape)).astype(np.float32)
    [result] = session.run(None, {"x": x})
    exact_roots = (4 * own.get("beta", 0.75)) % 1 == 0
    np.testing.assert_allclose(result, by_formula(x, **own), rtol=2**-20 if exact_roots else 2**-19)
    assert {part.provider for part in session.partitions()} == {"dmlcpu"}


def test_between_convolutions(random_numbers: np.random.Generator) -> None:
    """Channels stay innermost: no step moves elements."""
    builder = Builder()
    convolved = builder.node("Relu", [small_convolution(builder, "x", (2, 3, 9, 8), random_numbers)])
    value = builder.quantized(convolved, 0.05, np.uint8(0))
    normalized = builder.node(
        "LRN", [builder.dequantized(value, 0.05, np.uint8(0))], size=3, alpha=0.4, beta=0.75, bias=1.0
    )
    value = builder.quantized(normalized, 0.02, np.uint8(0))
    value = builder.node("MaxPool", [value], kernel_shape=[3, 3], strides=[2, 2])
    weights = codes(random_numbers, "int8", (6, 4, 3, 3))
    operands = [value, np.float32(0.02), np.uint8(0), weights, np.float32(0.01), np.int8(0)]
    builder.output(builder.node("QLinearConv", [*operands, np.float32(0.3), np.uint8(128)]), "uint8")
    model = builder.build()
    assert_like_onnxruntime(model, {"x": codes(random_numbers, "uint8", (2, 3, 9, 8))}, 1)
    [part] = dmlcpu.InferenceSession(model).partitions()
    assert "COPY" not in {step.type for step in part.steps}


def test_all_instruction_sets_and_threads_have_the_same_bits(random_numbers: np.random.Generator, isa: str) -> None:
    shape = (3, 21, 13, 11)
    model = model_of(shape, {"size": 5, "alpha": 0.6, "beta": 0.75}, "uint8")
    feeds = {"x": codes(random_numbers, "uint8", shape)}
    expected = dmlcpu.InferenceSession(model, device=dmlcpu.Device(isa="scalar", num_threads=1)).run(None, feeds)
    for threads in (1, 2):
        session = dmlcpu.InferenceSession(model, device=dmlcpu.Device(isa=isa, num_threads=threads))
        for result, first in zip(session.run(None, feeds), expected, strict=True):
            np.testing.assert_array_equal(result, first)


def test_free_lengths(random_numbers: np.random.Generator) -> None:
    attributes = {"size": 5, "alpha": 0.4, "beta": 0.75}
    model = model_of(("N", 6, "H", "W"), attributes)
    shapes = [(2, 6, 5, 7), (5, 6, 8, 3), (4, 6, 2, 3), (3, 6, 9, 2)]
    assert_templates_follow_the_rules(model, [{"x": shape} for shape in shapes], 1)
    session = dmlcpu.InferenceSession(model)
    for shape in shapes:
        x = random_numbers.normal(0, 3, shape).astype(np.float32)
        [result] = session.run(None, {"x": x})
        np.testing.assert_allclose(result, by_formula(x, **attributes), rtol=2**-20)
        assert {part.provider for part in session.partitions({"x": shape})} == {"dmlcpu"}
    for shape in ((0, 6, 5, 7), (2, 6, 0, 7)):
        [result] = session.run(None, {"x": np.zeros(shape, np.float32)})
        assert result.shape == shape


def test_an_exponent_that_is_left_to_others(random_numbers: np.random.Generator) -> None:
    """As its logarithm's last bit would be one of many of the power's."""
    feeds = {"x": random_numbers.normal(0, 3, SHAPE).astype(np.float32)}
    assert_like_onnxruntime(model_of(SHAPE, {"size": 3, "beta": 7.5}), feeds, native=False)
