"""How often the values of a model are read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from dmlcpu.onnx.models.nodes import Node

__all__ = ["UseCounts"]

# Operators that read floats, whatever is made of their results.
_CALCULATING: Final = ("Add", "Sub", "Mul", "Div")


class UseCounts:
    """How many nodes read each value, and how many of these dequantize it; the caller, who has outputs, is one more."""

    def __init__(self, outputs: Iterable[str]) -> None:
        # Not Counters, whose methods for many names take several times as long for the few of a node.
        self._all: dict[str, int] = defaultdict(int)
        for name in outputs:
            self._all[name] += 1
        self._outputs = frozenset(self._all)
        self._dequantizing: dict[str, int] = defaultdict(int)
        self._telling_types: dict[str, int] = defaultdict(int)
        self._calculating: dict[str, int] = defaultdict(int)

    def add(self, node: Node) -> None:
        """Take note of what a node reads."""
        self._count(node, 1)

    def remove(self, node: Node) -> None:
        """Forget a node, for which others stand, such as an If, for which those of a branch do."""
        self._count(node, -1)

    def copy(self) -> UseCounts:
        """Return the counts as they are now."""
        copied = UseCounts(self._outputs)
        copied.restore(self)
        return copied

    def restore(self, counts: UseCounts) -> None:
        """Count as others do."""
        self._all = counts._all.copy()
        self._dequantizing = counts._dequantizing.copy()
        self._telling_types = counts._telling_types.copy()
        self._calculating = counts._calculating.copy()

    def _count(self, node: Node, times: int) -> None:
        for name in node.reads:
            self._all[name] += times
        if node.operator == "DequantizeLinear" and node.inputs:
            self._dequantizing[node.inputs[0]] += times
        elif node.operator in _CALCULATING:
            for name in node.reads:
                self._calculating[name] += times
        elif node.operator == "CastLike":
            for name in node.reads[1:]:
                self._telling_types[name] += times

    def is_read_once(self, name: str) -> bool:
        """Return whether a value is read once, by a node or the caller; who asks for its type alone does not count."""
        return self._all[name] - self._telling_types[name] == 1

    def is_calculated_with(self, name: str) -> bool:
        """Return whether the floats of a value are operands of arithmetic, or for the caller."""
        return self._calculating[name] > 0 or name in self._outputs

    def is_only_dequantized(self, name: str) -> bool:
        """Return whether a value is read by nodes that dequantize it alone."""
        return 0 < self._dequantizing[name] == self._all[name]

    def is_for_the_caller(self, name: str) -> bool:
        """Return whether the caller alone reads a value."""
        return name in self._outputs and self.is_read_once(name)
