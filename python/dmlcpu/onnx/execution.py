"""Runs plans: native graphs, and what another runtime takes."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import perf_counter_ns
from typing import Any, Protocol

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from dmlcpu import _core
from dmlcpu.device import Device
from dmlcpu.errors import InvalidModelError, MissingRuntimeError
from dmlcpu.graph.compiled_graph import CompiledGraph
from dmlcpu.graph.trace import PartTime, StepTime
from dmlcpu.onnx.extraction import ArrayType
from dmlcpu.onnx.lowering import as_bytes
from dmlcpu.onnx.model import Model, has_quantized_nodes
from dmlcpu.onnx.planning import ForeignPart, NativePart, Plan, make_plan
from dmlcpu.onnx.values import Array

__all__ = ["ExecutablePlan", "ForeignSessions", "executable_plan"]

# A message names this many nodes that have no kernel.
_MOST_NODES_TOLD = 8


class _Runner(Protocol):
    @property
    def provider(self) -> str: ...

    def run(self, values: dict[str, Array], profile: bool) -> tuple[StepTime, ...]:
        """Read what the part reads from the values, and add what it writes."""


class _NativeRunner:
    provider = "dmlcpu"

    def __init__(self, part: NativePart) -> None:
        self._graph = part.graph
        self._inputs, self._outputs = part.inputs, part.outputs
        types = dict(zip(part.outputs, part.types, strict=True))
        # A tensor without axes is one of a single element to the graph, and a condition a byte.
        self._scalars = tuple(name for name, (_, shape) in types.items() if not shape)
        self._conditions = tuple(name for name, (dtype, _) in types.items() if dtype == np.bool_)

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
        for name in self._scalars:
            values[name] = values[name].reshape(())
        for name in self._conditions:
            values[name] = values[name].view(np.bool_)
        return steps


class _ForeignRunner:
    def __init__(self, part: ForeignPart, session: _ForeignSession) -> None:
        self._session = session
        self._nodes = "; ".join(str(node) for node in part.nodes)
        own = part.inputs if part.model is None else [value.name for value in part.model.graph.input]
        self._names = tuple(zip(own, part.inputs, strict=True))
        self._outputs = list(part.outputs)

    @property
    def provider(self) -> str:
        return self._session.provider

    def run(self, values: dict[str, Array], profile: bool) -> tuple[StepTime, ...]:
        feeds = {own: values[name] for own, name in self._names}
        try:
            with np.errstate(all="ignore"):
                results = self._session.run(self._outputs, feeds)
        except Exception as error:  # whatever the other runtime raises: no caller knows its exceptions
            raise InvalidModelError(f"nodes {self._nodes}: {error}") from None
        if not all(isinstance(result, np.ndarray | np.generic) for result in results):
            raise InvalidModelError(f"nodes {self._nodes}: a result is no tensor")
        values.update(zip(self._outputs, map(np.asarray, results), strict=True))
        return ()


class _ForeignSession:
    """Another runtime's session, opened once more in a child of fork()."""

    def __init__(self, opened: Callable[[], tuple[str, Any]]) -> None:
        self._opened = opened
        self._open()

    def _open(self) -> None:
        self.provider, self._session = self._opened()
        self._process = os.getpid()

    def run(self, outputs: Sequence[str], feeds: Mapping[str, Array]) -> list[Any]:
        if self._process != os.getpid():
            # Never freed: onnxruntime would wait for the threads of the session, which are not in a child of fork().
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._session))
            self._open()
        results: list[Any] = self._session.run(outputs, feeds)
        return results


class _WholeModelRefusedError(Exception):
    """onnxruntime does not open the file of a model; what is made of its nodes it may still open."""


class ForeignSessions:
    """The sessions of other runtimes that the plans of a model need.

    Args:
        source: The model, by its path or as the bytes of a file.
        num_threads: Of each session.

    Attributes:
        may_be_whole: Whether onnxruntime has not refused the file of the model yet.
    """

    def __init__(self, source: str | bytes, num_threads: int) -> None:
        self.may_be_whole = True
        self._source, self._num_threads = source, num_threads
        self._whole: _ForeignSession | None = None  # of the model itself, for inputs of any shapes

    def open(self, part: ForeignPart) -> _ForeignSession:
        """Return a session of a part, one for all that are the whole model.

        Raises:
            MissingRuntimeError: onnxruntime is not installed; the message names nodes that need it.
            InvalidModelError: Nodes are not valid, or neither runtime knows them.
            _WholeModelRefusedError: The part is the whole model, and onnxruntime does not open its file.
        """
        if part.model is not None:
            return _ForeignSession(partial(_opened, part, part.model, self._num_threads))
        if self._whole is None:
            self._whole = _ForeignSession(self._open_whole)
        return self._whole

    def _open_whole(self) -> tuple[str, Any]:
        try:
            return "onnxruntime", _onnxruntime_session(self._source, self._num_threads)
        except Exception as error:  # whatever onnxruntime raises
            raise _WholeModelRefusedError(str(error)) from None


