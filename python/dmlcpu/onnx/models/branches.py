"""The branches of If nodes, as nodes in the place of the If.

Which branch runs is often known when a model is planned, since the condition follows from shapes, or from what an input
of one element is. Then the nodes of that branch are nodes of the model like any others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import onnx

from dmlcpu.errors import InvalidModelError
from dmlcpu.onnx.models.blocked_channels import without_blocked_channels
from dmlcpu.onnx.models.fused_activations import without_fused_activations
from dmlcpu.onnx.models.nodes import FreeNames, Node, free_names, node_of, ordered, shortened
from dmlcpu.onnx.models.subgraphs import graphs_within, names_in, rename
from dmlcpu.onnx.models.tensor_protos import constant_of
from dmlcpu.onnx.models.weights_between_codes import with_coded_weights
from dmlcpu.onnx.values import Array
from dmlcpu.shown_values import counted

__all__ = ["Branches"]

_NAMES: Final[Mapping[bool, str]] = {True: "then_branch", False: "else_branch"}


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """What an If node stands for, once its condition is known.

    Attributes:
        nodes: In an order in which they can run. They write the If's outputs; the names of all that is between are
            nothing else's.
        constants: The initializers, by name.
    """

    nodes: tuple[Node, ...]
    constants: Mapping[str, Array]


class Branches:
    """The branches of a model's If nodes, and of those within them; each is read when it is first asked for.

    Args:
        versions: Of the operators that the model imports, by domain.
        nodes: The model's own.
        values: The names of its inputs, outputs and constants.
    """

    def __init__(self, versions: Mapping[str, int], nodes: Sequence[Node], values: Sequence[str]) -> None:
        self._versions = versions
        self._given = nodes, values
        self._begins = FreeNames(())
        self._read: dict[tuple[str, bool], Branch | InvalidModelError] = {}

    @cached_property
    def _nodes(self) -> set[str]:
        """The names of nodes; those of branches are added."""
        return {node.name for node in self._given[0]}

    @cached_property
    def _values(self) -> FreeNames:
        """The names of values, in graphs within nodes too; those of branches are added."""
        return free_names(*self._given)

    def of(self, node: Node, condition: bool) -> Branch:
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

    def _branch(self, node: Node, condition: bool) -> Branch:
        graph = node.attributes.get(_NAMES[condition])
        if not isinstance(graph, onnx.GraphProto):
            raise InvalidModelError(f"node {node}: it has no {_NAMES[condition]}")
        if len(graph.output) != len(node.outputs):
            given = counted(len(graph.output), "output")
            wrong = f"its {_NAMES[condition]} has {given}, and it has {len(node.outputs)}"
            raise InvalidModelError(f"node {node}: {wrong}")
        written = {name for inner in graph.node for name in inner.output if name}
        initializers = {tensor.name: constant_of(tensor) for tensor in graph.initializer}
        if fed := [value.name for value in graph.input if value.name not in initializers]:
            raise InvalidModelError(f"node {node}: its {_NAMES[condition]} has inputs, {', '.join(fed)}")
        results = _names_of_results(graph, node.outputs, written)
        begin = shortened(node.name)
        if begin != node.name:  # others may be shortened to the same
            begin = self._begins.like(begin)
        names = {name: results.get(name) or self._values.like(f"{begin}/{name}") for name in (*written, *initializers)}
        protos = [_renamed(inner, names) for inner in graph.node]
        for output, name in zip(graph.output, node.outputs, strict=True):
            if name and results.get(output.name) != name:  # a value from outside, an initializer, or one written before
                protos.append(onnx.helper.make_node("Identity", [names.get(output.name, output.name)], [name]))
        for index, proto in enumerate(protos):
            proto.name = f"{begin}/{proto.name or f'{proto.op_type}_{index}'}"
        nodes = [node_of(index, proto, self._versions, self._nodes) for index, proto in enumerate(protos)]
        constants: Mapping[str, Array] = {names[name]: array for name, array in initializers.items()}
        in_order = ordered(nodes, {*node.reads, *constants}, [*filter(None, node.outputs)])
        coded, constants = with_coded_weights(in_order, constants, node.outputs, {})
        apart = without_fused_activations(coded, self._versions, self._nodes, lambda: self._values)
        plain = without_blocked_channels(apart, self._versions, node.outputs, self._nodes, lambda: self._values)
        return Branch(plain, constants)


def _names_of_results(graph: onnx.GraphProto, outputs: Sequence[str], written: set[str]) -> dict[str, str]:
    """Return the names of an If's outputs for what nodes of its branch write, but for those that graphs within use."""
    used = {name for node in graph.node for inner in graphs_within(node.attribute) for name in names_in(inner)}
    results: dict[str, str] = {}
    for output, name in zip(graph.output, outputs, strict=True):
        if name and output.name in written and name not in used:
            results.setdefault(output.name, name)
    return results


def _renamed(node: onnx.NodeProto, names: Mapping[str, str]) -> onnx.NodeProto:
    """Return a node whose values, and those that graphs within it take from outside, have other names."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    rename(copy, names)
    return copy
