"""Codes of 16 bits that are moved before they are dequantized, as onnxruntime's saved models have them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from onnx_cases import ints
from onnx_models import POINT, Builder, assert_like_onnxruntime, floats
from onnx_models import codes as codes_of
from wide_codes import SCALE, WIDE_POINT

Array = NDArray[Any]
SHAPE: Final = (2, 4, 6)


# From the name of codes to the names of moved ones.
MOVES: Final[dict[str, Callable[[Builder, str], Sequence[str]]]] = {
    "Transpose": lambda builder, codes: [builder.node("Transpose", [codes], perm=[2, 0, 1])],
    "Reshape": lambda builder, codes: [builder.node("Reshape", [codes, ints(8, -1)])],
    "Flatten": lambda builder, codes: [builder.node("Flatten", [codes], axis=2)],
    "Unsqueeze": lambda builder, codes: [builder.node("Unsqueeze", [codes, ints(1)])],
    "Squeeze": lambda builder, codes: [
        builder.node("Squeeze", [builder.node("Reshape", [codes, ints(4, 1, 12)]), ints(1)])
    ],
    "Split": lambda builder, codes: builder.node("Split", [codes, ints(1, 3)], count=2, axis=1),
    "Slice": lambda builder, codes: [builder.node("Slice", [codes, ints(1, 5), ints(3, 0), ints(1, 2), ints(1, -2)])],
    "Expand": lambda builder, codes: [
        builder.node("Expand", [builder.node("Unsqueeze", [codes, ints(1)]), ints(2, 3, 1, 6)])
    ],
    "Gather": lambda builder, codes: [builder.node("Gather", [codes, ints(3, 0, 3)], axis=1)],
    "Identity": lambda builder, codes: [builder.node("Identity", [codes])],
    "several": lambda builder, codes: [
        builder.node("Transpose", [builder.node("Reshape", [part, ints(-1, 2)])])
        for part in builder.node("Split", [codes, ints(1, 3)], count=2, axis=1)
    ],
}


def _steps(builder: Builder) -> list[str]:
    parts = dmlcpu.InferenceSession(builder.build()).partitions()
    assert [part.provider for part in parts] == ["dmlcpu"]
    return [step.type for part in parts for step in part.steps]


@pytest.mark.parametrize("dtype", ["uint16", "int16"])
@pytest.mark.parametrize("move", MOVES)
def test_of_floats(random_numbers: np.random.Generator, move: str, dtype: str) -> None:
    """Floats are moved, and no codes are computed."""
    builder = Builder(21)
    point = np.asarray(77, dtype)
    codes = builder.quantized(builder.node("Neg", [builder.input("float32", SHAPE)]), SCALE, point)
    for moved in MOVES[move](builder, codes):
        builder.output(builder.dequantized(moved, SCALE, point), "float32")
    assert_like_onnxruntime(builder.build(), {"x": 20 * floats(random_numbers, SHAPE)}, equal=True)
    steps = _steps(builder)
    assert steps.count("ELEMENT_WISE_UNARY") == 2  # that of Neg, and what rounds
    assert "ELEMENT_WISE_BINARY" not in steps


@pytest.mark.parametrize("move", MOVES)
def test_of_functions_of_codes(random_numbers: np.random.Generator, move: str) -> None:
    """They stay such functions."""
    builder = Builder(21)
    value = builder.dequantized(builder.input("uint8", SHAPE), 0.05, POINT)
    codes = builder.quantized(value, SCALE, WIDE_POINT)
    for moved in MOVES[move](builder, codes):
        builder.output(builder.quantized(builder.dequantized(moved, SCALE, WIDE_POINT), 0.07, POINT), "uint8")
    assert_like_onnxruntime(builder.build(), {"x": codes_of(random_numbers, "uint8", SHAPE)})
    assert {*_steps(builder)} <= {"CODE_TABLE", "COPY", "GATHER"}


@pytest.mark.parametrize("move", MOVES)
def test_of_constants(random_numbers: np.random.Generator, move: str) -> None:
    builder = Builder(21)
    codes = builder.quantized(builder.constant(floats(random_numbers, SHAPE)), SCALE, WIDE_POINT)
    one = builder.input("float32", (1,))
    for moved in MOVES[move](builder, codes):
        builder.output(builder.node("Mul", [one, builder.dequantized(moved, SCALE, WIDE_POINT)]), "float32")
    assert_like_onnxruntime(builder.build(), {"x": np.ones(1, np.float32)}, equal=True)


@pytest.mark.parametrize("move", MOVES)
def test_that_the_caller_reads(random_numbers: np.random.Generator, move: str) -> None:
    """Codes are moved."""
    builder = Builder(21)
    codes = builder.quantized(builder.node("Neg", [builder.input("float32", SHAPE)]), SCALE, WIDE_POINT)
    for moved in MOVES[move](builder, codes):
        builder.output(moved, "uint16")
        builder.output(builder.dequantized(moved, SCALE, WIDE_POINT), "float32")
    assert_like_onnxruntime(builder.build(), {"x": 20 * floats(random_numbers, SHAPE)}, equal=True)


@pytest.mark.parametrize("axis", [0, 1])
def test_that_are_dequantized_by_rows_or_columns(random_numbers: np.random.Generator, axis: int) -> None:
    """Along an axis of the moved codes."""
    builder = Builder(21)
    codes = builder.quantized(builder.input("float32", (5, 7)), SCALE, WIDE_POINT)
    length = (7, 5)[axis]
    scales = random_numbers.uniform(0.1, 1, length).astype(np.float32)
    points = codes_of(random_numbers, "uint16", length)
    moved = builder.node("Transpose", [codes])
    builder.output(builder.dequantized(moved, scales, points, axis=axis), "float32")
    assert_like_onnxruntime(builder.build(), {"x": floats(random_numbers, (5, 7))}, equal=True)


@pytest.mark.parametrize("scales", [(SCALE, SCALE), (SCALE, 2 * SCALE)], ids=["same", "others"])
@pytest.mark.parametrize("is_constant", [False, True])
def test_that_are_joined(random_numbers: np.random.Generator, is_constant: bool, scales: Sequence[Any]) -> None:
    builder = Builder(21)
    parts = [
        builder.quantized(builder.input("float32", (3, 4), name), scale, WIDE_POINT)
        for name, scale in zip("xy", scales, strict=True)
    ]
    if is_constant:
        parts.append(builder.constant(codes_of(random_numbers, "uint16", (2, 4))))
    joined = builder.node("Concat", parts, axis=0)
    builder.output(builder.node("Neg", [builder.dequantized(joined, SCALE, WIDE_POINT)]), "float32")
    feeds = {name: floats(random_numbers, (3, 4)) for name in "xy"}
    assert_like_onnxruntime(builder.build(), feeds, equal=True)
    computes_codes = is_constant or scales[0] != scales[1]
    assert ("ELEMENT_WISE_BINARY" in _steps(builder)) == computes_codes


def test_of_free_lengths(random_numbers: np.random.Generator) -> None:
    builder = Builder(21)
    codes = builder.quantized(builder.input("float32", ("count", 6)), SCALE, WIDE_POINT)
    moved = builder.node("Transpose", [builder.node("Reshape", [codes, ints(0, 2, 3)])], perm=[1, 0, 2])
    builder.output(builder.dequantized(moved, SCALE, WIDE_POINT), "float32")
    for count in (1, 7, 30):
        assert_like_onnxruntime(builder.build(), {"x": floats(random_numbers, (count, 6))}, equal=True)


def test_that_nodes_without_a_kernel_read(random_numbers: np.random.Generator) -> None:
    builder = Builder(21)
    codes = builder.quantized(builder.node("Neg", [builder.input("float32", SHAPE)]), SCALE, WIDE_POINT)
    moved = builder.node("Transpose", [codes])
    builder.output(builder.dequantized(moved, SCALE, WIDE_POINT), "float32")
    builder.output(builder.node("Cast", [moved], to=11), "float64")
    assert_like_onnxruntime(builder.build(), {"x": floats(random_numbers, SHAPE)}, native=False, equal=True)
    parts = dmlcpu.InferenceSession(builder.build()).partitions()
    assert [part.provider for part in parts] == ["dmlcpu", "onnxruntime"]
    assert len(parts[1].nodes) == 1
