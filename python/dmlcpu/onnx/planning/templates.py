"""Plans for other lengths of the inputs, without lowering the model anew.

The rules lower a model for given shapes. Here they do so once for lengths that record what becomes of them
(``dmlcpu.graph.record``); for the next shapes the record is computed again, which takes a fraction of the time, and
gives the very graph that the rules would give.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from dmlcpu import _core
from dmlcpu.device import Device
from dmlcpu.errors import InvalidDescError, InvalidModelError
from dmlcpu.graph.free_graph import FreeGraph
from dmlcpu.graph.lengths import derived_among
from dmlcpu.graph.record import Derived, Record, Replay
from dmlcpu.onnx.constant_arrays import ArrayType, source_of
from dmlcpu.onnx.foreign.array_parts import ArrayPart
from dmlcpu.onnx.foreign.parts import ForeignModels, ForeignPart
from dmlcpu.onnx.model_values import MALFORMED
from dmlcpu.onnx.models.model import Model, ValueInfo, is_fixed
from dmlcpu.onnx.planning.planner import lowered_model
from dmlcpu.onnx.planning.plans import LoweredGraph, LoweredModel, NativePart, OutputViews, Part, Plan
from dmlcpu.onnx.refusals import NotNative

__all__ = ["PlanTemplate", "Templates", "at_lengths"]

# Each template is of use to the lengths that decide everything alike, such as one text and several.
_MOST_TEMPLATES: Final = 4
# So many templates that are of no use to any other lengths, or shapes that none can be made for, are met with patience.
_MOST_FRUITLESS: Final = 2


class _FreeLength(NamedTuple):
    """A length of inputs that may be another, one for all axes of one name that were as long at first."""

    number: int
    length: int  # of the record


_Axis: TypeAlias = int | _FreeLength  # an int is the only length that it may have


class _AlikeInputs(NamedTuple):
    """Inputs that have one shape, as the caches of all layers do: the first one's place, those of others, and axes."""

    first: int
    others: Sequence[int]
    axes: Sequence[_Axis]


def _by_axes(axes: Sequence[Sequence[_Axis]]) -> Sequence[_AlikeInputs]:
    """Group inputs, whose axes are given, in the order in which free lengths are met."""
    groups: dict[tuple[int | tuple[int], ...], list[int]] = {}
    for place, of_input in enumerate(axes):
        key = tuple(axis if isinstance(axis, int) else (axis.number,) for axis in of_input)
        groups.setdefault(key, []).append(place)
    return [_AlikeInputs(first, others, axes[first]) for first, *others in groups.values()]


class PlanTemplate:
    """A model lowered for all lengths that its rules treat alike.

    Attributes:
        lowered: What it was lowered to, with lengths of a record.
        graphs: The native graphs of that, by the places of their parts.
        uses: How many plans have been made of it.
    """

    def __init__(self, record: Record, axes: Sequence[Sequence[_Axis]], lowered: LoweredModel) -> None:
        self._record, self.lowered = record, lowered
        self._inputs = _by_axes(axes)
        native = {place: part for place, part in enumerate(lowered.parts) if isinstance(part, LoweredGraph)}
        self.graphs = {place: FreeGraph(part.graph) for place, part in native.items()}
        self._outputs = {
            place: (tuple(tensor.name for tensor in part.exports), OutputViews.of(part.exports))
            for place, part in native.items()
        }
        self.uses = 0

    @classmethod
    def of(
        cls,
        model: Model,
        arrays: Mapping[str, ArrayType],
        device: Device,
        foreign_models: ForeignModels,
    ) -> PlanTemplate | None:
        """Lower a model; None if plans of it have nothing in common.

        Args:
            model: With inputs that have free lengths.
            arrays: The types and shapes of the inputs.
            device: Where graphs run.
            foreign_models: As of ``make_plan``.
        """
        record = Record()
        free: dict[tuple[object, int], _FreeLength] = {}  # by name: layers whose caches are as long are computed once
        axes: list[tuple[_Axis, ...]] = []
        lengths: dict[str, ArrayType] = {}
        for value in model.inputs:
            dtype, given = arrays[value.name]
            of_input: list[_Axis] = []
            for length, known in zip(given, _lengths_told(value, len(given)), strict=True):
                if isinstance(known, int):
                    of_input.append(known)
                    continue
                key = object() if known is None else known, length
                if key not in free:
                    free[key] = _FreeLength(len(free), record.free(length))
                of_input.append(free[key])
            axes.append(tuple(of_input))
            lengths[value.name] = dtype, tuple(axis if isinstance(axis, int) else axis.length for axis in of_input)
        try:
            lowered = lowered_model(model, lengths, device, foreign_models)
        except (AssertionError, *MALFORMED):
            return None  # a rule, or what it calls, wants lengths that are known; planned anew it gets these
        if lowered is None:
            return None
        template = cls(record, axes, lowered)
        record.keep(template._needed())
        return template

    def follow(self, other: PlanTemplate) -> None:
        """Take what is the same from another template's graphs, such as packed weights."""
        for place, graph in self.graphs.items():
            if place in other.graphs:
                graph.follow(other.graphs[place])

    def _needed(self) -> Iterator[Derived]:
        """Yield what a replay is asked for."""
        for place, part in enumerate(self.lowered.parts):
            if isinstance(part, LoweredGraph):
                yield from self.graphs[place].needed()
            else:
                yield from derived_among(map(source_of, part.constants.values()))
        yield from chain.from_iterable(derived_among(shape) for _, shape in self.lowered.told.values())

    def replay(self, model: Model, arrays: Mapping[str, ArrayType]) -> Replay | None:
        """Compute lengths again for other shapes of the inputs; None if the rules would decide otherwise."""
        shapes = [arrays[value.name][1] for value in model.inputs]
        free: dict[int, int] = {}  # in the order of their numbers
        for first, others, axes in self._inputs:
            given = shapes[first]
            if len(given) != len(axes):  # the model leaves the rank free as well
                return None
            if any([shapes[other] != given for other in others]):
                return None
            for length, axis in zip(given, axes, strict=True):
                if length != (axis if isinstance(axis, int) else free.setdefault(axis.number, length)):
                    return None
        try:
            with np.errstate(all="ignore"):  # as where the model was lowered
                return self._record.again([*free.values()])
        except (NotNative, InvalidModelError):
            return None

    def plan(self, replay: Replay, device: Device, shared: _core.SessionMemory | None) -> Plan | None:
        """Return the plan for a replay; None if an operator refuses its tensors."""
        parts: list[Part] = []
        for place, part in enumerate(self.lowered.parts):
            if not isinstance(part, LoweredGraph):
                parts.append(at_lengths(part, replay))
                continue
            try:
                graph = self.graphs[place].compiled(replay, device, shared)
            except InvalidDescError:
                return None
            parts.append(NativePart(part.nodes, graph, part.inputs, *self._outputs[place]))
        self.uses += 1
        told = {name: (dtype, replay.lengths(shape)) for name, (dtype, shape) in self.lowered.told.items()}
        return Plan(tuple(parts), self.lowered.outputs, self.lowered.rest, told)


