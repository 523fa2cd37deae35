"""What fails in a run of nodes that another runtime took when it was opened: whose fault it is, and how it is told."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import dmlcpu
from onnx_models import Builder


def test_what_fails_in_a_run_names_the_nodes() -> None:
    builder = Builder()
    count = builder.input("int64", (1,))
    builder.output(builder.node("TopK", [builder.constant(np.float32([1, 2])), count], 2)[0], "float32")
    session = dmlcpu.InferenceSession(builder.build())
    with pytest.raises(dmlcpu.BindingError, match=r"TopK \(TopK_0\)"):
        session.run(None, {"x": np.int64([7])})


def test_memory_that_another_runtime_lacks_is_told_as_ours() -> None:
    builder = Builder()
    count = builder.input("int64", (1,))
    builder.output(builder.node("Expand", [np.float32([1]), count]), "float32")
    session = dmlcpu.InferenceSession(builder.build())
    with pytest.raises(MemoryError, match=r"Expand \(Expand_0\)"):
        session.run(None, {"x": np.int64([1 << 45])})
    assert session.run(None, {"x": np.int64([2])})[0].tolist() == [1, 1]


def test_what_fails_whatever_is_fed_is_the_fault_of_the_model() -> None:
    builder = Builder()
    x = builder.input("float32", (6,))
    length = builder.node("Cast", [builder.node("Exp", [np.float32([2])])], to=onnx.TensorProto.INT64)  # 7
    builder.output(builder.node("Reshape", [builder.node("Tan", [x]), length]), "float32")
    with pytest.raises(dmlcpu.InvalidModelError, match="Reshape"):
        dmlcpu.InferenceSession(builder.build()).run(None, {"x": np.zeros(6, np.float32)})
