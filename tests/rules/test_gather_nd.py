"""GatherND by constant and by computed indices, beside onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from onnx_models import POINT, Builder, assert_like_onnxruntime
from template_checks import assert_templates_follow_the_rules

Array = NDArray[Any]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_constant_indices(random_numbers: np.random.Generator, count: int) -> None:
    builder = Builder()
    x = builder.input("float32", (3, 4, 5))
    lengths = np.array([3, 4, 5][:count])
    builder.output(builder.node("GatherND", [x, random_numbers.integers(-lengths, lengths, (2, 6, count))]), "float32")
    feed = random_numbers.normal(0, 1, (3, 4, 5)).astype(np.float32)
    assert_like_onnxruntime(builder.build(), {"x": feed}, equal=True)


@pytest.mark.parametrize("shape", [(1,), (2,), (3,), (2, 6, 1), (2, 6, 2), (4, 1, 3)], ids=str)
@pytest.mark.parametrize("form", ["computed", "constant", "codes", "integers"])
def test_computed_indices(random_numbers: np.random.Generator, form: str, shape: tuple[int, ...]) -> None:
    """Of rows, as of the entries of a codebook, and of elements, one of each sequence."""
    builder = Builder()
    dtype = {"codes": np.uint8, "integers": np.int64}.get(form, np.float32)
    rows = random_numbers.integers(0, 256, (5, 3, 2)).astype(dtype)
    value: Any = rows if form == "constant" else builder.input(rows.dtype, rows.shape)
    feeds = {} if form == "constant" else {"x": rows}
    value = builder.dequantized(value, 0.1, POINT) if form == "codes" else value
    value = builder.node("GatherND", [value, builder.input("int64", shape, "places")])
    builder.output(builder.quantized(value, 0.1, POINT) if form == "codes" else value, rows.dtype)
    lengths = np.array(rows.shape[: shape[-1]])
    feeds["places"] = random_numbers.integers(-lengths, lengths, shape)
    assert_like_onnxruntime(builder.build(), feeds, equal=True)


@pytest.mark.parametrize(
    ("shape", "batch"), [((5, 1), 1), ((5, 2), 1), ((5, 3, 1), 2), ((5, 7, 1), 1), ((5, 2, 4, 2), 1)], ids=str
)
@pytest.mark.parametrize("are_constant", [False, True])
def test_batches(random_numbers: np.random.Generator, shape: tuple[int, ...], batch: int, are_constant: bool) -> None:
    builder = Builder()
    x = random_numbers.normal(0, 1, (5, 3, 4, 2)).astype(np.float32)
    lengths = np.array(x.shape[batch : batch + shape[-1]])
    places, feeds = random_numbers.integers(-lengths, lengths, shape), {"x": x}
    operands: list[Any] = [builder.input("float32", x.shape), places]
    if not are_constant:
        feeds["places"], operands[1] = places, builder.input("int64", shape, "places")
    builder.output(builder.node("GatherND", operands, batch_dims=batch), "float32")
    assert_like_onnxruntime(builder.build(), feeds, equal=True)


@pytest.mark.parametrize("batch", [0, 1])
def test_free_lengths(random_numbers: np.random.Generator, batch: int) -> None:
    builder = Builder()
    operands = [builder.input("float32", ("N", "T", 6)), builder.input("int64", ("N", 2 - batch), "places")]
    builder.output(builder.node("GatherND", operands, batch_dims=batch), "float32")
    model = builder.build()
    shapes = [{"x": (count, tokens, 6), "places": (count, 2 - batch)} for count in (2, 3) for tokens in (2, 5, 9)]
    assert_templates_follow_the_rules(model, shapes, 1)
    bounds = np.array([3, 9][batch:])
    feeds = {
        "x": random_numbers.normal(0, 1, (3, 9, 6)).astype(np.float32),
        "places": random_numbers.integers(-bounds, bounds, (3, 2 - batch)),
    }
    assert_like_onnxruntime(model, feeds, equal=True)


def test_indices_that_follow_from_lengths() -> None:
    """As masks of tokens are brought to the shape of attention: by places of all sequences and tokens."""
    builder = Builder()
    mask = builder.input("int64", ("N", "T"), "mask")
    shape = builder.node("Shape", [mask])
    counts = [builder.node("Gather", [shape, np.int64(axis)]) for axis in (0, 1)]
    sequences, tokens = (builder.node("Range", [np.int64(0), count, np.int64(1)]) for count in counts)
    operands = [
        builder.node("Unsqueeze", [sequences, np.array([1])]),
        builder.node("Unsqueeze", [tokens, np.array([0])]),
    ]
    grid = builder.node("Shape", [builder.node("Max", operands)])
    grown = [
        builder.node("Unsqueeze", [builder.node("Expand", [operand, grid]), np.array([-1])]) for operand in operands
    ]
    kept = builder.node("Cast", [mask], to=9)
    found = builder.node("GatherND", [kept, builder.node("Concat", grown, axis=-1)])
    x = builder.input("float32", ("N", "T"))
    builder.output(builder.node("Mul", [x, builder.node("Cast", [found], to=1)]), "float32")
    model = builder.build()
    shapes = [(count, length) for count in (2, 3) for length in (2, 5, 9)]
    assert_templates_follow_the_rules(model, [{"mask": shape, "x": shape} for shape in shapes], 1)
    mask_of = np.arange(15).reshape(3, 5) % 4
    feeds = {"mask": mask_of, "x": np.ones((3, 5), np.float32)}
    assert_like_onnxruntime(model, feeds, equal=True)


def test_a_constant_index_out_of_range() -> None:
    builder = Builder()
    builder.output(builder.node("GatherND", [builder.input("float32", (3, 4)), np.array([[0, 4]])]), "float32")
    with pytest.raises(dmlcpu.InvalidModelError):
        dmlcpu.InferenceSession(builder.build()).run(None, {"x": np.zeros((3, 4), np.float32)})


@pytest.mark.parametrize("places", [[[3, 0]], [[0, 4]], [[0, -5]], [[-4, 0]], [[0, 1], [1 << 62, 1]]], ids=str)
def test_a_computed_index_out_of_range(places: Any) -> None:
    """Of its own axis: the sum may be within the tensor."""
    builder = Builder()
    x, given = builder.input("float32", (3, 4)), builder.input("int64", ("count", 2), "places")
    builder.output(builder.node("GatherND", [x, given]), "float32")
    session = dmlcpu.InferenceSession(builder.build())
    with pytest.raises(dmlcpu.BindingError, match="index"):
        session.run(None, {"x": np.zeros((3, 4), np.float32), "places": np.array(places, np.int64)})


@pytest.mark.parametrize("case", ["batches that differ", "constant indices out of range"])
def test_batches_that_are_left_to_onnxruntime(case: str) -> None:
    builder = Builder()
    x = builder.input("float32", (3, 4, 5))
    places: Any = np.array([[1], [0], [4]])
    if case == "batches that differ":
        places = builder.input("int64", (1, 1), "places")
    builder.output(builder.node("GatherND", [x, places], batch_dims=1), "float32")
    [part] = dmlcpu.InferenceSession(builder.build()).partitions()
    assert part.provider == "onnxruntime"
