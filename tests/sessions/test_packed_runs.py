"""Runs of feeds like those of the run before, which take a fast path: nothing tells them from others."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from dmlcpu.onnx.planning.execution import ExecutablePlan
from onnx_models import Builder

Array = NDArray[Any]
Feeds = dict[str, Any]


def scale_and_point(builder: Builder) -> None:
    """Codes, and their scale and zero point without axes."""
    node = builder.node("DynamicQuantizeLinear", [builder.input(np.float32, ("rows", 3))], 3)
    for name, dtype in zip(node, ("uint8", "float32", "uint8"), strict=True):
        builder.output(name, dtype)


def sum_and_extreme(builder: Builder) -> None:
    """Of an array and a number, which have no axes."""
    total = builder.node("Add", [builder.input(np.float32, ("rows", 3)), builder.input(np.float32, (), "y")])
    builder.output(builder.node("ReduceMax", [total], keepdims=0), np.float32)
    builder.output(total, np.float32)


def comparison(builder: Builder) -> None:
    builder.output(builder.node("Greater", [builder.input(np.float32, ("rows", 3)), np.float32(0.1)]), "bool")


def choice(builder: Builder) -> None:
    """By conditions of which one has no axes; these negated come out as well."""
    x, y = builder.input(np.float32, ("rows", 3)), builder.input("bool", ("rows", 3), "y")
    z = builder.input("bool", (), "z")
    builder.output(builder.node("Not", [z]), "bool")
    chosen = builder.node("Where", [builder.node("And", [y, z]), x, builder.node("Neg", [x])])
    builder.output(chosen, np.float32)
    builder.output(builder.node("Not", [y]), "bool")


MODELS: Mapping[str, tuple[Callable[[Builder], None], str]] = {
    "scale and point": (scale_and_point, "dmlcpu"),
    "sum and extreme": (sum_and_extreme, "dmlcpu"),
    "comparison": (comparison, "dmlcpu"),
    "choice": (choice, "dmlcpu"),
}
each_model = pytest.mark.parametrize("name", MODELS)


def opened(name: str, num_threads: int = 1) -> dmlcpu.InferenceSession:
    builder = Builder(13)
    MODELS[name][0](builder)
    return dmlcpu.InferenceSession(builder.build(), device=dmlcpu.Device(num_threads=num_threads))


def feeds_of(session: dmlcpu.InferenceSession, rng: np.random.Generator, rows: int) -> Feeds:
    feeds: Feeds = {}
    for value in session.get_inputs():
        numbers = rng.normal(0, 1, [rows if isinstance(length, str) else length for length in value.shape])
        feeds[value.name] = numbers > 0 if value.type == "tensor(bool)" else np.asarray(numbers, np.float32)
        feeds[value.name] = np.asarray(feeds[value.name])
    return feeds


class Counted:
    """Counts the runs that take the slow path."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        run = ExecutablePlan.run

        def counted(plan: ExecutablePlan, *arguments: Any) -> Any:
            self.count += 1
            return run(plan, *arguments)

        monkeypatch.setattr(ExecutablePlan, "run", counted)


def assert_same(results: Sequence[Array], expected: Sequence[Array], *, by_flags: bool = True) -> None:
    for result, other in zip(results, expected, strict=True):
        assert type(result) is type(other) is np.ndarray
        np.testing.assert_array_equal(result, other, strict=True)
        assert not by_flags or str(result.flags) == str(other.flags)


def assert_apart(arrays: Sequence[Array]) -> None:
    assert not any(np.may_share_memory(one, other) for one, other in itertools.combinations(arrays, 2))


