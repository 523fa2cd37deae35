"""Runs of packed arrays of a model's types, which take a fast path: nothing tells them from others."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

import dmlcpu
from dmlcpu.onnx.planning.execution import ExecutablePlan
from float_modes import each_mode, mode, needs_modes
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


def tangents(builder: Builder) -> None:
    """Of what has axes and what has none; neither has a kernel, and what follows goes with them."""
    x, y = builder.input(np.float32, ("rows", 3)), builder.input("bool", ("rows", 3), "y")
    tangent, other = (builder.node("Tan", [value]) for value in (x, builder.input(np.float32, (), "z")))
    builder.output(builder.node("IsInf", [tangent]), "bool")
    builder.output(other, np.float32)
    builder.output(builder.node("Where", [y, tangent, x]), np.float32)
    builder.output(tangent, np.float32)


def tangent(builder: Builder) -> None:
    """Of given shapes."""
    builder.output(builder.node("Tan", [builder.input(np.float32, (4, 3))]), np.float32)


MODELS: Mapping[str, tuple[Callable[[Builder], None], str]] = {
    "scale and point": (scale_and_point, "dmlcpu"),
    "sum and extreme": (sum_and_extreme, "dmlcpu"),
    "comparison": (comparison, "dmlcpu"),
    "choice": (choice, "dmlcpu"),
    "tangents": (tangents, "onnxruntime"),
    "tangent": (tangent, "onnxruntime"),
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
    expected = [opened(name, num_threads).run(None, MappingProxyType(each)) for each in feeds]  # by the slow path
    counted = Counted(monkeypatch)
    kept: list[tuple[Sequence[Array], Sequence[Array]]] = []
    for each, wanted in zip(feeds * 2, expected * 2, strict=True):
        for _ in range(3):
            kept.append((session.run(None, each), wanted))
            assert_same(*kept[-1])
        assert counted.count == 0  # by the first run of new shapes either
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
        forms.append(np.ma.masked_array(x, True))
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


@each_model
def test_futures_and_profiles_go_between_fast_paths(
    random_numbers: np.random.Generator, tmp_path: Path, name: str
) -> None:
    session = opened(name)
    feeds = [feeds_of(session, random_numbers, rows) for rows in (2, 5)]
    expected = [opened(name).run(None, each) for each in feeds]
    first, second = feeds
    for _ in range(2):
        assert_same(session.run(None, first), expected[0])
        assert_same(session.run_async(None, second).result(), expected[1], by_flags=False)
        assert_same(session.run(None, first), expected[0])
        session.profile(tmp_path / "trace.json", second)
        assert_same(session.run(None, first), expected[0])
        names = [output.name for output in session.get_outputs()][::-1]
        assert_same(session.run_async(iter(names), first).result(), expected[0][::-1], by_flags=False)


def reversed_rows() -> dmlcpu.InferenceSession:
    builder = Builder()
    x, lengths = builder.input(np.float32, ("rows", 2)), builder.input(np.int64, (2,), "lengths")
    builder.output(builder.node("ReverseSequence", [x, lengths], time_axis=0, batch_axis=1), np.float32)
    return dmlcpu.InferenceSession(builder.build())


def test_what_onnxruntime_refuses_of_values_is_told_as_before() -> None:
    session = reversed_rows()
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    for _ in range(2):
        result = session.run(None, {"x": x, "lengths": np.int64([4, 2])})[0]
        np.testing.assert_array_equal(result, np.float32([[6, 3], [4, 1], [2, 5], [0, 7]]))
        wrong = {"x": x, "lengths": np.int64([4, 5])}
        with pytest.raises(dmlcpu.BindingError) as first:
            reversed_rows().run(None, wrong)
        with pytest.raises(dmlcpu.BindingError, match=r"node ReverseSequence \(") as later:
            session.run(None, wrong)
        assert str(later.value) == str(first.value)


def test_words_take_a_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = Builder(20)
    x = builder.input(np.float32, ("count",))
    builder.output(builder.node("StringConcat", [x, x]), np.float32)
    for value in (*builder.inputs, *builder.outputs):
        value.type.tensor_type.elem_type = onnx.TensorProto.STRING
    session = dmlcpu.InferenceSession(builder.build())
    words = np.array(["a", "bc"], object)
    first = session.run(None, {"x": words})
    counted = Counted(monkeypatch)
    assert_same(session.run(None, {"x": words}), first)
    assert counted.count == 0
    assert first[0].tolist() == ["aa", "bcbc"]
    assert session.run(None, {"x": ["de", "f"]})[0].tolist() == ["dede", "ff"]


@pytest.mark.parametrize("others", ["its own twice", "copies", "views", "a feed", "a constant"])
def test_outputs_that_are_one_value_are_arrays_of_their_own(others: str) -> None:
    builder = Builder()
    x = builder.input(np.float32, ("rows", 3))
    tangent = builder.node("Tan", [x])
    if others == "copies":
        builder.output(builder.node("Identity", [tangent]), np.float32)
    elif others == "views":
        builder.output(builder.node("Reshape", [tangent, np.int64([-1])]), np.float32)
    elif others != "its own twice":
        builder.output(x if others == "a feed" else builder.constant(np.float32([5])), np.float32)
    builder.output(tangent, np.float32)
    builder.output(tangent, np.float32)
    session = dmlcpu.InferenceSession(builder.build())
    feed = np.float32([[0, 1, 2], [3, 4, 5]])
    runs = [session.run(None, {"x": feed}) for _ in range(3)]
    assert_apart([feed, *itertools.chain(*runs)])
    for results in runs:
        assert_same(results, runs[0], by_flags=False)


class OwnRun(dmlcpu.InferenceSession):
    """A session whose runs are futures' results."""

    def run(self, output_names: Any, input_feed: Any, run_options: Any = None) -> list[Array]:
        return self.run_async(output_names, input_feed).result(timeout=60)


def test_futures_are_not_of_a_derived_run(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    tangents(builder)
    session, other = OwnRun(builder.build()), dmlcpu.InferenceSession(builder.build())
    feeds = feeds_of(session, random_numbers, 4)
    for _ in range(2):
        assert_same(session.run(None, feeds), other.run(None, feeds), by_flags=False)


@needs_modes
@each_mode
def test_fast_paths_do_not_follow_the_caller(bits: int, random_numbers: np.random.Generator) -> None:
    session = opened("tangents")
    feeds = {**feeds_of(session, random_numbers, 400), "z": np.array(1e-40, np.float32)}
    expected = session.run(None, feeds)
    for _ in range(2):
        with mode(bits):
            within = session.run(None, feeds)
        assert [result.tobytes() for result in within] == [other.tobytes() for other in expected]
