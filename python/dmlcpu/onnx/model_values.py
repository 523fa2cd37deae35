"""The values of a model: what rules make of its nodes, constants that are computed at once, branches, and steps."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import onnx

from dmlcpu.device import Device
from dmlcpu.errors import InvalidModelError
from dmlcpu.graph.lengths import UnfitShapesError, decided_by, derived
from dmlcpu.onnx.coded_weights import ConstantOfBlocks
from dmlcpu.onnx.computed_once import computed_once
from dmlcpu.onnx.constant_arrays import Array, ArrayType, Constant, FreeArray
from dmlcpu.onnx.constants.empty_arrays import has_no_elements, zeros_of
from dmlcpu.onnx.constants.folding import Folding
from dmlcpu.onnx.constants.shape_arithmetic import numbers
from dmlcpu.onnx.foreign.nodes import ANCHORS, is_along_axis, is_for_the_reference
from dmlcpu.onnx.lowering import Lowering
from dmlcpu.onnx.models.loops import MOST_NODES
from dmlcpu.onnx.models.model import Model
from dmlcpu.onnx.models.nodes import Node, as_cast
from dmlcpu.onnx.models.operator_forms import unknown_part
from dmlcpu.onnx.refusals import NotFitting, NotFolded, NotNative, NotValid
from dmlcpu.onnx.rules import RULES
from dmlcpu.onnx.rules.movement.moved_values import reshaped
from dmlcpu.onnx.rules.operands import present
from dmlcpu.onnx.rules.zero_point_types import check_zero_points
from dmlcpu.onnx.unrolling import LOOPS, has_native_steps, is_true, most_counts, step_count
from dmlcpu.onnx.use_counts import UseCounts
from dmlcpu.onnx.values import Deferred, Dequantized, Tensor, Value, element_type, for_other_nodes
from dmlcpu.shown_values import counted

__all__ = ["MALFORMED", "ModelValues", "outer_value"]

# Operators that rules lower first, even if all inputs are constants: anchors, whose codes keep their scales; Shape and
# Size, which may follow from lengths known only later; LayerNormalization, which its kernel computes in each run.
_BY_RULES: Final = ANCHORS | {"Shape", "Size", "LayerNormalization"}
# Operators that shapes and positions are computed with; others move codes, and keep them.
_OF_NUMBERS: Final = frozenset(
    {
        "Abs", "Add", "Cast", "Ceil", "Clip", "Concat", "Div", "Floor", "Max", "Min", "Mod", "Mul", "Neg", "Pow",
        "Reciprocal", "Round", "Sqrt", "Sub",
    }
)  # fmt: skip
# Types that codes are cast to as numbers, however many they are: weights stay floats.
_WHOLE_NUMBERS: Final = (onnx.TensorProto.INT32, onnx.TensorProto.INT64)
# What constants are that stand for dequantized codes.
_OF_CODES: Final = (Dequantized, ConstantOfBlocks)
# What rules raise where a node has not what a valid one has.
MALFORMED: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
# So many values wait for each other at most: more than the 48 layers of a dense block, each joined to those before it,
# and few enough for the calls from one to the next.
_DEEPEST: Final = 64
# Weights are packed for each node that multiplies by them, and so for each step of a loop.
_MOST_REPEATED_BYTES: Final = 1 << 26
_FLOAT_BYTES: Final = 4
# Operators whose results are not the same each time.
_RANDOM: Final = frozenset(
    {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli"}
)


@dataclass(frozen=True, slots=True, eq=False)
class _Noted:
    """What is known of a model before a loop's steps take its place.

    Attributes:
        lowered: How many nodes the native graph under construction has.
        uses: As of ``ModelValues``, and so are the others.
    """

    lowered: int
    uses: UseCounts
    independent: set[str]
    values: dict[str, Value]
    writers: dict[str, str]
    dequantizing: dict[str, Node]

    def restore(self, model: ModelValues) -> None:
        """Forget what has been lowered since: what has been added to the graph is read by nothing."""
        del model.lowering.partition.nodes[self.lowered :]
        model._uses.restore(self.uses)
        for name in ("independent", "values", "writers", "dequantizing"):
            entries = getattr(model, name)  # who plans holds it, too
            entries.clear()
            entries.update(getattr(self, name))


class ModelValues:
    """The values of a model, as far as its nodes have been lowered.

    Args:
        model: Checked when it was loaded.
        arrays: The types and shapes of all inputs.
        device: Where native graphs run.
        never_lowered: Names of nodes that rules are not to take.

    Attributes:
        values: By name.
        writers: The names of the nodes that write values, by these.
        dequantizing: The nodes that write constants which are dequantized, such as weights, by name.
        independent: Names of values that follow neither from inputs nor from their lengths.
        unfit: Of nodes whose operands do not fit together, by name, what does not.
        lowering: The native graph under construction.
        folding: Of constants.
    """

    def __init__(
        self, model: Model, arrays: Mapping[str, ArrayType], device: Device, never_lowered: Collection[str]
    ) -> None:
        self._model, self._never_lowered = model, never_lowered
        self.independent = {*model.constants}
        self.writers: dict[str, str] = {}
        self.dequantizing: dict[str, Node] = {}
        self.unfit: dict[str, str] = {}
        self.folding = Folding(sum(array.nbytes for array in model.constants.values()))
        self.values: dict[str, Value] = {name: Constant(array) for name, array in model.constants.items()}
        for value in model.inputs:
            self.values[value.name] = outer_value(value.name, *arrays[value.name])
        shapes = {name: shape for name, (_, shape) in arrays.items()}
        self.values.update((name, constant.at(shapes)) for name, constant in model.following.items())
        self._most_steps = MOST_NODES  # nodes that are left for steps of loops
        self._uses = UseCounts((output.name for output in model.outputs), model.constants)
        self._meet(model.nodes)
        self.lowering = Lowering(device, self._uses)

    def lower(self, nodes: Sequence[Node]) -> tuple[list[Node], dict[str, str]]:
        """Lower what can be lowered, to the current partition.

        Args:
            nodes: In an order in which each follows those that it reads.

        Returns:
            The others, and why they are not lowered, by name, those whose inputs are all there.

        Raises:
            InvalidModelError: A rule says what is wrong with a node.
        """
        remaining: list[Node] = []
        reasons: dict[str, str] = {}
        waiting = deque(nodes)
        while waiting:
            node = waiting.popleft()
            operator = node.operator if node.domain == "" else ""
            if operator == "If" and (branch := self._branch(node)) is not None:
                waiting.extendleft(reversed(branch))
                continue
            if not all(map(self.values.__contains__, node.reads)):
                remaining.append(node)
                continue
            if operator == "CastLike" and all(node.inputs) and len(node.inputs) == 2:
                node = as_cast(node, element_type(self.values[node.inputs[1]]))
            self.lowering.node = node
            try:
                if operator in LOOPS:
                    self._unroll(node)
                    continue
                results = self._results(node)
                if len(results) < len(node.outputs) - node.outputs.count(""):  # what has been added is read by nothing
                    raise NotNative("more outputs than its operator has")
            except NotValid as reason:
                raise InvalidModelError(f"node {node}: {reason}") from None
            except NotNative as reason:
                reasons[node.name] = str(reason)
                if isinstance(reason, NotFitting):
                    self.unfit[node.name] = f"node {node}: {reason}"
                remaining.append(node)
                continue
            for name, value in zip(filter(None, node.outputs), results, strict=False):
                self.lowering.made_by(node, value)
                self.values[name] = self._near(value) if isinstance(value, Deferred) else value
            if node.outputs and results and isinstance(results[0], _OF_CODES):
                self.dequantizing[node.outputs[0]] = node
            self.lowering.partition.nodes.append(node)
        return remaining, reasons

    def _branch(self, node: Node) -> Sequence[Node] | None:
        """Return the nodes that an If stands for; None if its condition is not known."""
        condition = self.values.get(node.inputs[0]) if node.inputs else None
        if not isinstance(condition, Constant) or condition.dtype != np.bool_ or math.prod(condition.shape) != 1:
            return None
        branch = self._model.branches.of(node, bool(decided_by(_holds, condition.source)))
        self._uses.remove(node)  # those of the branch read, in its place
        self.independent.update(branch.constants)
        self._meet(branch.nodes)
        if node.inputs[0] not in self.independent:  # each branch writes what the If does
            self.independent.difference_update(node.outputs)
        self.values.update((name, Constant(array)) for name, array in branch.constants.items())
        return branch.nodes

    def _unroll(self, node: Node) -> None:
        """Lower the steps of a loop in its place.

        Raises:
            InvalidModelError: The nodes of a step do not fit together.
            NotNative: How many steps there are is not known, or a node in one is not native; nothing has changed.
        """
        if not has_native_steps(node.proto):
            raise NotNative("no kernel for this operator, nor for all that it repeats")
        try:
            count = step_count(node, self.values)
            steps = None
            most = self._most_steps, most_counts(node, self.independent)
            if count is not None and self._model.loops.takes(node, count, *most):
                steps = self._model.loops.of(node, int(count), *most)
        except InvalidModelError:  # it is told what is wrong
            raise
        except MALFORMED as error:
            raise NotNative(_what_is_wrong(node, error)) from None
        if count is None:
            raise NotNative("only a run tells how many steps it takes")
        if steps is None:
            raise NotNative("a loop of no or too many steps, or of another number of them than the first ones")
        if count * self._bytes_read_by(node) > _MOST_REPEATED_BYTES:
            raise NotNative(f"a loop of {count} steps by large constants, which each step would have for itself")
        self._most_steps -= steps.size
        before = self._noted()
        self._uses.remove(node)
        self.independent.update(steps.graph.constants)
        self._meet(steps.graph.nodes)
        if not self.independent.issuperset(node.reads):  # more or fewer steps write what the loop does
            self.independent.difference_update(node.outputs)
        self.values.update((name, Constant(array)) for name, array in steps.graph.constants.items())
        remaining, reasons = self.lower(steps.graph.nodes)
        if not remaining and all(is_true(self.values[name]) for name in steps.conditions):
            return
        before.restore(self)
        raise NotNative(f"in a step {next(iter(reasons.values()), 'a condition that only a run tells')}")

    def _bytes_read_by(self, node: Node) -> int:
        """Return the bytes of what is constant in a loop's step, or about as many."""
        known = (value for name in node.reads if _is_known(value := self.values[name], of_any_size=True))
        own: int = node.proto.ByteSize()
        return own + sum(_FLOAT_BYTES * math.prod(value.shape) for value in known)

    def _noted(self) -> _Noted:
        lowered = len(self.lowering.partition.nodes)
        return _Noted(
            lowered, self._uses.copy(), {*self.independent}, {**self.values}, {**self.writers}, {**self.dequantizing}
        )

    def _results(self, node: Node) -> Sequence[Value]:
        """Return what a node of constants comes to, or else what its rule makes of its inputs.

        Raises:
            InvalidModelError: A rule says what is wrong with the node.
            NotNative: It is not lowered.
        """
        rule = RULES.get((node.domain, node.operator))
        inputs = self._inputs(node, has_rule=rule is not None)
        check_zero_points(node, inputs)
        is_lowered = rule is not None and node.name not in self._never_lowered
        is_constant = _reads_constants(node, inputs)
        is_foldable = is_constant and node.domain == ""
        if is_foldable and (rule is None or node.operator not in _BY_RULES) and node.operator not in _RANDOM:
            try:
                return self.folding(node, inputs)
            except NotFolded:  # each run can compute it, such as an image of positions that is resized
                if not is_lowered:
                    raise
        if rule is None or not is_lowered:
            raise NotNative("no kernel for this operator" if rule is None else "no kernel for it on floats")
        if node.domain and (unknown := unknown_part(node)):
            raise NotNative(f"an {unknown} that is not known here")
        if len(inputs) == 0:
            raise NotNative("no inputs")
        try:
            if any([isinstance(value, Deferred) for value in inputs]):
                followed = self._followed(node, inputs)
                if followed is not None:
                    return [followed]
                inputs = for_other_nodes(inputs)
            if is_constant and (computed := computed_once(self.lowering, rule, node, inputs, self.folding)) is not None:
                return [computed]
            return rule(self.lowering, node, inputs)
        except NotNative as reason:
            # What each run would ask the same evaluator for, such as weights that are quantized to other FLOAT8.
            if is_foldable and node.operator in _BY_RULES and is_for_the_reference(node, self.values):
                return self._folded(node, inputs, reason)
            raise
        except InvalidModelError:  # a rule has said what is wrong
            raise
        except UnfitShapesError as error:
            raise NotFitting(str(error)) from None
        except MALFORMED as error:
            # A rule may assume what a valid node has. The other runtime says better what is wrong with this one.
            raise NotNative(_what_is_wrong(node, error)) from None

    def _inputs(self, node: Node, has_rule: bool) -> Sequence[Value | None]:
        """Return the values that a node is given, in floats those codes of constants that count as numbers."""
        inputs = [self.values[name] if name else None for name in node.inputs]
        if node.version < 7 and is_along_axis(node) and len(inputs) == 2:
            inputs[1] = self._along_axis(node, present(inputs[0]), present(inputs[1]))
        # Of shapes, too, some numbers are codes: quantizers do not tell them from others.
        if has_rule and node.operator not in _OF_NUMBERS:
            return inputs
        of_any_size = not has_rule or (node.operator == "Cast" and node.attributes.get("to") in _WHOLE_NUMBERS)
        for value in inputs:
            if value is not None and not _is_known(value, of_any_size):
                return inputs
        return [_as_constant(value) if isinstance(value, Dequantized) else value for value in inputs]

    def _along_axis(self, node: Node, a: Value, b: Value) -> Value:
        """Return a second operand with axes of length 1 behind its own: then these are the ones that a node names."""
        rank, own, axis = len(a.shape), len(b.shape), node.attributes["axis"]
        if not isinstance(axis, int) or not -rank <= axis <= rank:
            raise NotNative(f"an axis {axis!r} of {rank}")
        axis += rank if axis < 0 else 0
        if axis > rank - own:
            raise NotNative(f"{own} axes from axis {axis} of {rank} on")
        return reshaped(self.lowering, b, (*b.shape, *(1,) * (rank - axis - own)))

    def _folded(self, node: Node, inputs: Sequence[Value | None], reason: NotNative) -> Sequence[Value]:
        """Return what a node of constants comes to, or tell why its rule has not lowered it."""
        try:
            return self.folding(node, inputs)
        except NotNative:
            raise reason from None

    def _followed(self, node: Node, inputs: Sequence[Value | None]) -> Value | None:
        """Return what a node and an input of it are together, where the input knows."""
        for name, value in zip(node.inputs, inputs, strict=True):
            if isinstance(value, Deferred):
                alone = self._uses.is_read_once(name)
                followed = value.followed_by(node, inputs, alone)
                if followed is not None:
                    if value.is_whole:
                        self.lowering.goes_on(value, followed)
                    return followed
        return None

    def _near(self, value: Deferred) -> Value:
        """Return a value, computed if too many others would have to be computed for it: each calls the one before."""
        if value.depth <= _DEEPEST:
            return value
        try:
            return self.lowering.floats(value)
        except (NotNative, *MALFORMED):  # who reads it may do without its floats
            return value

    def _meet(self, nodes: Sequence[Node]) -> None:
        """Take note of who writes values, and who reads them."""
        for node in nodes:
            for name in node.outputs:
                self.writers[name] = node.name
            self._uses.add(node)
            if self.independent.issuperset(node.reads):
                self.independent.update(node.outputs)


