"""Nodes without a kernel in turns: parts of another runtime, and between them nodes that functions of arrays compute.

Of an If that holds such a node the branches are parts that run under a condition.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx

from dmlcpu.onnx.foreign.array_parts import (
    OPERATORS,
    SHAPING_OPERATORS,
    ArrayPart,
    is_function_of_arrays,
    is_shaped_by_a_run,
)
from dmlcpu.onnx.foreign.parts import ForeignModels, ForeignNodes, ForeignPart, Passed, PassedReads
from dmlcpu.onnx.models.branches import Branches
from dmlcpu.onnx.models.extraction import extracted, inferred
from dmlcpu.onnx.models.nodes import Node, reaching
from dmlcpu.onnx.models.subgraphs import graphs_within
from dmlcpu.onnx.values import Elements, Tensor

__all__ = ["Surroundings", "holds_functions_of_arrays", "in_turns"]

Types = Mapping[str, "np.dtype[Any] | None"]


def holds_functions_of_arrays(nodes: Sequence[Node]) -> bool:
    """Return whether a node, or one within an If, may be what a function of arrays computes, or all are."""
    return any(_holds(node.proto) for node in nodes) or _shape_alone(nodes)


def _shape_alone(nodes: Sequence[Node]) -> bool:
    """Return whether there is nothing but what tells the shapes of others: beside other nodes these are as fast."""
    return all(node.operator in SHAPING_OPERATORS for node in nodes)


def _holds(node: onnx.NodeProto) -> bool:
    if node.op_type in OPERATORS:
        return True
    within = (inner for graph in graphs_within(node.attribute) for inner in graph.node)
    return node.op_type == "If" and any(map(_holds, within))


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all turns have in common.

    Attributes:
        model: That the nodes are of.
        branches: Of its If nodes.
        foreign_models: Of all plans.
        weights: The nodes that dequantize constants which some nodes read.
        independent: Names of what depends on no input, nor on its lengths.
        conditions: Under which the nodes run.
    """

    model: onnx.ModelProto
    branches: Branches
    foreign_models: ForeignModels
    weights: Callable[[Sequence[Node]], Sequence[Node]]
    independent: Collection[str]
    conditions: tuple[tuple[str, bool], ...] = ()


def in_turns(surroundings: Surroundings, taken: ForeignNodes[Elements]) -> tuple[ForeignPart | ArrayPart, ...] | None:
    """Return nodes as parts that run one after the other; None if a type of what one passes another is not known."""
    try:
        return tuple(_turns(surroundings, taken))
    except _UnknownTypeError:
        return None


class _UnknownTypeError(Exception):
    """The type of a value between parts cannot be told."""


def _turns(surroundings: Surroundings, taken: ForeignNodes[Elements | Passed]) -> Iterator[ForeignPart | ArrayPart]:
    types, nodes, outputs = _types(surroundings.model, taken), taken.nodes, taken.outputs
    apart = {node for node in nodes if is_function_of_arrays(node, types) or _is_fork(node)}
    if _shape_alone(nodes):
        constants = [name for name, value in taken.reads.items() if not isinstance(value, Tensor | Passed)]
        apart.update(node for node in nodes if is_shaped_by_a_run(node, types, constants))
    wanted = {*outputs, *(name for node in nodes if node in apart for name in node.reads)}
    repeated = [node for node in nodes if node not in apart and _is_repeated(node, wanted)]
    waiting = [node for node in nodes if node not in repeated]
    known: dict[str, Elements | Passed] = dict(taken.reads)
    while waiting:
        ready = _ready(waiting, apart, repeated, known)
        rest = [node for node in waiting if node not in ready]
        if ready:
            read_later = wanted | {name for node in (*rest, *repeated) for name in node.reads}
            of_group = _with_repeated(nodes, ready, repeated)
            written = [name for node in ready for name in node.outputs if name in read_later]
            yield _foreign(surroundings, of_group, taken.reasons, known, written)
            known.update((name, _passed(name, types)) for name in written)
        for node in [*rest]:
            if node in apart and known.keys() >= {*node.reads}:
                rest.remove(node)
                yield from _alone(surroundings, node, taken.reasons, known)
                known.update((name, _passed(name, types)) for name in node.outputs if name)
        if len(rest) == len(waiting):
            raise _UnknownTypeError
        waiting = rest


