"""Sessions: a model that is loaded once and run many times, with onnxruntime's names."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from dmlcpu.device import BindingProperties, Device
from dmlcpu.errors import BindingError
from dmlcpu.graph.compiled_graph import Step
from dmlcpu.onnx.execution import ExecutablePlan, PartTime
from dmlcpu.onnx.extraction import ArrayType
from dmlcpu.onnx.model import Model, ValueInfo, load_model
from dmlcpu.onnx.options import SessionOptions, checked_providers, get_available_providers
from dmlcpu.onnx.planning import ForeignPart, NativePart, make_plan
from dmlcpu.onnx.values import Array

__all__ = ["InferenceSession", "ModelMetadata", "NodeArg", "Partition", "node_arg", "partition_of"]

# Plans are kept for this many different shapes of the inputs.
_MOST_PLANS = 16

_TYPE_NAMES = {"float32": "float", "float64": "double", "bool": "bool", "object": "string", "str": "string"}


@dataclass(frozen=True, slots=True)
class NodeArg:
    """An input or output of a model, as onnxruntime describes it.

    Attributes:
        name: Its name.
        shape: Lengths, names of free lengths, or None.
        type: Such as ``"tensor(uint8)"``.
    """

    name: str
    shape: list[int | str | None]
    type: str


@dataclass(frozen=True, slots=True)
class ModelMetadata:
    """What a model says of itself; onnxruntime's names."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: Mapping[str, str] = field(hash=False)


@dataclass(frozen=True, slots=True)
class Partition:
    """Nodes that run together.

    Attributes:
        provider: Who runs them: ``"dmlcpu"``, ``"onnxruntime"``, or where neither can ``"onnx.reference"``.
        nodes: Their names.
        reasons: Of what dmlcpu does not run, why no kernel does, by name.
        description: Of what runs natively, the steps that the nodes became.
        steps: The same, one by one.
        binding_properties: The memory that they use besides inputs and outputs; None of what onnxruntime runs.
    """

    provider: str
    nodes: tuple[str, ...]
    reasons: Mapping[str, str] = field(hash=False)
    description: str = field(repr=False)
    steps: tuple[Step, ...] = field(default=(), repr=False)
    binding_properties: BindingProperties | None = None


