"""The branches of If nodes, as nodes in the place of the If.

Which branch runs is often known when a model is planned, since the condition follows from shapes, or from what an input
of one element is. Then the nodes of that branch are nodes of the model like any others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import onnx

from dmlcpu.errors import InvalidModelError
from dmlcpu.onnx.models.inlined_graphs import InlinedGraph, Inliner, renamed
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.models.subgraphs import graphs_within, names_in
from dmlcpu.onnx.models.tensor_protos import constant_of
from dmlcpu.shown_values import counted

__all__ = ["Branches"]

_NAMES: Final[Mapping[bool, str]] = {True: "then_branch", False: "else_branch"}


class Branches:
    """The branches of a model's If nodes, and of those within them; each is read when it is first asked for.

    Args:
        inliner: Of the model.
    """

    def __init__(self, inliner: Inliner) -> None:
        self._inliner = inliner
        self._read: dict[tuple[str, bool], InlinedGraph | InvalidModelError] = {}

    def of(self, node: Node, condition: bool) -> InlinedGraph:
        """Return the branch that runs.

        Args:
            node: An If.
            condition: Which way it goes.

        Raises:
            InvalidModelError: The branch is none, or its nodes do not fit together.
        """
        key = node.name, condition
        if key not in self._read:
            try:
                self._read[key] = self._branch(node, condition)
            except InvalidModelError as error:
                self._read[key] = error
        branch = self._read[key]
        if isinstance(branch, InvalidModelError):
            raise branch
        return branch

    def _branch(self, node: Node, condition: bool) -> InlinedGraph:
        graph = node.attributes.get(_NAMES[condition])
        if not isinstance(graph, onnx.GraphProto):
            raise InvalidModelError(f"node {node}: it has no {_NAMES[condition]}")
        if len(graph.output) != len(node.outputs):
            given = counted(len(graph.output), "output")
            wrong = f"its {_NAMES[condition]} has {given}, and it has {len(node.outputs)}"
            raise InvalidModelError(f"node {node}: {wrong}")
        written = {name for inner in graph.node for name in inner.output[:] if name}
        initializers = {tensor.name: constant_of(tensor) for tensor in graph.initializer}
        if fed := [value.name for value in graph.input if value.name not in initializers]:
            raise InvalidModelError(f"node {node}: its {_NAMES[condition]} has inputs, {', '.join(fed)}")
        results = _names_of_results(graph, node.outputs, written)
        begin = self._inliner.begin(node)
        names = {name: results.get(name) or self._inliner.name(f"{begin}/{name}") for name in (*written, *initializers)}
        protos = [renamed(inner, names) for inner in graph.node]
        for output, name in zip(graph.output, node.outputs, strict=True):
            if name and results.get(output.name) != name:  # a value from outside, an initializer, or one written before
                protos.append(onnx.helper.make_node("Identity", [names.get(output.name, output.name)], [name]))
        constants = {names[name]: array for name, array in initializers.items()}
        return self._inliner.inlined(node, begin, protos, constants)


def _names_of_results(graph: onnx.GraphProto, outputs: Sequence[str], written: set[str]) -> dict[str, str]:
    """Return the names of an If's outputs for what nodes of its branch write, but for those that graphs within use."""
    used = {name for node in graph.node for inner in graphs_within(node.attribute) for name in names_in(inner)}
    results: dict[str, str] = {}
    for output, name in zip(graph.output, outputs, strict=True):
        if name and output.name in written and name not in used:
            results.setdefault(output.name, name)
    return results
