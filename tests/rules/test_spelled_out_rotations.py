"""Rotations by the angles of positions, spelled out as exporters write them, and what is almost one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from onnx_models import Builder, assert_like_onnxruntime, coded, codes, floats, steps_of

Array = NDArray[Any]

BATCH, HEADS, TOKENS, SIZE = 2, 3, 5, 16
SHAPE = (BATCH, HEADS, TOKENS, SIZE)
LARGEST = np.iinfo(np.int64).max


def numbers(*entries: int) -> Array:
    return np.array(entries, np.int64)


def part(builder: Builder, x: str, start: int, end: int, step: int = 1, axis: int = -1) -> str:
    places = [numbers(entry) for entry in (start, end, axis, step)]
    name: str = builder.node("Slice", [x, *places])
    return name


def turned(builder: Builder, x: str, size: int = SIZE) -> str:
    """The halves in other places, the second one negated."""
    first, second = part(builder, x, 0, size // 2), part(builder, x, size // 2, LARGEST)
    name: str = builder.node("Concat", [builder.node("Neg", [second]), first], axis=-1)
    return name


def turned_neighbours(builder: Builder, x: str, shape: tuple[int, ...] = SHAPE) -> str:
    """The elements of each pair in each other's place, the second one negated."""
    first, second = part(builder, x, 0, LARGEST, 2), part(builder, x, 1, LARGEST, 2)
    axis = numbers(len(shape))
    columns = [builder.node("Unsqueeze", [each, axis]) for each in (builder.node("Neg", [second]), first)]
    name: str = builder.node("Reshape", [builder.node("Concat", columns, axis=-1), numbers(*shape)])
    return name


def rotated(builder: Builder, x: str, swapped: str, angles: tuple[Any, Any], order: int = 0) -> str:
    """The sum, its operands and theirs in one of 8 orders."""
    factors = [[x, angles[0]], [swapped, angles[1]]]
    for place in (0, 1):
        factors[place] = factors[place][:: -1 if order >> place & 1 else 1]
    products = [builder.node("Mul", each) for each in factors]
    name: str = builder.node("Add", products[:: -1 if order >> 2 else 1])
    return name


