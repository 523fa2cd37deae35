"""From the desc of a graph to its values: every rule about nodes and edges is checked here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import dmlcpu  # not Device: its module needs this one
from dmlcpu.bindings import WITHOUT_MASK, TensorBinding, has_masked_elements
from dmlcpu.compiled_operator import operator_attributes, operator_tensors
from dmlcpu.created_operator import Operator
from dmlcpu.enums import FeatureLevel, TensorFlags
from dmlcpu.errors import DmlError, InvalidDescError, UnsupportedFeatureLevelError
from dmlcpu.graph.constant_data import constant_elements, constant_misfit
from dmlcpu.graph.descs import (
    ConstantGraphNodeDesc,
    GraphDesc,
    InputGraphEdgeDesc,
    IntermediateGraphEdgeDesc,
    OperatorGraphNodeDesc,
    OutputGraphEdgeDesc,
)
from dmlcpu.graph.native_graph import NativeGraph
from dmlcpu.shown_values import counted, shown
from dmlcpu.tensor import TensorDesc, calc_buffer_tensor_size, data_type_of, span_in_bytes

__all__ = ["check_graph_level", "connect"]

_GRAPH_LEVEL = FeatureLevel.LEVEL_2_1
_CONSTANT_LEVEL = FeatureLevel.LEVEL_6_2


def connect(desc: GraphDesc, device: dmlcpu.Device) -> NativeGraph:
    """Return the values and nodes of a graph, all of which are checked, without nodes that no output needs.

    Raises:
        InvalidDescError: A count, a node or an edge is not what the rules of graphs allow; ``field`` names it.
        UnsupportedFeatureLevelError: The device's level has no graphs, or no constant nodes.
        DmlError: A device that is not equal to this one made one of the operators.
    """
    return _Connector(desc, device).connect()


def check_graph_level(device: dmlcpu.Device) -> None:
    """Raise UnsupportedFeatureLevelError if the device's feature level has no graphs."""
    level = device.feature_level
    if level < _GRAPH_LEVEL:
        message = f"graph: got {level.name}, expected {_GRAPH_LEVEL.name}, which introduced graphs"
        raise UnsupportedFeatureLevelError(message, None, None, _GRAPH_LEVEL)


def _error(field: str, got: str, expected: str) -> InvalidDescError:
    return InvalidDescError(f"graph: {field}: got {got}, expected {expected}", None, field)


def _indices(count: int) -> str:
    """Return which indices there are of so many things, in words."""
    return f"one from 0 to {shown(count - 1)}" if count > 0 else "none"


def _check_name(field: str, name: Any) -> None:
    if name is None:
        return
    if not isinstance(name, str):
        raise _error(field, f"a name of type {type(name).__name__}", "a string or None")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise _error(field, f"the name {name!r:.60}", "text that UTF-8 can hold, no lone surrogates") from None


def _buffer_size(desc: TensorDesc) -> int:
    size = desc.total_tensor_size_in_bytes
    return calc_buffer_tensor_size(desc.data_type, desc.sizes, desc.strides) if size is None else size