def _what_is_wrong(node: Node, error: Exception) -> str:
    """Return in words what a rule has stumbled over."""
    if isinstance(error, KeyError) and error.args[0] not in node.attributes:
        return f"its attribute {error} is missing"
    if isinstance(error, IndexError):
        return f"it has {counted(len(node.inputs), 'input')}, or one with fewer axes or elements than it needs"
    return f"its inputs or attributes are not as they should be ({error})"


def _reads_constants(node: Node, inputs: Sequence[Value | None]) -> bool:
    """Return whether a node reads constants alone, no more of them in graphs within it."""
    for value in inputs:
        if value is not None and not isinstance(value, Constant):
            return False
    return {*node.reads} <= {*node.inputs}


def _is_known(value: Value, of_any_size: bool) -> bool:
    """Return whether a value is constant; codes that are dequantized are if there is one of them, or of any size."""
    if isinstance(value, Dequantized):
        return of_any_size or math.prod(value.shape) == 1
    return isinstance(value, Constant)


def _as_constant(value: Dequantized) -> Constant:
    elements = value.elements()
    if not isinstance(elements, FreeArray):
        return Constant(elements)
    if math.prod(elements.shape) != 1:
        return elements
    return numbers([derived(_only, elements.derived)], elements.dtype, elements.shape)


def _only(array: Array) -> Any:
    return array.reshape(-1)[0]


def _holds(condition: Array) -> bool:
    return bool(condition.reshape(()))


def outer_value(name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Value:
    """Return a value that is fed, or computed by another runtime."""
    return zeros_of(dtype, shape) if has_no_elements(shape) else Tensor(-1, -1, name, dtype, shape)
