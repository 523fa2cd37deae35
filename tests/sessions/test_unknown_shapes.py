"""Shapes that only a run tells, as those of what a detector finds: planned as they are met, but not without an end."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from conftest import SEED
from dmlcpu.onnx.planning import planned_model, planner
from dmlcpu.onnx.planning.templates import PlanTemplate
from onnx_models import Builder, coded, results_of_onnxruntime

Array = NDArray[Any]


def finder(form: str, length: int | str = 40) -> bytes:
    """The rows of codes whose first element is above 0, and a layer on each of them."""
    builder = Builder()
    x = coded(builder, builder.input("float32", (length, 8)))
    first = builder.node("Gather", [x, np.int64(0)], axis=1)
    found = builder.node("NonZero", [builder.node("Greater", [first, np.float32(0)])])
    rows = builder.node("Gather", [x, builder.node("Squeeze", [found, np.int64([0])])])
    random = np.random.default_rng(SEED)
    codes = random.integers(-128, 128, (8, 6), np.int8)
    if form == "QDQ":
        weights = builder.dequantized(codes, 0.01, np.int8(0))
        result = coded(builder, builder.node("MatMul", [coded(builder, rows), weights]))
    else:
        row_codes, scale, point = builder.node("DynamicQuantizeLinear", [rows], 3)
        product = builder.node("MatMulInteger", [row_codes, codes, point, np.int8(0)])
        result = builder.node("Mul", [builder.node("Cast", [product], to=1), scale])
    builder.output(result, "float32")
    builder.output(builder.node("Exp", [x]), "float32")
    return builder.build()


def rows(count: int, length: int = 40) -> Array:
    """Codes from -59 to 60, so that those of a dynamic layer, which are 15 / 7 of them, do not lie amid two."""
    x = np.random.default_rng((SEED, count)).uniform(-2.95, 3, (length, 8)).astype(np.float32)
    x[:, 0] = np.where(np.arange(length) < count, 1, -1)
    x[0, 1:3] = -2.95, 3
    return x


# A code of the quantized layer's result, or last bits of the dynamic one's.
TOLERANCE = {"QDQ": 0.051, "dynamic": 0.002}


def check(session: dmlcpu.InferenceSession, form: str, x: Array) -> None:
    model, feeds = finder(form, "length"), {"x": x}
    for ours, expected in zip(session.run(None, feeds), results_of_onnxruntime(model, feeds), strict=True):
        assert ours.shape == expected.shape
        np.testing.assert_allclose(ours, expected, 0, TOLERANCE[form])


def forbid_planning_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    def planned(*_: Any) -> None:
        raise AssertionError("planned anew")

    monkeypatch.setattr(planned_model, "make_plan", planned)


def nodes_of(session: dmlcpu.InferenceSession, provider: str) -> set[str]:
    """The operators that the last run left to a provider."""
    parts = (part for part in session.partitions() if part.provider == provider)
    return {name.partition("_")[0] for part in parts for name in part.nodes}


@pytest.mark.parametrize("form", ["QDQ", "dynamic"])
def test_shapes_that_are_others_each_time(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where native graphs gain much, what follows is lowered once, as a template."""
    monkeypatch.setattr(planned_model, "_GAIN_OF_A_BYTE", 1.0)
    session = dmlcpu.InferenceSession(finder(form))
    check(session, form, rows(7))
    forbid_planning_anew(monkeypatch)
    for count in (*range(1, 17), 40, 3):
        check(session, form, rows(count))
    assert nodes_of(session, "dmlcpu") >= ({"MatMul"} if form == "QDQ" else {"MatMulInteger", "Mul"})


