"""The desc of a graph: nodes, and edges between them (``DML_GRAPH_DESC`` and what it holds)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dmlcpu.coercion import coerce_integer
from dmlcpu.created_operator import Operator

__all__ = [
    "ConstantGraphNodeDesc",
    "GraphDesc",
    "InputGraphEdgeDesc",
    "IntermediateGraphEdgeDesc",
    "OperatorGraphNodeDesc",
    "OutputGraphEdgeDesc",
]

_COMPARED_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class OperatorGraphNodeDesc:
    """An operator as a node (``DML_OPERATOR_GRAPH_NODE_DESC``).

    Attributes:
        operator: Made by ``create_operator`` of the device that compiles the graph, or of an equal one.
        name: For messages, descriptions and profiles.

    >>> from dmlcpu import Device, DynamicQuantizeLinearOperatorDesc, TensorDataType, TensorDesc
    >>> operator = Device().create_operator(DynamicQuantizeLinearOperatorDesc(
    ...     input_tensor=TensorDesc(TensorDataType.FLOAT32, (4,)),
    ...     output_tensor=TensorDesc(TensorDataType.UINT8, (4,)),
    ...     output_scale_tensor=TensorDesc(TensorDataType.FLOAT32, (1,)),
    ...     output_zero_point_tensor=TensorDesc(TensorDataType.UINT8, (1,))))
    >>> OperatorGraphNodeDesc(operator, "first").operator.type.name
    'DYNAMIC_QUANTIZE_LINEAR'
    """

    operator: Operator
    name: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ConstantGraphNodeDesc:
    """Data known when the graph is compiled (``DML_CONSTANT_DATA_GRAPH_NODE_DESC``), from feature level 6_2 on.

    Attributes:
        data: An array of the data type of the tensors that it is connected to: of their shape, in which axes that they
            repeat or that have length 1 may be left out, or else of one axis, with their elements as they lie in
            memory. Or bytes, also as a ``uint8`` array. One axis of another shape, and bytes, have at least the size of
            the tensors. It is copied when the graph is compiled. 4-bit elements come as packed bytes, two in each, or
            as an array of ``ml_dtypes``' ``int4`` or ``uint4``, which is packed.
        name: For messages, descriptions and profiles.

    Arrays are equal if their types, shapes and bits are.

    >>> ConstantGraphNodeDesc(np.float32([0.5, 1]), "scales") == ConstantGraphNodeDesc(np.float32([0.5, 1]), "scales")
    True
    """

    data: np.ndarray[Any, Any] | bytes
    name: str | None = None

    def __eq__(self, other: object) -> bool:
        """Return whether name and data are equal, NaN and the sign of 0 by their bits."""
        if not isinstance(other, ConstantGraphNodeDesc):
            return NotImplemented
        return self.name == other.name and _are_equal(self.data, other.data)

    def __hash__(self) -> int:
        """Return equal values for equal nodes, without a look at the elements of an array."""
        data: Any = self.data
        # Of equal dtypes numpy's hashes may differ.
        return hash((self.name, (data.dtype.str, data.shape) if isinstance(data, np.ndarray) else data))


def _are_equal(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and _have_equal_bytes(one, other)
    return type(one) is type(other) and bool(one == other)


def _have_equal_bytes(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    """Compare arrays of one type and shape by the bytes of their elements in row-major order, however they lie."""
    are_contiguous = one.flags.c_contiguous and other.flags.c_contiguous
    if not are_contiguous or one.dtype.hasobject or not one.nbytes:  # numpy makes no bytes of objects, or of nothing
        return one.tobytes() == other.tobytes()
    # No copies, and parts, since numpy's comparison has a byte for each: constants may be most of the memory.
    ours, theirs = (np.asarray(array).reshape(-1).view(np.uint8) for array in (one, other))
    starts = range(0, ours.size, _COMPARED_BYTES)
    return all(np.array_equal(ours[i : i + _COMPARED_BYTES], theirs[i : i + _COMPARED_BYTES]) for i in starts)


class _Edge:
    """What edges have in common: indices are brought to plain integers, a name is for messages."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for field in self.__dataclass_fields__:  # type: ignore[attr-defined]  # every subclass is a dataclass
            if field != "name":
                object.__setattr__(self, field, coerce_integer(getattr(self, field)))


