"""GroupQueryAttention and RotaryEmbedding, as language models are exported with them, against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import onnx
import pytest

import dmlcpu
from conftest import SEED
from onnx_models import Builder, assert_like_onnxruntime
from template_checks import assert_templates_follow_the_rules

SIZE: Final = 16
LONGEST: Final = 64


@dataclass(frozen=True)
class Case:
    """Tokens after a past, in a buffer if that is longer than what precedes them."""

    batch: int
    tokens: int
    past: int
    total: int
    heads: int = 4
    groups: int = 2
    rotary: bool = True
    packed: bool = False
    lengths: tuple[int, ...] = ()
    attributes: tuple[tuple[str, float], ...] = ()

    def build(self, free: bool = False) -> bytes:
        """The total is what a mask of tokens is long."""
        builder = Builder()
        random = np.random.default_rng((SEED, 1))
        batch: Any = "batch" if free else self.batch
        tokens: Any = "tokens" if free else self.tokens
        columns = [self.heads * SIZE] + [self.groups * SIZE] * 2
        if self.packed:
            parts = [builder.input("float32", (batch, tokens, sum(columns)), "query"), "", ""]
        else:
            named = zip(("query", "key", "value"), columns, strict=True)
            parts = [builder.input("float32", (batch, tokens, width), name) for name, width in named]
        past = [
            builder.input("float32", (batch, self.groups, "past" if free else self.past, SIZE), name)
            for name in ("past_key", "past_value")
        ]
        mask = builder.input("int64", (batch, "total" if free else self.total), "mask")
        total = builder.node("Gather", [builder.node("Shape", [mask]), np.int64(1)])
        total = builder.node("Cast", [total], to=onnx.TensorProto.INT32)
        counts = builder.node("ReduceSum", [mask, np.array([1])], keepdims=0)
        counts = builder.node("Cast", [builder.node("Sub", [counts, np.int64(1)])], to=onnx.TensorProto.INT32)
        tables = [random.normal(size=(LONGEST, SIZE // 2)).astype(np.float32) for _ in range(2)] if self.rotary else []
        results = builder.node(
            "com.microsoft.GroupQueryAttention",
            [*parts, *past, counts, total, *tables],
            3,
            num_heads=self.heads,
            kv_num_heads=self.groups,
            do_rotary=int(self.rotary),
            **dict(self.attributes),
        )
        for name in results:
            builder.output(name, "float32")
        return builder.build()

    def feeds(self) -> dict[str, Any]:
        random = np.random.default_rng((SEED, 2))
        columns = [self.heads * SIZE] + [self.groups * SIZE] * 2
        shapes = (
            {"query": (self.batch, self.tokens, sum(columns))}
            if self.packed
            else {
                name: (self.batch, self.tokens, width)
                for name, width in zip(("query", "key", "value"), columns, strict=True)
            }
        )
        shapes |= dict.fromkeys(("past_key", "past_value"), (self.batch, self.groups, self.past, SIZE))
        feeds: dict[str, Any] = {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
        lengths = self.lengths or (self.total,) * self.batch
        feeds["mask"] = (np.arange(self.total) < np.array(lengths)[:, None]).astype(np.int64)
        return feeds


CASES: Final = {
    "first tokens": Case(2, 5, 0, 5),
    "first tokens without rotation": Case(2, 5, 0, 5, rotary=False),
    "one first token": Case(1, 1, 0, 1),
    "next token": Case(2, 1, 7, 8),
    "next token without rotation": Case(1, 1, 7, 8, rotary=False),
    "next tokens": Case(1, 4, 7, 11),
    "pairs of neighbours": Case(3, 1, 7, 8, attributes=(("rotary_interleaved", 1),)),
    "one group for each head": Case(1, 3, 6, 9, groups=4),
    "one group": Case(1, 3, 6, 9, heads=3, groups=1),
    "packed": Case(2, 4, 0, 4, packed=True),
    "packed next token": Case(2, 1, 6, 7, packed=True),
    "window": Case(1, 6, 0, 6, attributes=(("local_window_size", 2),)),
    "window of a next token": Case(1, 1, 9, 10, attributes=(("local_window_size", 3),)),
    "window of next tokens": Case(1, 4, 9, 13, attributes=(("local_window_size", 3),)),
    "window of all": Case(1, 4, 9, 13, attributes=(("local_window_size", 40),)),
    "capped": Case(2, 3, 0, 3, attributes=(("softcap", 5.0),)),
    "capped next token": Case(2, 1, 6, 7, attributes=(("softcap", 2.0), ("scale", 0.3))),
    "buffer": Case(2, 1, 20, 7),
    "buffer of first tokens": Case(2, 4, 20, 4),
    "buffer of next tokens": Case(1, 2, 30, 9),
    "images of several lengths": Case(3, 1, 6, 7, lengths=(7, 4, 1)),
}


@pytest.mark.parametrize("name", CASES)
def test_grouped_attention(name: str) -> None:
    case = CASES[name]
    assert_like_onnxruntime(case.build(), case.feeds())


def test_a_template_for_all_tokens() -> None:
    """One for the first tokens, one for those that follow."""
    shapes: list[Mapping[str, Any]] = []
    for tokens, past in ((4, 0), (9, 0), (1, 4), (1, 5), (1, 6), (1, 40)):
        feeds = Case(1, tokens, past, past + tokens).feeds()
        shapes.append({name: array.shape for name, array in feeds.items()})
    assert_templates_follow_the_rules(Case(1, 1, 1, 2).build(free=True), shapes, 2)


def test_a_text_token_by_token() -> None:
    """Each token after what the one before has returned, in one session, as in a session of its own."""
    model = Case(1, 1, 1, 2).build(free=True)
    session = dmlcpu.InferenceSession(model)
    past: dict[str, Any] = {}
    for tokens, before in ((5, 0), *((1, count) for count in range(5, 15))):
        feeds = {**Case(1, tokens, before, before + tokens).feeds(), **past}
        results = session.run(None, feeds)
        for ours, expected in zip(results, dmlcpu.InferenceSession(model).run(None, feeds), strict=True):
            np.testing.assert_array_equal(ours, expected)
        past = {"past_key": results[1], "past_value": results[2]}
        assert results[1].shape[2] == before + tokens


def test_lengths_that_are_none() -> None:
    """As onnxruntime says of them; nothing is read or written for them."""
    builder = Builder()
    rows = builder.input("float32", (1, 1, 4 * SIZE))
    past = np.zeros((1, 4, 3, SIZE), np.float32)
    lengths = builder.input("int32", (1,), "lengths")
    results = builder.node(
        "com.microsoft.GroupQueryAttention",
        [rows, rows, rows, past, past, lengths, np.array([4], np.int32)],
        3,
        num_heads=4,
        kv_num_heads=4,
    )
    builder.output(results[0], "float32")
    session = dmlcpu.InferenceSession(builder.build())
    x = np.ones((1, 1, 4 * SIZE), np.float32)
    assert np.isfinite(session.run(None, {"x": x, "lengths": np.array([3], np.int32)})[0]).all()
    for length in (-1, 4, 1 << 30, -(1 << 31)):
        with pytest.raises(dmlcpu.BindingError, match=f"past of {length} rows, expected 0 to 3"):
            session.run(None, {"x": x, "lengths": np.array([length], np.int32)})


@pytest.mark.parametrize("shape", [(0, 1, 64), (1, 0, 64)])
def test_queries_without_elements(shape: tuple[int, ...]) -> None:
    """By those onnxruntime would end the process."""
    model = Case(1, 1, 3, 4, groups=4).build(free=True)
    feeds = {
        **Case(1, 1, 3, 4, groups=4).feeds(),
        **dict.fromkeys(("query", "key", "value"), np.zeros(shape, np.float32)),
    }
    for name in ("past_key", "past_value", "mask"):
        feeds[name] = feeds[name][: shape[0]]
    with pytest.raises((dmlcpu.InvalidModelError, dmlcpu.BindingError), match="queries"):
        dmlcpu.InferenceSession(model).run(None, feeds)


REFUSED: Final = {
    "a window of nothing": {"local_window_size": 0},
    "a sink": {"smooth_softmax": 1},
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_goes_to_onnxruntime(name: str) -> None:
    case = Case(1, 4, 0, 4, attributes=tuple(REFUSED[name].items()))
    session = dmlcpu.InferenceSession(case.build())
    assert [partition.provider for partition in session.partitions()].count("onnxruntime") == 1


@pytest.mark.parametrize("layout", ["heads", "columns"])
@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("positions", ["first", "all", "constant"])
def test_rotations_of_tables(
    random_numbers: np.random.Generator, layout: str, interleaved: int, positions: str
) -> None:
    builder = Builder()
    shape = (2, 3, 5, SIZE) if layout == "heads" else (2, 5, 3 * SIZE)
    x = builder.input("float32", shape)
    feeds: dict[str, Any] = {"x": random_numbers.normal(size=shape).astype(np.float32)}
    given = np.array([4]) if positions == "first" else random_numbers.integers(0, LONGEST, (2, 5))
    if positions != "constant":
        feeds["positions"] = given
        places: Any = builder.input("int64", given.shape, "positions")
    else:
        places = given
    tables = [random_numbers.normal(size=(LONGEST, SIZE // 2)).astype(np.float32) for _ in range(2)]
    builder.output(
        builder.node("com.microsoft.RotaryEmbedding", [x, places, *tables], interleaved=interleaved), "float32"
    )
    assert_like_onnxruntime(builder.build(), feeds)


@pytest.mark.parametrize("layout", ["heads", "columns"])
@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("pairs", [SIZE // 2, SIZE // 4])
@pytest.mark.parametrize("looked_up", [True, False])
def test_rotations(
    random_numbers: np.random.Generator, layout: str, interleaved: int, pairs: int, looked_up: bool
) -> None:
    """Of elements beyond the pairs, too."""
    builder = Builder(23)
    shape = (2, 3, 5, SIZE) if layout == "heads" else (2, 5, 3 * SIZE)
    x = builder.input("float32", shape)
    feeds: dict[str, Any] = {"x": random_numbers.normal(size=shape).astype(np.float32)}
    of_tables = (LONGEST, pairs) if looked_up else (2, 5, pairs)
    inputs: list[Any] = [x, *(random_numbers.normal(size=of_tables).astype(np.float32) for _ in range(2))]
    if looked_up:
        inputs.append(builder.input("int64", (2, 5), "positions"))
        feeds["positions"] = random_numbers.integers(0, LONGEST, (2, 5))
    attributes = {"interleaved": interleaved, "rotary_embedding_dim": 2 * pairs if pairs < SIZE // 2 else 0}
    if layout == "columns":
        attributes["num_heads"] = 3
    builder.output(builder.node("RotaryEmbedding", inputs, **attributes), "float32")
    assert_like_onnxruntime(builder.build(), feeds)


def rotation(shape: tuple[int, ...], pairs: int, positions: Any, domain: str = "", **attributes: int) -> bytes:
    builder = Builder(23)
    x, tables = builder.input("float32", shape), [np.ones((LONGEST, pairs), np.float32)] * 2
    inputs = [x, np.asarray(positions), *tables] if domain else [x, *tables, np.asarray(positions)]
    builder.output(builder.node(f"{domain}RotaryEmbedding", inputs, **attributes), "float32")
    return builder.build()


WRONG_ROTATIONS: Final = {
    "positions below 0": rotation((1, 2, 3, SIZE), SIZE // 2, [[-1, 0, 1]]),
    "a first position below 0": rotation((1, 2, 3, SIZE), SIZE // 2, [-1], "com.microsoft."),
    "positions of one image": rotation((2, 2, 3, SIZE), SIZE // 2, [[0, 1, 2]]),
    "narrow tables": rotation((1, 2, 3, SIZE), SIZE // 4, [[0, 1, 2]]),
    "narrow tables of columns": rotation((1, 3, 2 * SIZE), SIZE // 4, [[0, 1, 2]], num_heads=2),
    "no number of heads": rotation((1, 3, 2 * SIZE), SIZE // 2, [[0, 1, 2]]),
}


@pytest.mark.parametrize("name", WRONG_ROTATIONS)
def test_wrong_rotations(name: str) -> None:
    """onnxruntime says what is wrong with them."""

    def run() -> None:
        session = dmlcpu.InferenceSession(WRONG_ROTATIONS[name])
        session.run(None, {value.name: np.ones(value.shape, np.float32) for value in session.get_inputs()})

    with pytest.raises(dmlcpu.InvalidModelError, match="RotaryEmbedding"):
        run()
