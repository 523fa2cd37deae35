"""Nodes of constants, which are computed when a model is planned, or by each run, beside onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

import dmlcpu
from dmlcpu import InvalidModelError
from onnx_models import Builder, assert_like_onnxruntime, results_of_onnxruntime


@pytest.mark.parametrize("shape", [(6, 2), (-1,), (0, -1), (0, 0), (2, 1, 0), (-2, 3)], ids=str)
def test_constants_that_are_reshaped(random_numbers: np.random.Generator, shape: tuple[int, ...]) -> None:
    """As ONNX has it: 0 is the length of the constant's own axis, -1 what is left."""
    builder = Builder()
    constant = random_numbers.normal(size=(3, 4, 1)[: max(len(shape), 2)]).astype(np.float32)
    builder.output(builder.node("Reshape", [constant, np.array(shape)]), "float32")
    if shape in ((2, 1, 0), (-2, 3)):  # 2 floats are not all; no other length is below 0
        with pytest.raises(InvalidModelError, match="Reshape"):
            dmlcpu.InferenceSession(builder.build()).run(None, {})
    else:
        lengths = [length or constant.shape[axis] for axis, length in enumerate(shape)]
        [result] = dmlcpu.InferenceSession(builder.build()).run(None, {})
        assert result.tolist() == constant.reshape(lengths).tolist()


def test_the_same_function_of_other_attributes(random_numbers: np.random.Generator) -> None:
    """Tables of one operator with two slopes and two offsets are four tables."""
    builder = Builder()
    value = builder.dequantized(builder.input("uint8", (4, 33)), 0.05, np.uint8(99))
    expected = []
    for alpha in (0.2, 0.3):
        for beta in (0.5, 0.6):
            gates = builder.node("HardSigmoid", [value], alpha=alpha, beta=beta)
            builder.output(gates, "float32")
            expected.append((alpha, beta))
    codes = random_numbers.integers(0, 256, (4, 33), np.uint8)
    floats = (codes.astype(np.float32) - 99) * np.float32(0.05)
    results = dmlcpu.InferenceSession(builder.build()).run(None, {"x": codes})
    for result, (alpha, beta) in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, np.clip(floats * alpha + beta, 0, 1), rtol=0, atol=1e-6)


def test_a_product_of_constants_without_axes() -> None:
    """It is none, of which onnxruntime says so."""
    builder = Builder()
    product = builder.node("MatMul", [np.float32(2), np.float32(3)])
    builder.output(builder.node("Add", [builder.input("float32", (2,)), product]), "float32")
    with pytest.raises(dmlcpu.InvalidModelError, match="MatMul"):
        dmlcpu.InferenceSession(builder.build())


def test_a_shape_that_is_squeezed_along_no_axes(random_numbers: np.random.Generator) -> None:
    """Along all of length 1, then: of lengths that are known only later, too."""
    builder = Builder()
    x = builder.input("float32", ("rows", 3))
    length = builder.node("Slice", [builder.node("Shape", [x]), *(np.int64([n]) for n in (0, 1))])
    number = builder.node("Squeeze", [length, np.zeros(0, np.int64)])
    builder.output(builder.node("Add", [x, builder.node("Cast", [number], to=1)]), "float32")
    builder.output(number, "int64")
    model = builder.build()
    session = dmlcpu.InferenceSession(model)
    for rows in (2, 5, 4):
        feeds = {"x": random_numbers.normal(0, 1, (rows, 3)).astype(np.float32)}
        for ours, expected in zip(session.run(None, feeds), results_of_onnxruntime(model, feeds), strict=True):
            np.testing.assert_array_equal(ours, expected, strict=True)


def test_sums_of_constants_of_32_bits() -> None:
    """They have as many bits: numpy's have 64."""
    builder = Builder()
    total = builder.node("ReduceSumSquare", [np.int32([[1, -2], [3, 4]])])
    builder.output(builder.node("Add", [builder.input("int32", (1, 1)), total]), "int32")
    [ours] = dmlcpu.InferenceSession(builder.build()).run(None, {"x": np.int32([[5]])})
    np.testing.assert_array_equal(ours, np.int32([[35]]), strict=True)


@pytest.mark.parametrize("size", [3, 9])
def test_constants_that_are_resized(random_numbers: np.random.Generator, size: int) -> None:
    """As positions in images of all sizes are: what onnx's evaluator would take seconds for, each run computes."""
    builder = Builder()
    positions = random_numbers.normal(0, 1, (1, 8, 4, 4)).astype(np.float32)
    resized = builder.node("Resize", [positions, "", "", np.int64([1, 8, size, size])], mode="linear")
    builder.output(builder.node("Add", [builder.input("float32", (1, 8, size, size)), resized]), "float32")
    feeds = {"x": random_numbers.normal(0, 1, (1, 8, size, size)).astype(np.float32)}
    assert_like_onnxruntime(builder.build(), feeds)


def test_constants_that_are_quantized_by_their_range(random_numbers: np.random.Generator) -> None:
    """As the rows of DeBERTa's distances are, which no run feeds."""
    builder = Builder()
    rows = random_numbers.normal(0, 1, (6, 8)).astype(np.float32)
    codes, scale, point = builder.node("DynamicQuantizeLinear", [rows], 3)
    weights = random_numbers.integers(-99, 99, (8, 5), np.int8)
    product = builder.node("MatMulInteger", [codes, weights, point])
    floats = builder.node("Mul", [builder.node("Cast", [product], to=1), scale])
    builder.output(builder.node("Add", [builder.input("float32", (6, 5)), floats]), "float32")
    for name, dtype in ((codes, "uint8"), (scale, "float32"), (point, "uint8")):
        builder.output(name, dtype)
    assert_like_onnxruntime(builder.build(), {"x": random_numbers.normal(0, 9, (6, 5)).astype(np.float32)})


@pytest.mark.parametrize("rows", [[0, -0.0], [3], [-3], [np.nan, 1], [1e-44, 0], [-0.5, 254.5]], ids=str)
def test_ranges_of_constants(rows: list[float]) -> None:
    """The same codes, scale and zero point as of what is fed."""
    array = np.array(rows, np.float32)
    sessions = []
    for is_fed in (False, True):
        builder = Builder()
        x = builder.input("float32", array.shape)
        made = builder.node("DynamicQuantizeLinear", [x if is_fed else array], 3)
        for name, dtype in zip(made, ("uint8", "float32", "uint8"), strict=True):
            builder.output(name, dtype)
        sessions.append(dmlcpu.InferenceSession(builder.build()))
    of_constant, of_fed = (session.run(None, {"x": array}) for session in sessions)
    for result, expected in zip(of_constant, of_fed, strict=True):
        assert result.tobytes() == expected.tobytes()
