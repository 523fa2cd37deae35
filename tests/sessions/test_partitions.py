"""What a session tells of its plans: which it tells of, and which lengths it takes where none are given."""

from __future__ import annotations

import numpy as np

import dmlcpu
from onnx_models import Builder


def test_partitions_are_those_of_the_last_run() -> None:
    """A window of 3 rows needs as many; before a run, free lengths are 1."""
    builder = Builder()
    x = builder.dequantized(builder.input("uint8", (1, 1, "rows", 4)), 0.1, np.uint8(7))
    weights = builder.dequantized(np.ones((2, 1, 3, 1), np.int8), 0.1, np.int8(0))
    builder.output(builder.quantized(builder.node("Conv", [x, weights]), 0.1, np.uint8(7)), "uint8")
    session = dmlcpu.InferenceSession(builder.build())
    assert "onnxruntime" in [part.provider for part in session.partitions()]
    session.run(None, {"x": np.zeros((1, 1, 5, 4), np.uint8)})
    assert [part.provider for part in session.partitions()] == ["dmlcpu"]
    assert "onnxruntime" in [part.provider for part in session.partitions({"x": (1, 1, 1, 4)})]
    assert [part.provider for part in session.partitions()] == ["dmlcpu"]


def test_lengths_of_one_name_are_planned_alike() -> None:
    builder = Builder()
    shapes = {"x": ("rows", "terms"), "y": ("terms", "columns")}
    x, y = (builder.dequantized(builder.input("uint8", shapes[name], name), 0.5, np.uint8(0)) for name in shapes)
    builder.output(builder.quantized(builder.node("MatMul", [x, y]), 0.5, np.uint8(0)), "uint8")
    session = dmlcpu.InferenceSession(builder.build())
    for given, planned in (
        ({"x": (2, 64)}, {"x": (2, 64), "y": (64, 1)}),
        ({"y": (64, 5)}, {"x": (1, 64), "y": (64, 5)}),
    ):
        session.run(None, {name: np.ones(shape, np.uint8) for name, shape in planned.items()})
        assert session.partitions(given) == session.partitions(planned) == session.partitions()
