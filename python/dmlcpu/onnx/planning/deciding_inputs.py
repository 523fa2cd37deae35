"""Inputs of one element that decide which branch of an If runs, or how many steps of a Loop.

Such as whether there is a past.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import onnx

from dmlcpu.onnx.constants.folding import is_computed_beforehand
from dmlcpu.onnx.models.model import Model, ValueInfo
from dmlcpu.onnx.models.nodes import short_domain
from dmlcpu.onnx.models.subgraphs import graphs_within
from dmlcpu.onnx.unrolling import has_native_steps

__all__ = ["deciding_inputs"]

# A condition that follows from more inputs is taken for one that follows from what a run computes.
_MOST_SOURCES: Final = 4
_Sources = frozenset[str] | None
"""The inputs of one element that a value follows from, with constants and shapes; None if from more than these."""
_DECIDED: Final = frozenset({("", "If"), ("", "Loop")})
_OF_SHAPES: Final = frozenset({"Shape", "Size"})


def deciding_inputs(model: Model) -> tuple[str, ...]:
    """Return the inputs that conditions of If nodes follow from, where nothing else that a run is fed counts.

    So do the counts of steps of Loops that may be native.
    """
    if not any((node.domain, node.operator) in _DECIDED for node in model.nodes):
        return ()  # as of most models, of which nothing has to be followed
    sources: dict[str, _Sources] = dict.fromkeys(model.constants, frozenset())
    sources.update((value.name, frozenset({value.name}) if _may_decide(value) else None) for value in model.inputs)
    found: set[str] = set()
    _follow((node.proto for node in model.nodes), ChainMap(sources), found)
    return tuple(value.name for value in model.inputs if value.name in found)


def _may_decide(value: ValueInfo) -> bool:
    if value.dtype.kind not in "biu" or value.shape is None:
        return False
    return math.prod(length if isinstance(length, int) else 0 for length in value.shape) == 1


def _follow(nodes: Iterable[onnx.NodeProto], sources: ChainMap[str, _Sources], found: set[str]) -> None:
    """Find out what the values that nodes write follow from, and add what conditions among them do."""
    written = sources.maps[0]  # where a ChainMap enters values, too, but in many times the time
    for node in nodes:
        operator = short_domain(node.domain), node.op_type
        if operator == ("", "Loop") and has_native_steps(node):
            found |= _union(sources.get(name) for name in [*node.input][:2] if name) or frozenset()
        if operator == ("", "If"):
            written.update(zip(node.output, _sources_of_branches(node, sources, found), strict=False))
        else:
            of_node = _sources_of(node, sources)
            written.update((name, of_node) for name in node.output)


def _sources_of_branches(node: onnx.NodeProto, sources: ChainMap[str, _Sources], found: set[str]) -> Iterator[_Sources]:
    """Yield what each output of an If follows from: the condition, and the branches' own outputs."""
    of_condition = sources.get(node.input[0]) if node.input else None
    found |= of_condition or frozenset()
    branches: list[list[_Sources]] = []
    for graph in graphs_within(node.attribute):
        constants: dict[str, _Sources] = dict.fromkeys((tensor.name for tensor in graph.initializer), frozenset())
        scope = sources.new_child(constants)
        _follow(graph.node, scope, found)
        branches.append([scope.get(output.name) for output in graph.output])
    for of_outputs in zip(*branches, strict=False):
        yield _union((of_condition, *of_outputs))


def _sources_of(node: onnx.NodeProto, sources: Mapping[str, _Sources]) -> _Sources:
    if short_domain(node.domain):
        return None
    if node.op_type in _OF_SHAPES:
        return frozenset()
    if not is_computed_beforehand(node.op_type):
        return None
    return _union(sources.get(name) for name in filter(None, node.input))


def _union(groups: Iterable[_Sources]) -> _Sources:
    """Return the inputs of all groups; None if one is None, or they are too many."""
    union: frozenset[str] = frozenset()
    for group in groups:
        if group is None:
            return None
        union |= group
        if len(union) > _MOST_SOURCES:
            return None
    return union
