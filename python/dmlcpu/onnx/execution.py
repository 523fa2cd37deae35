"""Runs plans: native graphs, and what another runtime takes."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from time import perf_counter_ns
from typing import Any, Protocol

import numpy as np
from onnx.reference import ReferenceEvaluator

from dmlcpu.errors import InvalidModelError, MissingRuntimeError
from dmlcpu.graph.compiled_graph import CompiledGraph
from dmlcpu.graph.trace import PartTime, StepTime
from dmlcpu.onnx.extraction import ArrayType, inferred
from dmlcpu.onnx.lowering import as_bytes
from dmlcpu.onnx.nodes import Node, graphs_within, has_quantized_nodes
from dmlcpu.onnx.plans import ForeignPart, NativePart, Plan
from dmlcpu.onnx.values import Array

__all__ = ["ExecutablePlan", "foreign_runner"]

# Another runtime's session keeps the model's bytes about as often.
_COPIES_OF_OTHERS = 5
# What a step is compiled to, about: 650 to 900 bytes in decoders' graphs.
_BYTES_OF_A_STEP = 800
# Operators by which onnxruntime ends the process where there are no queries: it divides by their number.
_DIVIDING = frozenset({"GroupQueryAttention"})
# A message names this many nodes that have no kernel.
_MOST_NODES_TOLD = 8


class _Runner(Protocol):
    provider: str

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
    def __init__(self, part: ForeignPart, num_threads: int) -> None:
        self._part, self._num_threads = part, num_threads
        self._nodes = "; ".join(str(node) for node in part.nodes)
        self._queries = {node.inputs[0] for node in part.nodes if node.operator in _DIVIDING and node.inputs}
        self._open()
        own = [value.name for value in part.model.graph.input]
        self._names = tuple(zip(own, part.inputs, strict=True))
        self._outputs = list(part.outputs)

    def _check_queries(self, feeds: Mapping[str, Array]) -> None:
        """Raise InvalidModelError where an operator that divides by the number of its queries has none."""
        shapes = {tensor.name: tuple(tensor.dims) for tensor in self._part.model.graph.initializer}
        shapes |= {name: feed.shape for name, feed in feeds.items()}
        for name, shape in shapes.items():
            if shape[:1] == (0,) or (name in self._queries and 0 in shape):
                raise InvalidModelError(f"nodes {self._nodes}: got {name} of shape {shape}, expected some queries")

    def _open(self) -> None:
        """Open the other runtime's session, for this process."""
        self.provider, self._session = foreign_runner(self._part, self._num_threads)
        self._process = os.getpid()

    def run(self, values: dict[str, Array], profile: bool) -> tuple[StepTime, ...]:
        if self._process != os.getpid():
            # Never freed: onnxruntime would wait for the threads of the session, which are not in a child of fork().
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._session))
            self._open()
        feeds = {own: values[name] for own, name in self._names}
        if self._queries:
            self._check_queries(feeds)
        try:
            with np.errstate(all="ignore"):
                results = self._session.run(self._outputs, feeds)
        except Exception as error:  # whatever the other runtime raises: no caller knows its exceptions
            raise InvalidModelError(f"nodes {self._nodes}: {error}") from None
        if not all(isinstance(result, np.ndarray | np.generic) for result in results):
            raise InvalidModelError(f"nodes {self._nodes}: a result is no tensor")
        values.update(zip(self._outputs, map(np.asarray, results), strict=True))
        return ()


def foreign_runner(part: ForeignPart, num_threads: int) -> tuple[str, Any]:
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
        return _reference(part, f"nodes {nodes}")
    try:
        import onnxruntime
    except ImportError:
        raise MissingRuntimeError(
            f"nodes have no kernel, and onnxruntime, which could run them, is not installed (pip install onnxruntime): "
            f"{nodes}"
        ) from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4  # what is wrong is raised
    serialized = part.model.SerializeToString()
    try:
        session = onnxruntime.InferenceSession(
            serialized, options, providers=["CPUExecutionProvider"], disabled_optimizers=_disabled(part)
        )
    except Exception as error:  # whatever onnxruntime raises: no caller knows its exceptions
        return _reference(part, f"nodes {nodes}: {error}")
    return "onnxruntime", session


def _disabled(part: ForeignPart) -> list[str]:
    """Return the optimizers of onnxruntime that a part does not get.

    Of branches within branches whose conditions are constants its folding ends the process, or leaves out results.
    """
    holds_graphs = any(True for node in part.nodes for _ in graphs_within(node.proto.attribute))
    return ["ConstantFolding"] if holds_graphs else []


def _reference(part: ForeignPart, refusal: str) -> tuple[str, Any]:
    """Return onnx's reference evaluator for a part, if the part is valid ONNX."""
    if any(map(_says_too_much, part.nodes)):
        raise InvalidModelError(refusal)
    try:
        inferred(part.model, check_type=True, strict_mode=True)
        return "onnx.reference", ReferenceEvaluator(part.model)
    except Exception as error:  # whatever the checker or an operator without a reference raises
        raise InvalidModelError(f"{refusal} ({error})") from None


def _says_too_much(node: Node) -> bool:
    """Return whether a node is a recurrent layer with what the evaluator passes over: functions, bounds, lengths."""
    if node.operator not in ("RNN", "GRU", "LSTM"):
        return False
    said = {name for name, value in node.attributes.items() if (name, value) != ("direction", b"forward")}
    return bool(said - {"hidden_size", "layout", "linear_before_reset"} or any(node.inputs[4:5]))


class ExecutablePlan:
    """A plan with everything compiled.

    Attributes:
        plan: What is run.
        graph: The one graph that the plan is, from the model's inputs to its outputs; None if there is more to it.
        size: An estimate of its bytes: the steps of its native graphs, and other runtimes' sessions. Weights, and the
            memory that steps compute in, are every plan's; constants that follow from a shape, such as rows of
            positions, are not counted.
        last_use: A number that grows with each use of a plan of the session.
    """

    def __init__(self, plan: Plan, arrays: Mapping[str, ArrayType], num_threads: int) -> None:
        self.plan = plan
        self.graph = _only_graph(plan, arrays)
        steps = sum(part.graph.step_count for part in plan.parts if isinstance(part, NativePart))
        self.size = _BYTES_OF_A_STEP * steps
        foreign = [part.model for part in plan.parts if isinstance(part, ForeignPart)]
        self.size += _COPIES_OF_OTHERS * sum(model.ByteSize() for model in foreign)
        self.last_use = 0
        try:
            self._runners: list[_Runner] = [
                _NativeRunner(part) if isinstance(part, NativePart) else _ForeignRunner(part, num_threads)
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
