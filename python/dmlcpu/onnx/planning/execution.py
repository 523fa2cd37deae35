"""Runs plans: native graphs, and what another runtime takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from time import perf_counter_ns
from typing import Any, NamedTuple, Protocol

import numpy as np

from dmlcpu.device import Device
from dmlcpu.errors import MissingRuntimeError
from dmlcpu.graph.trace import PartTime, StepTime
from dmlcpu.onnx.constant_arrays import Array, ArrayType
from dmlcpu.onnx.foreign.array_parts import ArrayPart, ArrayRunner
from dmlcpu.onnx.foreign.custom_operators import custom_operators, why_not_run
from dmlcpu.onnx.foreign.parts import ForeignPart
from dmlcpu.onnx.foreign.runner import ForeignRunner
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.native_partition import as_bytes
from dmlcpu.onnx.planning.packed_runs import packed_run
from dmlcpu.onnx.planning.partitions import planned_partition
from dmlcpu.onnx.planning.planned_model import PlannedModel
from dmlcpu.onnx.planning.plans import NativePart, Part, Plan

__all__ = ["ExecutablePlan", "MisjudgedShapesError", "type_of"]

# What a step is compiled to, about: 650 to 900 bytes in decoders' graphs.
_BYTES_OF_A_STEP = 800


class _Runner(Protocol):
    provider: str
    size: int

    def run(self, values: dict[str, Array], profile: bool) -> tuple[StepTime, ...]:
        """Read what the part reads from the values, and add what it writes."""


class _NativeRunner:
    provider = "dmlcpu"

    def __init__(self, part: NativePart) -> None:
        self._graph = part.graph
        self.size = _BYTES_OF_A_STEP * part.graph.step_count + part.graph.changed_constants_size
        self._inputs, self._outputs, self._views = part.inputs, part.outputs, part.views

    def run(self, values: dict[str, Array], profile: bool) -> tuple[StepTime, ...]:
        feeds = {name: as_bytes(values[name]) for name in self._inputs}
        steps: tuple[StepTime, ...] = ()
        if profile:
            result, steps = self._graph.profile(**feeds)
        else:
            result = self._graph.dispatch(**feeds)
        if len(self._outputs) == 1:
            values[self._outputs[0]] = result
        else:
            values.update(zip(self._outputs, result, strict=True))
        for name in map(self._outputs.__getitem__, self._views.scalars):
            values[name] = values[name].reshape(())
        for name in map(self._outputs.__getitem__, self._views.conditions):
            values[name] = values[name].view(np.bool_)
        return steps


class _Run(NamedTuple):
    """What there is to do for a part.

    Attributes:
        runner: Runs it.
        conditions: Names of conditions, and what each is where the part runs.
        told: Of what it writes, the shapes that the plan takes other runtimes' values to have, by name.
        nodes: Its nodes.
    """

    runner: _Runner
    conditions: Sequence[tuple[str, bool]]
    told: Mapping[str, tuple[int, ...]]
    nodes: Sequence[Node]


class MisjudgedShapesError(Exception):
    """Another runtime has made values of other shapes than those that a plan is for."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(*names)
        self.names = names


