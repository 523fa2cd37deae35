"""Models with an If, whose branches write floats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import onnx
from numpy.typing import NDArray

import dmlcpu
from onnx_models import Builder, coded, results_of_onnxruntime

__all__ = ["SHAPE", "assert_both_ways", "branch", "choosing", "conditional", "scaled", "uniform_floats"]

Array = NDArray[Any]

SHAPE: Final = (2, 3, 4)


def branch(prefix: str, *results: Callable[[Builder], str]) -> onnx.GraphProto:
    """A branch whose outputs functions add to it."""
    builder = Builder(prefix=prefix)
    for result in results:
        builder.output(result(builder), "float32")
    return builder.graph()


def scaled(x: str, factor: float) -> Callable[[Builder], str]:
    """Codes between operators on them, so that what is on both sides of the branch's ends can be one operator."""
    return lambda builder: coded(builder, builder.node("Mul", [coded(builder, x), np.float32(factor)]))


def conditional(builder: Builder, condition: str, then: onnx.GraphProto, other: onnx.GraphProto) -> Any:
    count = len(then.output)
    return builder.node("If", [condition], count, then_branch=then, else_branch=other)


def uniform_floats(random_numbers: np.random.Generator, shape: Sequence[int] = SHAPE) -> Array:
    return random_numbers.uniform(-5, 5, shape).astype(np.float32)


def choosing(then: onnx.GraphProto, count: int = 1, shape: Sequence[int] = SHAPE) -> Builder:
    """A model of one If, whose other branch has the absolute value for all outputs; only the first one is wanted."""
    builder = Builder()
    builder.input("float32", shape)
    use = builder.input("bool", (), "use")
    other = branch("other", *[lambda inner: str(inner.node("Abs", ["x"]))] * count)
    results = builder.node("If", [use], count, then_branch=then, else_branch=other)
    builder.output(results if count == 1 else results[0], "float32")
    return builder


def assert_both_ways(model: bytes, x: Array) -> dmlcpu.InferenceSession:
    session = dmlcpu.InferenceSession(model)
    for value in (True, False):
        feeds = {"x": x, "use": np.array(value)}
        for ours, expected in zip(session.run(None, feeds), results_of_onnxruntime(model, feeds), strict=True):
            np.testing.assert_array_equal(ours, expected)
    return session
