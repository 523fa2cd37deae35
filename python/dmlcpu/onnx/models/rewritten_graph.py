"""The graph of a model while it is read: nodes and constants, in whose place others are put."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx

from dmlcpu.onnx.constant_arrays import Array
from dmlcpu.onnx.models.nodes import FreeNames, Node, node_of

__all__ = ["RewrittenGraph"]


@dataclass(frozen=True, slots=True, eq=False)
class RewrittenGraph:
    """A graph, and the names that new nodes and values of it may not have.

    Attributes:
        nodes: In an order in which they can run.
        constants: By name.
        inputs: The names of what the graph is fed, or may be.
        outputs: The names of what it returns.
        versions: Of the operators that the model imports, by domain.
        taken: The names of nodes, to which those of new ones are added.
        names: Returns names for values, always the same object; the first time it looks through all nodes.
    """

    nodes: tuple[Node, ...]
    constants: Mapping[str, Array]
    inputs: Collection[str]
    outputs: Collection[str]
    versions: Mapping[str, int]
    taken: set[str]
    names: Callable[[], FreeNames]

    @property
    def version(self) -> int:
        """The version of ONNX's own operators; 0 if the model imports none."""
        return self.versions.get("", 0)

    def read_by_one_node(self) -> set[str]:
        """Return the names of values that a single node reads, and nobody else."""
        reads = Counter(name for node in self.nodes for name in node.reads)
        return {name for name, count in reads.items() if count == 1}.difference(self.outputs)

    def new_name(self, like: str) -> str:
        """Return a name for a value, that no other has."""
        return self.names().like(like)

    def made(self, node: Node, operator: str, inputs: Sequence[str], output: str, **attributes: Any) -> Node:
        """Return a node of ONNX's with one output, named after the one in whose place it is."""
        proto = onnx.helper.make_node(operator, inputs, [output], f"{node.name}/{operator}", **attributes)
        return node_of(len(self.taken), proto, self.versions, self.taken)

    def constant(self, node: Node, name: str, array: Array) -> Node:
        """Return the Constant of an array, likewise."""
        return self.made(node, "Constant", [], name, value=onnx.numpy_helper.from_array(array))
