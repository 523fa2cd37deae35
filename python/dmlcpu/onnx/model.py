"""Models as they are read from ONNX files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from google.protobuf.message import DecodeError

from dmlcpu.errors import InvalidModelError
from dmlcpu.onnx.serialized import without_large_constants
from dmlcpu.onnx.tensor_protos import array_of, has_external_data
from dmlcpu.onnx.values import Array

__all__ = ["Model", "Node", "ValueInfo", "has_quantized_nodes", "load_model"]

_LARGEST_RANK = 32

# Looking them up in the class takes longer than comparing with them.
_INT: Final = onnx.AttributeProto.INT
_INTS: Final = onnx.AttributeProto.INTS
_GRAPH: Final = onnx.AttributeProto.GRAPH
_GRAPHS: Final = onnx.AttributeProto.GRAPHS

# What protobuf and onnx raise of files that they cannot read.
_UNREADABLE: Final = (DecodeError, ValueError, TypeError, RuntimeError, onnx.checker.ValidationError)


@dataclass(frozen=True, slots=True)
class ValueInfo:
    """An input or output of a model.

    Attributes:
        name: Its name.
        dtype: numpy's type of its elements; ``void`` of an output that the model tells no type of.
        shape: Lengths of the axes; a name, or None, where a length is free. None if even the rank is.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | str | None, ...] | None


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


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A model whose form has been checked: every value is written once, and before it is read.

    Attributes:
        proto: As it was read, or without its initializers.
        inputs: What is fed at each run.
        outputs: What a run returns.
        nodes: In an order in which they can run.
        constants: The initializers, by name.
    """

    proto: onnx.ModelProto
    inputs: tuple[ValueInfo, ...]
    outputs: tuple[ValueInfo, ...]
    nodes: tuple[Node, ...]
    constants: Mapping[str, Array] = field(repr=False)


def load_model(model: str | PathLike[str] | bytes, with_weights: bool = True) -> Model:
    """Read a model from a path or from the bytes of a file.

    Args:
        model: Where it is.
        with_weights: Whether the proto is to keep the initializers, which the model has as arrays anyway.

    Raises:
        InvalidModelError: It is no ONNX model, or one whose parts do not fit together; the message names the node.
        OSError: The file cannot be read.
    """
    source = "model" if isinstance(model, bytes) else fspath(model)
    data = model if isinstance(model, bytes) else Path(source).read_bytes()
    rest, large = (data, {}) if with_weights else without_large_constants(data)
    try:
        proto = onnx.load_model_from_string(rest)
    except _UNREADABLE as error:
        raise InvalidModelError(f"{source}: not an ONNX model: {error}") from None
    if not isinstance(model, bytes) and has_external_data(proto):
        try:
            onnx.load_external_data_for_model(proto, str(Path(source).parent))
        except _UNREADABLE as error:
            raise InvalidModelError(f"{source}: its external data cannot be read: {error}") from None
    return _checked(proto, large, with_weights)


def _checked(proto: onnx.ModelProto, large: Mapping[int, memoryview], with_weights: bool) -> Model:
    if not proto.graph.node and not proto.graph.output:
        raise InvalidModelError("model: it has no graph")
    versions = {entry.domain if entry.domain != "ai.onnx" else "": entry.version for entry in proto.opset_import}
    for domain, version in versions.items():
        if not 1 <= version < 1 << 31:
            raise InvalidModelError(f"model: version {version} of the operators of the domain {domain!r}")
    constants = {tensor.name: _array(tensor, large.get(index)) for index, tensor in enumerate(proto.graph.initializer)}
    if proto.graph.sparse_initializer:
        raise InvalidModelError("model: sparse initializers are not supported")
    if not with_weights:
        # Nodes refer to the proto, and what is deleted of one is freed with the rest of it: a smaller copy is made.
        del proto.graph.initializer[:]
        whole, proto = proto, onnx.ModelProto()
        proto.CopyFrom(whole)
    inputs = tuple(_value_info(value) for value in proto.graph.input if value.name not in constants)
    names: set[str] = set()
    nodes = tuple(_node(index, node, versions, names) for index, node in enumerate(proto.graph.node))
    outputs = tuple(_output_info(value) for value in proto.graph.output)
    nodes = _ordered(nodes, {*constants, *(value.name for value in inputs)}, outputs)
    return Model(proto, inputs, outputs, nodes, constants)


def _array(tensor: onnx.TensorProto, raw_data: memoryview | None) -> Array:
    if tensor.dims and min(tensor.dims) < 0:
        raise InvalidModelError(f"initializer {tensor.name!r}: got dimensions {list(tensor.dims)}")
    try:
        return array_of(tensor, raw_data)
    except Exception as error:  # whatever a malformed tensor makes numpy or onnx raise
        raise InvalidModelError(f"initializer {tensor.name!r}: {error}") from None


def _output_info(value: onnx.ValueInfoProto) -> ValueInfo:
    """Return what a model tells of an output, which may be its name alone."""
    if value.type.WhichOneof("value") is None:
        return ValueInfo(value.name, np.dtype(np.void), None)
    return _value_info(value)


def _value_info(value: onnx.ValueInfoProto) -> ValueInfo:
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        raise InvalidModelError(f"{value.name!r}: got a value of kind {kind}, expected a tensor")
    tensor = value.type.tensor_type
    try:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    except (KeyError, ValueError):
        raise InvalidModelError(f"{value.name!r}: its element type {tensor.elem_type} is unknown") from None
    if not tensor.HasField("shape"):
        return ValueInfo(value.name, np.dtype(dtype), None)
    if len(tensor.shape.dim) > _LARGEST_RANK:
        raise InvalidModelError(f"{value.name!r}: {len(tensor.shape.dim)} dimensions")
    return ValueInfo(value.name, np.dtype(dtype), tuple(_length(dimension) for dimension in tensor.shape.dim))


def _length(dimension: Any) -> int | str | None:
    kind = dimension.WhichOneof("value")
    if kind == "dim_value" and dimension.dim_value >= 0:
        return int(dimension.dim_value)
    return str(dimension.dim_param) if kind == "dim_param" else None


def _node(index: int, proto: onnx.NodeProto, versions: Mapping[str, int], taken: set[str]) -> Node:
    # What is no UTF-8 protobuf returns as bytes.
    for text in (proto.name, proto.op_type, proto.domain, *proto.input, *proto.output):
        if not isinstance(text, str):
            raise InvalidModelError(f"node {index}: {text!r} is not UTF-8")
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    name = proto.name or f"{proto.op_type}_{index}"
    while name in taken:
        name = f"{name}_{index}"
    taken.add(name)
    if domain not in versions:
        raise InvalidModelError(f"node {name}: the model imports no operators of the domain {domain!r}")
    given = [*proto.attribute]
    try:
        attributes = {attribute.name: _attribute(attribute) for attribute in given}
    except Exception as error:  # whatever a malformed attribute makes onnx raise
        raise InvalidModelError(f"node {name} ({proto.op_type}): {error}") from None
    subgraphs = [*_subgraphs(given)]
    _check_counts(name, proto, given, subgraphs)
    inputs, outputs = tuple(proto.input), tuple(proto.output)
    captured = (value for graph in subgraphs for value in _captured(graph))
    reads = tuple(dict.fromkeys(filter(None, (*inputs, *captured))))
    return Node(name, domain, proto.op_type, versions[domain], inputs, outputs, attributes, reads, proto)


# Attributes that runtimes divide by, or by a power of, before they look at them.
_COUNTS: Final = frozenset(
    (
        "block_size",
        "blocksize",
        "dilations",
        "group",
        "kernel_shape",
        "num_groups",
        "num_heads",
        "num_outputs",
        "strides",
    )
)


def _check_counts(
    name: str,
    proto: onnx.NodeProto,
    attributes: Sequence[onnx.AttributeProto],
    subgraphs: Iterable[onnx.GraphProto],
) -> None:
    """Check the counts of a node, and of those within it."""
    for attribute in attributes:
        if attribute.name not in _COUNTS:
            continue
        kind = attribute.type
        counts = tuple(attribute.ints) if kind == _INTS else (attribute.i,)
        if kind in (_INT, _INTS) and not 1 <= min(counts, default=1) <= max(counts, default=1) < 2**31:
            got = f"{attribute.name} {list(counts)}"
            raise InvalidModelError(f"node {name} ({proto.op_type}): got {got}, expected numbers from 1 to {2**31 - 1}")
    for graph in subgraphs:
        for node in graph.node:
            _check_counts(node.name or name, node, node.attribute, _subgraphs(node.attribute))


def _attribute(attribute: onnx.AttributeProto) -> Any:
    kind = attribute.type
    if kind == _INTS and not attribute.ref_attr_name:  # the most common kind is quick
        return tuple(attribute.ints)
    value = onnx.helper.get_attribute_value(attribute)
    if kind == onnx.AttributeProto.TENSOR:
        return array_of(value)
    return tuple(value) if kind == onnx.AttributeProto.FLOATS else value


def _ordered(nodes: Sequence[Node], known: set[str], outputs: Sequence[ValueInfo]) -> tuple[Node, ...]:
    """Return the nodes in an order in which each follows those whose values it reads."""
    writers: dict[str, Node] = {}
    for node in nodes:
        for name in filter(None, node.outputs):
            if name in writers or name in known:
                raise InvalidModelError(f"node {node}: it writes {name!r}, which is written already")
            writers[name] = node
    waiting = {id(node): 0 for node in nodes}
    readers: dict[str, list[Node]] = {}
    for node in nodes:
        for name in node.reads:
            if name in writers:
                waiting[id(node)] += 1
                readers.setdefault(name, []).append(node)
            elif name not in known:
                raise InvalidModelError(f"node {node}: it reads {name!r}, which nothing writes")
    ready = [node for node in nodes if waiting[id(node)] == 0]
    order: list[Node] = []
    for node in ready:  # grows while it is walked
        order.append(node)
        for name in filter(None, node.outputs):
            for reader in readers.get(name, ()):
                waiting[id(reader)] -= 1
                if waiting[id(reader)] == 0:
                    ready.append(reader)
    if len(order) != len(nodes):
        stuck = next(node for node in nodes if waiting[id(node)] > 0)
        raise InvalidModelError(f"node {stuck}: it waits for its own result")
    for output in outputs:
        if output.name not in writers and output.name not in known:
            raise InvalidModelError(f"output {output.name!r}: nothing writes it")
    position = {id(node): index for index, node in enumerate(nodes)}
    if all(
        position[id(a)] < position[id(b)] for name, group in readers.items() for b in group for a in [writers[name]]
    ):
        return tuple(nodes)  # the model's own order keeps what belongs together close
    return tuple(order)


def _subgraphs(attributes: Sequence[onnx.AttributeProto]) -> Iterator[onnx.GraphProto]:
    for attribute in attributes:
        kind = attribute.type
        if kind == _GRAPH:
            yield attribute.g
        elif kind == _GRAPHS:
            yield from attribute.graphs


def _captured(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield the values that the nodes of a subgraph, and of those within it, take from outside."""
    inside = {value.name for value in (*graph.input, *graph.initializer)}
    inside |= {name for node in graph.node for name in node.output}
    for node in graph.node:
        names = (*node.input, *(name for inner in _subgraphs(node.attribute) for name in _captured(inner)))
        yield from (name for name in names if name and name not in inside)
    yield from (value.name for value in graph.output if value.name not in inside)


def has_quantized_nodes(nodes: Iterable[Node]) -> bool:
    """Return whether some node is a quantized operator, or leads to codes or from them."""
    words = ("Quantize", "QLinear", "QGemm", "QAttention", "Integer")
    return any(word in node.operator for node in nodes for word in words)
