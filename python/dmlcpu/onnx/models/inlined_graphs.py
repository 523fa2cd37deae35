"""Graphs within nodes as nodes in the place of these, such as branches of an If and steps of a Loop.

What they are made of is renamed, and simplified as the nodes of the model itself are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import onnx

from dmlcpu.onnx.constant_arrays import Array
from dmlcpu.onnx.models.blocked_channels import without_blocked_channels
from dmlcpu.onnx.models.fused_activations import without_fused_activations
from dmlcpu.onnx.models.nodes import FreeNames, Node, free_names, node_of, ordered, shortened
from dmlcpu.onnx.models.rewritten_graph import RewrittenGraph
from dmlcpu.onnx.models.subgraphs import rename
from dmlcpu.onnx.models.weights_between_codes import with_coded_weights

__all__ = ["InlinedGraph", "Inliner", "renamed"]


@dataclass(frozen=True, slots=True, eq=False)
class InlinedGraph:
    """What a node stands for.

    Attributes:
        nodes: In an order in which they can run. They write the node's outputs; the names of all that is between are
            nothing else's.
        constants: The initializers, by name.
    """

    nodes: tuple[Node, ...]
    constants: Mapping[str, Array]


class Inliner:
    """Makes nodes of a model of what is in graphs within them, by names of their own.

    Args:
        versions: Of the operators that the model imports, by domain.
        nodes: The model's own.
        values: The names of its inputs, outputs and constants.

    Attributes:
        versions: The same.
    """

    def __init__(self, versions: Mapping[str, int], nodes: Sequence[Node], values: Sequence[str]) -> None:
        self.versions = versions
        self._given = nodes, values
        self._begins = FreeNames(())

    @cached_property
    def _nodes(self) -> set[str]:
        """The names of nodes; those of graphs within them are added."""
        return {node.name for node in self._given[0]}

    @cached_property
    def _values(self) -> FreeNames:
        """The names of values, in graphs within nodes too; those that are made here are added."""
        return free_names(*self._given)

    def begin(self, node: Node) -> str:
        """Return what the names of all that stands for a node begin with."""
        begin = shortened(node.name)
        return begin if begin == node.name else self._begins.like(begin)  # others may be shortened to the same

    def name(self, like: str) -> str:
        """Return a name for a value, that no other has."""
        return self._values.like(like)

    @property
    def node_names(self) -> frozenset[str]:
        """The names of nodes by now."""
        return frozenset(self._nodes)

    def inlined(
        self,
        node: Node,
        begin: str,
        protos: Iterable[onnx.NodeProto],
        constants: Mapping[str, Array],
        taken: Collection[str] | None = None,
    ) -> InlinedGraph:
        """Return nodes that stand for another one.

        Args:
            node: Whose inputs they read, and whose outputs they write.
            begin: Of their names.
            protos: The nodes, which are given names.
            constants: That they read.
            taken: The names that they may not have; None for those of all nodes.

        Raises:
            InvalidModelError: They do not fit together.
        """
        names = self._nodes if taken is None else {*taken}
        made = []
        for index, proto in enumerate(protos):
            proto.name = f"{begin}/{proto.name or f'{proto.op_type}_{index}'}"
            made.append(node_of(index, proto, self.versions, names))
        in_order = ordered(made, {*node.reads, *constants}, [*filter(None, node.outputs)])
        graph = RewrittenGraph(in_order, constants, (), node.outputs, self.versions, names, lambda: self._values)
        graph = without_blocked_channels(without_fused_activations(with_coded_weights(graph, {})))
        self._nodes.update(names)
        return InlinedGraph(graph.nodes, graph.constants)


def renamed(node: onnx.NodeProto, names: Mapping[str, str]) -> onnx.NodeProto:
    """Return a node whose values, and those that graphs within it take from outside, have other names."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    rename(copy, names)
    return copy