@each_model
@pytest.mark.parametrize("num_threads", [1, 2])
def test_fast_paths_make_what_slow_ones_do(
    random_numbers: np.random.Generator, monkeypatch: pytest.MonkeyPatch, name: str, num_threads: int
) -> None:
    """For shapes by turns; outputs stay what they are in later runs."""
    session = opened(name, num_threads)
    feeds = [feeds_of(session, random_numbers, rows) for rows in (2, 5, 1, 2, 40)]
    expected = [opened(name, num_threads).run(None, each) for each in feeds]
    counted = Counted(monkeypatch)
    kept: list[tuple[Sequence[Array], Sequence[Array]]] = []
    for each, wanted in zip(feeds * 2, expected * 2, strict=True):
        session.run(None, each)
        before = counted.count
        for _ in range(3):
            kept.append((session.run(None, each), wanted))
            assert_same(*kept[-1])
        assert counted.count == before
        assert [part.provider for part in session.partitions()] == [MODELS[name][1]]
    assert_apart([array for results, _ in kept for array in results] + [x for each in feeds for x in each.values()])
    for results, wanted in kept:
        assert_same(results, wanted)


@each_model
def test_fast_paths_take_what_slow_ones_do(random_numbers: np.random.Generator, name: str) -> None:
    session = opened(name)
    right = feeds_of(session, random_numbers, 4)
    others: list[Any] = [dict(reversed(right.items())), MappingProxyType(right)]
    for key, x in right.items():
        wide = np.stack([x, x], axis=-1)
        read_only = x.copy()
        read_only.flags.writeable = False
        unaligned = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
        unaligned[...] = x
        forms = [wide[..., 0], np.array(x, order="F"), read_only, unaligned, np.ma.masked_array(x), x.tolist(), x[()]]
        others += [{**right, key: form} for form in (*forms, x.astype(x.dtype.newbyteorder()))]
    expected = opened(name).run(None, right)
    for other in others:
        session.run(None, right)
        assert_same(session.run(None, other), expected)
        assert_same(session.run(None, other), expected)
        assert_same(session.run(None, right), expected)


@each_model
def test_fast_paths_refuse_what_slow_ones_do(random_numbers: np.random.Generator, name: str) -> None:
    session = opened(name)
    right = feeds_of(session, random_numbers, 4)
    wrong: list[Any] = [{**right, "other": right["x"]}, {"other": right["x"]}, {}, [*right.items()], None]
    for key, x in right.items():
        forms = [x.astype(np.float64), x.astype(np.int64), x.view(np.dtype(f"i{x.itemsize}")), x[..., None], x[None]]
        forms += [x.view(f"u{x.itemsize}"), x.reshape(-1), x.reshape(1, -1), x.astype(object), None, "x"]
        wrong += [{**right, key: form} for form in forms]
        wrong += [{other: y for other, y in right.items() if other != key}]
    told = 0
    for feeds in wrong:
        with pytest.raises(dmlcpu.BindingError) as first:
            opened(name).run(None, feeds)
        session.run(None, right)
        with pytest.raises(dmlcpu.BindingError) as later:
            session.run(None, feeds)
        assert str(later.value) == str(first.value)
        told += 1
    assert told == len(wrong)


@each_model
def test_fast_paths_make_the_outputs_asked_for(
    random_numbers: np.random.Generator, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    session = opened(name)
    right = feeds_of(session, random_numbers, 4)
    names = [output.name for output in session.get_outputs()]
    wanted = dict(zip(names, session.run(None, right), strict=True))
    counted = Counted(monkeypatch)
    asked: list[Any] = [names, names[::-1], names[:1], tuple(names), iter(names), [names[-1], names[0], names[-1]], []]
    for each in asked:
        given = names if isinstance(each, type(iter([]))) else each or names
        results = session.run(each, right)
        assert_same(results, [wanted[output] for output in given], by_flags=False)
        assert all(result.flags.writeable for result in results)
        assert_apart(results)
    assert counted.count == 0
    for nothing in ("y", ["nothing"], 5, [names[0], None]):
        with pytest.raises(dmlcpu.BindingError, match=names[0]):
            session.run(nothing, right)  # type: ignore[arg-type]
