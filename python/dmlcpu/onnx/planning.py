"""Which nodes of a model run as native graphs, and which on another runtime.

Nodes are lowered as far as rules take them; then those that no kernel computes, with the floating-point nodes that
follow them, are taken together for the other runtime; and so on. What a partition reads of others, it is given as an
array.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, Final

import numpy as np

from dmlcpu import _core
from dmlcpu.device import Device
from dmlcpu.errors import InvalidModelError
from dmlcpu.graph.compiled_graph import CompiledGraph
from dmlcpu.graph.lengths import decided_by
from dmlcpu.graph.native_graph import NativeGraph
from dmlcpu.onnx.array_parts import ArrayPart
from dmlcpu.onnx.coded_weights import ConstantOfBlocks
from dmlcpu.onnx.empty_arrays import has_no_elements, nothing, without_elements
from dmlcpu.onnx.extraction import ArrayType
from dmlcpu.onnx.feeds import is_fixed
from dmlcpu.onnx.float_convolutions import convolves_floats
from dmlcpu.onnx.folding import Folding
from dmlcpu.onnx.foreign_nodes import ANCHORS, check_complete, nodes_of_codes, taken_together
from dmlcpu.onnx.foreign_parts import ForeignModels, ForeignPart, Reads, can_be_fed, fixed_part
from dmlcpu.onnx.foreign_turns import holds_functions_of_arrays, in_turns
from dmlcpu.onnx.foreign_types import told_types
from dmlcpu.onnx.lowering import Lowering, NotFolded, NotNative, desc_of
from dmlcpu.onnx.model import Model
from dmlcpu.onnx.nodes import Node, reaching
from dmlcpu.onnx.plans import LoweredGraph, LoweredModel, NativePart, Plan, Rest
from dmlcpu.onnx.rests import pending_nodes, rest_of, values_read
from dmlcpu.onnx.rules import RULES
from dmlcpu.onnx.use_counts import UseCounts
from dmlcpu.onnx.values import Array, Constant, Deferred, Dequantized, FreeArray, Tensor, Value
from dmlcpu.onnx.wide_models import rounds_wide_codes

__all__ = ["MALFORMED", "lowered_model", "make_plan"]

# Operators that rules lower even if all inputs are constants: anchors, whose codes keep their scales; Shape and Size,
# which may follow from lengths that are known only later; LayerNormalization, which its kernel computes in each run.
_BY_RULES: Final = ANCHORS | {"Shape", "Size", "LayerNormalization"}
# What rules raise where a node has not what a valid one has.
MALFORMED: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
# So many values wait for each other at most: more than the 48 layers of a dense block, each joined to those before it,
# and few enough for the calls from one to the next.
_DEEPEST: Final = 64
# Operators whose results are not the same each time.
_RANDOM: Final = frozenset(
    {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli"}
)


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
        None also if another runtime's part cannot be of other lengths.
    """
    try:
        with np.errstate(all="ignore"):
            return _Planner(model, arrays, device, foreign_models).lowered()
    except (InvalidModelError, _NotLoweredError):
        return None


