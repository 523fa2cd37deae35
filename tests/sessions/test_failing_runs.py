"""What fails in a run of nodes that another runtime took when it was opened: whose fault it is, and how it is told."""

from __future__ import annotations

import pickle

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


def two_inputs_of_one_length(indices: str, count: str) -> dmlcpu.InferenceSession:
    """A look-up of rows, and the largest of numbers that are as many by the model alone."""
    builder = Builder()
    first = builder.input("int64", (indices,), "indices")
    builder.output(builder.node("Gather", [np.zeros((5, 4), np.float32), first]), "float32")
    x, largest = builder.input("float32", (count,), "x"), builder.input("int64", (1,), "largest")
    builder.output(builder.node("TopK", [builder.node("Tan", [x]), largest], 2)[0], "float32")
    return dmlcpu.InferenceSession(builder.build())


@pytest.mark.parametrize("length", [0, 3])
def test_indices_out_of_range_are_no_matter_of_lengths(length: int) -> None:
    session = two_inputs_of_one_length("N", "N")
    feeds = {"x": np.zeros(length, np.float32), "largest": np.int64([0])}
    assert session.run(None, feeds | {"indices": np.int64([4, 4])})[0].shape == (2, 4)
    with pytest.raises(dmlcpu.BindingError, match=r"^node Gather_0: got index 9, expected one from -5 to 4$"):
        session.run(None, feeds | {"indices": np.int64([4, 9])})


@pytest.mark.parametrize(("name", "message"), [("N", "^'N' is 2 in input 'indices' and 3 in input 'x': "), ("M", "^n")])
def test_what_another_runtime_refuses_is_told_with_lengths_that_differ(name: str, message: str) -> None:
    session = two_inputs_of_one_length("N", name)
    feeds = {"indices": np.int64([0, 0]), "x": np.zeros(3, np.float32), "largest": np.int64([7])}
    with pytest.raises(dmlcpu.BindingError, match=message + ".*TopK_") as caught:
        session.run(None, feeds)
    assert type(caught.value) is dmlcpu.BindingError
    assert type(pickle.loads(pickle.dumps(caught.value))) is dmlcpu.BindingError


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
