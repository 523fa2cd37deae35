"""Functions that a model brings along: the nodes that they are made of, in place of each call.

Exporters write the layers of a network as such functions, and operators that ONNX lacks. Rules look at nodes, so what a
call hides would be left to another runtime.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

import onnx

from dmlcpu.errors import InvalidModelError
from dmlcpu.onnx.models.nodes import FreeNames, short_domain, shortened
from dmlcpu.onnx.models.subgraphs import all_nodes, graphs_within, names_in
from dmlcpu.shown_values import counted

__all__ = ["without_calls"]

# Functions that call functions double with each call: so small a file may stand for more than there is memory for.
_MOST_NODES: Final = 1 << 16  # and calls, beside those of the graph itself
_MOST_BYTES: Final = 1 << 26  # for functions of less than a 64th of it
_MOST_TIMES_BYTES: Final = 1 << 6  # what larger ones are made of may be there
_DEEPEST: Final = 64  # calls within calls, and graphs within nodes, of which protobuf reads half as many
_BYTES_OF_NAME: Final = 16  # beside its characters: renaming takes time
# Domains whose operators have kernels, as here so in onnxruntime: what a model says of them is for those who do not.
_BUILT_IN: Final = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft")

_Key: TypeAlias = tuple[str, str, str]


class _Size(NamedTuple):
    """How many nodes and calls something stands for, and how many calls and graphs, these twice, are in each other."""

    nodes: int
    depth: int


class _Room:
    """What is left of the bytes that calls may stand for.

    Args:
        model: Before its calls are expanded.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        size = sum(int(node.ByteSize()) for part in (model.graph, *model.functions) for node in part.node)
        self._most = self._left = max(_MOST_BYTES, _MOST_TIMES_BYTES * size)

    def take(self, size: int) -> None:
        """Take bytes before they are there.

        Raises:
            InvalidModelError: There are not so many.
        """
        self._left -= size
        if self._left < 0:
            raise InvalidModelError(f"model: its functions stand for nodes of more than {self._most} bytes")


def without_calls(model: onnx.ModelProto) -> None:
    """Put nodes in place of the calls of a model's functions, those in branches and loops included.

    Calls stay where the nodes would mean something else: a function of another version of ONNX's operators, unless
    those that it is made of are the same by then.

    Raises:
        InvalidModelError: A function calls itself, functions are called with too much, or stand for too many nodes.
    """
    if not model.functions:
        return
    functions = _Functions(model)
    nodes = functions.size_of(model.graph.node).nodes - sum(1 for _ in all_nodes(model.graph.node))
    if nodes > _MOST_NODES:
        raise InvalidModelError(f"model: its functions stand for {nodes} nodes")
    functions.expand(model.graph)
    if not functions.have_calls_left:
        del model.functions[:]


