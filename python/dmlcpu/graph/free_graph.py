"""Graphs of which lengths, and what follows from them, are known only later (``dmlcpu.graph.record``).

What is the same for all lengths the native module is given once; for some of them it is told the lengths, and the
constants and attributes that follow from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dmlcpu import _core
from dmlcpu.device import Device
from dmlcpu.graph.compiled_graph import CompiledGraph
from dmlcpu.graph.interface import GraphInterface
from dmlcpu.graph.lengths import FreeDesc, derived_among, is_free
from dmlcpu.graph.native_graph import Attributes, NativeGraph, PackedDesc, ValueKind, as_a_desc_can_say
from dmlcpu.graph.record import Derived, Replay
from dmlcpu.tensor import TensorDesc

__all__ = ["FreeGraph"]


class FreeGraph:
    """A graph for all lengths of a record that decide alike. Nothing must be added to what it is made of any more.

    Args:
        graph: Each constant that does not follow from lengths is given.
    """

    def __init__(self, graph: NativeGraph) -> None:
        self._graph = graph
        free_attributes = [
            {name: entry for name, entry in node.attributes.items() if isinstance(entry, Derived) or is_free(entry)}
            for node in graph.nodes
        ]
        # Of nodes that have free ones: the place, all attributes, and the free ones among them.
        self._attributes: list[tuple[int, Mapping[str, Any], Attributes]] = [
            (place, graph.nodes[place].attributes, free) for place, free in enumerate(free_attributes) if free
        ]
        self._constants = [(value, array) for value, array in graph.constants.items() if isinstance(array, Derived)]
        self._descs: dict[FreeDesc, list[int]] = {}  # and the values that have each: layers are alike
        for value, desc in enumerate(graph.descs):
            if isinstance(desc, FreeDesc):
                self._descs.setdefault(desc, []).append(value)
        self._given: _core.GivenGraph | None = None  # what the native module has of it, for the latest lengths
        self._latest: CompiledGraph | None = None
        self._like: _core.GivenGraph | None = None  # what it has of another graph, until it has this one

    def follow(self, other: FreeGraph) -> None:
        """Take what is the same from another graph of the model, of lengths that decide otherwise.

        Before anything is compiled of this one.
        """
        self._like, self._latest = other._given, other._latest

    @cached_property
    def _lengths(self) -> dict[int, int]:
        """Which of the lengths each is to the native module, by its place in the record; of those that are sizes."""
        numbers: dict[int, int] = {}
        for desc in self._descs:
            for length in derived_among(desc.sizes):
                numbers.setdefault(length.place, len(numbers))
        return numbers

    @cached_property
    def _interface(self) -> GraphInterface:
        return self._graph.interface()

    @cached_property
    def _described(self) -> Mapping[int, np.ndarray[Any, Any] | None]:
        return self._graph.arrays()

    def needed(self) -> Iterator[Derived]:
        """Yield what a replay is asked for."""
        yield from (array for _, array in self._constants)
        entries = [entry for _, _, free in self._attributes for entry in free.values()]
        for group in (*(desc.sizes for desc in self._descs), *entries):
            yield from derived_among(group)

    def at(self, replay: Replay) -> NativeGraph:
        """Return the graph for the lengths that a replay tells, by itself."""
        graph = self._graph.copy()
        for value, array in self._constants_at(replay).items():
            graph.constants[value] = array
        for desc, values in self._descs.items():
            sizes = replay.lengths(desc.sizes)
            packed = PackedDesc(desc.data_type, sizes)
            for value in values:
                kind = graph.kinds[value]
                if kind is ValueKind.CONSTANT:
                    graph.descs[value], graph.constants[value] = None, np.broadcast_to(_repeated(graph, value), sizes)
                else:
                    graph.descs[value] = packed if kind is ValueKind.INTERMEDIATE else TensorDesc(desc.data_type, sizes)
        for place, attributes in self._attributes_at(replay).items():
            graph.nodes[place] = graph.nodes[place]._replace(attributes=attributes)
        return graph

    def compiled(self, replay: Replay, device: Device, shared: _core.SessionMemory | None = None) -> CompiledGraph:
        """Compile the graph for the lengths that a replay tells; what is the same as in the last one is taken there.

        Raises:
            InvalidDescError: An operator refuses its tensors.
        """
        graph = CompiledGraph(device, _GraphOfLengths(self, replay), shared, self._latest)
        self._latest = graph
        return graph

    def native(self, replay: Replay) -> _core.GivenGraph:
        """Return the graph for some lengths as the native module has it.

        Raises:
            ValueError: A size or an array is none that it takes.
        """
        given = self._given
        if given is None:
            numbers = self._lengths
            free = [
                (value, axis, numbers[length.place])
                for desc, values in self._descs.items()
                for axis, size in enumerate(desc.sizes)
                for length in derived_among([size])
                for value in values
            ]
            self._given = _core.new_graph(*self.at(replay).rows(), free, self._like)
            self._like = None
        else:
            lengths = replay.at_places(self._lengths)
            # One of the other: what stays the same array is known to be the same constant then.
            self._given = given.changed(lengths, self._constants_at(replay), self._attributes_at(replay))
        return self._given

    def _constants_at(self, replay: Replay) -> dict[int, np.ndarray[Any, Any]]:
        return {value: as_a_desc_can_say(replay.of(array)) for value, array in self._constants}

    def _attributes_at(self, replay: Replay) -> dict[int, Mapping[str, Sequence[int]]]:
        return {
            place: {**known, **{name: _known(entry, replay) for name, entry in free.items()}}
            for place, known, free in self._attributes
        }


def _repeated(graph: NativeGraph, value: int) -> np.ndarray[Any, Any]:
    """Return the array of a constant that is repeated."""
    array = graph.constants[value]
    assert isinstance(array, np.ndarray)
    return array


@dataclass(frozen=True, slots=True)
class _GraphOfLengths:
    """A free graph for the lengths that a replay tells."""

    of: FreeGraph
    replay: Replay

    def interface(self) -> GraphInterface:
        return self.of._interface

    def arrays(self) -> Mapping[int, np.ndarray[Any, Any] | None]:
        return self.of._described

    def native(self) -> _core.GivenGraph:
        return self.of.native(self.replay)


def _known(entries: Sequence[int] | Derived, replay: Replay) -> Sequence[int]:
    known: Sequence[int] = replay.of(entries) if isinstance(entries, Derived) else replay.lengths(entries)
    return known
