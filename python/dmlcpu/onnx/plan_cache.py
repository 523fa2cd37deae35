"""The plans that a session keeps."""

from __future__ import annotations

import itertools
from typing import Any, Final, TypeAlias

from dmlcpu.onnx.execution import ExecutablePlan

__all__ = ["PlanCache", "PlanKey"]

# So many of the plans used last are kept: more than the least as long as they do not take too much memory in all. A
# decoder's have another shape for each token.
_LEAST: Final = 16
_MOST: Final = 512
_MOST_BYTES: Final = 1 << 27

PlanKey: TypeAlias = tuple[Any, ...]
"""What inputs that decide on branches are, and the names of the others with their types and shapes."""


class PlanCache(dict[PlanKey, ExecutablePlan]):
    """Plans by what they are for."""

    def __init__(self) -> None:
        super().__init__()
        self._uses = itertools.count(1)
        self._size = 0

    def used(self, plan: ExecutablePlan) -> ExecutablePlan:
        """Return a plan that is about to run; until others have, it is kept."""
        plan.last_use = next(self._uses)
        return plan

    @property
    def latest(self) -> ExecutablePlan | None:
        """The plan that was used last; None before the first."""
        used = [plan for plan in [*self.values()] if plan.last_use > 0]
        return max(used, key=lambda plan: plan.last_use, default=None)

    def keep(self, key: PlanKey, plan: ExecutablePlan) -> None:
        """Add a plan; those whose last use is longest ago make room for it."""
        self._size += plan.size
        while len(self) >= _LEAST and (len(self) >= _MOST or self._size > _MOST_BYTES):
            self._size -= self.pop(min(self, key=lambda key: self[key].last_use)).size
        self[key] = plan
