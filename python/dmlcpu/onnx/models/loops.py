"""Loop and Scan, as the nodes of all their steps in the place of the loop.

How many steps there are is often known when a model is planned: an exporter writes what is done for each element of an
axis as a Loop, whose trip count follows from shapes, and the length of what a Scan walks along is one. The nodes of
each step are nodes of the model like any others then: constants of a step, such as its number and what is sliced by
it, are computed beforehand, and rules and fusions pass from one step to the next. A native graph that runs once for
each step would do with one copy of the nodes, but copy the states at each step and be planned as a graph of its own;
what is unrolled runs in the model's own graph, whose steps cost a fraction of a microsecond each, and few loops that
are quantized have more than some hundred steps. So those of more nodes than ``MOST_NODES`` are left to another runtime.

What does not depend on the step is there once, for all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import onnx

from dmlcpu.graph.lengths import decided_by
from dmlcpu.onnx.constant_arrays import Array
from dmlcpu.onnx.models.inlined_graphs import InlinedGraph, Inliner, renamed
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.models.subgraphs import all_nodes, graphs_within, names_in
from dmlcpu.onnx.models.tensor_protos import constant_of

__all__ = ["FEW_COUNTS", "MOST_COUNTS", "MOST_NODES", "Loops", "walked_along"]

MOST_NODES: Final = 2048
"""Nodes of all steps of all loops of a model, those within steps among them: planning takes about 50 us each."""
MOST_COUNTS: Final = 8
"""Of steps that a loop is unrolled for: each has nodes and plans of its own, which are kept."""
FEW_COUNTS: Final = 2
"""Such counts where one template, in which another runtime has the loop, serves all others.

