"""Values and nodes as the native module takes them, gathered one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from dmlcpu import _core
from dmlcpu.enums import TensorDataType
from dmlcpu.graph.lengths import FreeDesc, derived_among, is_free
from dmlcpu.graph.record import Derived, Replay
from dmlcpu.tensor import TensorDesc, data_type_of

__all__ = ["Attributes", "NativeGraph", "ValueKind"]

_Array = np.ndarray[Any, Any]

Attributes: TypeAlias = Mapping[str, Sequence[int] | Derived]
"""The integers of each attribute, by its name."""


class ValueKind(IntEnum):
    """Where a value's memory comes from; the numbers are the native module's."""

    INPUT = 0
    OUTPUT = 1
    CONSTANT = 2
    INTERMEDIATE = 3


class _Node(NamedTuple):
    type: str
    name: str
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    attributes: Attributes


class _PackedDesc(NamedTuple):
    """What the native module takes of the desc of a packed value; made in a fraction of a desc's time."""

    data_type: TensorDataType
    sizes: tuple[int, ...]
    strides: None = None


class _FreeParts(NamedTuple):
    """What of a graph is known only later."""

    descs: list[tuple[int, FreeDesc]]
    constants: list[tuple[int, Derived]]
    nodes: list[tuple[int, dict[str, Sequence[int] | Derived]]]  # attributes


class _Changes(NamedTuple):
    """How a graph differs from the first that another one became for some lengths."""

    origin: NativeGraph
    values: Mapping[int, Any]  # rows for the native module
    attributes: Mapping[int, Any]  # of nodes