class ExecutablePlan:
    """A plan with everything compiled.

    Attributes:
        plan: What is run.
        rest: What remains of the model then; None if the plan makes the outputs.
        run_packed: The fast path through it; None if there is none.
        size: An estimate of its bytes: the steps of its native graphs, constants that follow from a shape, such as
            masks, and other runtimes' sessions for its lengths alone. Weights and the memory that steps compute in are
            every plan's, and so, as far as this tells, all constants of a graph that was not made of another one's.
        last_use: A number that grows with each use of a plan of the session.
    """

    def __init__(self, plan: Plan, rest: PlannedModel | None, arrays: Mapping[str, ArrayType], device: Device) -> None:
        self.plan, self.rest = plan, rest
        self.last_use = 0
        try:
            unopened = (part for part in plan.parts if isinstance(part, ForeignPart) and part.model.opened is None)
            custom = [name for part in unopened for name in custom_operators(part.nodes, part.model.proto)]
            if custom:
                raise MissingRuntimeError(why_not_run(custom))
            self._runs = tuple(_run_of(part, plan, device) for part in plan.parts)
        except MissingRuntimeError as error:
            raise MissingRuntimeError(str(error), tuple(map(planned_partition, plan.parts))) from error.__cause__
        runners = [run.runner for run in self._runs]
        self.run_packed = packed_run(plan, arrays, runners)
        self.size = sum([runner.size for runner in runners])

    @property
    def providers(self) -> tuple[str, ...]:
        """Who runs each part."""
        return tuple(run.runner.provider for run in self._runs)

    def run(self, feeds: Mapping[str, Array], profile: list[PartTime] | None = None) -> dict[str, Array]:
        """Return all values that parts have made of the feeds, the feeds included.

        Args:
            feeds: The model's inputs.
            profile: If given, gets an entry for each part that runs, behind those that have run.

        Raises:
            MisjudgedShapesError: The model is to be planned without the shapes of some values.
        """
        values = dict(feeds)
        begin = perf_counter_ns() - (profile[-1].begin + profile[-1].duration if profile else 0)
        for runner, conditions, told, nodes in self._runs:
            if conditions and not _are_met(conditions, values):
                continue
            started = perf_counter_ns()
            steps = runner.run(values, profile is not None)
            if told:
                _check_shapes(told, values)
            if profile is not None:
                duration, names = perf_counter_ns() - started, tuple(node.name for node in nodes)
                profile.append(PartTime(runner.provider, started - begin, duration, steps, names))
        return values

    def feeds_of_rest(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """Return what remains of the model is fed, of the values that parts have made."""
        assert self.plan.rest is not None
        return {name: values[source] for name, source in self.plan.rest.inputs.items()}

    def outputs(self, values: Mapping[str, Array], feeds: Mapping[str, Array], indices: Sequence[int]) -> list[Array]:
        """Return outputs of the model by their indices, copied where they are feeds, constants or other outputs."""
        taken = {_owner(array) for array in feeds.values() if isinstance(array, np.ndarray)}
        contained: set[Any] = set()
        results = []
        for index in indices:
            output = self.plan.outputs[index]
            array = values[output] if isinstance(output, str) else output
            if not isinstance(array, np.ndarray):  # a sequence or a map, which another runtime has made
                results.append(deepcopy(array) if output in contained else array)
                contained.add(output)
                continue
            if not isinstance(output, str) or _owner(array) in taken:
                array = np.array(array)
            taken.add(_owner(array))
            results.append(array)
        return results


def _run_of(part: Part, plan: Plan, device: Device) -> _Run:
    return _Run(_runner_of(part, plan, device), part.conditions, _shapes_told(plan, part), part.nodes)


def _runner_of(part: Part, plan: Plan, device: Device) -> _Runner:
    if isinstance(part, NativePart):
        return _NativeRunner(part)
    if isinstance(part, ArrayPart):
        return ArrayRunner(part, device)
    is_beside_native = any(isinstance(other, NativePart) for other in plan.parts)
    return ForeignRunner(part, device.num_threads, is_beside_native=is_beside_native)


def _are_met(conditions: Sequence[tuple[str, bool]], values: Mapping[str, Array]) -> bool:
    """Return whether a part's conditions are met, of which each later one is computed where those before are."""
    return all(bool(values[name].reshape(())) == expected for name, expected in conditions)


def _shapes_told(plan: Plan, part: Part) -> Mapping[str, tuple[int, ...]]:
    return {name: plan.told[name][1] for name in part.outputs if name in plan.told}


def _check_shapes(told: Mapping[str, tuple[int, ...]], values: Mapping[str, Array]) -> None:
    misjudged = [name for name, shape in told.items() if values[name].shape != shape]
    if misjudged:
        raise MisjudgedShapesError(misjudged)


def _owner(array: Array) -> int:
    """Return the identity of the array that owns the memory of a view, or holds what does."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return id(array)


def type_of(value: Any) -> ArrayType:
    """Return the type and shape of a value; a sequence or a map, which a plan hands on at most, is one object."""
    return (value.dtype, value.shape) if isinstance(value, np.ndarray) else (np.dtype(np.object_), ())