def _opened(part: ForeignPart, model: onnx.ModelProto, num_threads: int) -> tuple[str, Any]:
    """Return who runs a part, ``"onnxruntime"`` or ``"onnx.reference"``, and its session.

    The reference evaluator of onnx, slow but complete, takes what onnxruntime has no kernel for.

    Raises:
        MissingRuntimeError: onnxruntime is not installed; the message names nodes that need it.
        InvalidModelError: Nodes are not valid, or neither runtime knows them.
    """
    nodes = "; ".join(f"{node}: {part.reasons[node.name]}" for node in part.nodes[:_MOST_NODES_TOLD])
    if len(part.nodes) > _MOST_NODES_TOLD:
        nodes += f"; and {len(part.nodes) - _MOST_NODES_TOLD} more"
    if part.by_reference:
        return _reference(model, f"nodes {nodes}")
    try:
        return "onnxruntime", _onnxruntime_session(model.SerializeToString(), num_threads)
    except ImportError:
        raise MissingRuntimeError(
            f"nodes have no kernel, and onnxruntime, which could run them, is not installed (pip install onnxruntime): "
            f"{nodes}"
        ) from None
    except Exception as error:  # whatever onnxruntime raises: no caller knows its exceptions
        return _reference(model, f"nodes {nodes}: {error}")


def _onnxruntime_session(model: str | bytes, num_threads: int) -> Any:
    """Return onnxruntime's session of a model."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4  # what is wrong is raised
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _reference(model: onnx.ModelProto, refusal: str) -> tuple[str, Any]:
    """Return onnx's reference evaluator for the model of a part, if that is valid ONNX."""
    try:
        onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
        return "onnx.reference", ReferenceEvaluator(model)
    except Exception as error:  # whatever the checker or an operator without a reference raises
        raise InvalidModelError(f"{refusal} ({error})") from None


class ExecutablePlan:
    """A plan with everything compiled.

    Attributes:
        plan: What is run.
        graph: The one graph that the plan is, from the model's inputs to its outputs; None if there is more to it.
        last_use: A number that grows with each use of a plan of the session.
    """

    def __init__(self, plan: Plan, arrays: Mapping[str, ArrayType], foreign: ForeignSessions) -> None:
        self.plan = plan
        self.graph = _only_graph(plan, arrays)
        self.last_use = 0
        try:
            self._runners: list[_Runner] = [
                _NativeRunner(part) if isinstance(part, NativePart) else _ForeignRunner(part, foreign.open(part))
                for part in plan.parts
            ]
        except MissingRuntimeError as error:
            is_float = not has_quantized_nodes(node for part in plan.parts for node in part.nodes)
            told = MissingRuntimeError(f"the model has no quantized nodes: {error}" if is_float else str(error))
            told.plan = plan
            raise told from None

    @property
    def providers(self) -> tuple[str, ...]:
        """Who runs each part."""
        return tuple(runner.provider for runner in self._runners)

    def run(
        self, feeds: Mapping[str, Array], profile: list[PartTime] | None = None, resumed: bool = False
    ) -> dict[str, Array]:
        """Return all values that parts have made of the feeds, the feeds included.

        Args:
            feeds: The model's inputs, and what the parts of a shorter plan have made.
            profile: If given, gets an entry for each part that runs.
            resumed: Whether there was a shorter plan. A part runs again if it has more readers now, which want more of
                it; otherwise it does not.
        """
        values = dict(feeds)
        begin = perf_counter_ns()
        for runner, part in zip(self._runners, self.plan.parts, strict=True):
            if resumed and all(name in values for name in part.outputs):
                continue
            started = perf_counter_ns()
            steps = runner.run(values, profile is not None)
            if profile is not None:
                profile.append(PartTime(runner.provider, started - begin, perf_counter_ns() - started, steps))
        return values

    def outputs(self, values: Mapping[str, Array], feeds: Mapping[str, Array], indices: Sequence[int]) -> list[Array]:
        """Return outputs of the model by their indices, copied where they are feeds, constants or other outputs."""
        taken = {_owner(array) for array in feeds.values()}
        results = []
        for index in indices:
            output = self.plan.outputs[index]
            array = values[output] if isinstance(output, str) else output
            if not isinstance(output, str) or _owner(array) in taken:
                array = np.array(array)
            taken.add(_owner(array))
            results.append(array)
        return results


def executable_plan(
    model: Model,
    arrays: Mapping[str, ArrayType],
    device: Device,
    shared: _core.SharedBuffers | None,
    foreign: ForeignSessions,
) -> ExecutablePlan:
    """Plan a model, as ``make_plan`` does, and compile the plan.

    Raises:
        InvalidModelError: Nodes are given what they cannot take, or no runtime knows them.
        MissingRuntimeError: Nodes have no kernel, and onnxruntime is not installed.
    """
    try:
        return ExecutablePlan(make_plan(model, arrays, device, shared, foreign.may_be_whole), arrays, foreign)
    except _WholeModelRefusedError:
        foreign.may_be_whole = False
        return ExecutablePlan(make_plan(model, arrays, device, shared, False), arrays, foreign)


def _only_graph(plan: Plan, arrays: Mapping[str, ArrayType]) -> CompiledGraph | None:
    """Return the graph that takes what a plan is given and makes the model's outputs of it, if there is one."""
    if len(plan.parts) != 1 or plan.unknown or not all(isinstance(output, str) for output in plan.outputs):
        return None
    [part] = plan.parts
    if not isinstance(part, NativePart) or arrays.keys() != {*part.inputs} or part.outputs != plan.outputs:
        return None
    # To the graph, tensors without axes have one, and conditions are bytes.
    types = (*part.types, *arrays.values())
    return part.graph if all(shape and dtype != np.bool_ for dtype, shape in types) else None


def _owner(array: Array) -> int:
    """Return the identity of the array that owns the memory of a view, or holds what does."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return id(array)
