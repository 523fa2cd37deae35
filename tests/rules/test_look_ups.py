"""Look-ups by token numbers and other indices, constant or computed, beside onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from dmlcpu import InvalidModelError
from dmlcpu.errors import BindingError
from onnx_models import Builder, assert_like_onnxruntime, codes, steps_of

Array = NDArray[Any]

IDS = (2, 7)


def ids(rng: np.random.Generator, dtype: str = "int64", shape: tuple[int, ...] = IDS, length: int = 30) -> Array:
    return rng.integers(-length, length, shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("table", ["floats", "codes", "quantized codes", "along columns", "along rows", "computed"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_embeddings(random_numbers: np.random.Generator, dtype: str, table: str, axis: int) -> None:
    builder = Builder()
    indices = builder.input(dtype, IDS)
    feeds = {"x": ids(random_numbers, dtype)}
    shape = (30, 8) if axis == 0 else (4, 30)
    numbers = codes(random_numbers, "int8", shape)
    if table in ("floats", "computed"):
        rows: Any = random_numbers.normal(0, 1, shape).astype(np.float32)
        if table == "computed":
            feeds["y"], rows = rows, builder.input("float32", shape, "y")
        builder.output(builder.node("Gather", [rows, indices], axis=axis), "float32")
    elif table == "codes":  # as dynamic quantization has it
        taken = builder.node("Gather", [numbers, indices], axis=axis)
        builder.output(builder.dequantized(taken, 0.01, np.int8(3)), "float32")
    elif table == "quantized codes":
        taken = builder.node("Gather", [builder.dequantized(numbers, 0.01, np.int8(3)), indices], axis=axis)
        builder.output(builder.quantized(taken, 0.01, np.int8(3)), "int8")
    else:
        along = 1 if table == "along columns" else 0
        scales, points = random_numbers.uniform(0.01, 0.1, shape[along]), codes(random_numbers, "int8", (shape[along],))
        whole = builder.node("DequantizeLinear", [numbers, scales.astype(np.float32), points], axis=along)
        builder.output(builder.node("Gather", [whole, indices], axis=axis), "float32")
    assert_like_onnxruntime(builder.build(), feeds, equal=True)
    assert steps_of(builder) == ["GATHER", *["ELEMENT_WISE_DEQUANTIZE_LINEAR"] * (table == "codes")]


def test_a_row_by_a_single_computed_index(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    rows = random_numbers.normal(0, 1, (5, 3)).astype(np.float32)
    builder.output(builder.node("Gather", [rows, builder.input("int64", [])]), "float32")
    assert_like_onnxruntime(builder.build(), {"x": np.array(-4)}, equal=True)


@pytest.mark.parametrize("wrong", [30, -31, 2**32 + 1, -(2**63)])
def test_tokens_out_of_range(wrong: int) -> None:
    """Of any length, through a session that then goes on."""
    builder = Builder()
    tokens = builder.input("int64", ["batch", "tokens"])
    builder.output(builder.node("Gather", [np.arange(30, dtype=np.float32), tokens]), "float32")
    session = dmlcpu.InferenceSession(builder.build())
    for shape in ((1, 4), (3, 2)):
        feed = np.full(shape, 29)
        feed[-1, -1] = wrong
        with pytest.raises(BindingError, match=rf"^node Gather_0: got index {wrong}, expected one from -30 to 29$"):
            session.run(None, {"x": feed})
        feed[-1, -1] = -30
        [result] = session.run(None, {"x": feed})
        assert result[-1, -1] == 0
        assert result[0, 0] == 29


def test_constant_indices_out_of_range() -> None:
    builder = Builder()
    builder.output(builder.node("Gather", [builder.input("float32", (4, 3)), np.array([4])]), "float32")
    with pytest.raises(InvalidModelError, match=r"[Ii]ndices"):
        dmlcpu.InferenceSession(builder.build()).run(None, {"x": np.zeros((4, 3), np.float32)})


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_many_constant_indices(random_numbers: np.random.Generator, dtype: str) -> None:
    builder = Builder()
    x = builder.input(dtype, (3, 40))
    builder.output(builder.node("Gather", [x, random_numbers.integers(-40, 40, (6, 5))], axis=1), dtype)
    feed = random_numbers.integers(0, 2, (3, 40)).astype(dtype)
    assert_like_onnxruntime(builder.build(), {"x": feed}, equal=True)
    assert steps_of(builder) == ["GATHER"]


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("step", ["GATHER", "QUANTIZED_RESAMPLE"])
def test_rows_behind_indices_of_codes(random_numbers: np.random.Generator, step: str, dtype: str) -> None:
    """Rows of a few whole bytes are copied, but of what may be an image, whose channels may be neighbours."""
    cases = {
        "GATHER": [((2, 3, 40, 16), 2, (30, 2)), ((2, 40, 8), 1, (60,)), ((40, 4), 0, (60,))],
        "QUANTIZED_RESAMPLE": [((2, 3, 40, 16), 2, (60,)), ((2, 3, 40, 12), 2, (30, 2)), ((2, 40, 3), 1, (60,))],
    }  # fmt: skip
    for shape, axis, indices in cases[step]:
        builder = Builder()
        x = builder.dequantized(builder.input(dtype, shape), 0.1, np.zeros((), dtype))
        taken = builder.node("Gather", [x, random_numbers.integers(-40, 40, indices)], axis=axis)
        builder.output(builder.quantized(taken, 0.1, np.zeros((), dtype)), dtype)
        assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, dtype, shape)}, equal=True)
        assert [name for name in steps_of(builder) if name != "COPY"] == [step], shape


def grids(form: str) -> Array:
    batch, column = np.arange(3)[:, None, None, None], np.arange(5)
    return {
        "repeated rows": np.broadcast_to(batch * 5 + column, (3, 2, 4, 5)),
        "columns first": np.broadcast_to((batch * 5 + column).reshape(3, 5).T, (5, 3)),
        "part": np.broadcast_to(4 + np.arange(6), (2, 6)),
        "negative": np.arange(-15, 0),
        "one": np.full((2, 2), 7),
        "gaps": batch * 5 + column[:3],
        "backwards": np.arange(14, -1, -1),
        "not quite": np.append(np.arange(13), [12, 14]),
    }[form]


@pytest.mark.parametrize(
    "form",
    ["repeated rows", "columns first", "part", "negative", "one", "gaps", "backwards", "not quite"],
)
@pytest.mark.parametrize("axis", [0, 1])
def test_ranges_of_constant_indices(random_numbers: np.random.Generator, form: str, axis: int) -> None:
    """Indices that only repeat or reorder whole axes are views, which one copy ends."""
    builder = Builder()
    shape = (15, 2) if axis == 0 else (2, 15, 3)
    x = builder.input("int64", shape)
    builder.output(builder.node("Gather", [x, grids(form)], axis=axis), "int64")
    assert_like_onnxruntime(builder.build(), {"x": random_numbers.integers(0, 99, shape)}, equal=True)
    if form not in ("gaps", "backwards", "not quite"):
        assert steps_of(builder) == ["COPY"]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_elements(random_numbers: np.random.Generator, axis: int) -> None:
    builder = Builder()
    builder.output(
        builder.node("GatherElements", [np.arange(40).reshape(5, 8), builder.input("int64", (4, 3))], axis=axis),
        "int64",
    )
    lengths = (5, 8)[axis]
    feed = random_numbers.integers(-lengths, lengths, (4, 3))
    assert_like_onnxruntime(builder.build(), {"x": feed}, equal=True)
    assert steps_of(builder) == ["GATHER_ELEMENTS"]


def test_constants_of_constant_indices(random_numbers: np.random.Generator) -> None:
    """As of token types that nobody gives: only the last look-up is left, and that of constants."""
    builder = Builder()
    types = builder.node("GatherElements", [np.zeros((1, 9), np.int64), np.arange(-2, 5)[None]], axis=1)
    rows = builder.node("Gather", [random_numbers.normal(0, 1, (2, 4)).astype(np.float32), types])
    builder.output(builder.node("Add", [builder.input("float32", (1, 7, 4)), rows]), "float32")
    assert_like_onnxruntime(builder.build(), {"x": np.ones((1, 7, 4), np.float32)}, equal=True)
    assert steps_of(builder) == ["ELEMENT_WISE_BINARY"]


@pytest.mark.parametrize("shape", [(4, 0), (4, 0, 3)], ids=str)
def test_rows_without_elements(random_numbers: np.random.Generator, shape: tuple[int, ...]) -> None:
    """What beams have written before their first step, in the order that a run gives them."""
    builder = Builder()
    rows = builder.node("Gather", [np.zeros(shape, np.int64), builder.input("int64", ("A", "B"))])
    following = builder.node(
        "Reshape", [builder.input("int64", ("A", "B", *shape[2:]), "y"), np.int64([0, 0, 1, *shape[2:]])]
    )
    builder.output(builder.node("Concat", [rows, following], axis=2), "int64")
    feeds = {"x": ids(random_numbers, shape=(2, 3), length=4), "y": ids(random_numbers, shape=(2, 3, *shape[2:]))}
    assert_like_onnxruntime(builder.build(), feeds, equal=True)
