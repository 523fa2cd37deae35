"""Names in models as they are read: protobuf returns bytes in place of what is no UTF-8."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import onnx

from dmlcpu.errors import InvalidModelError
from dmlcpu.onnx.models.subgraphs import graphs_within

__all__ = ["check_file_names", "check_initializer_names", "check_node_texts", "check_texts", "texts_of_subgraphs"]


def check_texts(model: onnx.ModelProto) -> None:
    """Check the names in a model, but for its initializers; for nodes of its graph only if it has functions.

    What is left is checked as it is read, which takes less time.

    Raises:
        InvalidModelError: One is not UTF-8.
    """
    _check("a domain that the model imports", [entry.domain for entry in model.opset_import])
    graph = model.graph
    _check("an input", _texts_of_values(graph.input))
    _check("an output", _texts_of_values(graph.output))
    if model.functions:  # whose calls give names to others before they are read
        for index, node in enumerate(graph.node[:]):
            _check_node(index, node)
    for function in model.functions:
        _check("a function", [function.name, function.domain, function.overload])
        texts = [*function.input, *function.output, *function.attribute]
        texts += [entry.domain for entry in function.opset_import]
        texts += [attribute.name for attribute in function.attribute_proto]
        for node in function.node[:]:
            texts += _texts_of_node(node)
            texts += _texts_of_attributes(node.attribute[:])
        _check(f"function {function.name!r}", texts)


def check_file_names(names: Collection[str]) -> None:
    """Check the names of files that hold elements of a model.

    Raises:
        InvalidModelError: One is not UTF-8.
    """
    _check("a file with some of the model's weights", names)


def check_initializer_names(names: Collection[str]) -> None:
    """Check the names of initializers.

    Raises:
        InvalidModelError: One is not UTF-8.
    """
    _check("an initializer", names)


def check_node_texts(node: str, texts: Collection[str]) -> None:
    """Check names of a node, or within it, that is named so.

    Raises:
        InvalidModelError: One is not UTF-8.
    """
    _check(f"node {node}", texts)


def texts_of_subgraphs(graphs: Iterable[onnx.GraphProto]) -> list[str]:
    """Return the names in graphs, and in those within them; but for sparse initializers, which are made dense first."""
    texts: list[str] = []
    for graph in graphs:
        texts += [tensor.name for tensor in graph.initializer]
        texts += _texts_of_values((*graph.input, *graph.output))
        for node in graph.node[:]:
            texts += _texts_of_node(node)
            texts += _texts_of_attributes(node.attribute[:])
    return texts


def _check(what: str, texts: Collection[str]) -> None:
    if bytes in map(type, texts):
        text = next(text for text in texts if isinstance(text, bytes))
        raise InvalidModelError(f"{what}: {text!r} is not UTF-8")


def _check_node(index: int, node: onnx.NodeProto) -> None:
    """Check a node of the graph, and what is within it; messages name it as ``node_of`` does."""
    check_node_texts(f"{index}", (*_texts_of_node(node), node.overload))
    if attributes := node.attribute[:]:
        operator = node.op_type
        check_node_texts(f"{operator} ({node.name or f'{operator}_{index}'})", _texts_of_attributes(attributes))


def _texts_of_values(values: Iterable[onnx.ValueInfoProto]) -> list[str]:
    """Return the names of values, and of lengths that they leave free."""
    texts = []
    for value in values:
        texts.append(value.name)
        texts += [length.dim_param for length in value.type.tensor_type.shape.dim]
    return texts


def _texts_of_node(node: onnx.NodeProto) -> tuple[str, ...]:
    return (node.name, node.op_type, node.domain, *node.input[:], *node.output[:])


def _texts_of_attributes(attributes: Sequence[onnx.AttributeProto]) -> list[str]:
    """Return the names of a node's attributes, and those in graphs within it."""
    texts: list[str] = []
    for attribute in attributes:
        texts += (attribute.name, attribute.ref_attr_name)
    if subgraphs := graphs_within(attributes):
        texts += texts_of_subgraphs(subgraphs)
    return texts
