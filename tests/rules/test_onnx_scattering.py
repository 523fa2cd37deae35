"""ScatterND by constant indices, and nodes of constants that each run computes, beside onnxruntime."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from onnx_models import Builder, assert_like_onnxruntime
from template_checks import assert_templates_follow_the_rules

Array = NDArray[Any]

SHAPE: Final = (2, 3, 4)


def grid(*ranges: range) -> Array:
    """The indices of a box."""
    return np.stack(np.meshgrid(*ranges, indexing="ij"), -1).astype(np.int64)


INDICES: Final[dict[str, Array]] = {
    "everything": grid(range(2), range(3), range(4)),
    "the beginning of rows": grid(range(2), range(3), range(2)),
    "matrices": grid(range(2)),
    "one matrix": np.int64([[-1]]),
    "rows in another order": np.int64([[1, 2], [0, -1], [0, 0]]),
    "a block": grid(range(1, 2), range(1, 3), range(1, 4)),
    "a block amid": grid(range(1), range(1, 2), range(1, 3)),
    "a block from the end": grid(range(-1, 0), range(-2, 0), range(-4, -1)),
    "a block of rows": grid(range(2), range(1, 3)),
    "a block in a list": grid(range(1, 2), range(1, 3), range(4)).reshape(-1, 3),
    "a block columns first": grid(range(2), range(1, 3), range(2)).transpose(0, 2, 1, 3),
    "a block with a gap": np.int64([[0, 0], [0, 2]]),
    "an element twice": np.int64([[0, 0, 0], [1, 2, 3], [0, 0, 0]]),
}


@pytest.mark.parametrize("case", INDICES)
@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("constant", [False, True], ids=["fed", "of constants"])
def test_scattering(random_numbers: np.random.Generator, case: str, dtype: str, constant: bool) -> None:
    indices = INDICES[case]
    shape = (*indices.shape[:-1], *SHAPE[indices.shape[-1] :])
    data = random_numbers.integers(-99, 99, SHAPE).astype(dtype)
    builder = Builder()
    updates = builder.input(dtype, shape, "updates")
    target = data if constant else builder.input(dtype, SHAPE, "data")
    builder.output(builder.node("ScatterND", [target, indices, updates]), dtype)
    feeds = {"updates": random_numbers.integers(-99, 99, shape).astype(dtype)}
    assert_like_onnxruntime(builder.build(), feeds if constant else {**feeds, "data": data}, equal=True)


def test_everything_written_is_no_work() -> None:
    builder = Builder()
    x = builder.input("float32", SHAPE)
    indices = INDICES["everything"]
    written = builder.node("ScatterND", [np.zeros(SHAPE, np.float32), indices, builder.node("Exp", [x])])
    builder.output(builder.node("Neg", [written]), "float32")
    [part] = dmlcpu.InferenceSession(builder.build()).partitions()
    assert [step.type for step in part.steps] == ["ELEMENT_WISE_UNARY"] * 2


def steps_of(builder: Builder) -> list[str]:
    [part] = dmlcpu.InferenceSession(builder.build()).partitions()
    return [step.type for step in part.steps]


def test_a_block_is_joined_of_slices(random_numbers: np.random.Generator) -> None:
    """As positions are added to all scores but those of a class token; more indices than a look-up is made of."""
    length = 800
    builder = Builder()
    x = builder.input("float32", (1, 2, length, length))
    ends = [np.int64([1, 1]), np.int64([length, length]), np.int64([2, 3])]
    shifted = builder.node("Add", [builder.node("Slice", [x, *ends]), np.float32(3)])
    indices = grid(range(1), range(2), range(1, length), range(1, length))
    builder.output(builder.node("Neg", [builder.node("ScatterND", [x, indices, shifted])]), "float32")
    feed = random_numbers.normal(0, 1, (1, 2, length, length)).astype(np.float32)
    assert_like_onnxruntime(builder.build(), {"x": feed}, equal=True)
    assert "GATHER" not in steps_of(builder)


def test_a_block_of_codes(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    x = builder.dequantized(builder.input("uint8", (2, 3, 4)), 0.1, np.uint8(7))
    other = builder.dequantized(builder.input("uint8", (2, 2, 3), "other"), 0.2, np.uint8(9))
    written = builder.node("ScatterND", [x, grid(range(2), range(1, 3), range(1, 4)), other])
    builder.output(builder.quantized(written, 0.1, np.uint8(7)), "uint8")
    feeds = {"x": random_numbers.integers(0, 256, (2, 3, 4)).astype(np.uint8)}
    feeds["other"] = random_numbers.integers(0, 256, (2, 2, 3)).astype(np.uint8)
    assert_like_onnxruntime(builder.build(), feeds)
    assert "ELEMENT_WISE_DEQUANTIZE_LINEAR" not in steps_of(builder)


def test_blocks_of_all_lengths(random_numbers: np.random.Generator) -> None:
    """All rows but the first, of which there are more with each length."""
    builder = Builder()
    x = builder.input("float32", ("length", 4))
    length = builder.node("Squeeze", [builder.node("Shape", [x], end=1)])
    rows = builder.node("Unsqueeze", [builder.node("Range", [np.array(1), length, np.array(1)]), np.int64([1])])
    rest = builder.node("Slice", [x, np.int64([1]), np.int64([1 << 40])])
    builder.output(builder.node("ScatterND", [x, rows, builder.node("Neg", [rest])]), "float32")
    model = builder.build()
    assert_templates_follow_the_rules(model, [{"x": (length, 4)} for length in (5, 3, 8, 4)], 1)
    for count in (3, 9):
        assert_like_onnxruntime(model, {"x": random_numbers.normal(0, 1, (count, 4)).astype(np.float32)}, equal=True)


@pytest.mark.parametrize(
    ("indices", "updates", "attributes"),
    [
        (np.int64([[2]]), (1, 3, 4), {}),
        (np.int64([[0]]), (1, 3, 4), {"reduction": "add"}),
        (np.int64([[0]]), (3, 4), {}),
    ],
    ids=["out of range", "sums", "another shape"],
)
def test_what_is_left_to_others(indices: Array, updates: tuple[int, ...], attributes: dict[str, Any]) -> None:
    builder = Builder()
    operands = [builder.input("float32", SHAPE), indices, builder.input("float32", updates, "updates")]
    builder.output(builder.node("ScatterND", operands, **attributes), "float32")
    feeds = {"x": np.ones(SHAPE, np.float32), "updates": np.ones(updates, np.float32)}
    try:
        session = dmlcpu.InferenceSession(builder.build())
        session.run(None, feeds)
    except dmlcpu.InvalidModelError:
        assert not attributes
    else:
        assert attributes
        assert "onnxruntime" in {part.provider for part in session.partitions()}


def masked(builder: Builder, mask: str) -> str:
    """A mask of ranges, to whose first columns what a mask that is fed hides is written, as transformers does it."""
    length = builder.node("Shape", [mask], start=1)
    scalar = builder.node("Squeeze", [length])
    positions = builder.node("Range", [np.array(0), scalar, np.array(1)])
    rows = builder.node("Unsqueeze", [positions, np.int64([1])])
    causal = builder.node("Where", [builder.node("Greater", [positions, rows]), np.float32(-1e4), np.float32(0)])
    hidden = builder.node("Equal", [mask, np.int64(0)])
    updates = builder.node("Where", [hidden, np.float32(-1e4), causal])
    ones = builder.node("Mul", [rows, np.int64(0)])
    columns = builder.node("Add", [ones, positions])
    lines = builder.node("Add", [builder.node("Mul", [columns, np.int64(0)]), rows])
    last = np.int64([2])
    indices = builder.node(
        "Concat", [builder.node("Unsqueeze", [lines, last]), builder.node("Unsqueeze", [columns, last])], axis=-1
    )
    return str(builder.node("ScatterND", [causal, indices, updates]))


def test_masks_of_all_lengths(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    mask = builder.input("int64", (1, "length"), "mask")
    builder.output(masked(builder, mask), "float32")
    model = builder.build()
    assert_templates_follow_the_rules(model, [{"mask": (1, length)} for length in (5, 3, 8, 2)], 1)
    for length in (3, 9):
        feeds = {"mask": random_numbers.integers(0, 2, (1, length))}
        assert_like_onnxruntime(model, feeds)


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
    assert_like_onnxruntime(builder.build(), {"x": random_numbers.normal(0, 9, (6, 5)).astype(np.float32)}, 1)
