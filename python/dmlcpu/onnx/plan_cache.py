"""The plans that a session keeps."""

from __future__ import annotations

import itertools
from typing import Any, Final, TypeAlias

from dmlcpu.onnx.execution import ExecutablePlan

__all__ = ["PlanCache", "PlanKey"]

# So many of the plans used last are kept: more than the least as long as what they compute in is not too much in all.
# Weights they share; constants that follow from a shape, such as rows of positions, are each plan's own.
_LEAST: Final = 16
_MOST: Final = 64
_MOST_BYTES: Final = 1 << 27

PlanKey: TypeAlias = tuple[Any, ...]
"""The names of inputs with their types and shapes."""


class PlanCache(dict[PlanKey, ExecutablePlan]):
    """Plans by the shapes that they are for."""

    def __init__(self) -> None:
        super().__init__()
        self._uses = itertools.count()

    def used(self, plan: ExecutablePlan) -> ExecutablePlan:
        """Return a plan that is about to run; until others have, it is kept."""
        plan.last_use = next(self._uses)
        return plan

    def keep(self, key: PlanKey, plan: ExecutablePlan) -> None:
        """Add a plan; those whose last use is longest ago make room for it."""
        size = plan.size + sum(kept.size for kept in self.values())
        while len(self) >= _LEAST and (len(self) >= _MOST or size > _MOST_BYTES):
            size -= self.pop(min(self, key=lambda key: self[key].last_use)).size
        self[key] = plan