class _Functions:
    """A model's functions, and the names that are taken.

    Attributes:
        have_calls_left: Whether some call is not expanded.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self._imports = model.opset_import
        self._versions = {short_domain(entry.domain): int(entry.version) for entry in model.opset_import}
        self._functions: dict[_Key, onnx.FunctionProto] = {}
        for function in model.functions:
            self._functions.setdefault((short_domain(function.domain), function.name, function.overload), function)
        self._sizes: dict[_Key, _Size | None] = {}  # None of those whose calls stay
        self._names = FreeNames(names_in(model.graph))
        self._room = _Room(model)
        self.have_calls_left = False

    def size_of(self, nodes: Iterable[onnx.NodeProto], callers: tuple[_Key, ...] = (), depth: int = 0) -> _Size:
        """Return the size of nodes and of what calls among them stand for.

        Args:
            nodes: Any.
            callers: The functions that have led to them.
            depth: How many calls and graphs they are in, these counted twice.

        Raises:
            InvalidModelError: A function calls itself, or there are too many calls and graphs within each other.
        """
        count, deepest = 0, 0
        for node in nodes:
            inner = self._size_of_call(node, callers, depth)
            count += 1 + (inner.nodes if inner else 0)
            below = inner.depth + 1 if inner else 0
            for graph in graphs_within(node.attribute):
                within = self.size_of(graph.node, callers, depth + 2)
                count += within.nodes
                below = max(below, within.depth + 2)
            deepest = max(deepest, below)
        if depth + deepest > _DEEPEST:
            raise InvalidModelError(f"model: more than {_DEEPEST} calls and graphs within each other")
        return _Size(count, deepest)

    def _size_of_call(self, node: onnx.NodeProto, callers: tuple[_Key, ...], depth: int) -> _Size | None:
        key = _key_of(node)
        function = self._functions.get(key)
        if function is None:
            return None
        if key in callers:
            raise InvalidModelError(f"function {function.name!r}: it calls itself")
        if depth >= _DEEPEST:
            raise InvalidModelError(f"function {function.name!r}: more than {_DEEPEST} calls within each other")
        if key not in self._sizes:
            size = self.size_of(function.node, (*callers, key), depth + 1)
            self._sizes[key] = size if self._means_the_same(function) else None
        return self._sizes[key]

    def _means_the_same(self, function: onnx.FunctionProto) -> bool:
        """Return whether a function's nodes mean the same in the model, which then imports what they need."""
        if short_domain(function.domain) in _BUILT_IN:
            return False
        imports = {short_domain(entry.domain): int(entry.version) for entry in function.opset_import}
        for node in all_nodes(function.node):
            domain = short_domain(node.domain)
            if _key_of(node) in self._functions and domain not in _BUILT_IN:
                continue
            own, other = imports.get(domain), self._versions.get(domain)
            if own is None or (other not in (None, own) and not _is_same(node, domain, own, other)):
                return False
        for domain, version in imports.items():
            if domain not in self._versions:
                self._versions[domain] = version
                self._imports.add(domain=domain, version=version)
        return True

    def expand(self, graph: onnx.GraphProto) -> None:
        """Put nodes in place of the calls of a graph, and of those within it."""
        nodes = [*self._expanded(graph.node)]
        if not all(map(self._stays, graph.node)):
            del graph.node[:]
            graph.node.extend(nodes)

    def _stays(self, node: onnx.NodeProto) -> bool:
        return self._sizes.get(_key_of(node)) is None

    def _expanded(self, nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
        for index, node in enumerate(nodes):
            for graph in graphs_within(node.attribute):
                self.expand(graph)
            key = _key_of(node)
            if not self._stays(node):
                yield from self._expanded(_Call(node, index, self._functions[key], self._names, self._room).nodes())
                continue
            self.have_calls_left = self.have_calls_left or key in self._functions
            yield node


class _Call:
    """A call of a function.

    Args:
        node: The call.
        index: Its place, which names it where it has no name.
        function: What it calls.
        names: Those of values, to which those between its nodes are added.
        room: What its nodes are taken from.
    """

    def __init__(
        self, node: onnx.NodeProto, index: int, function: onnx.FunctionProto, names: FreeNames, room: _Room
    ) -> None:
        self._node, self._function, self._names, self._room = node, function, names, room
        self._name = shortened(node.name or f"{node.op_type}_{index}")
        if len(node.input) > len(function.input) or len(node.output) > len(function.output):
            got = f"{counted(len(node.input), 'input')} and {counted(len(node.output), 'output')}"
            has = f"{len(function.input)} and {len(function.output)}"
            raise InvalidModelError(f"node {self._name} ({node.op_type}): got {got}, its function has {has}")

    def nodes(self) -> Iterator[onnx.NodeProto]:
        """Yield the function's nodes, by other names for the values between them and with the call's attributes."""
        call, function = self._node, self._function
        self._room.take(_BYTES_OF_NAME * (len(function.input) + len(function.output) + len(function.attribute_proto)))
        names = dict.fromkeys(function.input, "") | dict(zip(function.input, call.input, strict=False))
        written = {name for node in function.node for name in node.output if name}
        if not written.isdisjoint(names):
            raise InvalidModelError(f"node {self._name} ({call.op_type}): its function writes what it is given")
        results = [pair for pair in zip(function.output, call.output, strict=False) if pair[1]]
        for inner, outer in results:
            if inner in written:
                names.setdefault(inner, outer)
        given = {attribute.name: attribute for attribute in (*function.attribute_proto, *call.attribute)}
        scope = names | {name: self._own(name) for name in written if name not in names}
        for index, node in enumerate(function.node):
            self._room.take(int(node.ByteSize()) + len(self._name))
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            copy.name = f"{self._name}/{node.name or f'{node.op_type}_{index}'}"
            self._rename(copy, scope)
            _bind(copy, given, self._room)
            yield copy
        for index, (inner, outer) in enumerate(results):  # what it was given, or has written by another name already
            if scope.get(inner) != outer:
                name = f"{self._name}/Identity_{index}"
                self._room.take(3 * _BYTES_OF_NAME + len(name) + len(outer))
                yield onnx.helper.make_node("Identity", [self._read(scope, inner)], [outer], name)

    def _own(self, name: str) -> str:
        return self._names.like(f"{self._name}/{name}")

    def _read(self, scope: dict[str, str], name: str) -> str:
        """Return what a value is called; of one that nothing writes no other's name."""
        if name and name not in scope:
            scope[name] = self._own(name)
        read = scope[name] if name else ""
        self._room.take(_BYTES_OF_NAME + len(read))
        return read

    def _rename(self, node: onnx.NodeProto, scope: dict[str, str]) -> None:
        """Rename values, those of graphs within the node included: they may be called as others are outside."""
        for values in (node.input, node.output):
            for index, name in enumerate(values):
                values[index] = self._read(scope, name)
        for graph in graphs_within(node.attribute):
            within = {value.name for value in (*graph.input, *graph.initializer)}
            within.update(name for inner in graph.node for name in inner.output if name)
            inner_scope = scope | {name: self._own(name) for name in within}
            for inner in graph.node:
                self._rename(inner, inner_scope)
            for value in (*graph.input, *graph.initializer, *graph.output, *graph.value_info):
                value.name = self._read(inner_scope, value.name)


def _bind(node: onnx.NodeProto, given: Mapping[str, onnx.AttributeProto], room: _Room) -> None:
    """Put attributes of a call where a function's nodes, and those within them, refer to them."""
    for graph in graphs_within(node.attribute):
        for inner in graph.node:
            _bind(inner, given, room)
    if not any(attribute.ref_attr_name for attribute in node.attribute):
        return
    bound = []
    for attribute in node.attribute:
        source = given.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute
        if source is not None:  # else the node does without it
            if source is not attribute:
                room.take(int(source.ByteSize()))
            copy = onnx.AttributeProto()
            copy.CopyFrom(source)
            copy.name = attribute.name
            bound.append(copy)
    del node.attribute[:]
    node.attribute.extend(bound)


def _key_of(node: onnx.NodeProto) -> _Key:
    return short_domain(node.domain), node.op_type, node.overload


def _is_same(node: onnx.NodeProto, domain: str, own: int, other: int) -> bool:
    """Return whether an operator has the same form by two versions of its domain."""
    try:
        forms = {onnx.defs.get_schema(node.op_type, version, domain).since_version for version in (own, other)}
    except (onnx.defs.SchemaError, TypeError):  # a name may not be UTF-8, which is bytes then
        return False
    return len(forms) == 1