def _is_fork(node: Node) -> bool:
    return (node.domain, node.operator) == ("", "If") and _holds(node.proto)


def _is_repeated(node: Node, wanted: set[str]) -> bool:
    """Return whether each part that reads what a node writes has the node, too: where codes become floats.

    With the codes another runtime finds quantized operators, with floats alone it does not.
    """
    return node.operator == "DequantizeLinear" and wanted.isdisjoint(node.outputs)


def _ready(
    nodes: Sequence[Node], apart: Collection[Node], repeated: Sequence[Node], known: Collection[str]
) -> list[Node]:
    """Return the nodes that can run as one part, given what is known."""
    made = {*known}
    ready: list[Node] = []
    for node in nodes:
        for other in repeated:
            if made.issuperset(other.reads):
                made.update(other.outputs)
        if node not in apart and made.issuperset(node.reads):
            ready.append(node)
            made.update(filter(None, node.outputs))
    return ready


def _with_repeated(nodes: Sequence[Node], ready: Sequence[Node], repeated: Sequence[Node]) -> list[Node]:
    """Return the nodes of a part with what of the repeated ones they read, in order."""
    own = [node for node in nodes if node in ready or node in repeated]
    return reaching(own, {name for node in ready for name in node.outputs})


def _foreign(
    surroundings: Surroundings,
    nodes: Sequence[Node],
    reasons: Mapping[str, str],
    known: PassedReads,
    outputs: Sequence[str],
) -> ForeignPart:
    weights = surroundings.weights(nodes)
    run = (*weights, *nodes)
    made = {name for node in run for name in node.outputs}
    reads = {name: known[name] for node in run for name in node.reads if name not in made}
    taken = ForeignNodes(nodes, weights, reasons, reads, outputs)
    part = surroundings.foreign_models.part(surroundings.model, taken, surroundings.independent)
    return replace(part, conditions=surroundings.conditions)


def _alone(
    surroundings: Surroundings, node: Node, reasons: Mapping[str, str], known: PassedReads
) -> Iterator[ForeignPart | ArrayPart]:
    """Yield the parts of a node that is none of another runtime's."""
    if not _is_fork(node):
        read = {name: known[name] for name in node.reads}
        inputs = {name: value.name for name, value in read.items() if isinstance(value, Tensor | Passed)}
        constants = {name: value for name, value in read.items() if not isinstance(value, Tensor | Passed)}
        yield ArrayPart((node,), inputs, constants, tuple(filter(None, node.outputs)), surroundings.conditions)
        return
    condition = known[node.inputs[0]]
    if not isinstance(condition, Tensor | Passed):
        raise _UnknownTypeError
    for is_met in (True, False):
        branch = surroundings.branches.of(node, is_met)
        inner = replace(
            surroundings,
            independent={*surroundings.independent, *branch.constants},
            conditions=(*surroundings.conditions, (condition.name, is_met)),
        )
        why = {own.name: reasons[node.name] for own in branch.nodes}
        reads = {**known, **branch.constants}
        yield from _turns(inner, ForeignNodes(branch.nodes, (), why, reads, [*filter(None, node.outputs)]))


def _passed(name: str, types: Types) -> Passed:
    dtype = types.get(name)
    if dtype is None:
        raise _UnknownTypeError
    return Passed(name, dtype)


def _types(model: onnx.ModelProto, taken: ForeignNodes[Elements | Passed]) -> Types:
    """Return the types of what nodes read and write, None of what inference does not tell."""
    nodes, reads = taken.nodes, taken.reads
    names = dict.fromkeys(name for node in nodes for name in node.reads if name in reads)
    inputs = {name: (reads[name].dtype, None) for name in names}
    part = extracted(model, nodes, inputs, {}, taken.outputs)
    try:
        part = inferred(part)
    except Exception:  # inference is a help
        return {}
    types: dict[str, np.dtype[Any] | None] = {name: reads[name].dtype for name in names}
    for value in (*part.graph.value_info, *part.graph.output):
        number = value.type.tensor_type.elem_type
        types[value.name] = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number)) if number else None
    return types
