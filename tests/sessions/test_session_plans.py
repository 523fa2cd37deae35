"""What threads that ask a session for the same thing at once wait for: it is made once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock, Semaphore
from typing import Any

import numpy as np
import pytest

import dmlcpu
import dmlcpu.onnx.session
from branch_models import SHAPE, branch, choosing, scaled
from dmlcpu.onnx.planning.planned_model import PlannedModel
from dmlcpu.onnx.planning.variants import Variants
from doubling_model import X, doubled, expected


class TellingLock:
    """A lock that tells of each who asks for it."""

    def __init__(self, arrived: Semaphore) -> None:
        self._lock, self._arrived = Lock(), arrived

    def __enter__(self) -> None:
        self._arrived.release()
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


def results_of_two_threads(
    monkeypatch: pytest.MonkeyPatch, call: Callable[[], Any], locked: object, maker: object, name: str
) -> list[Any]:
    """What a call returns to two threads, of which the second one asks while the first one makes what both want."""
    arrived, both_are_there = Semaphore(0), Event()
    make: Callable[..., Any] = getattr(maker, name)
    makers = []

    def made(*arguments: Any) -> Any:
        makers.append(arguments)
        arrived.release()
        both_are_there.wait(20)
        return make(*arguments)

    monkeypatch.setattr(locked, "_lock", TellingLock(arrived))
    monkeypatch.setattr(maker, name, made)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(call)
        for _ in range(2):  # at the lock, and past it
            arrived.acquire(timeout=5)
        second = threads.submit(call)
        arrived.acquire(timeout=5)
        both_are_there.set()
        results = [first.result(timeout=20), second.result(timeout=20)]
    assert len(makers) == 1
    return results


def test_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = dmlcpu.InferenceSession(doubled(("N", 3)))._plans
    model, arrays = plans.model({}), {"x": (X.dtype, X.shape)}
    first, second = results_of_two_threads(
        monkeypatch, lambda: plans.find_or_make(model, arrays), plans, PlannedModel, "plan"
    )
    assert first is second is plans.cache[model.key_of(arrays)]


def test_a_variant_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = dmlcpu.InferenceSession(choosing(branch("then", scaled("x", 2))).build())._plans
    feeds = {"x": np.zeros(SHAPE, np.float32), "use": np.array(True)}
    first, second = results_of_two_threads(monkeypatch, lambda: plans.model(feeds), plans, Variants, "_made")
    assert first is second is plans.model(feeds)


def test_the_threads_of_runs_to_come(monkeypatch: pytest.MonkeyPatch) -> None:
    session = dmlcpu.InferenceSession(doubled())
    futures = results_of_two_threads(
        monkeypatch, lambda: session.run_async(None, {"x": X}), session, dmlcpu.onnx.session, "ThreadPoolExecutor"
    )
    for future in futures:
        np.testing.assert_array_equal(future.result(timeout=20)[0], expected(X))
