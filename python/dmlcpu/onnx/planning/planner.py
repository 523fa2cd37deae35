"""Which nodes of a model run as native graphs, and which on another runtime.

Nodes are lowered as far as rules take them; then those that no kernel computes, with the floating-point nodes that
follow them, are taken together for the other runtime; and so on. What a partition reads of others, it is given as an
array.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

import numpy as np

from dmlcpu import _core
from dmlcpu.device import Device
from dmlcpu.errors import InvalidModelError
from dmlcpu.graph.compiled_graph import CompiledGraph
from dmlcpu.graph.native_graph import NativeGraph
from dmlcpu.onnx.constant_arrays import Array, ArrayType, FreeArray
from dmlcpu.onnx.constants.empty_arrays import has_no_elements, nothing
from dmlcpu.onnx.constants.following import free_axes
from dmlcpu.onnx.foreign.array_parts import ArrayPart
from dmlcpu.onnx.foreign.nodes import check_complete, nodes_of_codes, taken_together
from dmlcpu.onnx.foreign.parts import FOLLOWS, ForeignModels, ForeignNodes, ForeignPart, can_be_fed, fixed_part
from dmlcpu.onnx.foreign.turns import Surroundings, holds_functions_of_arrays, in_turns
from dmlcpu.onnx.foreign.types import told_types
from dmlcpu.onnx.model_values import MALFORMED, ModelValues, outer_value
from dmlcpu.onnx.models.model import Model, ValueInfo, is_fixed
from dmlcpu.onnx.models.nodes import Node, reaching
from dmlcpu.onnx.native_partition import NativePartition
from dmlcpu.onnx.planning.plans import LoweredGraph, LoweredModel, NativePart, OutputViews, Plan, Rest
from dmlcpu.onnx.planning.rests import pending_nodes, rest_of, values_read
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.values import Elements, Tensor

__all__ = ["lowered_model", "make_plan"]


def lowered_model(
    model: Model,
    arrays: Mapping[str, ArrayType],
    device: Device,
    foreign_models: ForeignModels,
) -> LoweredModel | None:
    """Lower a model, and compile nothing; None if it is not valid.

    Args:
        model, device, foreign_models: As of ``make_plan``.
        arrays: The types and shapes of all inputs; lengths may be such as are known only later.

    Returns:
        None also if another runtime's part cannot be of other lengths, or operands do not fit together.
    """
    try:
        with np.errstate(all="ignore"), closing(_Planner(model, arrays, device, foreign_models)) as planner:
            return planner.lowered()
    except (InvalidModelError, _NotLoweredError):
        return None


def make_plan(
    model: Model,
    arrays: Mapping[str, ArrayType],
    device: Device,
    foreign_models: ForeignModels,
    shared: _core.SessionMemory | None,
) -> Plan:
    """Plan a model, as far as shapes are known.

    Args:
        model: Checked when it was loaded.
        arrays: The types and shapes of all inputs.
        device: Where native graphs run.
        foreign_models: Of parts for another runtime, shared by all plans.
        shared: What plans of the model pack of its constants; None to keep it apart.

    Raises:
        InvalidModelError: Nodes are given what they cannot take.
    """
    foreign: set[str] = set()
    while True:
        try:
            # Constants of a model may be infinite or no numbers, and what rules compute of them then is so, too.
            with (
                np.errstate(all="ignore"),
                closing(_Planner(model, arrays, device, foreign_models, shared, foreign)) as planner,
            ):
                return planner.plan()
        except _NotLoweredError as error:
            if error.node in foreign:
                raise InvalidModelError(f"node {error.node}: it cannot be planned") from None
            foreign.add(error.node)


class _NotLoweredError(Exception):
    """A node is not to be lowered: operators refuse it, or have no floating-point result, which another node needs."""

    def __init__(self, node: str) -> None:
        super().__init__(node)
        self.node = node


class _Planner:
    def __init__(
        self,
        model: Model,
        arrays: Mapping[str, ArrayType],
        device: Device,
        foreign_models: ForeignModels,
        shared: _core.SessionMemory | None = None,
        foreign: Collection[str] = (),
    ) -> None:
        self._foreign_models = foreign_models
        self._varies = not all(is_fixed(value.shape) for value in model.inputs)  # otherwise there is one plan
        self._model, self._shared, self._never_lowered = model, shared, foreign
        self._axes = free_axes({name: shape for name, (_, shape) in arrays.items()})
        self._known = ModelValues(model, arrays, device, foreign)
        self._values, self._lowering = self._known.values, self._known.lowering
        # Nodes that read one of these go with the one that makes it.
        self._containers = {output.name for output in model.outputs if output.container}
        self._foreign: list[tuple[ForeignPart | ArrayPart, ...]] = []  # after each native graph
        self._told: dict[str, ArrayType] = {}

    def close(self) -> None:
        """Let go of the values."""
        self._lowering.close()

    def plan(self) -> Plan:
        """Lower the model, and compile what it became."""
        rest = self._lower_parts()
        outputs = self._outputs() if rest is None else ()
        parts = (self._compiled(part) if isinstance(part, LoweredGraph) else part for part in self._parts())
        return Plan(tuple(parts), outputs, rest, self._told)

    def lowered(self) -> LoweredModel | None:
        """Lower the model, and compile nothing; None if a part is of its lengths alone."""
        rest = self._lower_parts()
        if self._known.unfit or not all(_is_shared(part) for parts in self._foreign for part in parts):
            return None
        outputs = self._outputs() if rest is None else ()
        self._known.folding.decide()
        return LoweredModel(tuple(self._parts()), outputs, rest, self._told)

    def _lower_parts(self) -> Rest | None:
        """Lower the model, part by part; return what follows shapes that only a run tells, where that ends."""
        waiting = list(self._model.nodes)
        while waiting:
            waiting, reasons = self._known.lower(waiting)
            if waiting:
                together, waiting, by_reference = taken_together(waiting, reasons, self._values)
                taken = reaching(together, self._read_by(waiting))
                if taken and (unknown := self._add_foreign(taken, waiting, by_reference, reasons)):
                    return self._rest(taken, waiting, unknown)
        return None

    def _read_by(self, nodes: Sequence[Node]) -> set[str]:
        """Return what nodes and who calls the model read."""
        return {name for node in nodes for name in node.reads} | {output.name for output in self._model.outputs}

    def _rest(self, taken: Sequence[Node], nodes: Sequence[Node], unknown: Collection[str]) -> Rest:
        """Return what follows values of which only a run tells the shapes.

        Args:
            taken: The nodes that make these, among others.
            nodes: Those that follow.
            unknown: The values.
        """
        before = [node for partition in self._lowering.partitions for node in partition.nodes]
        nodes = (*pending_nodes(before, taken, nodes, self._values), *nodes)
        read = values_read(nodes, [output.name for output in self._model.outputs])
        unknown = {*unknown, *(name for name in self._containers if name not in self._values)}
        reads = {name: None if name in unknown else self._elements(name) for name in read}
        self._export(value for value in reads.values() if value is not None)
        return rest_of(self._model, nodes, reads, self._axes)

    def _outputs(self) -> tuple[str | Array, ...]:
        """Return the outputs of the model, names of values or constants; of some a run tells the shape."""
        values = self._computed_outputs()
        for output in self._model.outputs:
            _check_type(output, values.get(output.name))
        given = ((output.name, values.get(output.name)) for output in self._model.outputs)
        # Of a constant a copy: it may be a view of the whole file, which would be kept with it.
        return tuple(
            np.array(value) if isinstance(value, np.ndarray) else name if value is None else value.name
            for name, value in given
        )

    def _computed_outputs(self) -> Mapping[str, Tensor | Array]:
        """Compute the outputs that are there by now, and export them."""
        there = (output.name for output in self._model.outputs if output.name in self._values)
        values = {name: self._floats(name) for name in there}
        self._export(values.values())
        return values

    def _floats(self, name: str) -> Tensor | Array:
        value = self._elements(name)
        return value.array if isinstance(value, FreeArray) else value

    def _elements(self, name: str) -> Elements:
        value = self._values[name]
        try:
            return self._lowering.elements(value)
        except (NotNative, *MALFORMED):
            if has_no_elements(value.shape):
                return self._lowering.elements(nothing(value, value.shape))
            raise _NotLoweredError(self._known.writers[name]) from None

    def _export(self, values: Iterable[Elements]) -> None:
        """Let others read values of native graphs, by their names."""
        for value in values:
            if isinstance(value, Tensor):
                self._lowering.export(value)

    def _add_foreign(
        self, taken: Sequence[Node], remaining: Sequence[Node], by_reference: bool, reasons: Mapping[str, str]
    ) -> Sequence[str]:
        """Add a part of nodes; return the values that others read of them and of which only a run tells the shape.

        Args:
            taken: That another runtime is to run.
            remaining: The nodes that follow them.
            by_reference: Whether onnx's reference evaluator is meant.
            reasons: Why no kernel computes nodes, by the names of those whose inputs are all there.
        """
        check_complete(taken, reasons, self._values)
        weights = () if by_reference else nodes_of_codes(taken, self._known.dequantizing, self._values)
        read_later = self._read_by(remaining)
        outputs = tuple(name for node in taken for name in node.outputs if name in read_later and name)
        reads = {name: self._elements(name) for name in values_read((*weights, *taken), ())}
        told = {node.name: reasons.get(node.name, FOLLOWS) for node in taken}
        foreign = ForeignNodes(taken, weights, told, reads, outputs)
        reads_nothing = any(has_no_elements(value.shape) for value in reads.values())
        unknown = self._learn(foreign) if remaining or reads_nothing else ()
        if reads_nothing and all(
            name in self._values and has_no_elements(self._values[name].shape) for name in outputs
        ):
            return ()  # there is nothing to run
        self._export(reads.values())
        self._foreign.append(tuple(map(self._with_unfit, self._foreign_parts(foreign, by_reference))))
        if not unknown:
            self._begin_partition()
        return unknown

    def _foreign_parts(
        self, foreign: ForeignNodes[Elements], by_reference: bool
    ) -> tuple[ForeignPart | ArrayPart, ...]:
        """Make nodes a part that is fed what follows from lengths, some in turns, or else a part of its lengths alone.

        Args:
            foreign: The nodes.
            by_reference: Whether onnx's reference evaluator is meant.
        """
        model, models, independent = self._model.proto, self._foreign_models, self._known.independent
        if not by_reference and can_be_fed(foreign.reads, independent):
            if holds_functions_of_arrays(foreign.nodes):
                weights = partial(nodes_of_codes, writers=self._known.dequantizing, values=self._values)
                parts = in_turns(Surroundings(model, self._model.branches, models, weights, independent), foreign)
                if parts is not None:
                    return parts
            if self._varies:
                return (models.part(model, foreign, independent),)
        return (fixed_part(model, foreign, by_reference),)

    def _with_unfit(self, part: ForeignPart | ArrayPart) -> ForeignPart | ArrayPart:
        """Return a part that knows which of its operands do not fit together."""
        unfit = next((self._known.unfit[node.name] for node in part.nodes if node.name in self._known.unfit), "")
        return replace(part, unfit=unfit) if unfit and isinstance(part, ForeignPart) else part

    def _begin_partition(self) -> None:
        """Go on with a native graph of its own, behind the parts that have been added."""
        self._computed_outputs()  # in the same graph as what they follow from, not in this one
        self._lowering.begin_partition()

    def _learn(self, foreign: ForeignNodes[Elements]) -> Sequence[str]:
        """Find the types and shapes of what foreign nodes write; return the values of which that fails."""
        tensors = [name for name in foreign.outputs if name not in self._containers]
        known = told_types(self._model.proto, replace(foreign, outputs=tensors), self._foreign_models.misjudged)
        told = {name: array for name, array in known.items() if array is not None}
        self._told.update(told)
        self._values.update((name, outer_value(name, *array)) for name, array in told.items())
        return [name for name, array in known.items() if array is None]

    def _compiled(self, part: LoweredGraph) -> NativePart:
        try:
            graph = CompiledGraph(self._lowering.device, part.graph, self._shared)
        except ValueError as error:
            # The native module names the node whose tensors an operator does not take.
            named = [node.name for node in part.nodes if str(error).startswith(f"graph: node {node.name}: ")]
            refused = max(named, key=len, default=None)  # one name may begin as another one
            if refused is None or refused in self._never_lowered:
                raise InvalidModelError(f"model: {error}") from None
            raise _NotLoweredError(refused) from None
        names = tuple(tensor.name for tensor in part.exports)
        return NativePart(part.nodes, graph, part.inputs, names, OutputViews.of(part.exports))

    def _parts(self) -> Iterator[LoweredGraph | ForeignPart | ArrayPart]:
        partitions = self._lowering.partitions
        graphs = [_graph_of(partition) if partition.exported else None for partition in partitions]
        nodes = _nodes_of(partitions, graphs)
        for partition, graph, own, foreign in zip(partitions, graphs, nodes, (*self._foreign, ()), strict=False):
            if graph is not None:
                yield LoweredGraph(own, graph, tuple(partition.imported), tuple(partition.exported.values()))
            yield from foreign


def _check_type(output: ValueInfo, value: Tensor | Array | None) -> None:
    """Check that an output is of the type that the model tells, if it tells one of numpy's.

    Raises:
        InvalidModelError: It is of another one.
    """
    if (
        value is None
        or value.dtype == output.dtype
        or output.dtype.kind not in "biuf"
        or value.dtype.kind not in "biuf"
    ):
        return
    raise InvalidModelError(f"output {output.name!r}: its nodes make {value.dtype}, the model tells {output.dtype}")


def _graph_of(partition: NativePartition) -> NativeGraph:
    """Return a native graph of what leads to the values that others read."""
    graph = partition.graph
    writers = {value: row.name for row in graph.nodes for value in row.outputs}
    for number, tensor in enumerate(partition.exported.values()):
        desc = partition.desc(tensor.dtype, tensor.shape)
        graph.mark_output(tensor.number, f"output_{number}", desc, writers.get(tensor.number, ""))
    reaching, _ = graph.reaching(graph.outputs)
    return reaching


def _nodes_of(
    partitions: Sequence[NativePartition], graphs: Sequence[NativeGraph | None]
) -> Sequence[tuple[Node, ...]]:
    """Return the nodes of each partition: those that operators of its graph are of, and its own that have none.

    What a node makes is computed when it is read, which may be in a later partition than that where it was met.
    """
    places: dict[str, list[int]] = {}
    for place, graph in enumerate(graphs):
        for name in {row.name for row in graph.nodes} if graph is not None else ():
            places.setdefault(name, []).append(place)
    nodes: list[list[Node]] = [[] for _ in partitions]
    for place, partition in enumerate(partitions):
        for node in partition.nodes:
            for computed in places.get(node.name, (place,)):
                nodes[computed].append(node)
    return [tuple(own) for own in nodes]


def _is_shared(part: ForeignPart | ArrayPart) -> bool:
    return isinstance(part, ArrayPart) or part.model.is_shared