class Templates:
    """The templates of a model that leaves lengths free, made as they are needed.

    A record takes a quarter of the time of lowering, and spares all of it for the next shapes: the first ones make a
    template. Where batches alone are free, the second ones do: most sessions meet one.

    Args:
        model: The model.
        device: Where graphs run.
        foreign_models: As of ``make_plan``.
    """

    def __init__(self, model: Model, device: Device, foreign_models: ForeignModels) -> None:
        self._model, self._device, self._foreign_models = model, device, foreign_models
        self._templates: list[PlanTemplate] = []
        self._met = self._failures = 0
        # Of the plans that no template gives, the one that makes another.
        self._next = 1 if any(map(_is_free_within, model.inputs)) else 2

    def plan(self, arrays: Mapping[str, ArrayType], shared: _core.SessionMemory | None) -> Plan | None:
        """Return a plan for shapes of the inputs; None if it has to be made anew.

        Args:
            arrays, shared: As of ``make_plan``.
        """
        for template in self._templates:
            if (plan := self._plan_of(template, arrays, shared)) is not None:
                self._templates.remove(template)
                self._templates.insert(0, template)
                return plan
        self._met += 1
        if self._met < self._next:
            return None
        added = self._added(arrays)
        return None if added is None else self._plan_of(added, arrays, shared)

    def _plan_of(
        self, template: PlanTemplate, arrays: Mapping[str, ArrayType], shared: _core.SessionMemory | None
    ) -> Plan | None:
        replay = template.replay(self._model, arrays)
        return None if replay is None else template.plan(replay, self._device, shared)

    def _added(self, arrays: Mapping[str, ArrayType]) -> PlanTemplate | None:
        """Add a template, in place of the one that is of least use if there are many."""
        made = PlanTemplate.of(self._model, arrays, self._device, self._foreign_models)
        if made is not None and self._templates:
            made.follow(self._templates[0])
        self._failures += made is None
        fruitless = self._failures + sum(template.uses < 2 for template in self._templates)  # one is for its own shapes
        self._next = self._met + (1 if fruitless < _MOST_FRUITLESS else 2 * self._met)
        if made is not None:
            if len(self._templates) == _MOST_TEMPLATES:
                least = min(self._templates, key=lambda template: template.uses)
                self._templates.remove(least)
                self._failures += least.uses < 2
            self._templates.insert(0, made)
        return made


def at_lengths(part: ForeignPart | ArrayPart, replay: Replay) -> ForeignPart | ArrayPart:
    """Return a part with its constants for the lengths of a replay."""
    constants = {name: replay.of(source_of(constant)) for name, constant in part.constants.items()}
    return replace(part, constants=constants)


def _is_free_within(value: ValueInfo) -> bool:
    """Return whether a length of an input is free that is not the first one, as that of a batch is."""
    return value.shape is None or not is_fixed(value.shape[1:])


def _lengths_told(value: ValueInfo, rank: int) -> tuple[int | str | None, ...]:
    """Return what a model tells of the lengths of an input: a name, or None, where one is free."""
    return (None,) * rank if value.shape is None else value.shape
