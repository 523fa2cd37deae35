"""How often the values of a model are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from dmlcpu.onnx.models.nodes import Node

__all__ = ["UseCounts"]


class UseCounts:
    """How many nodes read each value, and how many of these dequantize it; the caller, who has outputs, is one more."""

    def __init__(self, outputs: Iterable[str]) -> None:
        self._all = Counter(outputs)
        self._outputs = frozenset(self._all)
        self._dequantizing: Counter[str] = Counter()
        self._telling_types: Counter[str] = Counter()

    def add(self, node: Node) -> None:
        """Take note of what a node reads."""
        self._all.update(node.reads)
        if node.operator == "DequantizeLinear" and node.inputs:
            self._dequantizing[node.inputs[0]] += 1
        elif node.operator == "CastLike":
            self._telling_types.update(node.reads[1:])

    def remove(self, node: Node) -> None:
        """Forget an If, for which the nodes of a branch stand."""
        self._all.subtract(node.reads)

    def is_read_once(self, name: str) -> bool:
        """Return whether a value is read once, by a node or the caller; who asks for its type alone does not count."""
        return self._all[name] - self._telling_types[name] == 1

    def is_only_dequantized(self, name: str) -> bool:
        """Return whether a value is read by nodes that dequantize it alone."""
        return 0 < self._dequantizing[name] == self._all[name]

    def is_for_the_caller(self, name: str) -> bool:
        """Return whether the caller alone reads a value."""
        return name in self._outputs and self.is_read_once(name)
