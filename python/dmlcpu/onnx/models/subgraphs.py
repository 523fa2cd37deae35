"""Graphs within nodes: walked, and renamed with the nodes around them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import onnx

__all__ = ["all_nodes", "graphs_within", "names_in", "rename"]

# Looking them up in the class takes longer than comparing with them.
_GRAPH: Final = onnx.AttributeProto.GRAPH
_GRAPHS: Final = onnx.AttributeProto.GRAPHS


def graphs_within(attributes: Sequence[onnx.AttributeProto]) -> list[onnx.GraphProto]:
    """Return the graphs that attributes hold, such as the branches of an If."""
    graphs: list[onnx.GraphProto] = []
    for attribute in attributes[:]:  # a slice of a repeated field is walked in half the time
        kind = attribute.type
        if kind == _GRAPH:
            graphs.append(attribute.g)
        elif kind == _GRAPHS:
            graphs += attribute.graphs
    return graphs


def all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yield nodes, and those within them."""
    for node in nodes:
        yield node
        for graph in graphs_within(node.attribute):
            yield from all_nodes(graph.node)


def names_in(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield the names of values in a graph, and in those within it."""
    yield from [value.name for value in (*graph.input, *graph.initializer, *graph.output)]
    for node in graph.node:
        yield from node.input[:]
        yield from node.output[:]
        for inner in graphs_within(node.attribute):
            yield from names_in(inner)


def rename(node: onnx.NodeProto, names: Mapping[str, str]) -> None:
    """Give other names to the values of a node, and to those that graphs within it take from outside.

    Args:
        node: Is changed.
        names: New ones by old ones. What a graph calls so itself stays as it is.
    """
    for values in (node.input, node.output):
        for index, name in enumerate(values[:]):
            if name in names:
                values[index] = names[name]
    for graph in graphs_within(node.attribute):
        own = {value.name for value in (*graph.input, *graph.initializer)}
        for inner in graph.node:
            own.update(inner.output[:])
        shadows = not own.isdisjoint(names)
        outer = {name: new for name, new in names.items() if name not in own} if shadows else names
        for inner in graph.node:
            rename(inner, outer)
        for output in graph.output:
            output.name = outer.get(output.name, output.name)