An unrolled loop takes 20 to 100 ms to plan, of which a run gains some tenths of one. Two counts are those of a prompt
and of its steps, or of whole batches and the last one; where there are more, lengths vary.
"""
_FIRST_SCAN_WITHOUT_BATCH: Final = 9
_FIRST_UNSQUEEZE_OF_COMPUTED_AXES: Final = 13


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """What a loop stands for.

    Attributes:
        graph: The nodes of all steps.
        size: How many nodes these are, with those that other nodes hold.
        conditions: Values that have to be true for there to be so many steps: what the first ones say of the next.
    """

    graph: InlinedGraph
    size: int
    conditions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Body:
    """A step, and what of the node it is given and gives.

    Attributes:
        graph: Its nodes.
        number, condition: The names of a Loop's number of the step and of its condition; of a Scan "".
        states: Names of what one step passes to the next, by which it is given them.
        elements: Names of what it is given of a Scan's inputs.
        goes_on: The name of the condition that a Loop's step passes; of a Scan "".
        next_states, results: Names of what it makes: states, and what is joined with that of other steps.
        first: The node's inputs that are the first states.
        walked: The node's inputs that a Scan walks along.
        last: The node's outputs that are the last states.
        joined: The node's outputs that are joined.
    """

    graph: onnx.GraphProto
    number: str
    condition: str
    states: Sequence[str]
    elements: Sequence[str]
    goes_on: str
    next_states: Sequence[str]
    results: Sequence[str]
    first: Sequence[str]
    walked: Sequence[str]
    last: Sequence[str]
    joined: Sequence[str]

    @property
    def size(self) -> int:
        """How many nodes it becomes, with those that other nodes hold."""
        return sum(1 for _ in all_nodes(self.graph.node)) + len(self.elements) + len(self.results)


def _body_of(node: Node) -> _Body | None:
    """Return the step of a Loop or Scan; None of one whose parts do not fit together, or that is of an old form."""
    graph = node.attributes.get("body")
    if not isinstance(graph, onnx.GraphProto):
        return None
    inputs, outputs = [value.name for value in graph.input], [value.name for value in graph.output]
    if not {value.name for value in graph.initializer}.isdisjoint(inputs):
        return None
    walked: Sequence[str]
    if node.operator == "Loop":
        first, walked, count = node.inputs[2:], (), len(node.inputs) - 2
        if len(inputs) < 2 or not outputs:
            return None
        number, condition, goes_on = *inputs[:2], outputs[0]
        inputs, outputs = inputs[2:], outputs[1:]
    else:
        walks = int(node.attributes.get("num_scan_inputs", 0))
        count = len(node.inputs) - walks
        if node.version < _FIRST_SCAN_WITHOUT_BATCH or not 0 < walks <= len(node.inputs):
            return None
        first, walked, number, condition, goes_on = node.inputs[:count], node.inputs[count:], "", "", ""
    if len(inputs) != count + len(walked) or len(outputs) != len(node.outputs) or len(outputs) < count:
        return None
    if not all((*first, *walked)):
        return None
    return _Body(
        graph,
        number,
        condition,
        inputs[:count],
        inputs[count:],
        goes_on,
        outputs[:count],
        outputs[count:],
        first,
        walked,
        node.outputs[:count],
        node.outputs[count:],
    )


def walked_along(node: Node) -> Iterator[tuple[str, int]]:
    """Yield the inputs that a Scan walks along, each with the axis."""
    walks = int(node.attributes.get("num_scan_inputs", 0))
    for index, name in enumerate(node.inputs[len(node.inputs) - walks :]):
        yield name, _entry(node, "scan_input_axes", index)


def _entry(node: Node, name: str, index: int) -> int:
    entries: Sequence[int] = node.attributes.get(name, ())
    return int(entries[index]) if index < len(entries) else 0


class Loops:
    """The steps of a model's loops, and of those within them; each is made when it is asked for, by the same names.

    Args:
        inliner: Of the model.
    """

    def __init__(self, inliner: Inliner) -> None:
        self._inliner = inliner
        self._names: dict[str, _Names] = {}
        self._made: dict[str, dict[int, Steps]] = {}  # by the loop, and how many steps there are

    def takes(self, node: Node, count: int, most: int, most_counts: int = MOST_COUNTS) -> bool:
        """Return whether a loop of so many steps may be unrolled: few enough, and not of one count too many.

        Of a count that follows from lengths which are known only later, this alone is decided: what is planned for a
        loop that stays as it is is the same for many counts.

        Args:
            node, count, most, most_counts: As of ``of``.
        """
        body, made = _body_of(node), self._made.get(node.name, {})
        if body is None:
            return False
        return decided_by(_is_among, count, most // max(body.size, 1), *(made if len(made) >= most_counts else ()))

    def of(self, node: Node, count: int, most: int, most_counts: int = MOST_COUNTS) -> Steps | None:
        """Return all steps; None of too many nodes, or of none, and where the parts of a loop do not fit together.

        None, too, of another count than the first ones that were asked for.

        Args:
            node: A Loop or a Scan.
            count: How many steps there are.
            most: How many nodes they may have.
            most_counts: How many counts have steps.

        Raises:
            InvalidModelError: The nodes of a step do not fit together.
        """
        of_node = self._made.setdefault(node.name, {})
        made = of_node.get(count)
        if made is None:
            body = _body_of(node)
            if body is None or len(of_node) >= most_counts or not 0 < body.size * count <= most:
                return None
            if node.name not in self._names:
                self._names[node.name] = _Names(self._inliner, node)
            made = of_node[count] = _Unrolled(self._inliner, node, body, self._names[node.name]).steps(count)
        return made if made.size <= most else None


def _is_among(count: int, most: int, *only: int) -> bool:
    """Return whether a count is positive, not above the most, and, if only some are meant, one of these."""
    return 0 < count <= most and (not only or count in only)


class _Names:
    """The names of a loop's nodes and of what they write, the same whenever the loop is unrolled.

    Attributes:
        begin: Of all.
        nodes: The names of other nodes.
    """

    def __init__(self, inliner: Inliner, node: Node) -> None:
        self.begin, self.nodes = inliner.begin(node), inliner.node_names
        self._inliner = inliner
        self._own: dict[tuple[str, str], str] = {}

    def own(self, kind: str, name: str) -> str:
        """Return the name of a value, which no other kind of value has."""
        key = kind, name
        if key not in self._own:
            self._own[key] = self._inliner.name(f"{self.begin}/{name}")
        return self._own[key]


class _Unrolled:
    """The nodes of steps, under construction.

    Args:
        inliner: Of the model.
        node: The loop.
        body: Its step.
        own: The names.
    """

    def __init__(self, inliner: Inliner, node: Node, body: _Body, own: _Names) -> None:
        self._inliner, self._node, self._body, self._own = inliner, node, body, own.own
        self._begin, self._taken = own.begin, own.nodes
        self._protos: list[onnx.NodeProto] = []
        initializers = {tensor.name: constant_of(tensor) for tensor in body.graph.initializer}
        self._names = {name: self._own("shared", name) for name in initializers}  # of what all steps share
        self._constants: dict[str, Array] = {self._names[name]: array for name, array in initializers.items()}

    def _constant(self, kind: str, name: str, array: Array) -> str:
        own = self._own(kind, name)
        self._constants[own] = array
        return own

    def steps(self, count: int) -> Steps:
        """Return so many steps."""
        body = self._body
        fixed, varying = _by_step(body)
        if body.condition:
            self._names[body.condition] = self._constant("condition", body.condition, np.array(True))
        self._names.update((name, self._own("shared", name)) for inner in fixed for name in inner.output if name)
        self._protos += (renamed(inner, self._names) for inner in fixed)
        states: Sequence[str] = body.first
        results: list[list[str]] = [[] for _ in body.results]
        conditions: list[str] = []
        for step in range(count):
            names = self._step(varying, states, step, count)
            states = [names.get(name, name) for name in body.next_states]
            conditions += [names.get(body.goes_on, body.goes_on)] if body.goes_on and step + 1 < count else []
            for made, name in zip(results, body.results, strict=True):
                made.append(names.get(name, name))
        for state, name in zip(states, body.last, strict=True):
            if name:
                self._protos.append(onnx.helper.make_node("Identity", [state], [name]))
        for index, (made, name) in enumerate(zip(results, body.joined, strict=True)):
            if name:
                self._protos += self._joined(made, name, index)
        graph = self._inliner.inlined(self._node, self._begin, self._protos, self._constants, self._taken)
        return Steps(graph, body.size * count, tuple(conditions))

    def _step(
        self, varying: Sequence[onnx.NodeProto], states: Sequence[str], step: int, count: int
    ) -> Mapping[str, str]:
        """Add a step; return the names of its values by those in the body."""
        body = self._body
        names = {**self._names, **dict(zip(body.states, states, strict=True))}
        if body.number:
            names[body.number] = self._constant("number", f"{step}/{body.number}", np.array(step, np.int64))
        for index, (name, walked) in enumerate(zip(body.elements, body.walked, strict=True)):
            backwards = _entry(self._node, "scan_input_directions", index) == 1
            place = np.array(count - 1 - step if backwards else step, np.int64)
            names[name] = self._own("element", f"{step}/{name}")
            axis = _entry(self._node, "scan_input_axes", index)
            chosen = [walked, self._constant("place", f"{step}/place{index}", place)]
            self._protos.append(onnx.helper.make_node("Gather", chosen, [names[name]], axis=axis))
        names.update((name, self._own("value", f"{step}/{name}")) for inner in varying for name in inner.output if name)
        for index, inner in enumerate(varying):
            copy = renamed(inner, names)
            copy.name = f"{step}/{copy.name or f'{copy.op_type}_{index}'}"
            self._protos.append(copy)
        return names

    def _joined(self, made: Sequence[str], name: str, index: int) -> Iterator[onnx.NodeProto]:
        """Yield the nodes that join what steps made along a new axis."""
        axis = _entry(self._node, "scan_output_axes", index)
        if _entry(self._node, "scan_output_directions", index) == 1:
            made = made[::-1]
        attributes: dict[str, Any] = {"axes": [axis]}
        more = []
        if self._inliner.versions.get("", 1) >= _FIRST_UNSQUEEZE_OF_COMPUTED_AXES:
            attributes, more = {}, [self._constant("axes", f"axes{index}", np.array([axis], np.int64))]
        parts = [self._own("part", f"{step}/{name}") for step in range(len(made))]
        for source, part in zip(made, parts, strict=True):
            yield onnx.helper.make_node("Unsqueeze", [source, *more], [part], **attributes)
        yield onnx.helper.make_node("Concat", parts, [name], axis=axis)


def _by_step(body: _Body) -> tuple[list[onnx.NodeProto], list[onnx.NodeProto]]:
    """Return the nodes of a step that are the same in each, and the others."""
    varying = {*body.states, *body.elements, body.number} - {""}
    nodes = list(body.graph.node)  # which stay the same objects
    others: list[onnx.NodeProto] = []
    count = -1
    while count < len(others):  # once more than needed, if the nodes are in order
        count = len(others)
        others = [node for node in nodes if _is_varying(node, varying)]
        varying.update(name for node in others for name in node.output if name)
    varying_nodes = {id(node) for node in others}
    return [node for node in nodes if id(node) not in varying_nodes], others


def _is_varying(node: onnx.NodeProto, varying: Collection[str]) -> bool:
    """Return whether a node reads what is another value in each step; one without inputs may be random."""
    if not node.input and node.op_type != "Constant":
        return True
    within = (name for graph in graphs_within(node.attribute) for name in names_in(graph))
    return not {*node.input, *within}.isdisjoint(varying)
