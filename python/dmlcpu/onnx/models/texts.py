"""Names in models as they are read: protobuf returns bytes in place of what is no UTF-8."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import onnx

from dmlcpu.errors import InvalidModelError
from dmlcpu.onnx.models.subgraphs import graphs_within

__all__ = ["check_initializer_names", "check_node_texts", "check_texts", "texts_of_subgraphs"]


def check_texts(model: onnx.ModelProto) -> None:
    """Check the names in a model, but for its graph's nodes and initializers, which are checked as they are read.

    Raises:
        InvalidModelError: One is not UTF-8.
    """
    _check("a domain that the model imports", [entry.domain for entry in model.opset_import])
    graph = model.graph
    _check("an initializer", [sparse.values.name for sparse in graph.sparse_initializer])
    _check("an input", _texts_of_values(graph.input))
    _check("an output", _texts_of_values(graph.output))
    if model.functions:  # whose calls give names to others before they are read
        for index, node in enumerate(graph.node):
            check_node_texts(f"{index}", _texts_of_node(node))
    for function in model.functions:
        _check("a function", [function.name, function.domain, function.overload])
        _check(f"function {function.name!r}", [*function.input, *function.output, *function.attribute])
        _check(f"function {function.name!r}", [entry.domain for entry in function.opset_import])
        _check(f"function {function.name!r}", [attribute.name for attribute in function.attribute_proto])
        for node in function.node:
            _check(f"function {function.name!r}", _texts_of_node(node))
            _check(f"function {function.name!r}", texts_of_subgraphs(graphs_within(node.attribute)))


def check_initializer_names(names: Collection[str]) -> None:
    """Check the names of initializers.

    Raises:
        InvalidModelError: One is not UTF-8.
    """
    if bytes in map(type, names):
        _check("an initializer", names)


def check_node_texts(node: str, texts: Iterable[str]) -> None:
    """Check names of a node, or within it, that is named so.

    Raises:
        InvalidModelError: One is not UTF-8.
    """
    _check(f"node {node}", texts)


def texts_of_subgraphs(graphs: Iterable[onnx.GraphProto]) -> Iterator[str]:
    """Yield the names in graphs, and in those within them."""
    for graph in graphs:
        yield from (tensor.name for tensor in graph.initializer)
        yield from _texts_of_values((*graph.input, *graph.output))
        for node in graph.node:
            yield from _texts_of_node(node)
            yield from texts_of_subgraphs(graphs_within(node.attribute))


def _check(what: str, texts: Iterable[str]) -> None:
    text = next((text for text in texts if isinstance(text, bytes)), None)
    if text is not None:
        raise InvalidModelError(f"{what}: {text!r} is not UTF-8")


def _texts_of_values(values: Iterable[onnx.ValueInfoProto]) -> Iterator[str]:
    """Yield the names of values, and of lengths that they leave free."""
    for value in values:
        yield value.name
        yield from (length.dim_param for length in value.type.tensor_type.shape.dim)


def _texts_of_node(node: onnx.NodeProto) -> Iterator[str]:
    yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
    for attribute in node.attribute:
        yield from (attribute.name, attribute.ref_attr_name)