class NativeGraph:
    """A graph under construction. Values are numbers; their descs tell type, sizes and strides.

    Strides of intermediate values do not count, but for those that ``reinterpret`` reads and makes. Lengths, attributes
    and constants may be known only later (``dmlcpu.graph.record``); ``at`` returns the graph for some of them.
    """

    def __init__(self) -> None:
        self._descs: list[TensorDesc | _PackedDesc | FreeDesc | None] = []  # None of constants that lie as their arrays
        self.kinds: list[ValueKind] = []
        self.names: list[str] = []
        self.constants: dict[int, _Array | Derived | None] = {}
        self.outputs: list[int] = []  # in the order in which they were marked
        self._nodes: list[_Node] = []
        # Of one with lengths that are known only later, from the first ``at`` on.
        self._free: _FreeParts | None = None
        self._first: _core.Graph | None = None  # what the native module has of it, for some lengths
        self._changes: _Changes | None = None  # of what ``at`` returned
        self._bound: list[int] | None = None  # of what ``at`` is called on

    def copy(self) -> NativeGraph:
        """Return a graph that goes on from here by itself."""
        graph = NativeGraph()
        graph._descs, graph.kinds, graph.names = [*self._descs], [*self.kinds], [*self.names]
        graph.constants, graph.outputs, graph._nodes = {**self.constants}, [*self.outputs], [*self._nodes]
        return graph

    def reaching(self, values: Iterable[int]) -> tuple[NativeGraph, dict[int, int]]:
        """Return a graph of the nodes that lead to values, which goes on by itself, and its number of each value kept.

        Nodes must have been added after those that they read. What is bound under a name is kept, used or not.
        """
        needed = set(values)
        nodes: list[_Node] = []
        for node in reversed(self._nodes):
            if not needed.isdisjoint(node.outputs):
                nodes.append(node)
                needed.update(node.outputs, (value for value in node.inputs if value is not None))
        needed.update(value for value, name in enumerate(self.names) if name)
        if len(needed) == len(self.kinds):
            return self.copy(), {value: value for value in needed}
        numbers = {value: number for number, value in enumerate(sorted(needed))}
        graph = NativeGraph()
        graph._descs = [self._descs[value] for value in numbers]
        graph.kinds = [self.kinds[value] for value in numbers]
        graph.names = [self.names[value] for value in numbers]
        graph.constants = {numbers[value]: array for value, array in self.constants.items() if value in numbers}
        graph.outputs = [numbers[value] for value in self.outputs]
        graph._nodes = [
            node._replace(
                inputs=tuple(None if value is None else numbers[value] for value in node.inputs),
                outputs=tuple(numbers[value] for value in node.outputs),
            )
            for node in reversed(nodes)
        ]
        return graph, numbers

    def _add_value(self, kind: ValueKind, name: str, desc: TensorDesc | FreeDesc | None) -> int:
        self.kinds.append(kind)
        self.names.append(name)
        self._descs.append(desc)
        return len(self._descs) - 1

    def desc(self, value: int) -> TensorDesc:
        """Return the desc of a value that was added with one."""
        desc = self._descs[value]
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
        self.constants[value] = _as_a_desc_can_say(array)
        return value

    def add_derived(self, array: Derived) -> int:
        """Add a constant that follows from lengths that are known only later."""
        value = self._add_value(ValueKind.CONSTANT, "", None)
        self.constants[value] = array
        return value

    def add_node(
        self,
        type: str,
        inputs: Sequence[int | None],
        outputs: Sequence[TensorDesc | FreeDesc],
        attributes: Attributes | None = None,
        name: str = "",
    ) -> list[int]:
        """Add an operator by its native name, its inputs numbered as in its desc; return its outputs."""
        values = [self._add_value(ValueKind.INTERMEDIATE, "", desc) for desc in outputs]
        self._nodes.append(
            _Node(type, name or f"node {len(self._nodes)}", tuple(inputs), tuple(values), dict(attributes or {}))
        )
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

    def mark_output(self, value: int, name: str, desc: TensorDesc | FreeDesc) -> None:
        """Bind a value at each dispatch, under a name; the desc has its type and sizes, and says how it is laid out."""
        reinterpreted = any(
            value in (*node.inputs, *node.outputs) for node in self._nodes if node.type == "REINTERPRET"
        )
        if self.kinds[value] is not ValueKind.INTERMEDIATE or reinterpreted:
            [value] = self.add_node("RESHAPE", [value], [desc], name=name)
        self.kinds[value], self.names[value], self._descs[value] = ValueKind.OUTPUT, name, desc
        self.outputs.append(value)

    def at(self, replay: Replay) -> NativeGraph:
        """Return the graph for the lengths that a replay tells: all of them are known there.

        Once it, or ``derived``, has been called nothing is added any more: what is the same for all lengths is not
        looked at again.
        """
        free = self._free = self._free or self._free_parts()
        graph = self.copy()
        values: dict[int, Any] = {}
        for value, array in free.constants:
            graph.constants[value] = values[value] = _as_a_desc_can_say(replay.of(array))
        for value, free_desc in free.descs:
            kind, name, sizes = self.kinds[value], self.names[value], replay.lengths(free_desc.sizes)
            values[value] = kind, name, free_desc.data_type, sizes, None
            make = _PackedDesc if kind is ValueKind.INTERMEDIATE else TensorDesc
            graph._descs[value] = make(free_desc.data_type, sizes)
        attributes: dict[int, Attributes] = {}
        graph._changes = _Changes(self, values, attributes)
        for place, entries in free.nodes:
            node = self._nodes[place]
            attributes[place] = {**node.attributes, **{name: _known(entry, replay) for name, entry in entries.items()}}
            graph._nodes[place] = node._replace(attributes=attributes[place])
        return graph

    def derived(self) -> Iterator[Derived]:
        """Yield what ``at`` asks a replay for."""
        free = self._free = self._free or self._free_parts()
        yield from (array for _, array in free.constants)
        entries = [entry for _, named in free.nodes for entry in named.values()]
        for group in (*(desc.sizes for _, desc in free.descs), *entries):
            yield from derived_among(group)

    def _free_parts(self) -> _FreeParts:
        free_attributes = [
            {name: entry for name, entry in node.attributes.items() if isinstance(entry, Derived) or is_free(entry)}
            for node in self._nodes
        ]
        return _FreeParts(
            [(value, desc) for value, desc in enumerate(self._descs) if isinstance(desc, FreeDesc)],
            [(value, array) for value, array in self.constants.items() if isinstance(array, Derived)],
            [(place, entries) for place, entries in enumerate(free_attributes) if entries],
        )

    def native(self) -> _core.Graph:
        """Return the graph as the native module has it.

        Raises:
            ValueError: A desc or an array is none that it takes.
        """
        changes = self._changes
        if changes is not None and changes.origin._first is not None:
            return changes.origin._first.changed(changes.values, changes.attributes)
        native = _core.new_graph(*self.rows())
        if changes is not None:
            changes.origin._first = native
        return native

    def bound(self) -> list[int]:
        """Return the values that are bound at each dispatch."""
        if self._changes is None:
            return [v for v, kind in enumerate(self.kinds) if kind is ValueKind.INPUT or kind is ValueKind.OUTPUT]
        origin = self._changes.origin
        bound = origin._bound = origin._bound or origin.bound()
        return bound

    def arrays(self) -> dict[int, _Array | None]:
        """Return the constants, all of which are known; None for those that are given later, under their names."""
        known: dict[int, _Array | None] = {}
        for value, array in self.constants.items():
            assert not isinstance(array, Derived)
            known[value] = array
        return known

    def rows(self) -> tuple[list[Any], list[Any]]:
        """Return the values and nodes for the native module."""
        values = [
            self.constants[value] if desc is None else (kind, name, desc.data_type, desc.sizes, desc.strides)
            for value, (kind, name, desc) in enumerate(zip(self.kinds, self.names, self._known_descs(), strict=True))
        ]
        return values, [*self._nodes]

    def _known_descs(self) -> Iterator[TensorDesc | _PackedDesc | None]:
        for desc in self._descs:
            assert not isinstance(desc, FreeDesc)
            yield desc


def _as_a_desc_can_say(array: _Array) -> _Array:
    """Return an array packed if no desc can say how it lies in memory."""
    if not array.flags.c_contiguous and any(step < 0 or step % array.itemsize for step in array.strides):
        return np.ascontiguousarray(array)
    return array


def _known(entries: Sequence[int] | Derived, replay: Replay) -> Sequence[int]:
    known: Sequence[int] = replay.of(entries) if isinstance(entries, Derived) else replay.lengths(entries)
    return known