class InferenceSession:
    """A quantized ONNX model, ready to run.

    Both quantized forms run natively: operators on codes (QLinearConv, com.microsoft.QLinearAdd, ...), and dequantize,
    operate, quantize, which is computed as the operator on codes. What there is no kernel for runs on onnxruntime, if
    it is installed; ``partitions`` tells which nodes those are. Quantized types that neither knows, such as INT2, INT4
    or FLOAT8, are left to onnx's reference evaluator: slow, but right.

    Args:
        path_or_bytes: A file, or the bytes of one.
        sess_options: ``intra_op_num_threads`` counts.
        providers, provider_options: Accepted for onnxruntime's sake; a provider that is not known is a warning.
        device: Where native graphs run; by default one with the threads that the options ask for.

    Raises:
        InvalidModelError: It is no ONNX model, or one whose parts do not fit together.
        DmlError: A node has no kernel, and onnxruntime is not installed. Raised by the first run if shapes are free,
            and so is what is wrong with nodes (InvalidModelError).
        OSError: The file cannot be read.
    """

    def __init__(
        self,
        path_or_bytes: str | PathLike[str] | bytes,
        sess_options: SessionOptions | None = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Any] | None = None,
        *,
        device: Device | None = None,
    ) -> None:
        self._source = path_or_bytes if isinstance(path_or_bytes, bytes) else fspath(path_or_bytes)
        self._options = SessionOptions() if sess_options is None else sess_options
        self._providers = checked_providers(providers)
        threads = int(getattr(self._options, "intra_op_num_threads", 0)) or None
        self._given_device = device
        self._device = Device(num_threads=threads) if device is None else device
        self._model: Model = load_model(self._source)
        self._names = [output.name for output in self._model.outputs]
        self._plans: dict[tuple[Any, ...], ExecutablePlan] = {}
        self._lock = Lock()
        self._executor: ThreadPoolExecutor | None = None
        if all(value.shape is not None and _is_fixed(value.shape) for value in self._model.inputs):
            self._plan(self._arrays_of_the_model())

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a call: the path (or the bytes) and the options."""
        return _reopened, (self._source, self._options, self._providers, self._given_device)

    def __repr__(self) -> str:
        """Return the model and where it runs."""
        source = "bytes" if isinstance(self._source, bytes) else repr(self._source)
        return f"<InferenceSession {source} isa={self._device.isa} num_threads={self._device.num_threads}>"

    def get_inputs(self) -> list[NodeArg]:
        """Return what ``run`` is to be fed."""
        return [node_arg(value) for value in self._model.inputs]

    def get_outputs(self) -> list[NodeArg]:
        """Return what ``run`` gives."""
        return [node_arg(value) for value in self._model.outputs]

    def get_modelmeta(self) -> ModelMetadata:
        """Return what the model says of itself."""
        proto = self._model.proto
        return ModelMetadata(
            proto.producer_name,
            proto.graph.name,
            proto.domain,
            proto.doc_string,
            proto.graph.doc_string,
            proto.model_version,
            {entry.key: entry.value for entry in proto.metadata_props},
        )

    def get_providers(self) -> list[str]:
        """Return who may run nodes of the model."""
        return get_available_providers()

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """Return the options of each provider: none has any."""
        return {provider: {} for provider in get_available_providers()}

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Return the initializers that a run may replace: none, they are constants here."""
        return []

    def get_session_options(self) -> SessionOptions:
        """Return the options."""
        return self._options

    @property
    def device(self) -> Device:
        """Where native graphs run."""
        return self._device

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: Any = None
    ) -> list[Array]:
        """Run the model. The GIL is released; any number of threads may run one session at once.

        Args:
            output_names: The outputs to return; None or none for all.
            input_feed: An array for each input, by name.
            run_options: Accepted for onnxruntime's sake.

        Raises:
            BindingError: A name is unknown or missing, or an array has another type or shape than the model says.
        """
        feeds = self._checked(input_feed)
        indices = self._indices(output_names)
        plan, values = self._run(feeds)
        return plan.outputs(values, indices)

    def run_async(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: Any = None
    ) -> Future[list[Array]]:
        """Begin a run on another thread; return the future of its outputs.

        Raises:
            BindingError: As ``run``, at once.
        """
        feeds, indices = self._checked(input_feed), self._indices(output_names)
        with self._lock:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self._device.num_threads, "dmlcpu-session")

        def work() -> list[Array]:
            plan, values = self._run(feeds)
            return plan.outputs(values, indices)

        return self._executor.submit(work)

    def partitions(self, shapes: Mapping[str, Sequence[int]] | None = None) -> list[Partition]:
        """Return who runs which nodes.

        Args:
            shapes: Of inputs whose shapes the model leaves free; by default free lengths are 1.
        """
        executable = self._plan(self._arrays_of_the_model(shapes))
        return [
            partition_of(provider, part)
            for provider, part in zip(executable.providers, executable.plan.parts, strict=True)
        ]

    def profile(self, path: str | PathLike[str], input_feed: Mapping[str, Any]) -> str:
        """Run once, and write when each step ran as a trace that chrome://tracing and ui.perfetto.dev show.

        Args:
            path: The file to write.
            input_feed: As for ``run``.

        Returns:
            The path.
        """
        times: list[PartTime] = []
        self._run(self._checked(input_feed), times)
        Path(path).write_text(json.dumps({"traceEvents": _trace_events(times), "displayTimeUnit": "ms"}))
        return fspath(path)

    def _indices(self, output_names: Sequence[str] | None) -> Sequence[int]:
        if not output_names:
            return range(len(self._names))
        for name in output_names:
            if name not in self._names:
                raise BindingError(f"got output {name!r}, expected one of {', '.join(self._names)}", name)
        return [self._names.index(name) for name in output_names]

    def _run(
        self, feeds: Mapping[str, Array], profile: list[PartTime] | None = None
    ) -> tuple[ExecutablePlan, dict[str, Array]]:
        arrays = {name: (array.dtype, array.shape) for name, array in feeds.items()}
        plan = self._plan(arrays)
        values = plan.run(feeds, profile)
        while plan.plan.unknown:
            arrays.update({name: (values[name].dtype, values[name].shape) for name in plan.plan.unknown})
            plan = self._plan(arrays)
            values = plan.run(values, profile, resumed=True)
        return plan, values

    def _plan(self, arrays: Mapping[str, ArrayType]) -> ExecutablePlan:
        key = tuple(arrays.items())
        plan = self._plans.get(key)
        if plan is not None:
            return plan
        with self._lock:
            if key not in self._plans:
                plan = ExecutablePlan(make_plan(self._model, arrays, self._device), self._device.num_threads)
                if len(self._plans) >= _MOST_PLANS:
                    del self._plans[next(iter(self._plans))]
                self._plans[key] = plan
            return self._plans[key]

    def _arrays_of_the_model(self, shapes: Mapping[str, Sequence[int]] | None = None) -> dict[str, ArrayType]:
        arrays = {}
        for value in self._model.inputs:
            free = tuple(length if isinstance(length, int) else 1 for length in value.shape or ())
            arrays[value.name] = (value.dtype, tuple((shapes or {}).get(value.name, free)))
        return arrays

    def _checked(self, input_feed: Mapping[str, Any]) -> dict[str, Array]:
        """Return the feeds as arrays that lie packed, in the model's order."""
        feeds = {}
        for value in self._model.inputs:
            if value.name not in input_feed:
                raise BindingError(f"got no input {value.name!r}, expected {_expectation(value)}", value.name)
            feeds[value.name] = _checked_feed(value, input_feed[value.name])
        for name in input_feed:
            if name in self._model.constants:
                _check_constant(name, self._model.constants[name], input_feed[name])
            elif name not in feeds:
                raise BindingError(f"got input {name!r}, expected one of {', '.join(feeds)}", name)
        return feeds


