"""Values and nodes as the native module takes them, gathered one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from dmlcpu import _core
from dmlcpu.enums import TensorDataType
from dmlcpu.graph.interface import BoundValue, GraphInterface
from dmlcpu.graph.lengths import FreeDesc
from dmlcpu.graph.record import Derived
from dmlcpu.tensor import TensorDesc, data_type_of

__all__ = ["Attributes", "NativeGraph", "PackedDesc", "ValueKind", "as_a_desc_can_say"]

_Array = np.ndarray[Any, Any]

Attributes: TypeAlias = Mapping[str, Sequence[int] | Derived]
"""The integers of each attribute, by its name."""


class ValueKind(IntEnum):
    """Where a value's memory comes from; the numbers are the native module's."""

    INPUT = 0
    OUTPUT = 1
    CONSTANT = 2
    INTERMEDIATE = 3


# Looking it up in the class takes longer than adding it to a list.
_INTERMEDIATE: Final = (ValueKind.INTERMEDIATE,)
_BOUND_AT_A_DISPATCH: Final = (ValueKind.INPUT, ValueKind.OUTPUT)


_NO_ATTRIBUTES: Final[Attributes] = {}


class NodeRow(NamedTuple):
    """A node as the native module takes it."""

    type: str
    name: str
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    attributes: Attributes


class PackedDesc(NamedTuple):
    """What the native module takes of the desc of a packed value; made in a fraction of a desc's time."""

    data_type: TensorDataType
    sizes: tuple[int, ...]
    strides: None = None


