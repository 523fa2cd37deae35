"""Sessions: a model that is loaded once and run many times, with onnxruntime's names."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import deepcopy
from functools import partial
from os import PathLike, fspath
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import numpy as np

from dmlcpu import _core
from dmlcpu.descriptions import ModelMetadata, NodeArg, Partition
from dmlcpu.device import Device
from dmlcpu.errors import BindingError, InvalidModelError
from dmlcpu.float_environment import in_default_float_environment
from dmlcpu.graph.trace import PartTime, write_trace
from dmlcpu.onnx.absent_names import absent_attribute
from dmlcpu.onnx.constant_arrays import Array
from dmlcpu.onnx.feeds import check_names, checked_feeds, given_value, output_indices, zero_feeds
from dmlcpu.onnx.input_shapes import complete_shapes, free_lengths, with_lengths
from dmlcpu.onnx.models.inferred_outputs import outputs_of
from dmlcpu.onnx.models.metadata import metadata_of, node_arg
from dmlcpu.onnx.models.model import load_model
from dmlcpu.onnx.options import (
    SessionOptions,
    check_run_options,
    checked_options,
    checked_providers,
    dimension_overrides,
    get_available_providers,
)
from dmlcpu.onnx.planning.execution import ExecutablePlan
from dmlcpu.onnx.planning.operators import check_operators
from dmlcpu.onnx.planning.packed_runs import PackedRun
from dmlcpu.onnx.planning.partitions import partition_of
from dmlcpu.onnx.planning.session_plans import SessionPlans
from dmlcpu.onnx.refusals import RefusedRunError, UnfitLengthsError
from dmlcpu.onnx.session_arguments import call_back, checked_device, checked_source

__all__ = ["InferenceSession"]


class InferenceSession:
    """A quantized ONNX model, ready to run.

    Both quantized forms run natively: operators on codes (QLinearConv, com.microsoft.QLinearAdd, ...), and dequantize,
    operate, quantize, which is computed as the operator on codes. What there is no kernel for runs on onnxruntime, if
    it is installed; ``partitions`` tells which nodes those are. Products with weights of 4 bits are native, and so is
    FLOAT8 that is only dequantized again; activations of types that neither takes, such as INT4 or other FLOAT8, are
    left to onnx's reference evaluator: slow, but right.

    Args:
        path_or_bytes: A file, or the bytes of one.
        sess_options: ``intra_op_num_threads`` counts, and free lengths that they give.
        providers, provider_options, disabled_optimizers, enable_fallback: Accepted for onnxruntime's sake; a provider
            that is not known is a warning.
        device: Where native graphs run; by default one with the threads that the options ask for.

    Raises:
        InvalidModelError: It is no ONNX model, or one whose parts do not fit together.
        TypeError: The options are neither None nor ``SessionOptions``, the device is neither None nor a ``Device``, or
            the model is neither a path nor bytes.
        ValueError: The options ask for more than 1024 threads.
        MissingRuntimeError: A node has no kernel, and onnxruntime is not installed, or has no such operator. If shapes
            are free, or an input decides on branches or steps, what depends on these is raised by the first run, and
            so is what is wrong with nodes (InvalidModelError).
        OSError: The file cannot be read.

    >>> session = InferenceSession("examples/image_classification/resnet8_int8.onnx")
    >>> [image] = session.get_inputs()
    >>> [probabilities] = session.run(None, {image.name: np.zeros(image.shape, np.int8)})
    >>> probabilities.shape
    (1, 10)
    """

    def __init__(
        self,
        path_or_bytes: str | PathLike[str] | bytes,
        sess_options: SessionOptions | None = None,
        providers: str | Sequence[Any] | None = None,
        provider_options: Sequence[Any] | None = None,
        *,
        device: Device | None = None,
        disabled_optimizers: Collection[str] | None = None,
        enable_fallback: bool = True,
    ) -> None:
        names = {*vars(self)}
        self._source = checked_source(path_or_bytes)
        # The working directory may be another one when the file is read again.
        self._location = self._source if isinstance(self._source, bytes) else os.path.abspath(self._source)
        self._options = checked_options(sess_options)
        self._providers = checked_providers(providers, provider_options)
        self._given_device = device
        self._device = checked_device(device, self._options)
        self._open()
        self._own: set[str] = getattr(self, "_own", set()) | {*vars(self)} - names  # no derived class's

    @in_default_float_environment
    def _open(self) -> None:
        """Read the model, and plan it if it has one plan."""
        model = load_model(self._source, to_run=True, lengths=dimension_overrides(self._options))
        self._inputs, self._outputs, self._metadata = model.inputs, outputs_of(model), metadata_of(model)
        self._declared = {value.name: value.shape for value in model.inputs}
        self._names = [output.name for output in model.outputs]
        self._constant_names = frozenset(model.constants)
        self._plans = SessionPlans(model, self._device)
        self._last: Sequence[ExecutablePlan] = ()  # the plans that ran last
        self._latest: PackedRun | None = None  # the fast path through the plan that ran last, if it has one
        self._reset_executor()
        _sessions.add(self)
        check_operators(model, lambda: self._plan_without_run({}, {}).plan)
        if self._plans.has_fixed_inputs:
            plan = self._plan_without_run({}, {})
            if plan.rest is None and not plan.plan.told:
                self._plans.release()  # the one plan is right whatever other runtimes make

    def _reset_executor(self) -> None:
        """Have no threads, which are another process's after a fork, and a new lock, under which they are begun."""
        self._lock = Lock()
        self._executor: ThreadPoolExecutor | None = None

    def _begin_process(self) -> None:
        """Renew, in a child of fork(), what was other threads': they do not exist there, and leave locks taken."""
        self._reset_executor()
        self._plans.begin_process()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the absolute path (or the bytes), the options, and what a derived class has set."""
        added = {name: value for name, value in vars(self).items() if name not in {*self._own, "_own"}}
        opened = (type(self), self._location, self._options, self._providers, self._given_device)
        return _reopened, opened, added or None

    if not TYPE_CHECKING:  # to whom all names would be there

        def __getattr__(self, name: str) -> Any:
            """Raise AttributeError."""
            raise absent_attribute("InferenceSession", name, self)

    def __repr__(self) -> str:
        """Return the model and where it runs."""
        source = "bytes" if isinstance(self._source, bytes) else repr(self._source)
        return f"<InferenceSession {source} isa={self._device.isa} num_threads={self._device.num_threads}>"

    def get_inputs(self) -> list[NodeArg]:
        """Return what ``run`` is to be fed."""
        return [node_arg(value) for value in self._inputs]

    def get_outputs(self) -> list[NodeArg]:
        """Return what ``run`` gives; where the model tells no shape, what follows from its nodes."""
        return [node_arg(value) for value in self._outputs]

    def get_modelmeta(self) -> ModelMetadata:
        """Return what the model says of itself."""
        return self._metadata

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
        """Return a copy of the options that the session was opened with."""
        return deepcopy(self._options)

    @property
    def device(self) -> Device:
        """Where native graphs run."""
        return self._device

    @property
    def deciding_inputs(self) -> tuple[str, ...]:
        """Names of the inputs of one element that decide which branches of If nodes run, or how many steps of Loops.

        A model has plans of its own for each combination of their values, the first eight.
        """
        return self._plans.deciding

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: Any = None
    ) -> list[Array]:
        """Run the model. The GIL is released; any number of threads may run one session at once.

        Args:
            output_names: The outputs to return; None, 0 or no name for all.
            input_feed: An array, or a list of numbers, for each input, by name.
            run_options: Accepted for onnxruntime's sake.

        Returns:
            The outputs: arrays of their own, that share no memory with each other or the feeds. What the model makes
            that is no tensor, such as the probabilities of a classifier by class, is what onnxruntime returns: lists
            of arrays, or of dicts.

        Raises:
            BindingError: A name is unknown or missing, or an array has another type or shape than the model says, or
                indices or lengths in one are out of range, such as a token number beyond an embedding's rows; or
                nodes do not take lengths that the model leaves free.
            MemoryError: Memory is short.
            InvalidModelError, MissingRuntimeError: By the first run of shapes that the model leaves free: nodes are not
                valid, or need onnxruntime, which is not installed, or cannot be imported.
            TypeError: The run options are none.
        """
        if run_options is not None:
            check_run_options(run_options)
        if type(input_feed) is dict and (outputs := self._run_packed(input_feed)) is not None:
            are_all = output_names is None or (
                type(output_names) is list and {*map(type, output_names)} == {str} and output_names == self._names
            )
            return outputs if are_all else self._chosen(outputs, output_names)
        feeds = self._checked_feeds(input_feed)
        indices = output_indices(self._names, output_names)
        plans, values = self._run(feeds)
        return plans[-1].outputs(values, feeds, indices)

    def _run_packed(self, feeds: dict[str, Any]) -> list[Array] | None:
        """Run the model on arrays just as it takes them; None, and nothing has run, if they are others."""
        # Most are as the run before had them: then its plan's own look at them is enough.
        latest = self._latest
        if latest is not None and (outputs := latest(feeds)) is not None:
            return outputs
        try:
            run = self._plans.run_packed(feeds)
        except (RefusedRunError, InvalidModelError) as error:
            raise with_lengths(
                error, self._declared, {name: feed.shape for name, feed in feeds.items()}, "fed"
            ) from None
        if run is None:
            return None
        self._last, self._latest = (run[0],), run[0].run_packed
        return run[1]

    def _chosen(self, outputs: list[Array], output_names: Sequence[str] | None) -> list[Array]:
        indices = output_indices(self._names, output_names)
        if len({*indices}) < len(indices):  # no two of them share memory
            return [np.array(outputs[index]) for index in indices]
        return [outputs[index] for index in indices]

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[list[Array], Any, str], Any] | None = None,
        user_data: Any = None,
        run_options: Any = None,
    ) -> Future[list[Array]]:
        """Begin a run on another thread; return the future of its outputs.

        The feeds are copied by the call: the arrays may be written to while the run goes on. A future that a process
        has not waited for when it forks is never done in the child.

        Args:
            output_names, input_feed, run_options: As of ``run``.
            callback: If given, called as onnxruntime's is, as soon as the run has ended, mostly on its thread: with the
                outputs, ``user_data`` and ``""``, or where it failed with an empty list, ``user_data`` and why.
            user_data: For the callback.

        Raises:
            BindingError: Of names, types and shapes, at once. Everything else that ``run`` raises is the future's.
            TypeError: The callback cannot be called, or the run options are none.
        """
        if callback is not None and not callable(callback):
            raise TypeError(f"callback: got an object of type {type(callback).__name__}, expected a function")
        if run_options is not None:
            check_run_options(run_options)
        feeds = self._checked_feeds(input_feed, copy=True)
        names = [self._names[index] for index in output_indices(self._names, output_names)]
        with self._lock:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(_core.usable_processor_count(), "dmlcpu-session")
        future = self._executor.submit(InferenceSession.run, self, names, feeds)  # no derived class's run
        if callback is not None:
            future.add_done_callback(partial(call_back, callback, user_data))
        return future

    def partitions(
        self, shapes: Mapping[str, Sequence[int]] | None = None, values: Mapping[str, Any] | None = None
    ) -> list[Partition]:
        """Return who runs which nodes.

        Args:
            shapes: Of inputs whose shapes the model leaves free.
            values: Of ``deciding_inputs``.

        Returns:
            A partition for each part of the plan, in the order in which they run: that of the last run if neither
            argument is given. Otherwise, and if there was no run, free lengths that are not given are 1, or as long as
            what the model has the same name for, and values 0.

        Raises:
            BindingError: The model says otherwise of an input, or has none of a name; or lengths are none, or some that
                nodes do not take.
            InvalidModelError, MissingRuntimeError: As ``run``.
        """
        last = () if shapes or values else self._last
        return [
            partition_of(provider, part)
            for plan in last or [self._plan_without_run(shapes or {}, values or {})]
            for provider, part in zip(plan.providers, plan.plan.parts, strict=True)
        ]

    @in_default_float_environment
    def _plan_without_run(self, shapes: Mapping[str, Sequence[int]], values: Mapping[str, Any]) -> ExecutablePlan:
        """Return the plan of given lengths and values, as ``partitions`` takes them."""
        check_names("shapes", shapes, self._declared)
        deciding = self.deciding_inputs
        check_names("values", values, deciding)
        given = {value.name: given_value(value, values) for value in self._inputs if value.name in deciding}
        model, complete = self._plans.model(given, keep=False), complete_shapes(self._declared, shapes)
        arrays = {value.name: (value.dtype, complete[value.name]) for value in model.inputs}
        try:
            return self._plans.find_or_make(model, arrays)
        except UnfitLengthsError as error:
            raise with_lengths(error, self._declared, complete, "planned for") from None

    def profile(self, path: str | PathLike[str], input_feed: Mapping[str, Any] | None = None) -> str:
        """Run once, and write when each step ran as a trace that chrome://tracing and ui.perfetto.dev show.

        Outputs are not returned, as those of a graph's ``profile`` are.

        Args:
            path: The file to write.
            input_feed: As for ``run``; by default zeros, free lengths as ``partitions`` has them before a run.

        Returns:
            The path.

        Raises:
            BindingError, InvalidModelError, MissingRuntimeError: As ``run``; BindingError where zeros do not fit.
            OSError: The file cannot be written.
            TypeError: The path is none.
        """
        file, has_feeds = fspath(path), input_feed is not None
        if input_feed is None:
            input_feed = zero_feeds(self._inputs, complete_shapes(self._declared, {}))
        times: list[PartTime] = []
        try:
            self._run(self._checked_feeds(input_feed), times)
        except (BindingError, InvalidModelError) as error:
            if has_feeds or (free := free_lengths(self._declared)) is None:
                raise
            raise BindingError(f"{free}: give input_feed, zeros of lengths of 1 do not fit ({error})") from None
        write_trace(file, times)
        return file

    @in_default_float_environment
    def _run(
        self, feeds: Mapping[str, Array], profile: list[PartTime] | None = None
    ) -> tuple[Sequence[ExecutablePlan], Mapping[str, Array]]:
        """Run the model; return the plans that ran, each on the rest of the one before, and what the last one made."""
        try:
            plans, values = self._plans.run(feeds, profile)
        except (RefusedRunError, InvalidModelError) as error:  # native graphs tell themselves what does not fit
            raise with_lengths(
                error, self._declared, {name: feed.shape for name, feed in feeds.items()}, "fed"
            ) from None
        self._last = plans
        self._latest = None if self.deciding_inputs else plans[0].run_packed  # which takes no input that decides
        return plans, values

    @in_default_float_environment
    def _checked_feeds(self, input_feed: Mapping[str, Any], copy: bool = False) -> dict[str, Array]:
        return checked_feeds(self._inputs, self._constant_names, self._read_constants, input_feed, copy)

    def _read_constants(self) -> Mapping[str, Array]:
        """Return the model's constants, read again if they have not been kept."""
        constants = self._plans.constants
        return load_model(self._location, to_run=True).constants if constants is None else constants


_sessions: WeakSet[InferenceSession] = WeakSet()


def _renew_after_fork() -> None:
    for session in _sessions:
        session._begin_process()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_after_fork)


def _reopened(kind: type[InferenceSession], source: Any, options: Any, providers: Any, device: Any) -> InferenceSession:
    session = object.__new__(kind)  # the constructor of a derived class may take other arguments
    InferenceSession.__init__(session, source, options, providers, device=device)
    return session
