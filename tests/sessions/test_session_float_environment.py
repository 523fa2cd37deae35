"""What a session computes while it reads a model and plans it does not follow the caller's floating-point modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from conftest import SEED
from float_modes import each_mode, mode, needs_modes
from onnx_models import POINT, Builder, coded

pytestmark = needs_modes


def table_of_codes(builder: Builder, value: str) -> str:
    """A function of codes, which is looked up."""
    looked_up: str = builder.node("Exp", [coded(builder, value)])
    return looked_up


def constants(builder: Builder, value: str) -> str:
    """Nodes of constants, computed when the model is read; the last of subnormal numbers."""
    third = builder.node("Div", [np.float32([1, 2, 5]), np.float32(3)])
    tiny = builder.node("Mul", [np.float32([1e-20, 3e-20, 7e-20]), np.float32(1e-21)])
    large = builder.node("Mul", [builder.node("Mul", [tiny, np.float32(1e20)]), np.float32(1e20)])
    added: str = builder.node("Add", [builder.node("Mul", [value, third]), large])
    return added


def taps(builder: Builder, value: str) -> str:
    """Weights of places between pixels."""
    resized: str = builder.node("Resize", [value, "", np.float32([1, 1, 1, 0.34])], mode="linear", antialias=1)
    return resized


def scales_of_sums(builder: Builder, value: str) -> str:
    """A scale divided by the number of terms."""
    total = builder.node("ReduceSum", [coded(builder, value), np.int64([2, 3])])
    return coded(builder, total, 0.3)


@pytest.mark.parametrize("free", [False, True], ids=["fixed", "free"])
@pytest.mark.parametrize("add", [table_of_codes, constants, taps, scales_of_sums], ids=lambda add: add.__name__)
@each_mode
def test_plans_do_not_follow_the_caller(bits: int, add: Callable[[Builder, str], str], free: bool) -> None:
    builder = Builder(18)
    builder.output(add(builder, builder.input(np.float32, ["n" if free else 2, 4, 7, 3])), np.float32)
    model = builder.build()
    x = np.random.default_rng(SEED).normal(size=(2, 4, 7, 3)).astype(np.float32)
    expected = dmlcpu.InferenceSession(model).run(None, {"x": x})
    with mode(bits):
        session = dmlcpu.InferenceSession(model)
        within = session.run(None, {"x": x})
    assert_same(within, expected)
    assert_same(session.run(None, {"x": x}), expected)


@each_mode
def test_feeds_are_converted_as_usual(bits: int) -> None:
    builder = Builder()
    builder.output(builder.node("Neg", [builder.input(np.float32, [4])]), np.float32)
    session = dmlcpu.InferenceSession(builder.build())
    given = {"x": [0.1, -0.1, 1e-40, 1 / 3]}
    expected = session.run(None, given)
    with mode(bits):
        assert_same(session.run(None, given), expected)
        assert_same(session.run_async(None, given).result(), expected)


@each_mode
def test_refusals_find_the_modes_of_the_caller(bits: int) -> None:
    with mode(bits), pytest.raises(dmlcpu.InvalidModelError):
        dmlcpu.InferenceSession(b"no model")
    builder = Builder()
    builder.output(builder.quantized(builder.input(np.float32, [4]), 0.1, POINT), np.uint8)
    session = dmlcpu.InferenceSession(builder.build())
    with mode(bits), pytest.raises(dmlcpu.BindingError):
        session.run(None, {"x": np.zeros(5, np.float32)})


def assert_same(results: list[NDArray[Any]], expected: list[NDArray[Any]]) -> None:
    assert [result.tobytes() for result in results] == [other.tobytes() for other in expected]
