"""Plans for other lengths of the inputs, without lowering the model anew.

The rules lower a model for given shapes. Here they do so once for lengths that record what becomes of them
(``dmlcpu.graph.lengths``); for the next shapes the record is computed again, which takes a fraction of the time, and
gives the very graph that the rules would give.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final

import numpy as np

from dmlcpu import _core
from dmlcpu.device import Device, print_plan
from dmlcpu.errors import InvalidDescError, InvalidModelError
from dmlcpu.graph.compiled_graph import CompiledGraph
from dmlcpu.graph.lengths import Record, Replay, derived_among
from dmlcpu.onnx.extraction import ArrayType
from dmlcpu.onnx.lowering import NotNative
from dmlcpu.onnx.model import Model, ValueInfo
from dmlcpu.onnx.planning import MALFORMED, lowered_whole
from dmlcpu.onnx.plans import NativePart, Plan, WholeGraph

__all__ = ["PlanTemplate", "Templates"]

# Each template is of use to the lengths that decide everything alike, such as one image and several.
_MOST_TEMPLATES: Final = 4
# So many templates that are of no use to any other lengths, or shapes that none can be made for, are met with patience.
_MOST_FRUITLESS: Final = 2


class PlanTemplate:
    """A model lowered to one graph, for all lengths for which its rules decide as they did.

    Attributes:
        whole: What it was lowered to, with lengths of a record.
        uses: How many plans have been made of it.
    """

    def __init__(self, record: Record, shapes: Sequence[Sequence[int | None]], whole: WholeGraph) -> None:
        self._record, self._shapes, self.whole = record, shapes, whole
        self._latest: CompiledGraph | None = None
        self.uses = 0

    @classmethod
    def of(cls, model: Model, arrays: Mapping[str, ArrayType], device: Device) -> PlanTemplate | None:
        """Lower a model; None if it does not become one native graph.

        Args:
            model: With inputs that have free lengths.
            arrays: The types and shapes of the inputs.
            device: Where graphs run.
        """
        record = Record()
        shapes = [_known_lengths(value, len(arrays[value.name][1])) for value in model.inputs]
        free: dict[str, ArrayType] = {}
        for value, known in zip(model.inputs, shapes, strict=True):
            dtype, given = arrays[value.name]
            lengths = (
                record.free(length) if fixed is None else fixed for length, fixed in zip(given, known, strict=True)
            )
            free[value.name] = dtype, tuple(lengths)
        try:
            whole = lowered_whole(model, free, device)
        except (AssertionError, *MALFORMED):
            return None  # a rule, or what it calls, wants lengths that are known; planned anew it gets these
        if whole is None:
            return None
        record.keep(chain(whole.graph.derived(), *(derived_among(tensor.shape) for tensor in whole.exports)))
        return cls(record, shapes, whole)

    def replay(self, model: Model, arrays: Mapping[str, ArrayType]) -> Replay | None:
        """Compute lengths again for other shapes of the inputs; None if the rules would decide otherwise."""
        free: list[int] = []
        for value, known in zip(model.inputs, self._shapes, strict=True):
            _, given = arrays[value.name]
            if len(given) != len(known):  # the model leaves the rank free as well
                return None
            for length, fixed in zip(given, known, strict=True):
                if fixed is None:
                    free.append(length)
                elif length != fixed:
                    return None
        try:
            with np.errstate(all="ignore"):  # as where the model was lowered
                return self._record.again(free)
        except (NotNative, InvalidModelError):
            return None

    def plan(self, replay: Replay, device: Device, shared: _core.SharedBuffers | None) -> Plan | None:
        """Return the plan for a replay; None if an operator refuses its tensors."""
        whole = self.whole
        try:
            graph = CompiledGraph(device, whole.graph.at(replay), shared, self._latest)
        except InvalidDescError:
            return None
        self._latest = graph
        names = tuple(tensor.name for tensor in whole.exports)
        types = tuple((tensor.dtype, replay.lengths(tensor.shape)) for tensor in whole.exports)
        print_plan(graph)
        self.uses += 1
        return Plan((NativePart(whole.nodes, graph, whole.inputs, names, types),), whole.outputs)


class Templates:
    """The templates of a model that leaves lengths free, made as they are needed.

    The first shapes are planned as any, since most models meet no others; the second ones make a template.
    """

    def __init__(self, model: Model, device: Device) -> None:
        self._model, self._device = model, device
        self._templates: list[PlanTemplate] = []
        self._met = self._failures = 0
        self._next = 2  # of the plans that no template gives, the one that makes another

    def plan(self, arrays: Mapping[str, ArrayType], shared: _core.SharedBuffers | None) -> Plan | None:
        """Return a plan for shapes of the inputs; None if it has to be made anew."""
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
        self, template: PlanTemplate, arrays: Mapping[str, ArrayType], shared: _core.SharedBuffers | None
    ) -> Plan | None:
        replay = template.replay(self._model, arrays)
        return None if replay is None else template.plan(replay, self._device, shared)

    def _added(self, arrays: Mapping[str, ArrayType]) -> PlanTemplate | None:
        """Add a template, in place of the one that is of least use if there are many."""
        made = PlanTemplate.of(self._model, arrays, self._device)
        self._failures += made is None
        fruitless = self._failures + sum(template.uses < 2 for template in self._templates)  # one is for its own shapes
        self._next = self._met + (1 if fruitless < _MOST_FRUITLESS else 2 * self._met)
        if made is not None:
            if len(self._templates) == _MOST_TEMPLATES:
                least = min(self._templates, key=lambda template: template.uses)
                self._templates.remove(least)
                self._failures += least.uses < 2
            self._templates.append(made)
        return made


def _known_lengths(value: ValueInfo, rank: int) -> tuple[int | None, ...]:
    """Return the lengths that a model tells of an input; None where one is free."""
    shape = (None,) * rank if value.shape is None else value.shape
    return tuple(length if isinstance(length, int) else None for length in shape)