@pytest.mark.parametrize("has_templates", [False, True])
@pytest.mark.parametrize("form", ["QDQ", "dynamic"])
def test_small_layers_of_shapes_that_are_others_each_time(
    form: str, has_templates: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where planning takes longer than native graphs gain, onnxruntime goes on after some plans; not with nothing."""
    monkeypatch.setattr(planned_model, "_GAIN_OF_A_NODE", 0.0)
    session = dmlcpu.InferenceSession(finder(form))
    if not has_templates:
        monkeypatch.setattr(PlanTemplate, "of", lambda *_: None)
    for count in range(3, 11):
        check(session, form, rows(count))
    assert "Gather" in nodes_of(session, "dmlcpu")
    known = len(session._plans.cache)
    for count in (11, 12, 13):
        check(session, form, rows(count))
        assert nodes_of(session, "dmlcpu").isdisjoint({"MatMul", "MatMulInteger"})
    names = nodes_of(session, "onnxruntime")
    assert names >= ({"MatMul", "DequantizeLinear"} if form == "QDQ" else {"MatMulInteger", "Mul"})
    assert len(session._plans.cache) == known + 1
    check(session, form, rows(0))
    assert "Gather" in nodes_of(session, "dmlcpu")


def test_nothing_runs_twice() -> None:
    """What the parts before the unknown shapes make is handed on, codes as codes."""
    session = dmlcpu.InferenceSession(finder("QDQ"))
    check(session, "QDQ", rows(5))
    first, found, last = session.partitions()
    assert [part.provider for part in (first, found, last)] == ["dmlcpu"] * 3
    assert [name.partition("_")[0] for name in found.nodes] == ["NonZero"]
    assert sum(name.startswith("Quantize") for part in (first, last) for name in part.nodes) == 3


def test_shapes_that_come_again() -> None:
    session = dmlcpu.InferenceSession(finder("QDQ"))
    for count in (3, 4, 5, 6, 7) * 4:
        check(session, "QDQ", rows(count))
    assert len(session._plans.cache) == 1 + 5


def test_free_lengths_before_unknown_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole and what follows both have templates."""
    monkeypatch.setattr(planned_model, "_GAIN_OF_A_BYTE", 1.0)
    session = dmlcpu.InferenceSession(finder("dynamic", "length"))
    for count, length in ((3, 12), (4, 14), (4, 9), (5, 9), (3, 9)):
        check(session, "dynamic", rows(count, length))
    forbid_planning_anew(monkeypatch)
    for count, length in ((3, 20), (5, 50), (1, 9), (9, 50)):
        check(session, "dynamic", rows(count, length))


def scattered() -> bytes:
    """The rows of codes that a mask has, a layer of these, and its rows in their places among zeros as long as all.

    Of the rows that then begin above 0 those places once more.
    """
    builder = Builder()
    x, mask = builder.input("float32", ("n", 8)), builder.input("bool", ("m",), "mask")
    given = coded(builder, x)
    places = builder.node("Squeeze", [builder.node("NonZero", [mask]), np.int64([0])])
    taken = builder.node("Gather", [builder.node("Mul", [given, np.float32(2)]), places])
    weights = builder.dequantized(np.random.default_rng(SEED).integers(-128, 128, (8, 8), np.int8), 0.01, np.int8(0))
    layer = coded(builder, builder.node("MatMul", [coded(builder, taken), weights]))
    zeros = builder.node("Expand", [np.float32([0]), builder.node("Shape", [given])])
    columns = builder.node("Unsqueeze", [places, np.int64([1])])
    result = builder.node("ScatterND", [zeros, columns, layer], reduction="add")
    count = builder.node("Gather", [builder.node("Shape", [x]), np.int64([0])])
    builder.output(builder.node("Reshape", [coded(builder, result), np.int64([-1])]), "float32")
    largest = builder.node("Reshape", [builder.node("ReduceMax", [layer], axes=[0, 1]), np.int64([1])])
    tiled = builder.node("Tile", [largest, count])
    builder.output(coded(builder, tiled), "float32")
    first = builder.node("Gather", [result, np.int64(0)], axis=1)
    found = builder.node(
        "Squeeze", [builder.node("NonZero", [builder.node("Greater", [first, np.float32(0)])]), np.int64([0])]
    )
    again = [zeros, builder.node("Unsqueeze", [found, np.int64([1])]), builder.node("Gather", [result, found])]
    builder.output(coded(builder, builder.node("ScatterND", again)), "float32")
    return builder.build()


def check_scattered(session: dmlcpu.InferenceSession, length: int, count: int, mask_length: int = 9) -> None:
    x = rows(count, length)
    feeds = {"x": x, "mask": np.arange(mask_length) < count}
    for ours, expected in zip(session.run(None, feeds), results_of_onnxruntime(scattered(), feeds), strict=True):
        assert ours.shape == expected.shape
        np.testing.assert_allclose(ours, expected, 0, 0.051)  # a code


def test_constants_of_free_lengths_after_unknown_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows has a template though it reads arrays that follow from lengths of the inputs."""
    monkeypatch.setattr(planned_model, "_GAIN_OF_A_BYTE", 1.0)
    session = dmlcpu.InferenceSession(scattered())
    for length, count in ((12, 3), (14, 4), (15, 5), (16, 4), (12, 5)):  # what follows a template is another rest
        check_scattered(session, length, count)
    forbid_planning_anew(monkeypatch)
    for length, count in ((12, 4), (20, 5), (50, 2), (9, 9)):
        check_scattered(session, length, count)
    known = len(session._plans.cache)
    check_scattered(session, 9, 9, mask_length=31)
    assert len(session._plans.cache) == known + 1  # what follows knows nothing of the mask


def test_constants_of_free_lengths_on_onnxruntime(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it goes on, it does for each of the lengths that such arrays follow from."""
    monkeypatch.setattr(planned_model, "_GAIN_OF_A_NODE", 0.0)
    session = dmlcpu.InferenceSession(scattered())
    for length in range(12, 24):
        check_scattered(session, length, 3 + length % 2)
    assert nodes_of(session, "dmlcpu").isdisjoint({"MatMul"})
    for length, count in ((12, 4), (30, 5), (30, 2), (9, 9)):
        check_scattered(session, length, count)
    assert nodes_of(session, "dmlcpu").isdisjoint({"MatMul"})


@pytest.mark.parametrize(
    ("operator", "options"),
    [
        ("LpPool", {"kernel_shape": [2, 2], "strides": [2, 3], "pads": [0, 0, 1, 1], "ceil_mode": 1}),
        ("LpPool", {"kernel_shape": [2, 2], "strides": [2, 3], "dilations": [2, 2], "auto_pad": "SAME_UPPER"}),
        ("AveragePool", {"kernel_shape": [2, 2], "strides": [2, 3], "auto_pad": "VALID", "ceil_mode": 1}),
        ("ConvTranspose", {"strides": [1, 2], "output_shape": [3, 9]}),
    ],
)
def test_shapes_that_are_inferred_otherwise(
    random_numbers: np.random.Generator, operator: str, options: dict[str, Any]
) -> None:
    """Onnx's inference tells other shapes of these than onnxruntime makes."""
    builder = Builder(18)
    x = coded(builder, builder.input("float32", (1, 3, 5, 5)))
    filters = [np.ones((3, 4, 1, 1), np.float32)] if operator == "ConvTranspose" else []
    builder.output(coded(builder, builder.node(operator, [x, *filters], **options)), "float32")
    model, feeds = builder.build(), {"x": random_numbers.random((1, 3, 5, 5), np.float32)}
    [ours], [expected] = dmlcpu.InferenceSession(model).run(None, feeds), results_of_onnxruntime(model, feeds)
    assert ours.shape == expected.shape
    assert np.abs(ours - expected).max() <= 0.051  # a code


Node = Callable[[Builder, str], str]

OTHERWISE: Final[Mapping[str, tuple[Sequence[int], Node]]] = {
    "AveragePool": (
        (1, 3, 6),
        lambda builder, x: builder.node("AveragePool", [x], kernel_shape=[2], strides=[3], ceil_mode=1),
    ),
    "MaxPool": (
        (1, 3, 6),
        lambda builder, x: builder.node("MaxPool", [x], kernel_shape=[2], strides=[3], ceil_mode=1),
    ),
    "Einsum": (
        (1, 2, 2),
        lambda builder, x: builder.node("Einsum", [x, np.ones((7, 3, 2), np.float32)], equation="bij,bkj->bik"),
    ),
    "Slice": (
        (4, 3),
        lambda builder, x: builder.node("Slice", [x, *(np.int64([n]) for n in (-1, 2**63 - 1, 0, -1))]),
    ),
}


@pytest.mark.parametrize("is_free", [False, True])
@pytest.mark.parametrize("name", OTHERWISE)
def test_shapes_that_a_run_makes_otherwise(name: str, is_free: bool) -> None:
    """What follows is planned anew, once a run shows it; a second such value is met in the plan of the rest."""
    shape, otherwise = OTHERWISE[name]
    builder = Builder()
    x = builder.input("float32", [f"axis {axis}" for axis in range(len(shape))] if is_free else shape)
    result = coded(builder, otherwise(builder, builder.node("Atanh", [x])))
    builder.output(coded(builder, builder.node("Relu", [result])), "float32")
    if name != "Einsum":
        again = otherwise(builder, builder.node("Atanh", [coded(builder, builder.node("Atanh", [x]))]))
        builder.output(coded(builder, again), "float32")
    model = builder.build()
    session = dmlcpu.InferenceSession(model)
    lengths = [shape, *((*shape[:-1], shape[-1] + n) for n in (3, 6, 0) if is_free and name != "Einsum")]
    for each in lengths:
        feeds = {"x": np.random.default_rng(SEED).random(each, np.float32) / 2}
        for ours, expected in zip(session.run(None, feeds), results_of_onnxruntime(model, feeds), strict=True):
            assert ours.shape == expected.shape
            assert np.abs(ours - expected).max() <= 0.051  # a code


def test_shapes_that_outputs_are_declared_with() -> None:
    """As of a batch of 1, where the batch is free."""
    builder = Builder()
    value = builder.node("Atanh", [builder.input("float32", ("batch", 4))])
    builder.output(value, "float32", (1, 4))
    builder.output(builder.quantized(value, 0.1, np.uint8(3)), "uint8", (1, 4))
    model = builder.build()
    session = dmlcpu.InferenceSession(model)
    for batch in (1, 3, 5):
        feeds = {"x": np.random.default_rng(SEED).random((batch, 4), np.float32) / 2}
        for ours, expected in zip(session.run(None, feeds), results_of_onnxruntime(model, feeds), strict=True):
            np.testing.assert_array_equal(ours, expected)
        assert len(session.partitions()) == 2  # as inference tells


def test_shapes_that_a_run_makes_otherwise_without_the_file(tmp_path: Path) -> None:
    """Nothing is read again, whatever has become of it; several threads find out at once."""
    shape, otherwise = OTHERWISE["Slice"]
    builder = Builder()
    value = otherwise(builder, builder.node("Atanh", [builder.input("float32", shape)]))
    builder.output(coded(builder, value), "float32")
    model, path = builder.build(), tmp_path / "model.onnx"
    path.write_bytes(model)
    session = dmlcpu.InferenceSession(path)
    path.unlink()
    feeds = {"x": np.random.default_rng(SEED).random(shape, np.float32) / 2}
    [expected] = results_of_onnxruntime(model, feeds)
    with ThreadPoolExecutor(8) as pool:
        for [ours] in pool.map(lambda _: session.run(None, feeds), range(24)):
            assert ours.shape == expected.shape
            assert np.abs(ours - expected).max() <= 0.051  # a code


def test_a_profile_of_shapes_that_a_run_makes_otherwise(tmp_path: Path) -> None:
    """Of the plan that is right alone."""
    shape, otherwise = OTHERWISE["Slice"]
    builder = Builder()
    value = builder.node("Atanh", [builder.input("float32", shape)])
    builder.output(builder.quantized(otherwise(builder, value), 0.1, np.uint8(3)), "uint8")
    session = dmlcpu.InferenceSession(builder.build())
    trace = json.loads(Path(session.profile(tmp_path / "trace.json", {"x": np.zeros(shape, np.float32)})).read_text())
    assert sum(event["cat"] == "Part" for event in trace["traceEvents"]) == len(session.partitions())


def test_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has no elements is known, whatever computes it: no node is refused and the model planned anew without it."""
    builder = Builder()
    x = coded(builder, builder.input("float32", (40, 8)))
    first = builder.node("Gather", [x, np.int64(0)], axis=1)
    found = builder.node("NonZero", [builder.node("Greater", [first, np.float32(0)])])
    taken = coded(builder, builder.node("Gather", [x, builder.node("Squeeze", [found, np.int64([0])])]))
    low, high = (builder.node("Slice", [taken, np.int64([n]), np.int64([n + 3]), np.int64([1])]) for n in (0, 3))
    sides = builder.node("Sub", [high, low])
    for value in (taken, sides):  # onnxruntime reads both
        widest, _ = builder.node("TopK", [value, np.int64([2])], 2, axis=1)
        builder.output(coded(builder, widest), "float32")
    builder.output(builder.node("ReduceSum", [sides, np.int64([0])]), "float32")
    model = builder.build()
    made = []

    class Planner(planner._Planner):
        def __init__(self, *arguments: Any) -> None:
            made.append(self)
            super().__init__(*arguments)

    monkeypatch.setattr(planner, "_Planner", Planner)
    session = dmlcpu.InferenceSession(model)
    for count in (4, 0):
        made.clear()
        feeds = {"x": rows(count)}
        for ours, expected in zip(session.run(None, feeds), results_of_onnxruntime(model, feeds), strict=True):
            assert ours.shape == expected.shape
            np.testing.assert_allclose(ours, expected, 0, 1e-5)
        assert len(made) <= 3  # one for each shape that a run tells


def found_rows(builder: Builder) -> str:
    """Of x {n, 8}, those whose first element is above 0, coded."""
    x = coded(builder, builder.input("float32", ("n", 8)))
    first = builder.node("Gather", [x, np.int64(0)], axis=1)
    found = builder.node("NonZero", [builder.node("Greater", [first, np.float32(0)])])
    return coded(builder, builder.node("Gather", [x, builder.node("Squeeze", [found, np.int64([0])])]))


def test_axes_that_onnxruntime_refuses() -> None:
    """A factor's codes have one axis, its scales the second, as the default is: no plan of onnxruntime's has it."""
    builder = Builder()
    taken, scales = found_rows(builder), np.linspace(0.01, 0.02, 8, dtype=np.float32)
    factor = builder.node("DequantizeLinear", [np.arange(1, 9, dtype=np.int8), scales])
    builder.output(coded(builder, builder.node("Mul", [taken, factor])), "float32")
    session = dmlcpu.InferenceSession(builder.build())
    for count in (*range(2, 14), 2):
        [result] = session.run(None, {"x": rows(count)})
        assert result.shape == (count, 8)


def test_constants_that_follow_are_computed_quietly() -> None:
    """Also those of a plan of onnxruntime's: a logarithm of 0 is no warning to the caller."""
    builder = Builder()
    result = builder.node("Mul", [found_rows(builder), np.float32(2)])
    length = builder.node("Cast", [builder.node("Shape", ["x"], start=0, end=1)], to=1)
    logarithm = builder.node("Log", [builder.node("Sub", [length, np.float32([40])])])
    builder.output(builder.node("Add", [coded(builder, result), logarithm]), "float32")
    session = dmlcpu.InferenceSession(builder.build())
    with np.errstate(all="raise"):
        for count, length_of_x in [*((count, 41) for count in range(2, 14)), (2, 40), (3, 40)]:
            [sums] = session.run(None, {"x": rows(count, length_of_x)})
            assert sums.shape == (count, 8)
            assert np.isneginf(sums).all() == (length_of_x == 40)