@dataclass(frozen=True, slots=True)
class InputGraphEdgeDesc(_Edge):
    """From an input of the graph to one of a node (``DML_INPUT_GRAPH_EDGE_DESC``).

    Node inputs are numbered as in the operator's desc, optional ones and the entries of arrays of tensors included.

    The tensors at the edges of one graph input may differ in data type, sizes and strides; their buffers are equally
    large, and all or none are flagged OWNED_BY_DML. What is bound is described by the one that spans the most bytes, by
    that of the first edge among several; the others read the same memory.

    >>> InputGraphEdgeDesc(graph_input_index=0, to_node_index=2, to_node_input_index=1)
    InputGraphEdgeDesc(graph_input_index=0, to_node_index=2, to_node_input_index=1, name=None)
    """

    graph_input_index: int
    to_node_index: int
    to_node_input_index: int
    name: str | None = None


@dataclass(frozen=True, slots=True)
class OutputGraphEdgeDesc(_Edge):
    """From an output of a node to one of the graph (``DML_OUTPUT_GRAPH_EDGE_DESC``).

    >>> OutputGraphEdgeDesc(from_node_index=2, from_node_output_index=0, graph_output_index=0)
    OutputGraphEdgeDesc(from_node_index=2, from_node_output_index=0, graph_output_index=0, name=None)
    """

    from_node_index: int
    from_node_output_index: int
    graph_output_index: int
    name: str | None = None


@dataclass(frozen=True, slots=True)
class IntermediateGraphEdgeDesc(_Edge):
    """From an output of a node to an input of another (``DML_INTERMEDIATE_GRAPH_EDGE_DESC``).

    The two tensors may differ in data type, sizes and strides; their buffers are equally large.

    >>> edge = IntermediateGraphEdgeDesc(0, 0, 1, 2, "codes")
    >>> edge.from_node_index, edge.from_node_output_index, edge.to_node_index, edge.to_node_input_index
    (0, 0, 1, 2)
    """

    from_node_index: int
    from_node_output_index: int
    to_node_index: int
    to_node_input_index: int
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphDesc:
    """Operators and constants, and what flows between them (``DML_GRAPH_DESC``); ``Device.compile_graph`` checks it.

    The constructor takes any sequences, and keeps tuples of them.

    Attributes:
        input_count: How many inputs the graph has, each of which some edge uses; they are bound as ``input_0``,
            ``input_1``, ...
        output_count: How many outputs it has: ``output_0``, ``output_1``, ...
        nodes: Operator and constant nodes, in any order.
        input_edges, output_edges, intermediate_edges: What connects them, without a cycle.

    >>> from dmlcpu import Device, DynamicQuantizeLinearOperatorDesc, TensorDataType, TensorDesc
    >>> one = TensorDesc(TensorDataType.FLOAT32, (1,))
    >>> code = TensorDesc(TensorDataType.UINT8, (4,))
    >>> device = Device()
    >>> operator = device.create_operator(DynamicQuantizeLinearOperatorDesc(
    ...     input_tensor=TensorDesc(TensorDataType.FLOAT32, (4,)), output_tensor=code, output_scale_tensor=one,
    ...     output_zero_point_tensor=TensorDesc(TensorDataType.UINT8, (1,))))
    >>> graph = device.compile_graph(GraphDesc(
    ...     input_count=1, output_count=1, nodes=[OperatorGraphNodeDesc(operator)],
    ...     input_edges=[InputGraphEdgeDesc(0, 0, 0)], output_edges=[OutputGraphEdgeDesc(0, 0, 0)]))
    >>> graph.dispatch(input_0=np.float32([0, 1, 2, 255]))
    array([  0,   1,   2, 255], dtype=uint8)
    """

    input_count: int
    output_count: int
    nodes: Sequence[OperatorGraphNodeDesc | ConstantGraphNodeDesc]
    input_edges: Sequence[InputGraphEdgeDesc] = ()
    output_edges: Sequence[OutputGraphEdgeDesc] = ()
    intermediate_edges: Sequence[IntermediateGraphEdgeDesc] = ()

    def __post_init__(self) -> None:
        """Bring the counts to plain integers, nodes and edges to tuples, so that equal descs compare and hash equal."""
        for field in ("input_count", "output_count"):
            object.__setattr__(self, field, coerce_integer(getattr(self, field)))
        for field in ("nodes", "input_edges", "output_edges", "intermediate_edges"):
            object.__setattr__(self, field, _tuple_of(getattr(self, field)))


def _tuple_of(value: Any) -> Any:
    """Return the members of a sequence as a tuple, else the value itself, for ``Device.compile_graph`` to refuse.

    Text and ranges hold no nodes or edges, and a range may be too long for a tuple.
    """
    if type(value) is tuple or not isinstance(value, Sequence) or isinstance(value, str | bytes | range):
        return value
    try:
        return tuple(value)
    except Exception:  # a foreign sequence may raise anything
        return value
