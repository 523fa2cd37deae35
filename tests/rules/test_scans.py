"""Scan: loops along axes of their inputs, beside onnxruntime."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

import dmlcpu
from dmlcpu.onnx.planning import planned_model
from dmlcpu.onnx.planning.planner import make_plan
from onnx_models import Builder, assert_like_onnxruntime, floats, results_of_onnxruntime

Array = NDArray[Any]


def scan(opset: int = 17, **attributes: Any) -> Builder:
    """A Scan of one state along two inputs, with two results."""
    inner = Builder(prefix="b")
    for name, shape in (("s", (2, 3)), ("p", (2, 3)), ("q", (3,))):
        inner.input("float32", shape, name)
    state = inner.node("Add", [inner.node("Mul", ["s", "p"]), "q"])
    for name, shape in ((state, (2, 3)), (inner.node("Neg", [state]), (2, 3)), (inner.node("Abs", ["q"]), (3,))):
        inner.output(name, "float32", shape)
    builder = Builder(opset)
    axes = attributes.get("scan_input_axes", [0, 0])
    shapes = [[2, 3], [3]]
    for shape, axis in zip(shapes, axes, strict=True):
        shape.insert(axis, 5)
    given = [builder.input("float32", shape, name) for shape, name in zip(([2, 3], *shapes), "xyz", strict=True)]
    outputs = builder.node("Scan", given, 3, body=inner.graph(), num_scan_inputs=2, **attributes)
    for name in outputs:
        builder.output(name, "float32")
    return builder


def feeds_of(builder: Builder, rng: np.random.Generator) -> dict[str, Array]:
    return {
        value.name: floats(rng, [entry.dim_value for entry in value.type.tensor_type.shape.dim])
        for value in builder.inputs
    }


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"scan_input_axes": [1, 0]},
        {"scan_input_axes": [2, 1], "scan_input_directions": [1, 0]},
        {"scan_input_directions": [0, 1], "scan_output_directions": [1, 0]},
        {"scan_output_axes": [2, 1], "scan_output_directions": [0, 1]},
        {"scan_output_axes": [-1, -2]},
    ],
    ids=str,
)
@pytest.mark.parametrize("opset", [11, 17])
def test_scans(random_numbers: np.random.Generator, attributes: dict[str, Any], opset: int) -> None:
    builder = scan(opset, **attributes)
    assert_like_onnxruntime(builder.build(), feeds_of(builder, random_numbers))


def test_scans_of_a_free_length(random_numbers: np.random.Generator) -> None:
    """Each length is a plan of its own."""
    builder = scan()
    for value in builder.inputs[1:]:
        value.type.tensor_type.shape.dim[0].dim_param = "steps"
    for steps in (1, 4, 2, 4):
        feeds = {"x": (2, 3), "y": (steps, 2, 3), "z": (steps, 3)}
        arrays = {name: floats(random_numbers, shape) for name, shape in feeds.items()}
        assert_like_onnxruntime(builder.build(), arrays)
    unfit = {"x": np.zeros((2, 3), "f"), "y": np.zeros((4, 2, 3), "f"), "z": np.zeros((3, 3), "f")}
    session = dmlcpu.InferenceSession(builder.build())
    with pytest.raises(dmlcpu.DmlError):
        session.run(None, unfit)


def anew(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths that models are planned anew for, from now on: no template gives their plans."""
    lengths: list[int] = []

    def planned(model: Any, arrays: Any, *others: Any) -> Any:
        lengths.append(arrays["y"][1][0])
        return make_plan(model, arrays, *others)

    monkeypatch.setattr(planned_model, "make_plan", planned)
    return lengths


def of_free_length() -> Builder:
    builder = scan()
    for value in builder.inputs[1:]:
        value.type.tensor_type.shape.dim[0].dim_param = "T"
    return builder


def assert_runs(session: dmlcpu.InferenceSession, model: bytes, rng: np.random.Generator, length: int) -> None:
    feeds = {"x": floats(rng, (2, 3)), "y": floats(rng, (length, 2, 3)), "z": floats(rng, (length, 3))}
    for ours, expected in zip(session.run(None, feeds), results_of_onnxruntime(model, feeds), strict=True):
        assert ours.shape == expected.shape
        np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-6)


def test_scans_of_too_many_steps_have_one_template(
    random_numbers: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are left as they are, whatever their lengths; shorter ones, which are unrolled, have others."""
    model, lengths = of_free_length().build(), anew(monkeypatch)
    session = dmlcpu.InferenceSession(model)
    for length in (900, 901, 500, 2000, 3, 700):
        assert_runs(session, model, random_numbers, length)
    assert lengths == [900]
    assert {part.provider for part in session.partitions()} == {"onnxruntime"}


def test_scans_of_one_count_too_many_have_one_template(
    random_numbers: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first two are unrolled; of the third one on the loop stays as it is."""
    model, lengths = of_free_length().build(), anew(monkeypatch)
    session = dmlcpu.InferenceSession(model)
    for length in (5, 2, *range(7, 20)):
        assert_runs(session, model, random_numbers, length)
    assert lengths == [5]
    for length, provider in ((5, "dmlcpu"), (2, "dmlcpu"), (9, "onnxruntime")):
        shapes = {"y": (length, 2, 3), "z": (length, 3)}
        assert {part.provider for part in session.partitions(shapes)} == {provider}
    assert len(session._plans.variants.whole.templates._templates) == 2


def test_scans_are_unrolled_for_more_counts_without_onnxruntime(
    random_numbers: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else runs them."""
    model = of_free_length().build()
    shapes = [{"x": (2, 3), "y": (length, 2, 3), "z": (length, 3)} for length in (4, 7, 5, 3, 1, 9)]
    feeds = [{name: floats(random_numbers, shape) for name, shape in of_run.items()} for of_run in shapes]
    expected = [results_of_onnxruntime(model, of_run) for of_run in feeds]
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    session = dmlcpu.InferenceSession(model)
    for of_run, results in zip(feeds, expected, strict=True):
        for ours, result in zip(session.run(None, of_run), results, strict=True):
            np.testing.assert_allclose(ours, result, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("scan_input_axes", [-10]),
        ("num_scan_inputs", "a"),
        ("scan_input_axes", 1),
        ("scan_input_directions", 1),
        ("scan_output_axes", 0),
    ],
)
def test_scans_that_are_malformed(random_numbers: np.random.Generator, name: str, value: Any) -> None:
    model = onnx.load_model_from_string(scan().build())
    [node] = (node for node in model.graph.node if node.op_type == "Scan")
    kept = [attribute for attribute in node.attribute if attribute.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, onnx.helper.make_attribute(name, value)])
    feeds = feeds_of(scan(), random_numbers)
    with pytest.raises(dmlcpu.DmlError):
        dmlcpu.InferenceSession(model.SerializeToString()).run(None, feeds)
