"""The plans that a session keeps."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Final

from dmlcpu.onnx.planning.execution import ExecutablePlan
from dmlcpu.onnx.planning.plans import PlanKey

__all__ = ["PlanCache"]

# The plans used last are kept: so many at least, however large they are, and so many at most, as long as all of them
# take no more than these bytes. A decoder has a plan for each number of tokens.
_MIN_PLANS: Final = 16
_MAX_PLANS: Final = 512
_MAX_BYTES: Final = 1 << 27


class PlanCache(Mapping[PlanKey, ExecutablePlan]):
    """Plans by what they are for.

    Runs of several threads look plans up and use them at any time; who adds plans holds a lock. So a use is no more
    than a number of the plan's own, and the plan used longest ago is looked for when one is added.
    """

    def __init__(self) -> None:
        self._plans: dict[PlanKey, ExecutablePlan] = {}
        self._uses = itertools.count(1)
        self._size = 0

    def __getitem__(self, key: PlanKey) -> ExecutablePlan:
        return self._plans[key]

    def __iter__(self) -> Iterator[PlanKey]:
        return iter(self._plans)

    def __len__(self) -> int:
        return len(self._plans)

    def find(self, key: PlanKey) -> ExecutablePlan | None:
        """Return the plan of a key; None if there is none."""
        return self._plans.get(key)

    def used(self, plan: ExecutablePlan) -> ExecutablePlan:
        """Return a plan that is about to run; until others have, it is kept."""
        plan.last_use = next(self._uses)
        return plan

    def keep(self, key: PlanKey, plan: ExecutablePlan) -> None:
        """Add a plan, in place of one with the same key; those whose last use is longest ago make room for it."""
        self.forget(key)
        self._size += plan.size
        while len(self) >= _MIN_PLANS and (len(self) >= _MAX_PLANS or self._size > _MAX_BYTES):
            oldest, _ = min(
                self._plans.items(), key=lambda kept: kept[1].last_use
            )  # keys are long, and slow to look up
            self._remove(oldest)
        self._plans[key] = plan

    def forget(self, key: PlanKey) -> None:
        """Leave a plan out, if it is there."""
        if key in self._plans:
            self._remove(key)

    def _remove(self, key: PlanKey) -> None:
        self._size -= self._plans.pop(key).size
