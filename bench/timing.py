"""How long a call takes, when other work shares the machine: the median of repeats, and calls compared in turn."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Mapping

__all__ = ["REPEATS", "Clock", "alternating_medians", "scaling"]

REPEATS = 7
_SECONDS_A_REPEAT = 0.03

# Idle threads of a runtime wait for more work with eyes open, some for a few milliseconds; the next one that is timed
# would have to share its processors with them.
_SECONDS_OF_REST = 0.02

Clock = Callable[[], float]
"""Tells seconds: ``time.perf_counter``, or ``time.process_time`` where others use the processor, too."""


def _calls_in(seconds: float, call: Callable[[], object], clock: Clock) -> int:
    """Return how many calls fill about this time, after a warm-up of at least one."""
    calls = 1
    while True:
        elapsed = _elapsed(call, calls, clock)
        if elapsed >= seconds / 2:
            return max(1, round(calls * seconds / elapsed))
        calls = max(calls * 2, int(calls * seconds / max(elapsed, 1e-9) / 2))


def _elapsed(call: Callable[[], object], calls: int, clock: Clock) -> float:
    begin = clock()
    for _ in range(calls):
        call()
    return clock() - begin


def alternating_medians(
    calls: Mapping[str, Callable[[], object]], repeats: int = REPEATS, clock: Clock = time.perf_counter
) -> dict[str, float]:
    """Return the median seconds of each call; the calls take turns, so that all see the same machine."""
    counts = {name: _calls_in(_SECONDS_A_REPEAT, call, clock) for name, call in calls.items()}
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            time.sleep(_SECONDS_OF_REST)
            call()
            seconds[name].append(_elapsed(call, counts[name], clock) / counts[name])
    return {name: statistics.median(values) for name, values in seconds.items()}


def scaling(call: Callable[[], object], callers: int, repeats: int = REPEATS) -> float:
    """Return how many times as many calls a second so many threads make at once as one does; they take turns."""
    calls = max(10, 5 * _calls_in(_SECONDS_A_REPEAT, call, time.perf_counter))
    alone, together = [], []
    for _ in range(repeats):
        alone.append(calls / _elapsed(call, calls, time.perf_counter))
        together.append(callers * calls / _elapsed_together(call, calls, callers))
    return statistics.median(together) / statistics.median(alone)


def _elapsed_together(call: Callable[[], object], calls: int, callers: int) -> float:
    """Return the seconds in which each of several threads makes that many calls."""
    barrier = threading.Barrier(callers + 1)

    def work() -> None:
        barrier.wait()
        for _ in range(calls):
            call()
        barrier.wait()

    threads = [threading.Thread(target=work) for _ in range(callers)]
    for thread in threads:
        thread.start()
    barrier.wait()
    begin = time.perf_counter()
    barrier.wait()
    elapsed = time.perf_counter() - begin
    for thread in threads:
        thread.join()
    return elapsed
