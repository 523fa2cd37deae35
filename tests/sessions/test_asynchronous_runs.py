"""Runs on another thread: futures, callbacks, feeds that are written to meanwhile."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from doubling_model import X, doubled, expected
from onnx_models import Builder

Array = NDArray[Any]


def test_feeds_of_a_run_to_come_may_be_written_to() -> None:
    session = dmlcpu.InferenceSession(doubled(("N", "M")))
    feed = np.zeros((1000, 1000), np.uint8)
    futures = []
    for value in range(8):
        feed[:] = value * 10
        futures.append(session.run_async(None, {"x": feed}))
    feed[:] = 255
    for value, future in enumerate(futures):
        [result] = future.result()
        np.testing.assert_array_equal(result, expected(np.full((1000, 1000), value * 10, np.uint8)))


def test_callbacks_are_called_as_onnxruntimes_are() -> None:
    builder = Builder()
    number = builder.input(np.int64, (1,), "number")
    builder.output(builder.node("Gather", [np.zeros((5, 2), np.uint8), number]), "uint8")
    session, data = dmlcpu.InferenceSession(builder.build()), object()
    calls: SimpleQueue[tuple[list[Array], object, str]] = SimpleQueue()
    future = session.run_async(None, {"number": np.int64([1])}, lambda *told: calls.put(told), data)
    results, user_data, error = calls.get(timeout=20)
    assert (results[0] is future.result()[0], user_data is data, error) == (True, True, "")
    future = session.run_async(None, {"number": np.int64([9])}, lambda *told: calls.put(told), data)
    assert calls.get(timeout=20) == ([], data, str(future.exception()))
    assert isinstance(future.exception(), dmlcpu.BindingError)
    with pytest.raises(TypeError, match="callback: got an object of type str, expected a function"):
        session.run_async(None, {"number": np.int64([1])}, "callback")  # type: ignore[arg-type]


def test_a_callback_is_told_of_a_run_that_was_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    class Executor(ThreadPoolExecutor):
        def submit(self, *arguments: Any, **named: Any) -> Future[Any]:
            return Future()  # it never begins

    monkeypatch.setattr("dmlcpu.onnx.session.ThreadPoolExecutor", Executor)
    calls: list[tuple[list[Array], object, str]] = []
    future = dmlcpu.InferenceSession(doubled()).run_async(None, {"x": X}, lambda *given: calls.append(given), 3)
    assert future.cancel()
    assert calls == [([], 3, "the run was cancelled")]


@pytest.mark.usefixtures("no_environment")
def test_as_many_runs_at_once_as_there_are_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the threads of one of them."""
    workers = []

    class Executor(ThreadPoolExecutor):
        def __init__(self, count: int, *names: str) -> None:
            workers.append(count)
            super().__init__(count, *names)

    monkeypatch.setattr("dmlcpu.onnx.session.ThreadPoolExecutor", Executor)
    session = dmlcpu.InferenceSession(doubled(), device=dmlcpu.Device(num_threads=1))
    for future in [session.run_async(None, {"x": X}) for _ in range(3)]:
        np.testing.assert_array_equal(future.result()[0], expected(X))
    assert workers == [dmlcpu.Device().num_threads]
