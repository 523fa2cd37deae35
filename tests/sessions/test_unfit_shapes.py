"""Operands of a node that do not fit together: who is told that it is whose fault, with onnxruntime and without it."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import dmlcpu
from onnx_models import Builder


@pytest.fixture(params=["with onnxruntime", "without"])
def runtime(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "without":
        monkeypatch.setitem(sys.modules, "onnxruntime", None)


def zeros(**shapes: tuple[int, ...]) -> dict[str, np.ndarray[Any, Any]]:
    return {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}


def between_two(operator: str, a: tuple[Any, ...], b: tuple[Any, ...], **attributes: Any) -> bytes:
    """A node of two inputs."""
    builder = Builder()
    inputs = [builder.input("float32", shape, name) for name, shape in (("a", a), ("b", b))]
    builder.output(builder.node(operator, inputs, **attributes), "float32")
    return builder.build()


@pytest.mark.parametrize(
    ("operator", "a", "b", "attributes", "told"),
    [
        ("Add", (3,), (4,), {}, "(3,) and (4,) do not fit together"),
        ("Max", (2, 3), (4, 1, 5), {}, "(2, 3) and (4, 1, 5) do not fit together"),
        ("MatMul", (2, 3), (4, 4), {}, "(2, 3) and (4, 4) do not fit together"),
        ("MatMul", (3,), (4, 4), {}, "(3,) and (4, 4) do not fit together"),
        ("MatMul", (2, 2, 3), (3, 3, 4), {}, "(2,) and (3,) do not fit together"),
        ("Gemm", (2, 3), (4, 4), {}, "(2, 3) and (4, 4) do not fit together"),
        ("Concat", (2, 3), (4, 4), {"axis": 0}, "(2, 3) and (4, 4) do not fit together along axis 0"),
        ("Conv", (1, 4, 5, 5), (4, 3, 3, 3), {}, "(1, 4, 5, 5) and (4, 3, 3, 3) do not fit together in 1 group"),
    ],
)
@pytest.mark.usefixtures("runtime")
def test_lengths_that_do_not_fit_are_the_fault_of_who_feeds_them(
    operator: str, a: tuple[int, ...], b: tuple[int, ...], attributes: dict[str, Any], told: str
) -> None:
    told = f"node {operator} ({operator}_0): shapes {told}"
    free = dmlcpu.InferenceSession(between_two(operator, (None,) * len(a), (None,) * len(b), **attributes))
    for _ in range(3):  # the same plan, or another one
        with pytest.raises(dmlcpu.BindingError) as caught:
            free.run(None, zeros(a=a, b=b))
        assert str(caught.value) == f"{told}; fed: a {a}, b {b}"
    with pytest.raises(dmlcpu.InvalidModelError) as raised:
        dmlcpu.InferenceSession(between_two(operator, a, b, **attributes)).run(None, zeros(a=a, b=b))
    assert type(raised.value) is dmlcpu.InvalidModelError
    assert str(raised.value) == told


@pytest.mark.usefixtures("runtime")
def test_lengths_that_do_not_fit_a_constant() -> None:
    builder = Builder()
    x, y = builder.input("float32", ("count",)), builder.input("float32", (2,), "fixed")
    builder.output(builder.node("Reshape", [x, builder.constant(np.int64([2, 2]))]), "float32")
    builder.output(builder.node("Relu", [y]), "float32")
    session = dmlcpu.InferenceSession(builder.build())
    for length in range(3, 9):  # planned anew, and by a template
        if length == 4:
            assert session.run(None, zeros(x=(length,), fixed=(2,)))[0].shape == (2, 2)
            continue
        told = rf"^node Reshape \(Reshape_0\): shapes \({length},\) and \(2, 2\) do not fit .*; fed: x \({length},\)$"
        with pytest.raises(dmlcpu.BindingError, match=told):
            session.run(None, zeros(x=(length,), fixed=(2,)))


def test_lengths_that_no_plan_is_made_for() -> None:
    builder = Builder()
    x = builder.input("float32", ("count",))
    builder.output(builder.node("Reshape", [x, builder.constant(np.int64([2, 2]))]), "float32")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "onnxruntime", None)
        session = dmlcpu.InferenceSession(builder.build())
        told = r"^node Reshape \(Reshape_0\): shapes \(1,\) and \(2, 2\) do not fit together; planned for: x \(1,\)$"
        with pytest.raises(dmlcpu.BindingError, match=told):
            session.partitions()


def test_what_only_another_runtime_knows_not_to_fit() -> None:
    """Only a rule tells shapes in its words: of nodes that follow others without a kernel onnxruntime does."""
    free, fixed = (dmlcpu.InferenceSession(_after_tan(length)) for length in (None, 3))
    with pytest.raises(
        dmlcpu.BindingError, match=r"^nodes Tan \(Tan_0\); and 1 more: .*; fed: a \(3, 3\), b \(2, 3\)$"
    ):
        free.run(None, zeros(a=(3, 3), b=(2, 3)))
    assert free.run(None, zeros(a=(3, 3), b=(3, 3)))[0].shape == (3, 3)
    assert fixed.run(None, zeros(a=(3, 3), b=(3, 3)))[0].shape == (3, 3)


def _after_tan(length: int | None) -> bytes:
    builder = Builder()
    a, b = (builder.input("float32", (length, 3), name) for name in "ab")
    builder.output(builder.node("Add", [builder.node("Tan", [a]), builder.node("Relu", [b])]), "float32")
    return builder.build()