def make_plan(
    model: Model,
    arrays: Mapping[str, ArrayType],
    device: Device,
    foreign_models: ForeignModels,
    shared: _core.SharedMemory | None,
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
            with np.errstate(all="ignore"):
                return _Planner(model, arrays, device, foreign_models, shared, foreign).plan()
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
        shared: _core.SharedMemory | None = None,
        foreign: Collection[str] = (),
    ) -> None:
        self._foreign_models = foreign_models
        self._varies = not all(is_fixed(value.shape) for value in model.inputs)  # otherwise there is one plan
        self._independent = {*model.constants}  # of inputs and their lengths: names
        self._model, self._shared, self._never_lowered = model, shared, foreign
        self._writers: dict[str, str] = {}
        self._dequantizing: dict[str, Node] = {}  # constants, such as weights: who writes them
        self._folding = Folding(sum(array.nbytes for array in model.constants.values()))
        self._native_nodes: list[list[Node]] = [[]]
        self._foreign: list[tuple[ForeignPart | ArrayPart, ...]] = []  # after each native graph
        self._values: dict[str, Value] = {name: Constant(array) for name, array in model.constants.items()}
        for value in model.inputs:
            self._values[value.name] = _outer(value.name, *arrays[value.name])
        self._uses = UseCounts(output.name for output in model.outputs)
        self._meet(model.nodes)
        convolves = cache(partial(convolves_floats, model.nodes))
        rounds = cache(partial(rounds_wide_codes, model.nodes, model.constants, self._independent))
        self._lowering = Lowering(device, self._uses, convolves, rounds)
        self._graphs: list[NativeGraph] = [self._lowering.graph]
        self._imports: list[Mapping[str, Tensor]] = [self._lowering.imported]

    def plan(self) -> Plan:
        """Lower the model, and compile what it became."""
        rest = self._lower_parts()
        outputs = self._outputs() if rest is None else ()
        parts = (self._compiled(part) if isinstance(part, LoweredGraph) else part for part in self._parts())
        return Plan(tuple(parts), outputs, rest)

    def lowered(self) -> LoweredModel | None:
        """Lower the model, and compile nothing; None if a part is of its lengths alone."""
        rest = self._lower_parts()
        if not all(_is_shared(part) for parts in self._foreign for part in parts):
            return None
        outputs = self._outputs() if rest is None else ()
        self._folding.decide()
        return LoweredModel(tuple(self._parts()), outputs, rest)

    def _lower_parts(self) -> Rest | None:
        """Lower the model, part by part; return what follows shapes that only a run tells, where that ends."""
        waiting = list(self._model.nodes)
        while waiting:
            waiting, reasons = self._lower(waiting)
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
        before = [node for lowered in self._native_nodes for node in lowered]
        nodes = (*pending_nodes(before, taken, nodes, self._values), *nodes)
        read = values_read(nodes, [output.name for output in self._model.outputs])
        reads = {name: None if name in unknown else self._floats(name) for name in read}
        self._export(value for value in reads.values() if value is not None)
        return rest_of(self._model, nodes, reads)

    def _outputs(self) -> tuple[str | Array, ...]:
        """Return the outputs of the model, names of values or constants; of some a run tells the shape."""
        values = self._computed_outputs()
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

    def _elements(self, name: str) -> Tensor | Array | FreeArray:
        value = self._values[name]
        try:
            return self._lowering.elements(value)
        except (NotNative, *MALFORMED):
            if has_no_elements(value.shape):
                return self._lowering.elements(nothing(value, value.shape))
            raise _NotLoweredError(self._writers[name]) from None

    def _export(self, values: Iterable[Tensor | Array | FreeArray]) -> None:
        """Let others read values of native graphs, by their names."""
        for value in values:
            if isinstance(value, Tensor) and value.partition >= 0:
                self._lowering.exports.setdefault(value.partition, {})[value.name] = value

    def _meet(self, nodes: Sequence[Node]) -> None:
        """Take note of who writes values, and who reads them."""
        for node in nodes:
            self._writers.update((name, node.name) for name in node.outputs)
            self._uses.add(node)
            if self._independent.issuperset(node.reads):
                self._independent.update(node.outputs)

    def _lower(self, nodes: Sequence[Node]) -> tuple[list[Node], dict[str, str]]:
        """Lower what can be lowered; return the others, and why, of those whose inputs are all there."""
        rest: list[Node] = []
        reasons: dict[str, str] = {}
        waiting = deque(nodes)
        while waiting:
            node = waiting.popleft()
            if (node.domain, node.operator) == ("", "If") and (branch := self._branch(node)) is not None:
                waiting.extendleft(reversed(branch))
                continue
            if not all(map(self._values.__contains__, node.reads)):
                rest.append(node)
                continue
            self._lowering.node = node
            try:
                results = self._results(node)
                if len(results) < len([*filter(None, node.outputs)]):  # what has been added for it is read by nothing
                    raise NotNative("more outputs than its operator has")
            except NotNative as reason:
                reasons[node.name] = str(reason)
                rest.append(node)
                continue
            self._values.update(zip(filter(None, node.outputs), map(_near, results), strict=False))
            if node.outputs and results and isinstance(results[0], Dequantized | ConstantOfBlocks):
                self._dequantizing[node.outputs[0]] = node
            self._native_nodes[-1].append(node)
        return rest, reasons

    def _branch(self, node: Node) -> Sequence[Node] | None:
        """Return the nodes that an If stands for; None if its condition is not known."""
        condition = self._values.get(node.inputs[0]) if node.inputs else None
        if not isinstance(condition, Constant) or condition.dtype != np.bool_ or math.prod(condition.shape) != 1:
            return None
        branch = self._model.branches.of(node, bool(decided_by(_is_true, condition.source)))
        self._uses.remove(node)  # those of the branch read, in its place
        self._independent.update(branch.constants)
        self._meet(branch.nodes)
        if node.inputs[0] not in self._independent:  # each branch writes what the If does
            self._independent.difference_update(node.outputs)
        self._values.update((name, Constant(array)) for name, array in branch.constants.items())
        return branch.nodes

    def _results(self, node: Node) -> Sequence[Value]:
        inputs = [self._values[name] if name else None for name in node.inputs]
        rule = RULES.get((node.domain, node.operator))
        constant = all(value is None or isinstance(value, Constant) for value in inputs)
        foldable = constant and node.domain == "" and {*node.reads} <= {*node.inputs}  # no subgraph takes more
        is_lowered = rule is not None and node.name not in self._never_lowered
        if foldable and (rule is None or node.operator not in _BY_RULES) and node.operator not in _RANDOM:
            try:
                return self._folding(node, inputs)
            except NotFolded:  # each run can compute it, such as an image of positions that is resized
                if not is_lowered:
                    raise
        if rule is None or not is_lowered:
            raise NotNative("no kernel for this operator" if rule is None else "no kernel for it on floats")
        if len(inputs) == 0:
            raise NotNative("no inputs")
        try:
            followed = self._followed(node, inputs)
            return rule(self._lowering, node, inputs) if followed is None else [followed]
        except InvalidModelError:  # a rule has said what is wrong
            raise
        except MALFORMED as error:
            # A rule may assume what a valid node has. The other runtime says better what is wrong with this one.
            raise NotNative(f"its inputs or attributes are not as they should be ({error})") from None

    def _followed(self, node: Node, inputs: Sequence[Value | None]) -> Value | None:
        """Return what a node and an input of it are together, where the input knows."""
        for name, value in zip(node.inputs, inputs, strict=True):
            if isinstance(value, Deferred):
                alone = self._lowering.is_read_once(name)
                followed = value.followed_by(node, inputs, alone)
                if followed is not None:
                    return followed
        return None

    def _add_foreign(
        self, taken: Sequence[Node], rest: Sequence[Node], by_reference: bool, reasons: Mapping[str, str]
    ) -> Sequence[str]:
        """Add a part of nodes; return the values that others read of them and of which only a run tells the shape.

        Args:
            taken: That another runtime is to run.
            rest: The nodes that remain.
            by_reference: Whether onnx's reference evaluator is meant.
            reasons: Why no kernel computes nodes, by the names of those whose inputs are all there.
        """
        check_complete(taken, reasons, self._values)
        weights = () if by_reference else nodes_of_codes(taken, self._dequantizing, self._values)
        read_later = self._read_by(rest)
        run = (*weights, *taken)
        made = {name for node in run for name in node.outputs if name}
        outputs = tuple(name for node in taken for name in node.outputs if name in read_later and name)
        read = dict.fromkeys(name for node in run for name in node.reads if name not in made)
        reads = {name: self._elements(name) for name in read}
        unknown = self._learn(run, reads, outputs) if rest else ()
        told = {node.name: reasons.get(node.name, "it follows such a node") for node in taken}
        self._export(reads.values())
        model = self._model.proto
        is_fed = not by_reference and can_be_fed(reads, self._independent)
        parts: tuple[ForeignPart | ArrayPart, ...] | None = None
        if is_fed and holds_functions_of_arrays(taken):
            independent, models, branches = self._independent, self._foreign_models, self._model.branches
            of_codes = partial(nodes_of_codes, writers=self._dequantizing, values=self._values)
            parts = in_turns(model, branches, models, of_codes, independent, taken, told, reads, outputs)
        if parts is None and is_fed and self._varies:
            parts = (self._foreign_models.part(model, taken, weights, told, reads, self._independent, outputs),)
        self._foreign.append(parts or (fixed_part(model, taken, weights, by_reference, told, reads, outputs),))
        if not unknown:
            self._begin_partition()
        return unknown

    def _begin_partition(self) -> None:
        """Go on with a native graph of its own, behind the parts that have been added."""
        self._computed_outputs()  # in the same graph as what they follow from, not in this one
        self._lowering.begin_partition()
        self._graphs.append(self._lowering.graph)
        self._native_nodes.append([])
        self._imports.append(self._lowering.imported)

    def _learn(self, nodes: Sequence[Node], reads: Reads, outputs: Sequence[str]) -> Sequence[str]:
        """Find the types and shapes of what a foreign part writes; return the values of which that fails."""
        known = told_types(self._model.proto, nodes, reads, outputs)
        self._values.update((name, _outer(name, *array)) for name, array in known.items() if array is not None)
        return [name for name, array in known.items() if array is None]

    def _compiled(self, part: LoweredGraph) -> NativePart:
        try:
            graph = CompiledGraph(self._lowering.device, part.graph, self._shared)
        except ValueError as error:
            # The native module names the node whose tensors an operator does not take.
            refused = next((node for node in part.nodes if str(error).startswith(f"graph: node {node.name}: ")), None)
            if refused is None or refused.name in self._never_lowered:
                raise InvalidModelError(f"model: {error}") from None
            raise _NotLoweredError(refused.name) from None
        types = tuple((tensor.dtype, tensor.shape) for tensor in part.exports)
        return NativePart(part.nodes, graph, part.inputs, tuple(tensor.name for tensor in part.exports), types)

    def _parts(self) -> Iterator[LoweredGraph | ForeignPart | ArrayPart]:
        for index in range(len(self._graphs)):
            if (native := self._lowered_graph(index)) is not None:
                yield native
            if index < len(self._foreign):
                yield from self._foreign[index]

    def _lowered_graph(self, index: int) -> LoweredGraph | None:
        """Return a native graph of what leads to the values that others read; None if there are none."""
        exports = tuple(self._lowering.exports.get(index, {}).values())
        if not exports:
            return None
        graph = self._graphs[index]
        for number, tensor in enumerate(exports):
            graph.mark_output(tensor.number, f"output_{number}", desc_of(tensor.dtype, tensor.shape))
        inputs = tuple(self._imports[index])
        return LoweredGraph(tuple(self._native_nodes[index]), graph.reaching(graph.outputs)[0], inputs, exports)


def _near(value: Value) -> Value:
    """Return a value, computed if too many others would have to be computed for it: each calls the one before."""
    if not isinstance(value, Deferred) or value.depth <= _DEEPEST:
        return value
    try:
        return value.computed()
    except (NotNative, *MALFORMED):  # who reads it may do without its floats
        return value


def _is_shared(part: ForeignPart | ArrayPart) -> bool:
    return isinstance(part, ArrayPart) or part.model.is_shared


def _is_true(condition: Array) -> bool:
    return bool(condition.reshape(()))


def _outer(name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Value:
    """Return a value that is fed, or computed by another runtime."""
    return without_elements(dtype, shape) if has_no_elements(shape) else Tensor(-1, -1, name, dtype, shape)