def expected_of(x: Array, cosines: Array, sines: Array, is_interleaved: bool = False) -> Array:
    """Each operation rounded by itself, as the nodes are."""
    swapped = np.empty_like(x)
    first, second = (
        (slice(0, None, 2), slice(1, None, 2))
        if is_interleaved
        else (slice(0, x.shape[-1] // 2), slice(x.shape[-1] // 2, None))
    )
    swapped[..., first], swapped[..., second] = -x[..., second], x[..., first]
    return np.asarray(x * cosines + swapped * sines)


def assert_exact(builder: Builder, feeds: Mapping[str, Array], expected: Array) -> None:
    assert_like_onnxruntime(builder.build(), feeds)
    for threads in (1, 2):
        [result] = dmlcpu.InferenceSession(builder.build(), device=dmlcpu.Device(num_threads=threads)).run(None, feeds)
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("order", range(8))
@pytest.mark.parametrize("is_interleaved", [False, True], ids=["halves", "neighbours"])
def test_rotations(random_numbers: np.random.Generator, is_interleaved: bool, order: int) -> None:
    builder = Builder()
    x, *angles = (builder.input("float32", SHAPE if name == "x" else (BATCH, 1, TOKENS, SIZE), name) for name in "xcs")
    swapped = turned_neighbours(builder, x) if is_interleaved else turned(builder, x)
    builder.output(rotated(builder, x, swapped, (angles[0], angles[1]), order), "float32")
    shapes = {"x": SHAPE, "c": (BATCH, 1, TOKENS, SIZE), "s": (BATCH, 1, TOKENS, SIZE)}
    feeds = {name: floats(random_numbers, shape) for name, shape in shapes.items()}
    assert_exact(builder, feeds, expected_of(feeds["x"], feeds["c"], feeds["s"], is_interleaved))
    assert steps_of(builder) == ["ROTARY_EMBEDDING"]


@pytest.mark.parametrize("is_interleaved", [False, True], ids=["halves", "neighbours"])
def test_rotations_of_codes(random_numbers: np.random.Generator, is_interleaved: bool) -> None:
    """As static quantizers leave them that quantize products alone: codes are dequantized once."""
    builder = Builder()
    shapes = {"x": SHAPE, "c": (BATCH, 1, TOKENS, SIZE), "s": (TOKENS, SIZE)}
    x, *angles = (builder.input("uint8" if name == "x" else "float32", shapes[name], name) for name in shapes)
    value = builder.dequantized(x, 0.05, np.uint8(120))
    swapped = turned_neighbours(builder, value) if is_interleaved else turned(builder, value)
    builder.output(rotated(builder, value, swapped, (angles[0], angles[1])), "float32")
    feeds = {name: floats(random_numbers, shapes[name]) for name in "cs"} | {"x": codes(random_numbers, "uint8", SHAPE)}
    dequantized = (feeds["x"].astype(np.float32) - 120) * np.float32(0.05)
    assert_exact(builder, feeds, expected_of(dequantized, feeds["c"], feeds["s"], is_interleaved))
    assert steps_of(builder) == ["ELEMENT_WISE_DEQUANTIZE_LINEAR", "ROTARY_EMBEDDING"]


@pytest.mark.parametrize("shape", [(TOKENS, SIZE), (1, 1, TOKENS, SIZE), SHAPE, (SIZE,)], ids=str)
@pytest.mark.parametrize("is_constant", [False, True])
def test_shapes_of_angles(random_numbers: np.random.Generator, shape: tuple[int, ...], is_constant: bool) -> None:
    builder = Builder()
    x = builder.input("float32", SHAPE)
    cosines, sines = floats(random_numbers, shape), floats(random_numbers, (1, TOKENS, SIZE))
    feeds = {"x": floats(random_numbers, SHAPE)}
    if not is_constant:
        feeds |= {"c": cosines, "s": sines}
    angles = (
        (cosines, sines)
        if is_constant
        else (builder.input("float32", shape, "c"), builder.input("float32", sines.shape, "s"))
    )
    builder.output(rotated(builder, x, turned(builder, x), angles), "float32")
    assert_exact(builder, feeds, expected_of(feeds["x"], cosines, sines))
    assert steps_of(builder) == ["ROTARY_EMBEDDING"]


@pytest.mark.parametrize("first", [True, False])
def test_rotations_of_some_elements(random_numbers: np.random.Generator, first: bool) -> None:
    """As GPT-NeoX and Phi have them, of what is sliced off each head; and by angles that follow from positions."""
    builder = Builder()
    x = builder.input("float32", ("images", "tokens", HEADS * SIZE))
    positions = builder.input("int64", ("images", "tokens"), "positions")
    table = builder.constant(floats(random_numbers, (SIZE // 4,)))
    steps = builder.node("Unsqueeze", [builder.node("Cast", [positions], to=1), numbers(2)])
    angles = builder.node("MatMul", [steps, builder.node("Unsqueeze", [table, numbers(0)])])
    both = builder.node("Concat", [angles, angles], axis=-1)
    cosines, sines = (builder.node("Unsqueeze", [builder.node(each, [both]), numbers(1)]) for each in ("Cos", "Sin"))
    heads = builder.node("Transpose", [builder.node("Reshape", [x, numbers(0, 0, HEADS, SIZE)])], perm=[0, 2, 1, 3])
    middle = SIZE // 2
    turning = part(builder, heads, 0 if first else middle, middle if first else LARGEST)
    rest = part(builder, heads, middle if first else 0, LARGEST if first else middle)
    result = rotated(builder, turning, turned(builder, turning, middle), (cosines, sines))
    builder.output(builder.node("Concat", [result, rest] if first else [rest, result], axis=-1), "float32")
    for images, tokens in ((1, 1), (2, 7)):
        feeds = {
            "x": floats(random_numbers, (images, tokens, HEADS * SIZE)),
            "positions": random_numbers.integers(0, 9, (images, tokens)),
        }
        assert_like_onnxruntime(builder.build(), feeds)
        [partition] = dmlcpu.InferenceSession(builder.build()).partitions({k: v.shape for k, v in feeds.items()})
        types = [step.type for step in partition.steps]
        assert "ROTARY_EMBEDDING" in types
        assert not {"ELEMENT_WISE_BINARY"} & {*types}


@pytest.mark.parametrize(
    ("is_interleaved", "read"), [*((False, read) for read in range(6)), *((True, read) for read in range(9))]
)
def test_steps_that_are_read_besides(random_numbers: np.random.Generator, is_interleaved: bool, read: int) -> None:
    """Every value on the way, as an output of the model."""
    builder = Builder()
    x = builder.input("float32", SHAPE)
    swapped = turned_neighbours(builder, x) if is_interleaved else turned(builder, x)
    angles = floats(random_numbers, (TOKENS, SIZE)), floats(random_numbers, (TOKENS, SIZE))
    builder.output(rotated(builder, x, swapped, angles), "float32")
    builder.output(builder.nodes[read].output[0], "float32")
    assert_like_onnxruntime(builder.build(), {"x": floats(random_numbers, SHAPE)})
    # Parts that the caller reads begin none.
    assert ("ROTARY_EMBEDDING" in steps_of(builder)) == (read > 1)


ALMOST = (
    "first negated", "order", "other x", "other part", "axis", "difference", "quotient", "three", "multiplied codes",
    "one number for a head", "more images", "of codes", "of coded parts", "every second of halves",
)  # fmt: skip


@pytest.mark.parametrize("changed", ALMOST)
def test_almost_rotations(random_numbers: np.random.Generator, changed: str) -> None:
    """Nodes like those of a rotation, which are none, but for one of dequantized codes."""
    builder = Builder()
    x, y = (builder.input("float32", SHAPE, name) for name in "xy")
    value = coded(builder, x) if "code" in changed else x
    axis, half = (-2, 2) if changed == "axis" else (-1, SIZE // 2)
    first = part(builder, value, 0, half, axis=axis)
    second = part(builder, y if changed == "other part" else value, half, LARGEST, axis=axis)
    if changed == "every second of halves":
        first, second = part(builder, value, 0, LARGEST, 2), part(builder, value, 1, LARGEST, 2)
    if changed == "of coded parts":
        first, second = coded(builder, first), coded(builder, second)
    if changed == "first negated":
        parts = [second, builder.node("Neg", [first])]
    else:
        parts = [builder.node("Neg", [second]), first]
    swapped = builder.node("Concat", parts[:: -1 if changed == "order" else 1], axis=axis)
    if changed == "three":
        swapped = builder.node("Slice", [builder.node("Concat", [*parts, first], axis=-1), [0], [SIZE], [3]])
    shapes = {"one number for a head": (TOKENS, 1), "more images": (4, 1, 1, TOKENS, SIZE)}
    cosines, sines = (floats(random_numbers, each) for each in ((TOKENS, SIZE), shapes.get(changed, (TOKENS, SIZE))))
    by_cosines = builder.node("Mul", [y if changed == "other x" else value, cosines])
    by_sines = builder.node("Div" if changed == "quotient" else "Mul", [swapped, 2 + np.abs(sines)])
    builder.output(builder.node("Sub" if changed == "difference" else "Add", [by_cosines, by_sines]), "float32")
    if changed == "multiplied codes":
        builder.output(coded(builder, builder.node("Mul", [first, np.float32(0.75)])), "float32")
    feeds = {name: floats(random_numbers, SHAPE) for name in "xy"}
    assert_like_onnxruntime(builder.build(), feeds)
    steps = steps_of(builder)
    assert ("ROTARY_EMBEDDING" in steps) == (changed == "of codes")
    # Parts of codes are codes: x alone is quantized.
    assert steps.count("ELEMENT_WISE_QUANTIZE_LINEAR") == ("code" in changed)


@pytest.mark.parametrize("reader", ["MatMul", "Sigmoid", "Transpose"])
def test_parts_of_codes_that_others_read_are_codes(random_numbers: np.random.Generator, reader: str) -> None:
    """Of the second half nothing is negated: the halves begin no rotation, and x is no operand of floats alone."""
    builder = Builder()
    value = coded(builder, builder.input("float32", SHAPE))
    builder.output(coded(builder, builder.node("Mul", [value, floats(random_numbers, (TOKENS, SIZE))])), "float32")
    for start, end in ((0, SIZE // 2), (SIZE // 2, LARGEST)):
        operands = [part(builder, value, start, end)]
        if reader == "MatMul":
            weights = random_numbers.integers(-127, 128, (SIZE // 2, 6)).astype(np.int8)
            operands.append(builder.node("DequantizeLinear", [weights, np.float32(0.01)]))
        builder.output(coded(builder, builder.node(reader, operands)), "float32")
    # onnxruntime's sums of floats may be a code off.
    assert_like_onnxruntime(builder.build(), {"x": floats(random_numbers, SHAPE)}, 1.001, equal=True, unit=0.05)
    steps = steps_of(builder)
    # x, and its product with numbers for each element.
    assert steps.count("ELEMENT_WISE_QUANTIZE_LINEAR") <= 2
    assert steps.count("QUANTIZED_LINEAR_MATRIX_MULTIPLY") == (2 if reader == "MatMul" else 0)
    assert "ELEMENT_WISE_UNARY" not in steps


def test_a_product_is_computed_once_where_parts_of_it_are_quantized(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    weights = random_numbers.integers(-127, 128, (6, SIZE)).astype(np.int8)
    x = coded(builder, builder.input("float32", (BATCH, TOKENS, 6)))
    product = builder.node("MatMul", [x, builder.node("DequantizeLinear", [weights, np.float32(0.01)])])
    builder.output(builder.node("Mul", [product, floats(random_numbers, (SIZE,))]), "float32")
    builder.output(coded(builder, part(builder, product, 0, SIZE // 2)), "float32")
    assert_like_onnxruntime(builder.build(), {"x": floats(random_numbers, (BATCH, TOKENS, 6))})
    assert sum("MATRIX_MULTIPLY" in step for step in steps_of(builder)) == 1


def test_rotations_of_as_many_axes_as_operators_have(random_numbers: np.random.Generator) -> None:
    """Pairs have an axis of their own: of one axis less it is one operator."""
    for axes in (7, 8):
        shape = (2, 1, 3, 1, 2, 3, 1, 4)[-axes:]
        builder = Builder()
        x = builder.input("float32", shape)
        angles = floats(random_numbers, (4,)), floats(random_numbers, (4,))
        builder.output(rotated(builder, x, turned(builder, x, 4), angles), "float32")
        feeds = {"x": floats(random_numbers, shape)}
        assert_exact(builder, feeds, expected_of(feeds["x"], *angles))
        assert ("ROTARY_EMBEDDING" in steps_of(builder)) == (axes == 7)
