"""Nodes of models, and of the graphs within nodes, as they are read from ONNX files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import onnx

from dmlcpu.errors import InvalidModelError
from dmlcpu.onnx.models.attribute_values import CHECKED, check_values
from dmlcpu.onnx.models.subgraphs import graphs_within, names_in
from dmlcpu.onnx.models.tensor_protos import array_of
from dmlcpu.onnx.models.texts import check_node_texts, texts_of_subgraphs

__all__ = [
    "FreeNames",
    "Node",
    "as_cast",
    "free_names",
    "has_quantized_nodes",
    "is_quantized",
    "node_of",
    "ordered",
    "reaching",
    "short_domain",
    "shortened",
]

# Looking it up in the class takes longer than comparing with it.
_INTS: Final = onnx.AttributeProto.INTS


@dataclass(slots=True, eq=False)  # never changed, but frozen it would be made in five times the time
class Node:
    """A node of a model.

    Attributes:
        name: Its name, or where it has none of its own one made of its operator and place.
        domain: "" for ONNX's own operators.
        operator: Such as "QLinearConv".
        version: Of the domain's operators, as the model declares.
        inputs: Names of values, "" where an optional one is absent.
        outputs: The same.
        attributes: By name, as numbers, bytes, arrays and tuples.
        reads: The values that it reads, those that its subgraphs take from outside included.
        proto: The node itself.
    """

    name: str
    domain: str
    operator: str
    version: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    reads: tuple[str, ...]
    proto: onnx.NodeProto

    def __str__(self) -> str:
        """Tell operator and name."""
        domain = f"{self.domain}." if self.domain else ""
        return f"{domain}{self.operator} ({self.name})"

    def with_inputs(self, inputs: Sequence[str], proto: onnx.NodeProto | None = None, **changed: Any) -> Node:
        """Return the node with other inputs, which its proto and what it reads tell as well.

        Args:
            inputs: In place of its own.
            proto: Of the node that is returned, but for the inputs, which it is given. If None a copy of its own.
            changed: Other attributes, as in the proto.
        """
        if proto is None:
            proto = onnx.NodeProto()
            proto.CopyFrom(self.proto)
        del proto.input[:]
        proto.input.extend(inputs)
        reads = _reads(inputs, graphs_within(proto.attribute))
        return replace(self, inputs=tuple(inputs), reads=reads, proto=proto, **changed)


def node_of(
    index: int, proto: onnx.NodeProto, versions: Mapping[str, int], taken: set[str], has_checked_names: bool = True
) -> Node:
    """Return a node as it was read.

    Args:
        index: Its place, of which it gets a name where it has none.
        proto: The node.
        versions: Of the operators that the model imports, by domain.
        taken: The names of other nodes, to which its own is added.
        has_checked_names: Whether all in it are known to be UTF-8, as in graphs of nodes that were read before.

    Raises:
        InvalidModelError: What it says does not fit together.
    """
    # Each access makes an object, and slices of repeated fields take half of the time that walking them does.
    own_name, operator, domain = proto.name, proto.op_type, proto.domain
    inputs, outputs, given = tuple(proto.input[:]), tuple(proto.output[:]), proto.attribute[:]
    texts = own_name, operator, domain, *inputs, *outputs
    if not has_checked_names and bytes in map(type, texts):  # as which protobuf returns what is no UTF-8
        check_node_texts(f"{index}", texts)
    domain = short_domain(domain)
    name = own_name or f"{operator}_{index}"
    while name in taken:
        name = f"{name}_{index}"
    taken.add(name)
    if domain not in versions:
        whose = f"operators of the domain {domain!r}" if domain else "operators of ONNX's own domain"
        raise InvalidModelError(f"node {operator} ({name}): the model imports no {whose}")
    try:
        attributes = {attribute.name: _attribute(attribute) for attribute in given}
    except Exception as error:  # whatever a malformed attribute makes onnx raise
        raise InvalidModelError(f"node {operator} ({name}): {error}") from None
    if len(attributes) < len(given):
        raise InvalidModelError(f"node {operator} ({name}): two of its attributes have one name")
    subgraphs = graphs_within(given)
    if not has_checked_names and (subgraphs or bytes in map(type, attributes)):
        check_node_texts(f"{operator} ({name})", (*attributes, *texts_of_subgraphs(subgraphs)))
    if subgraphs or not CHECKED.isdisjoint(attributes):
        check_values(name, proto, given, subgraphs)
    reads = _reads(inputs, subgraphs)
    return Node(name, domain, operator, versions[domain], inputs, outputs, attributes, reads, proto)


def _attribute(attribute: onnx.AttributeProto) -> Any:
    kind = attribute.type
    if kind == _INTS and not attribute.ref_attr_name:  # the most common kind is quick
        return tuple(attribute.ints)
    value = onnx.helper.get_attribute_value(attribute)
    if kind == onnx.AttributeProto.TENSOR:
        return array_of(value)
    return tuple(value) if kind == onnx.AttributeProto.FLOATS else value


def ordered(nodes: Sequence[Node], known: Collection[str], outputs: Collection[str]) -> tuple[Node, ...]:
    """Return the nodes in an order in which each follows those whose values it reads.

    Args:
        nodes: In any order.
        known: The values that are there before.
        outputs: Values that are wanted.

    Raises:
        InvalidModelError: There is no such order, or a value is written twice or never.
    """
    if _are_ordered(nodes, known, outputs):
        return tuple(nodes)
    writers = _writers(nodes, known)
    waits_for = dict.fromkeys(nodes, 0)
    readers: dict[str, list[Node]] = {}
    for node in nodes:
        for name in node.reads:
            if name in writers:
                waits_for[node] += 1
                readers.setdefault(name, []).append(node)
            elif name not in known:
                raise InvalidModelError(f"node {node}: it reads {name!r}, which nothing writes")
    ready = [node for node in nodes if waits_for[node] == 0]
    order: list[Node] = []
    for node in ready:  # grows while it is walked
        order.append(node)
        for name in filter(None, node.outputs):
            for reader in readers.get(name, ()):
                waits_for[reader] -= 1
                if waits_for[reader] == 0:
                    ready.append(reader)
    if len(order) != len(nodes):
        stuck = next(node for node in nodes if waits_for[node] > 0)
        raise InvalidModelError(f"node {stuck}: it waits for its own result")
    for output in outputs:
        if output not in writers and output not in known:
            raise InvalidModelError(f"output {output!r}: nothing writes it")
    return tuple(order)


def _writers(nodes: Iterable[Node], known: Collection[str]) -> dict[str, Node]:
    """Return the nodes by what they write.

    Raises:
        InvalidModelError: A value is written twice, or known before.
    """
    writers: dict[str, Node] = {}
    for node in nodes:
        for name in filter(None, node.outputs):
            if name in writers or name in known:
                raise InvalidModelError(f"node {node}: it writes {name!r}, which is written already")
            writers[name] = node
    return writers


def _are_ordered(nodes: Iterable[Node], known: Collection[str], outputs: Iterable[str]) -> bool:
    """Return whether this is such an order: the model's own one keeps what belongs together close."""
    written = set(known)
    for node in nodes:
        if not written.issuperset(node.reads):
            return False
        for name in node.outputs:
            if name in written:
                return False
            if name:
                written.add(name)
    return written.issuperset(outputs)


