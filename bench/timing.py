"""How long a call takes, when other work shares the machine: the median of repeats, and calls compared in turn."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

REPEATS = 7
SECONDS_A_REPEAT = 0.03


def _calls_in(seconds: float, call: Callable[[], object]) -> int:
    """Return how many calls fill about this time, after a warm-up of at least one."""
    calls = 1
    while True:
        elapsed = _elapsed(call, calls)
        if elapsed >= seconds / 2:
            return max(1, round(calls * seconds / elapsed))
        calls = max(calls * 2, int(calls * seconds / max(elapsed, 1e-9) / 2))


def _elapsed(call: Callable[[], object], calls: int) -> float:
    begin = time.perf_counter()
    for _ in range(calls):
        call()
    return time.perf_counter() - begin


def alternating_medians(calls: Mapping[str, Callable[[], object]], repeats: int = REPEATS) -> dict[str, float]:
    """Return the median seconds of each call; the calls take turns, so that all see the same machine."""
    counts = {name: _calls_in(SECONDS_A_REPEAT, call) for name, call in calls.items()}
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            seconds[name].append(_elapsed(call, counts[name]) / counts[name])
    return {name: statistics.median(values) for name, values in seconds.items()}