def _reopened(source: Any, options: Any, providers: Any, device: Any) -> InferenceSession:
    return InferenceSession(source, options, providers, device=device)


def _is_fixed(shape: Sequence[int | str | None]) -> bool:
    return all(isinstance(length, int) for length in shape)


def _checked_feed(value: ValueInfo, feed: Any) -> Array:
    array = np.asarray(feed)
    fits = value.shape is None or (
        len(value.shape) == array.ndim
        and all(not isinstance(want, int) or want == got for want, got in zip(value.shape, array.shape, strict=True))
    )
    if array.dtype != value.dtype or not fits:
        got = f"{array.dtype} of shape {array.shape}"
        raise BindingError(f"input {value.name!r}: got {got}, expected {_expectation(value)}", value.name)
    return np.asarray(array, order="C")


def _check_constant(name: str, constant: Array, feed: Any) -> None:
    """Check that what is fed for a constant is what the session was made with."""
    array = np.asarray(feed)
    if array.dtype != constant.dtype or not np.array_equal(array, constant, equal_nan=constant.dtype.kind == "f"):
        raise BindingError(f"input {name!r}: got another array than the model's, expected its own: a constant", name)


def _expectation(value: ValueInfo) -> str:
    if value.shape is None:
        return f"{value.dtype} of any shape"
    return f"{value.dtype} of shape ({', '.join('?' if length is None else str(length) for length in value.shape)})"


def node_arg(value: ValueInfo) -> NodeArg:
    """Return a value of a model as onnxruntime describes it."""
    name = value.dtype.name
    return NodeArg(value.name, list(value.shape or ()), f"tensor({_TYPE_NAMES.get(name, name)})")


def partition_of(provider: str, part: NativePart | ForeignPart) -> Partition:
    """Return what there is to tell of a part that a provider runs."""
    nodes = tuple(node.name for node in part.nodes)
    if isinstance(part, ForeignPart):
        return Partition(provider, nodes, part.reasons, "")
    graph = part.graph
    return Partition(provider, nodes, {}, graph.describe(), graph.steps, graph.binding_properties)


def _trace_events(times: Sequence[PartTime]) -> list[dict[str, Any]]:
    """Return complete events in microseconds: each part, and the steps within it."""

    def event(name: str, category: str, begin: int, duration: int, **args: str) -> dict[str, Any]:
        when = {"ph": "X", "ts": begin / 1e3, "dur": duration / 1e3, "pid": 0, "tid": 0}
        return {"name": name, "cat": category, **when, "args": args}

    events = []
    for part in times:
        events.append(event(part.provider, "Part", part.begin, part.duration))
        for step in part.steps:
            begin, told = part.begin + step.begin, {"operator": step.type, "node": step.name}
            events.append(event(f"{step.type} {step.name}", "Node", begin, step.duration, **told))
    return events