def short_domain(name: str) -> str:
    """Return the name of a domain; that of ONNX's operators, which has two, is the empty one."""
    return "" if name == "ai.onnx" else name


class FreeNames:
    """Names that nothing else has.

    Args:
        taken: What there is already.
    """

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)
        self._counts: dict[str, int] = {}  # trying all of those before would take longer with each name

    def like(self, name: str) -> str:
        """Return a name, or one like it where it is taken; from then on it is taken."""
        own, count = name, self._counts.get(name, 0)
        while own in self._taken:
            count += 1
            own = f"{name}'{count}"
        self._counts[name] = count
        self._taken.add(own)
        return own

    def take(self, names: Iterable[str]) -> None:
        """Give none of these any more."""
        self._taken.update(names)


def free_names(nodes: Iterable[Node], values: Iterable[str]) -> FreeNames:
    """Return the names that are left beside those of values, and of what nodes and graphs within them use."""
    names = set(values)
    for node in nodes:
        names.update(node.reads, node.outputs)
        for graph in graphs_within(node.proto.attribute):
            names.update(names_in(graph))
    return FreeNames(names)


_LONGEST: Final = 96


def shortened(name: str) -> str:
    """Return a name for others to begin with: of a long one both ends, as copies of all of it could fill the memory."""
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST // 2]}...{name[-_LONGEST // 2 :]}"


def _reads(inputs: Sequence[str], subgraphs: Sequence[onnx.GraphProto]) -> tuple[str, ...]:
    """Return what a node of such inputs and subgraphs reads."""
    if not subgraphs:
        names = dict.fromkeys(filter(None, inputs))
        return tuple(inputs if len(names) == len(inputs) else names)  # mostly one tuple for both
    captured = (value for graph in subgraphs for value in _captured(graph))
    return tuple(dict.fromkeys(filter(None, (*inputs, *captured))))


def _captured(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield the values that the nodes of a subgraph, and of those within it, take from outside."""
    inside = {value.name for value in (*graph.input, *graph.initializer)}
    for node in graph.node:
        inside.update(node.output[:])
    for node in graph.node:
        yield from [name for name in node.input[:] if name and name not in inside]
        for inner in graphs_within(node.attribute):
            yield from [name for name in _captured(inner) if name not in inside]
    yield from (value.name for value in graph.output if value.name not in inside)


# Parts of the names of quantized operators, and of those that lead to codes or from them.
_QUANTIZED: Final = ("Quantize", "QLinear", "QGemm", "QAttention", "Integer")


def has_quantized_nodes(nodes: Iterable[Node]) -> bool:
    """Return whether some node, or one within it, is a quantized operator, or leads to codes or from them."""
    return any(is_quantized(node.proto) for node in nodes)


def is_quantized(node: onnx.NodeProto) -> bool:
    """Return whether a node, or one within it, is a quantized operator, or leads to codes or from them."""
    if any(word in node.op_type for word in _QUANTIZED):
        return True
    return any(is_quantized(inner) for graph in graphs_within(node.attribute) for inner in graph.node)


def as_cast(node: Node, dtype: np.dtype[Any]) -> Node:
    """Return the Cast that a CastLike is, whose second input only tells the type."""
    attributes = {**node.attributes, "to": int(onnx.helper.np_dtype_to_tensor_dtype(dtype))}
    proto = onnx.helper.make_node("Cast", [], node.outputs, node.name, to=attributes["to"])
    proto.attribute.extend(node.proto.attribute)
    return node.with_inputs(node.inputs[:1], proto, operator="Cast", attributes=attributes)


def reaching(nodes: Sequence[Node], wanted: Collection[str]) -> list[Node]:
    """Return the nodes that lead to values, of nodes in an order in which they can run."""
    needed = set(wanted)
    kept: list[Node] = []
    for node in reversed(nodes):
        if not needed.isdisjoint(node.outputs):
            kept.append(node)
            needed.update(node.reads)
    return kept[::-1]