class _Connector:
    """One pass over a desc. A node input is known by its node's index and its own."""

    def __init__(self, desc: GraphDesc, device: dmlcpu.Device) -> None:
        if not isinstance(desc, GraphDesc):
            raise TypeError(f"expected a GraphDesc, got an object of type {type(desc).__name__}")
        self._desc, self._device = desc, device
        self._graph = NativeGraph()
        self._nodes = self._checked_nodes()
        self._inputs: dict[int, list[TensorBinding]] = {}
        self._outputs: dict[int, list[TensorBinding]] = {}
        for index, node in enumerate(self._nodes):
            if isinstance(node, OperatorGraphNodeDesc):
                tensors = operator_tensors(node.operator.desc)
                self._inputs[index] = [tensor for tensor in tensors if not tensor.output]
                self._outputs[index] = [tensor for tensor in tensors if tensor.output]
        # What feeds a node input: the edge's field, and a value once there is one.
        self._feeds: dict[tuple[int, int], InputGraphEdgeDesc | IntermediateGraphEdgeDesc] = {}
        self._values: dict[tuple[int, int], int] = {}  # of node outputs
        self._graph_inputs: dict[int, int] = {}

    def connect(self) -> NativeGraph:
        self._check_edges()
        for index in range(self._desc.input_count):
            self._add_graph_input(index)
        for index in self._sorted():
            self._add_node(index)
        sources = [
            (edge.from_node_index, edge.from_node_output_index) for _, edge in sorted(self._output_edges().items())
        ]
        graph, numbers = self._graph.reaching(self._values[source] for source in sources)
        for index, source in enumerate(sources):
            tensor = self._tensor("output_edges", self._outputs, *source)
            graph.mark_output(numbers[self._values[source]], f"output_{index}", replace(tensor, flags=TensorFlags.NONE))
        return graph

    def _checked_nodes(self) -> tuple[OperatorGraphNodeDesc | ConstantGraphNodeDesc, ...]:
        check_graph_level(self._device)
        for name in ("input_count", "output_count"):
            count = getattr(self._desc, name)
            if type(count) is not int or count < 0:
                raise _error(name, shown(count), "an integer that is not negative")
        for name in ("nodes", "input_edges", "output_edges", "intermediate_edges"):
            if not isinstance(getattr(self._desc, name), Sequence):
                raise _error(name, f"an object of type {type(getattr(self._desc, name)).__name__}", "a sequence")
        if not self._desc.nodes or self._desc.output_count == 0:
            raise _error("nodes" if not self._desc.nodes else "output_count", "none", "at least one")
        for index, node in enumerate(self._desc.nodes):
            self._check_node(f"nodes[{index}]", node)
        return tuple(self._desc.nodes)

    def _check_node(self, field: str, node: Any) -> None:
        if isinstance(node, OperatorGraphNodeDesc | ConstantGraphNodeDesc):
            _check_name(field, node.name)
        if isinstance(node, OperatorGraphNodeDesc):
            if not isinstance(node.operator, Operator):
                raise _error(field, f"an operator of type {type(node.operator).__name__}", "an Operator")
            if node.operator.device != self._device:
                raise DmlError(f"graph: {field}: the operator was created by another device, {node.operator.device!r}")
        elif isinstance(node, ConstantGraphNodeDesc):
            if self._device.feature_level < _CONSTANT_LEVEL:
                message = f"graph: {field}: a constant node at {self._device.feature_level.name}"
                raise UnsupportedFeatureLevelError(
                    f"{message}; {_CONSTANT_LEVEL.name} introduced them", None, field, _CONSTANT_LEVEL
                )
            self._check_data(field, node.data)
        else:
            expected = "an OperatorGraphNodeDesc or ConstantGraphNodeDesc"
            raise _error(field, f"an object of type {type(node).__name__}", expected)

    def _check_data(self, field: str, data: Any) -> None:
        if not isinstance(data, np.ndarray | bytes):
            raise _error(field, f"data of type {type(data).__name__}", "a numpy array or bytes")
        if has_masked_elements(data):
            raise _error(field, "data with masked elements", WITHOUT_MASK)
        if isinstance(data, np.ndarray):
            try:
                data_type_of(data.dtype)
            except TypeError:
                raise _error(field, f"data of {data.dtype}", "elements of a tensor's data type, or bytes") from None

    def _tensor(self, field: str, tensors: dict[int, list[TensorBinding]], node: int, index: int) -> TensorDesc:
        """Return a node's tensor that an edge names."""
        what = "inputs" if tensors is self._inputs else "outputs"
        if type(node) is not int or node not in tensors:
            kind = "an operator node" if tensors is self._inputs else "a node with outputs"
            raise _error(field, f"{shown(node)} as node", f"the index of {kind}, below {len(self._nodes)}")
        if type(index) is not int or not 0 <= index < len(tensors[node]):
            got = f"{shown(index)} among the {what} of node {node}"
            raise _error(field, got, _indices(len(tensors[node])))
        tensor = tensors[node][index]
        if tensor.desc is None:
            raise _error(field, f"{tensor.name} of node {node}", "a tensor that its operator was created with")
        return tensor.desc

    def _edges(self, name: str, kind: type[Any]) -> Iterator[tuple[str, Any]]:
        for index, edge in enumerate(getattr(self._desc, name)):
            if not isinstance(edge, kind):
                expected = f"an {kind.__name__}"
                raise _error(f"{name}[{index}]", f"an object of type {type(edge).__name__}", expected)
            _check_name(f"{name}[{index}]", edge.name)
            yield f"{name}[{index}]", edge

    def _check_edges(self) -> None:
        for field, edge in self._edges("input_edges", InputGraphEdgeDesc):
            if type(edge.graph_input_index) is not int or not 0 <= edge.graph_input_index < self._desc.input_count:
                got = f"{shown(edge.graph_input_index)} as graph input"
                raise _error(field, got, _indices(self._desc.input_count))
            self._feed(field, edge)
        for field, edge in self._edges("intermediate_edges", IntermediateGraphEdgeDesc):
            tensor = self._feed(field, edge)
            self._check_source(field, edge, tensor)
        for index, tensors in self._inputs.items():
            for number, binding in enumerate(tensors):
                if binding.desc is not None and (index, number) not in self._feeds:
                    got = f"no edge to {binding.name} (input {number}) of node {index}"
                    raise _error("input_edges", got, "an edge to every tensor that an operator was created with")
        if len(self._output_edges()) != self._desc.output_count:
            raise _error("output_edges", counted(len(self._output_edges()), "output"), shown(self._desc.output_count))

    def _feed(self, field: str, edge: InputGraphEdgeDesc | IntermediateGraphEdgeDesc) -> TensorDesc:
        target = (edge.to_node_index, edge.to_node_input_index)
        tensor = self._tensor(field, self._inputs, *target)
        if target in self._feeds:
            raise _error(field, f"a second edge to input {target[1]} of node {target[0]}", "one edge to each input")
        self._feeds[target] = edge
        return tensor

    def _check_source(self, field: str, edge: IntermediateGraphEdgeDesc, tensor: TensorDesc) -> None:
        index = edge.from_node_index
        node = self._nodes[index] if type(index) is int and 0 <= index < len(self._nodes) else None
        if isinstance(node, ConstantGraphNodeDesc):
            if edge.from_node_output_index != 0:
                raise _error(field, f"{shown(edge.from_node_output_index)} as output of a constant", "0")
            if (misfit := constant_misfit(node.data, tensor)) is not None:
                raise _error(field, *misfit)
            return
        source = self._tensor(field, self._outputs, index, edge.from_node_output_index)
        if _buffer_size(source) != _buffer_size(tensor):
            raise _error(
                field, f"{_buffer_size(source)} bytes to {_buffer_size(tensor)}", "tensors of equal size in bytes"
            )
        if tensor.flags & TensorFlags.OWNED_BY_DML:
            raise _error(field, "a tensor flagged OWNED_BY_DML", "that flag on graph inputs and constants alone")

    def _output_edges(self) -> dict[int, OutputGraphEdgeDesc]:
        edges: dict[int, OutputGraphEdgeDesc] = {}
        for field, edge in self._edges("output_edges", OutputGraphEdgeDesc):
            index = edge.graph_output_index
            if type(index) is not int or not 0 <= index < self._desc.output_count or index in edges:
                expected = f"each {_indices(self._desc.output_count).removeprefix('one ')} once"
                raise _error(field, f"{shown(index)} as graph output", expected)
            self._tensor(field, self._outputs, edge.from_node_index, edge.from_node_output_index)
            edges[index] = edge
        return edges

    def _add_graph_input(self, index: int) -> None:
        """Add an input as the widest of its tensors describes it, the first of several; that holds all others."""
        field, name = "input_edges", f"input_{index}"
        uses = [edge for edge in self._desc.input_edges if edge.graph_input_index == index]
        if not uses:
            raise _error(field, f"no edge from graph input {index}", "a use of every input")
        tensors = [self._tensor(field, self._inputs, edge.to_node_index, edge.to_node_input_index) for edge in uses]
        first = max(tensors, key=span_in_bytes)
        for tensor in tensors:
            if _buffer_size(tensor) != _buffer_size(first):
                got = f"tensors of {_buffer_size(tensor)} and {_buffer_size(first)} bytes at graph input {index}"
                raise _error(field, got, "tensors of equal size in bytes")
            if tensor.flags != first.flags:
                raise _error(field, f"graph input {index} with and without OWNED_BY_DML", "the flag at every use")
        if first.flags & TensorFlags.OWNED_BY_DML:
            self._graph_inputs[index] = self._graph.add_constant(first, None, name)
        else:
            self._graph_inputs[index] = self._graph.add_input(name, first)

    def _sorted(self) -> list[int]:
        """Return the operator nodes in an order in which every node follows those that it reads."""
        order: list[int] = []
        waiting = {index: 0 for index in self._inputs}
        readers: dict[int, list[int]] = {index: [] for index in self._inputs}
        for (target, _), edge in self._feeds.items():
            if isinstance(edge, IntermediateGraphEdgeDesc) and edge.from_node_index in waiting:
                waiting[target] += 1
                readers[edge.from_node_index].append(target)
        ready = [index for index, count in waiting.items() if count == 0]
        while ready:
            index = ready.pop(0)
            order.append(index)
            for reader in readers[index]:
                waiting[reader] -= 1
                if waiting[reader] == 0:
                    ready.append(reader)
        if len(order) != len(waiting):
            cycle = sorted(set(waiting) - set(order))
            raise _error("intermediate_edges", f"a cycle among the nodes {cycle}", "a graph without cycles")
        return order

    def _add_node(self, index: int) -> None:
        node = self._nodes[index]
        assert isinstance(node, OperatorGraphNodeDesc)
        desc, name = node.operator.desc, node.name or f"node {index}"
        inputs = [
            None if tensor.desc is None else self._fed_value(index, number, tensor.desc, name)
            for number, tensor in enumerate(self._inputs[index])
        ]
        descs = [tensor.desc for tensor in self._outputs[index] if tensor.desc is not None]
        values = self._graph.add_node(node.operator.type.name, inputs, descs, operator_attributes(desc), name)
        self._values.update({(index, number): value for number, value in enumerate(values)})

    def _fed_value(self, index: int, number: int, tensor: TensorDesc, name: str) -> int:
        edge = self._feeds[index, number]
        if isinstance(edge, InputGraphEdgeDesc):
            return self._graph.reinterpret(self._graph_inputs[edge.graph_input_index], tensor, name)
        source = self._nodes[edge.from_node_index]
        if isinstance(source, ConstantGraphNodeDesc):
            return self._graph.add_constant(tensor, constant_elements(source.data, tensor))
        return self._graph.reinterpret(self._values[edge.from_node_index, edge.from_node_output_index], tensor, name)
