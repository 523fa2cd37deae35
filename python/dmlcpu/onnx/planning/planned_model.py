"""A model, and what its plans share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np

from dmlcpu import _core
from dmlcpu.device import Device
from dmlcpu.errors import InvalidModelError
from dmlcpu.onnx.constant_arrays import ArrayType, Constant
from dmlcpu.onnx.foreign.nodes import are_readable, check_complete
from dmlcpu.onnx.foreign.parts import ForeignModels, ForeignNodes, Reads, can_be_fed
from dmlcpu.onnx.missing_package import has_onnxruntime
from dmlcpu.onnx.models.model import Model, ValueInfo
from dmlcpu.onnx.models.nodes import reaching
from dmlcpu.onnx.planning.planner import make_plan
from dmlcpu.onnx.planning.plans import NativePart, Plan, PlanKey, Rest
from dmlcpu.onnx.planning.templates import Templates
from dmlcpu.onnx.values import Tensor

__all__ = ["PlannedModel"]

# The shapes of a rest are others in most runs. After so many plans it is decided who goes on with it: native graphs,
# for which each run takes so many us to plan, or onnxruntime, which plans nothing, but takes longer for each node, and
# for each byte.
_PLANS_TO_DECIDE: Final = 8
_COST_OF_A_NODE: Final = 50.0
_COST_OF_A_GRAPH: Final = 30.0  # where a template gives the plan
_COST_OF_A_STEP: Final = 6.0
_GAIN_OF_A_NODE: Final = 4.0
_GAIN_OF_A_BYTE: Final = 5e-5  # that steps read or write


class PlannedModel:
    """A model of a session: the whole, one in which some inputs are constants, or the rest of another one.

    Attributes:
        key: What it is among the models of the session.
        model: The model.
        inputs: What it is fed.
        packed_feeds: What looks at arrays for a fast path.
        templates: For its plans.
    """

    def __init__(self, key: object, model: Model, device: Device, is_rest: bool = False) -> None:
        self.key, self.model, self.inputs = key, model, model.inputs
        self.packed_feeds = _core.new_packed_feeds([_feed_of(value) for value in model.inputs])
        self._device, self._is_rest = device, is_rest
        self._foreign_models = ForeignModels()
        self.templates = Templates(model, device, self._foreign_models)
        self._rests: WeakKeyDictionary[Rest, PlannedModel] = WeakKeyDictionary()
        self._count = 0  # of plans that have been made
        self._last: Plan | None = None
        # Whether onnxruntime runs all of it from now on, but for inputs without elements: these may end the process.
        self._is_left = False
        self._measured = {name for constant in model.following.values() for name in constant.inputs}

    def key_of(self, arrays: Mapping[str, ArrayType]) -> PlanKey:
        """Return what all arrays for which one plan is made have in common."""
        if not self._is_rest:
            return self.key_of_shapes(shape for _, shape in arrays.values())
        if not self._is_left or _is_any_empty(arrays):
            return self.key, *arrays.items()
        decisive = {name: shape if name in self._measured else len(shape) for name, (_, shape) in arrays.items()}
        return self.key, *((name, dtype, decisive[name]) for name, (dtype, _) in arrays.items())

    def key_of_shapes(self, shapes: Iterable[tuple[int, ...]]) -> PlanKey:
        """Return the same of inputs of these shapes, whose types are the model's: of any model but a rest."""
        return self.key, *shapes

    def plan(self, arrays: Mapping[str, ArrayType], shared: _core.SessionMemory | None) -> Plan:
        """Return a plan.

        Args:
            arrays, shared: As of ``make_plan``.

        Raises:
            InvalidModelError: Nodes are given what they cannot take.
        """
        if self._is_left and not _is_any_empty(arrays) and (elsewhere := self._plan_elsewhere(arrays)) is not None:
            return elsewhere
        plan = self.templates.plan(arrays, shared)
        cost = 0.0
        if plan is None:
            plan = make_plan(self.model, arrays, self._device, self._foreign_models, shared)
            cost = _COST_OF_A_NODE * len(self.model.nodes)
        self._last = plan
        self._count += 1
        if self._is_rest and self._count == _PLANS_TO_DECIDE and self._gain() < cost:
            self._is_left = self._plan_elsewhere(arrays) is not None
        return plan

    def correct(self, misjudged: Iterable[str]) -> None:
        """Plan without the shapes that inference tells of values, from now on: runs have made other ones."""
        new = set(misjudged) - self._foreign_models.misjudged
        if not new:
            return
        self._foreign_models.misjudged.update(new)
        self.templates = Templates(self.model, self._device, self._foreign_models)

    def rest_of(self, plan: Plan) -> PlannedModel | None:
        """Return what is left of the model after a plan, the same for all plans that share it; None if nothing is."""
        rest = plan.rest
        if rest is None:
            return None
        if rest not in self._rests:
            self._rests[rest] = PlannedModel(rest, rest.model, self._device, is_rest=True)
        return self._rests[rest]

    def _gain(self) -> float:
        """Return about how many us native graphs gain in a run whose shapes templates know, the rests included."""
        if self._last is None:
            return 0.0
        native = [part for part in self._last.parts if isinstance(part, NativePart)]
        steps = [step for part in native for step in part.graph.steps]
        rest = self.rest_of(self._last)
        own = _GAIN_OF_A_NODE * sum(len(part.nodes) for part in native) - _COST_OF_A_STEP * len(steps)
        own += _GAIN_OF_A_BYTE * sum(step.size for step in steps) - _COST_OF_A_GRAPH * len(native)
        return own + (0.0 if rest is None else rest._gain())

    def _plan_elsewhere(self, arrays: Mapping[str, ArrayType]) -> Plan | None:
        """Return a plan for all shapes, one part of onnxruntime's; None if that cannot take the model.

        Constants that follow from lengths are the plan's own.
        """
        model = self.model
        written = {name for node in model.nodes for name in node.outputs}
        results = tuple(output.name for output in model.outputs if output.name in written)
        nodes = reaching(model.nodes, results)
        reasons = {node.name: "it follows shapes that each run tells otherwise" for node in nodes}
        inputs = {name: Tensor(-1, -1, name, dtype, shape) for name, (dtype, shape) in arrays.items()}
        shapes = {name: shape for name, (_, shape) in arrays.items()}
        with np.errstate(all="ignore"):
            followed = {name: each.at(shapes).array for name, each in model.following.items()}
        known = {**model.constants, **followed}
        constants = {name: Constant(array) for name, array in known.items()}
        given: Reads = {**known, **inputs}
        read = {name for node in nodes for name in node.reads}
        reads = {name: value for name, value in given.items() if name in read}
        are_taken = can_be_fed(reads, model.constants) and are_readable(nodes, known)
        if not has_onnxruntime() or not are_taken:
            return None
        try:
            check_complete(nodes, reasons, {**constants, **inputs})
        except InvalidModelError:  # it would end the process
            return None
        taken = ForeignNodes(nodes, (), reasons, reads, results)
        part = self._foreign_models.part(model.proto, taken, model.constants)
        outputs = (known.get(output.name, output.name) for output in model.outputs)
        return Plan((part,), tuple(outputs))


def _feed_of(value: ValueInfo) -> tuple[str, np.dtype[Any], list[int | None] | None]:
    """Return name, type and lengths of an input, None where they are free, as the native module takes them."""
    if value.shape is None:
        return value.name, value.dtype, None
    return value.name, value.dtype, [length if isinstance(length, int) else None for length in value.shape]


def _is_any_empty(arrays: Mapping[str, ArrayType]) -> bool:
    return any(0 in shape for _, shape in arrays.values())
