"""Models without quantized nodes: onnxruntime is given the file, undivided, where a node has no kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray

import dmlcpu
from onnx_models import Builder


def float_model(shape: tuple[int | str | None, ...] = (2, 3, 6, 5), opset: int = 17) -> Builder:
    """A transposition, which has a kernel, before a convolution, which has none on floats."""
    builder = Builder(opset)
    weights = np.random.default_rng(5).normal(size=(4, shape[3] if isinstance(shape[3], int) else 5, 3, 3))
    value = builder.node("Transpose", [builder.input("float32", shape)], perm=[0, 3, 1, 2])
    value = builder.node("Conv", [value, weights.astype(np.float32)], pads=[1, 1, 1, 1])
    builder.output(builder.node("Relu", [value]), "float32")
    return builder


def by_onnxruntime(model: bytes, x: NDArray[np.float32]) -> NDArray[Any]:
    """The output of the model, optimized as a session of onnxruntime optimizes it by default."""
    [output] = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    return np.asarray(output)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What onnxruntime is asked to open, in order."""
    sources: list[Any] = []
    session = onnxruntime.InferenceSession

    def open_session(source: Any, *args: Any, **options: Any) -> Any:
        sources.append(source)
        return session(source, *args, **options)

    monkeypatch.setattr(onnxruntime, "InferenceSession", open_session)
    return sources


@pytest.mark.parametrize("from_path", [False, True], ids=["bytes", "path"])
def test_the_file_is_given_undivided(
    random_numbers: np.random.Generator, tmp_path: Path, opened: list[Any], from_path: bool
) -> None:
    model = float_model().build()
    path = tmp_path / "float.onnx"
    path.write_bytes(model)
    session = dmlcpu.InferenceSession(path if from_path else model)
    assert opened == [str(path) if from_path else model]
    [part] = session.partitions()
    assert part.provider == "onnxruntime"
    assert len(part.nodes) == 3
    transposition, convolution, relu = part.nodes
    assert part.reasons[transposition] == part.reasons[relu] == "it goes with such nodes"
    assert part.reasons[convolution] == "an operand is not quantized per tensor to 8 bits"
    x = random_numbers.normal(size=(2, 3, 6, 5)).astype(np.float32)
    assert (session.run(None, {"x": x})[0] == by_onnxruntime(model, x)).all()


def test_one_session_serves_all_shapes(random_numbers: np.random.Generator, opened: list[Any]) -> None:
    model = float_model(("N", None, None, 5)).build()
    session = dmlcpu.InferenceSession(model)
    for shape in ((1, 3, 6, 5), (4, 2, 2, 5), (1, 3, 6, 5), (2, 7, 1, 5)):
        x = random_numbers.normal(size=shape).astype(np.float32)
        assert (session.run(None, {"x": x})[0] == by_onnxruntime(model, x)).all()
    assert len(opened) == 1 + 4


def test_a_file_that_onnxruntime_refuses(random_numbers: np.random.Generator, opened: list[Any]) -> None:
    """Two nodes of one name: what is made of the nodes has another for each."""
    builder = float_model()
    builder.nodes[0].name = builder.nodes[1].name = "twice"
    model = builder.build()
    x = random_numbers.normal(size=(2, 3, 6, 5)).astype(np.float32)
    with pytest.raises(Exception, match="twice"):
        by_onnxruntime(model, x)
    session = dmlcpu.InferenceSession(model)
    assert [part.provider for part in session.partitions()] == ["dmlcpu", "onnxruntime"]
    assert opened[0] == opened[1] == model
    assert len(opened) == 3
    [ours], theirs = session.run(None, {"x": x}), by_onnxruntime(float_model().build(), x)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)  # the nodes are others, and so may be the sums


def test_what_has_kernels_stays_native(random_numbers: np.random.Generator, opened: list[Any]) -> None:
    builder = Builder()
    builder.output(builder.node("Transpose", [builder.input("float32", (2, 3))], perm=[1, 0]), "float32", (3, 2))
    session = dmlcpu.InferenceSession(builder.build())
    assert [part.provider for part in session.partitions()] == ["dmlcpu"]
    assert opened == []
    x = random_numbers.normal(size=(2, 3)).astype(np.float32)
    assert (session.run(None, {"x": x})[0] == x.T).all()


def test_an_input_that_onnxruntime_takes_no_arrays_of(opened: list[Any]) -> None:
    """The model is divided: the node that takes FLOAT8 goes to onnx's evaluator."""
    builder = Builder(19)
    x = builder.input(ml_dtypes.float8_e4m3fn, (2, 3))
    builder.output(builder.node("Cast", [x], to=onnx.TensorProto.FLOAT), "float32", (2, 3))
    session = dmlcpu.InferenceSession(builder.build())
    assert [part.provider for part in session.partitions()] == ["onnx.reference"]
    assert opened == []
    feed = np.array([[0.3125, 1.0, -7.0], [448.0, 0.0, 104.0]], np.float32)
    assert (session.run(None, {"x": feed.astype(ml_dtypes.float8_e4m3fn)})[0] == feed).all()