class NativeGraph:
    """A graph under construction. Values are numbers; their descs tell type, sizes and strides.

    Strides of intermediate values do not count, but for those that ``reinterpret`` reads and makes. Lengths, attributes
    and constants may be known only later (``dmlcpu.graph.free_graph``).
    """

    def __init__(self) -> None:
        self.descs: list[TensorDesc | PackedDesc | FreeDesc | None] = []  # None of constants that lie as their arrays
        self.kinds: list[ValueKind] = []
        self.names: list[str] = []
        self.constants: dict[int, _Array | Derived | None] = {}
        self.outputs: list[int] = []  # in the order in which they were marked
        self.nodes: list[NodeRow] = []

    def copy(self) -> NativeGraph:
        """Return a graph that goes on from here by itself."""
        graph = NativeGraph()
        graph.descs, graph.kinds, graph.names = [*self.descs], [*self.kinds], [*self.names]
        graph.constants, graph.outputs, graph.nodes = {**self.constants}, [*self.outputs], [*self.nodes]
        return graph

    def reaching(self, values: Iterable[int]) -> tuple[NativeGraph, dict[int, int]]:
        """Return a graph of the nodes that lead to values, which goes on by itself, and its number of each value kept.

        Nodes must have been added after those that they read. What is bound under a name is kept, used or not.
        """
        needed = set(values)
        nodes: list[NodeRow] = []
        for node in reversed(self.nodes):
            if not needed.isdisjoint(node.outputs):
                nodes.append(node)
                needed.update(node.outputs, [value for value in node.inputs if value is not None])
        needed.update([value for value, name in enumerate(self.names) if name])
        if len(needed) == len(self.kinds):
            return self.copy(), {value: value for value in needed}
        numbers = {value: number for number, value in enumerate(sorted(needed))}
        graph = NativeGraph()
        graph.descs = [self.descs[value] for value in numbers]
        graph.kinds = [self.kinds[value] for value in numbers]
        graph.names = [self.names[value] for value in numbers]
        graph.constants = {numbers[value]: array for value, array in self.constants.items() if value in numbers}
        graph.outputs = [numbers[value] for value in self.outputs]
        places: dict[int | None, int | None] = {None: None}
        places.update(numbers.items())
        graph.nodes = [
            NodeRow(
                type,
                name,
                tuple(map(places.__getitem__, inputs)),
                tuple(map(numbers.__getitem__, outputs)),
                attributes,
            )
            for type, name, inputs, outputs, attributes in reversed(nodes)
        ]
        return graph, numbers

    def _add_value(self, kind: ValueKind, name: str, desc: TensorDesc | FreeDesc | None) -> int:
        self.kinds.append(kind)
        self.names.append(name)
        self.descs.append(desc)
        return len(self.descs) - 1

    def desc(self, value: int) -> TensorDesc:
        """Return the desc of a value that was added with one."""
        desc = self.descs[value]
        assert isinstance(desc, TensorDesc)
        return desc

    def add_input(self, name: str, desc: TensorDesc | FreeDesc) -> int:
        """Add a value that is bound at each dispatch."""
        return self._add_value(ValueKind.INPUT, name, desc)

    def add_constant(self, desc: TensorDesc, array: _Array | None, name: str = "") -> int:
        """Add a value that is given once: now, or later, under its name, if the array is None.

        The array has the desc's data type and fits it as a binding would.
        """
        value = self._add_value(ValueKind.CONSTANT, name, desc)
        self.constants[value] = array
        return value

    def add_array(self, array: _Array) -> int:
        """Add a constant as it lies in memory, packed if no desc can say that; a 0-d array is one element.

        Raises:
            TypeError: No data type has its dtype.
        """
        data_type_of(array.dtype)
        value = self._add_value(ValueKind.CONSTANT, "", None)
        self.constants[value] = as_a_desc_can_say(array)
        return value

    def add_derived(self, array: Derived) -> int:
        """Add a constant that follows from lengths that are known only later."""
        value = self._add_value(ValueKind.CONSTANT, "", None)
        self.constants[value] = array
        return value

    def add_repeated(self, array: _Array, desc: FreeDesc) -> int:
        """Add a constant array that is repeated, as numpy broadcasts it, along axes of lengths known only later."""
        value = self._add_value(ValueKind.CONSTANT, "", desc)
        self.constants[value] = as_a_desc_can_say(array)
        return value

    def add_node(
        self,
        type: str,
        inputs: Sequence[int | None],
        outputs: Sequence[TensorDesc | FreeDesc],
        attributes: Attributes | None = None,
        name: str = "",
    ) -> tuple[int, ...]:
        """Add an operator by its native name, its inputs numbered as in its desc; return its outputs."""
        count, first = len(outputs), len(self.descs)
        self.kinds += _INTERMEDIATE * count
        self.names += ("",) * count
        self.descs += outputs
        values = tuple(range(first, first + count))
        own = dict(attributes) if attributes else _NO_ATTRIBUTES
        self.nodes.append(NodeRow(type, name or f"node {len(self.nodes)}", tuple(inputs), values, own))
        return values

    def add_view(
        self,
        type: str,
        inputs: Sequence[int],
        sizes: Sequence[int],
        attributes: Mapping[str, Sequence[int]] | None = None,
        name: str = "",
    ) -> int:
        """Add a view of the inputs' data type, other than REINTERPRET (``cpp/graph/graph.h``); return its output."""
        [value] = self.add_node(type, inputs, [TensorDesc(self.desc(inputs[0]).data_type, sizes)], attributes, name)
        return value

    def reinterpret(self, value: int, desc: TensorDesc, name: str = "") -> int:
        """Return the memory of a value as another tensor; the value itself if that says the same."""
        given = self.desc(value)
        if (given.data_type, given.sizes, given.element_strides) == (desc.data_type, desc.sizes, desc.element_strides):
            return value
        [other] = self.add_node("REINTERPRET", [value], [desc], name=name)
        return other

    def mark_output(self, value: int, name: str, desc: TensorDesc | FreeDesc, node: str = "") -> None:
        """Bind a value at each dispatch.

        Args:
            value: Its number.
            name: To bind it under.
            desc: With its type and sizes; it says how it is laid out.
            node: The name of a node that copies the value, where it cannot be bound itself; the output's if "".
        """
        reinterpreted = any(value in (*node.inputs, *node.outputs) for node in self.nodes if node.type == "REINTERPRET")
        if self.kinds[value] is not ValueKind.INTERMEDIATE or reinterpreted:
            [value] = self.add_node("RESHAPE", [value], [desc], name=node or name)
        self.kinds[value], self.names[value], self.descs[value] = ValueKind.OUTPUT, name, desc
        self.outputs.append(value)

    def native(self) -> _core.GivenGraph:
        """Return the graph as the native module has it.

        Raises:
            ValueError: A desc or an array is none that it takes.
        """
        return _core.new_graph(*self.rows())

    def interface(self) -> GraphInterface:
        """Return what a dispatch binds."""
        later = [value for value, array in self.constants.items() if array is None]
        places = [sorted(self.outputs).index(value) for value in self.outputs]
        return GraphInterface(
            [
                *(self._bound_value(v) for v, kind in enumerate(self.kinds) if kind in _BOUND_AT_A_DISPATCH),
                *(self._bound_value(value) for value in later),
            ],
            [self.names[value] for value in self.outputs],
            places,
        )

    def _bound_value(self, value: int) -> BoundValue:
        kind, desc = self.kinds[value], self.descs[value]
        assert isinstance(desc, TensorDesc | FreeDesc)
        bound = desc if isinstance(desc, TensorDesc) else desc.data_type
        return BoundValue(self.names[value], bound, kind is ValueKind.CONSTANT, kind is ValueKind.OUTPUT)

    def arrays(self) -> dict[int, _Array | None]:
        """Return the constants that have descs, by value; None for those that are given later, under their names."""
        described: dict[int, _Array | None] = {}
        for value, array in self.constants.items():
            if isinstance(self.descs[value], TensorDesc):
                assert not isinstance(array, Derived)
                described[value] = array
        return described

    def rows(self) -> tuple[list[Any], list[Any]]:
        """Return the values and nodes for the native module."""
        values = [
            self.constants[value] if desc is None else (kind, name, desc.data_type, desc.sizes, desc.strides)
            for value, (kind, name, desc) in enumerate(zip(self.kinds, self.names, self._known_descs(), strict=True))
        ]
        return values, [*self.nodes]

    def _known_descs(self) -> Iterator[TensorDesc | PackedDesc | None]:
        for desc in self.descs:
            assert not isinstance(desc, FreeDesc)
            yield desc


def as_a_desc_can_say(array: _Array) -> _Array:
    """Return an array packed if no desc can say how it lies in memory, or if it is not aligned to its elements."""
    flags = array.flags
    goes_forward = flags.c_contiguous or all(step >= 0 and step % array.itemsize == 0 for step in array.strides)
    return array if goes_forward and flags.aligned else array.copy()
