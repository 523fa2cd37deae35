"""ScatterND and ScatterElements, and nodes of constants that each run computes, beside onnxruntime."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from onnx_models import Builder, assert_like_onnxruntime, results_of_onnxruntime, steps_of
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


@pytest.mark.parametrize("are_known", [False, True])
def test_nothing_written_is_no_work(random_numbers: np.random.Generator, are_known: bool) -> None:
    builder = Builder()
    indices: Any = np.zeros((0, 1), np.int64)
    feeds = {"x": random_numbers.normal(0, 1, (4, 5)).astype(np.float32), "updates": np.zeros((0, 5), np.float32)}
    x, updates = (builder.input("float32", array.shape, name) for name, array in feeds.items())
    if not are_known:
        feeds["indices"], indices = indices, builder.input("int64", indices.shape, "indices")
    builder.output(builder.node("Neg", [builder.node("ScatterND", [x, indices, updates])]), "float32")
    assert_like_onnxruntime(builder.build(), feeds, equal=True)
    assert steps_of(builder) == ["ELEMENT_WISE_UNARY"]


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
    ("indices", "updates"),
    [(np.int64([[2]]), (1, 3, 4)), (np.int64([[0]]), (3, 4))],
    ids=["out of range", "another shape"],
)
def test_what_does_not_fit(indices: Array, updates: tuple[int, ...]) -> None:
    builder = Builder()
    operands = [builder.input("float32", SHAPE), indices, builder.input("float32", updates, "updates")]
    builder.output(builder.node("ScatterND", operands), "float32")
    feeds = {"x": np.ones(SHAPE, np.float32), "updates": np.ones(updates, np.float32)}
    with pytest.raises(dmlcpu.InvalidModelError):
        dmlcpu.InferenceSession(builder.build()).run(None, feeds)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("dtype", ["float32", "int64", "int32"])
@pytest.mark.parametrize("constant", [False, True], ids=["computed", "constant"])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_rows_by_indices(
    random_numbers: np.random.Generator, depth: int, dtype: str, reduction: str, constant: bool
) -> None:
    """Computed ones, or with a reduction; none is there twice."""
    builder = Builder(18)
    lengths = np.array(SHAPE[:depth])
    every = grid(*map(range, lengths)).reshape(-1, depth)
    indices = random_numbers.permutation(every)[: max(len(every) * 2 // 3, 1)]
    indices = indices - lengths * random_numbers.integers(0, 2, indices.shape)
    shape = (len(indices), *SHAPE[depth:])
    given: Any = indices if constant else builder.input("int64", indices.shape, "indices")
    operands = [builder.input(dtype, SHAPE), given, builder.input(dtype, shape, "updates")]
    builder.output(builder.node("ScatterND", operands, reduction=reduction), dtype)
    feeds = {"x": random_numbers.integers(-99, 99, SHAPE).astype(dtype)}
    feeds["updates"] = random_numbers.integers(-99, 99, shape).astype(dtype)
    assert_like_onnxruntime(builder.build(), feeds if constant else {**feeds, "indices": indices}, equal=True)


def test_a_cache_of_any_length(random_numbers: np.random.Generator) -> None:
    """Tokens are written where their positions say."""
    builder = Builder()
    cache, positions = builder.input("float32", (2, "capacity", 6)), builder.input("int64", (2, "tokens", 2), "p")
    builder.output(builder.node("ScatterND", [cache, positions, builder.input("float32", (2, "tokens", 6), "t")]), "f4")
    model = builder.build()
    shapes = [
        {"x": (2, capacity, 6), "p": (2, tokens, 2), "t": (2, tokens, 6)} for capacity in (9, 17) for tokens in (1, 3)
    ]
    assert_templates_follow_the_rules(model, shapes, 2)  # one token is repeated where several are not
    feeds = {name: random_numbers.normal(0, 1, shape).astype(np.float32) for name, shape in shapes[3].items()}
    feeds["p"] = grid(range(2), range(5, 8))
    assert_like_onnxruntime(model, feeds, equal=True)


NUMBERS: Final = np.float32([np.nan, 1, 0, -0.0, np.inf, -np.inf, 1e38, -3e38])


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("dtype", ["float32", "int64", "int32"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_elements(random_numbers: np.random.Generator, axis: int, dtype: str, reduction: str) -> None:
    """Several of them for one element, in their order."""
    builder = Builder(18)
    shape, written = (5, 4, 6), (*(5, 4, 6)[:axis], 40, *(5, 4, 6)[axis:][1:])
    operands = [
        builder.input(dtype, shape),
        builder.input("int64", written, "indices"),
        builder.input(dtype, written, "updates"),
    ]
    builder.output(builder.node("ScatterElements", operands, axis=axis, reduction=reduction), dtype)
    feeds = {"indices": random_numbers.integers(-shape[axis], shape[axis], written)}
    for name, sizes in (("x", shape), ("updates", written)):
        feeds[name] = random_numbers.integers(-9, 9, sizes).astype(dtype)
        if dtype == "float32":
            feeds[name] = np.where(feeds[name] > 7, random_numbers.choice(NUMBERS, sizes), feeds[name])
    model = builder.build()
    [ours], [expected] = dmlcpu.InferenceSession(model).run(None, feeds), results_of_onnxruntime(model, feeds)
    np.testing.assert_array_equal(ours, expected)
    assert steps_of(builder) == ["SCATTER_ELEMENTS"]


@pytest.mark.parametrize("dtype", ["uint8", "float16", "bool", "int8"])
def test_elements_of_other_types(random_numbers: np.random.Generator, dtype: str) -> None:
    """As the operator was called at first."""
    builder = Builder(9)
    operands = [
        builder.input(dtype, (6, 3)),
        builder.input("int32", (4, 3), "indices"),
        builder.input(dtype, (4, 3), "updates"),
    ]
    builder.output(builder.node("Scatter", operands, axis=0), dtype)
    feeds = {"indices": np.stack([random_numbers.permutation(6)[:4] for _ in range(3)], 1).astype(np.int32)}
    for name, sizes in (("x", (6, 3)), ("updates", (4, 3))):
        feeds[name] = random_numbers.integers(0, 2, sizes).astype(dtype)
    assert_like_onnxruntime(builder.build(), feeds, equal=True)


def test_neighbours_are_summed(random_numbers: np.random.Generator) -> None:
    """As in a network of graphs: the messages of edges by the nodes that they reach, one index for all features."""
    builder = Builder(18)
    nodes, edges = builder.input("int64", ("edges",), "nodes"), builder.input("float32", ("edges", 5))
    shape = builder.node("Shape", [edges])
    columns = builder.node("Expand", [builder.node("Unsqueeze", [nodes, np.array([1])]), shape])
    zeros = np.zeros((7, 5), np.float32)
    builder.output(builder.node("ScatterElements", [zeros, columns, edges], axis=0, reduction="add"), "float32")
    model = builder.build()
    assert_templates_follow_the_rules(model, [{"nodes": (n,), "x": (n, 5)} for n in (3, 9, 40)], 1)
    feeds = {"nodes": random_numbers.integers(0, 7, 90), "x": random_numbers.normal(0, 1, (90, 5)).astype(np.float32)}
    assert_like_onnxruntime(model, feeds, equal=True)


@pytest.mark.parametrize("case", ["a reduction of codes", "float64"])
def test_what_is_left_to_onnxruntime(case: str) -> None:
    dtype, reduction = ("uint8", "add") if case == "a reduction of codes" else ("float64", "none")
    builder = Builder(18)
    operands = [builder.input(dtype, (5,)), np.array([1, 1]), builder.input(dtype, (2,), "updates")]
    builder.output(builder.node("ScatterElements", operands, reduction=reduction), dtype)
    feeds = {"x": np.arange(5).astype(dtype), "updates": np.array([3, 4]).astype(dtype)}
    assert_like_onnxruntime(builder.build(), feeds, native=False, equal=True)
    assert {part.provider for part in dmlcpu.InferenceSession(builder.build()).partitions()} == {"onnxruntime"}


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
