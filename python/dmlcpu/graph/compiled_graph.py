"""Compiled graphs: bindings by name, one native call a dispatch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from threading import Lock
from typing import Any, Protocol

import numpy as np

import dmlcpu  # not Device: its module needs this one
from dmlcpu import _core
from dmlcpu.compiled_operator import CompiledOperator
from dmlcpu.descriptions import BindingProperties, Step
from dmlcpu.errors import BindingError, DmlError, InvalidDescError
from dmlcpu.graph.interface import GraphInterface, Resolve
from dmlcpu.graph.trace import PartTime, StepTime, write_trace
from dmlcpu.shown_values import counted
from dmlcpu.tensor import TensorDesc

__all__ = ["CompiledGraph"]


class Bindable(Protocol):
    """A graph all of whose lengths are known."""

    def interface(self) -> GraphInterface:
        """Return what a dispatch binds."""

    def arrays(self) -> Mapping[int, np.ndarray[Any, Any] | None]:
        """Return the constants that have descs, by value; None for those that are given later, under their names."""

    def native(self) -> _core.GivenGraph:
        """Return the graph as the native module has it.

        Raises:
            ValueError: A desc or an array is none that it takes.
        """


class CompiledGraph(CompiledOperator):
    """A graph ready to run. Made by ``Device.compile_graph`` and ``GraphBuilder.build``.

    Its bindings are ``input_0``, ``output_0``, ... by the indices of the graph; ``inputs`` and ``outputs`` tell what
    they are. Inputs whose tensors are flagged OWNED_BY_DML are bound at ``initialize``.

    >>> from dmlcpu import ExecutionFlags, GraphBuilder, TensorDataType, TensorDesc, input_tensor, quantize_linear
    >>> builder = GraphBuilder()
    >>> floats = input_tensor(builder, 0, TensorDesc(TensorDataType.FLOAT32, (3,)))
    >>> graph = builder.build(ExecutionFlags.NONE, [quantize_linear(floats, 0.5)])
    >>> graph.inputs, graph.outputs
    ({'input_0': TensorDesc(TensorDataType.FLOAT32, (3,))}, {'output_0': TensorDesc(TensorDataType.UINT8, (3,))})
    >>> graph.dispatch(input_0=np.float32([0, 1, 2]))
    array([0, 2, 4], dtype=uint8)
    """

    def __init__(
        self,
        device: dmlcpu.Device,
        graph: Bindable,
        shared: _core.SessionMemory | None = None,
        predecessor: CompiledGraph | None = None,
    ) -> None:
        """Plan a graph.

        Args:
            device: Where it will run.
            graph: The graph.
            shared: What it packs of constants, and the memory that it runs in, it may share with other graphs.
            predecessor: One that the same graph became for other lengths; what is the same is taken from there.

        Raises:
            InvalidDescError: An operator refuses its tensors.
            TypeError: The graph or the device is none.
        """
        if not isinstance(device, dmlcpu.Device) or not hasattr(graph, "interface"):
            raise TypeError("a CompiledGraph is made by Device.compile_graph and GraphBuilder.build, not by its class")
        # Not the base's constructor, which plans an operator: a graph has a compiled operator's methods, each its own.
        self._device = device
        self._interface = interface = graph.interface()
        constants = graph.arrays()
        self._constants: Mapping[int, np.ndarray[Any, Any] | None] | None = constants
        self._later = [value for value, array in constants.items() if array is None]
        self._initialized_empty = False
        self._initialize_lock = Lock()
        self._times: tuple[StepTime, ...] = ()  # of the last profile
        try:
            self._graph: _core.BoundGraph = _core.bind_graph(
                graph.native(),
                device.isa,
                device.num_threads,
                Resolve(interface, ready := [not self._later]),
                interface.results,
                shared,
                None if predecessor is None else predecessor._graph,
            )
        except ValueError as error:  # it names the node
            raise InvalidDescError(f"graph: {error}", None, None) from None
        self._ready = ready
        if not self._later:
            self._initialize({})

    def __reduce__(self) -> Any:
        """Raise TypeError: what is compiled is of this process alone."""
        raise TypeError("a CompiledGraph cannot be copied or pickled; build or compile it again where it is to run")

    def __repr__(self) -> str:
        """Return how many steps it has, and where it runs."""
        steps = counted(self.step_count, "step")
        return f"<CompiledGraph of {steps} isa={self._device.isa} num_threads={self._device.num_threads}>"

    @property
    def desc(self) -> Any:
        """None: a compiled graph keeps no reference to the operators that it was made of, nor to their arrays."""
        return None

    @property
    def inputs(self) -> Mapping[str, TensorDesc]:
        """The desc of each input by the name that it is bound under; one flagged OWNED_BY_DML is for ``initialize``."""
        return self._interface.descs(output=False)

    @property
    def outputs(self) -> Mapping[str, TensorDesc]:
        """The desc of each output by the name that an array for it is bound under; its strides say how it will lie."""
        return self._interface.descs(output=True)

    @property
    def binding_properties(self) -> BindingProperties:
        """The memory that the graph uses besides its bindings."""
        return BindingProperties(self._graph.temporary_resource_size, self._graph.persistent_resource_size)

    @property
    def step_count(self) -> int:
        """How many steps the graph became, without a look at them."""
        return self._graph.step_count

    @property
    def changed_constants_size(self) -> int:
        """About how many bytes it keeps of constants that its predecessor does not have; 0 if it has none."""
        return self._graph.changed_constants_size

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps that the graph became, in the order in which they run."""
        return tuple(Step(*row) for row in self._graph.describe())

    def dispatch(self, /, **bindings: Any) -> Any:
        """Run the graph once, in one native call, without the GIL. Any number of threads may dispatch it at once.

        Args:
            bindings: One array for each input that is not OWNED_BY_DML; outputs may be left out. See
                ``CompiledOperator.dispatch``.

        Raises:
            BindingError, DmlError, MemoryError: As for a compiled operator.
        """
        try:
            return self._graph.dispatch(bindings)
        except IndexError as error:
            raise _wrong_index(error) from None

    def run_packed(self, inputs: dict[str, Any]) -> list[np.ndarray[Any, Any]] | None:
        """Run the graph once on arrays by name, if they are all that it takes, and return new outputs by their indices.

        Quicker than ``dispatch``, for inputs that are packed arrays of the very types and shapes of their descs. Of any
        others it returns None, and has run nothing.

        Raises:
            TypeError: They are no dict.
            BindingError, MemoryError: As ``dispatch``.
        """
        try:
            outputs = self._graph.run_packed(inputs)
        except IndexError as error:
            raise _wrong_index(error) from None
        except TypeError:
            if isinstance(inputs, dict):
                raise
            got = f"an object of type {type(inputs).__name__}"
            raise TypeError(f"graph: inputs: got {got}, expected a dict of arrays by name") from None
        if outputs is None or len(outputs) == 1:
            return outputs
        return [outputs[place] for place in self._interface.places]

    def describe(self) -> str:
        """Tell the steps that the graph became: operator, node, bytes read and written, and what was chosen for it.

        After a ``profile`` also how long each step took in the last one.
        """
        head = f"graph\nisa: {self._device.isa}\nnum_threads: {self._device.num_threads}"
        lines = [head, f"memory: {self._graph.temporary_resource_size} bytes between the steps"]
        times = self._times
        if times:
            lines.append(f"profile: {_duration(times) / 1e3:.1f} us")
        for index, step in enumerate(self.steps):
            plan = "; ".join(step.plan.splitlines())
            took = f", {times[index].duration / 1e3:.1f} us" if times else ""
            lines.append(f"step {index}: {step.type} ({_in_a_line(step.name)}), {step.size} bytes{took}; {plan}")
        return "\n".join(lines)

    def initialize(self, /, **owned: Any) -> None:
        """Bind the inputs flagged OWNED_BY_DML; they are copied and packed.

        Raises:
            BindingError: An array is missing, unknown or does not fit. The call may be repeated.
            DmlError: The graph is initialized already.
        """
        arrays, _ = self._interface.resolver()(owned, True, True)
        with self._initialize_lock:
            if self._initialized_empty or (self._ready[0] and self._later):
                raise DmlError("graph: the graph is initialized already; compile another one")
            if not self._later:
                self._initialized_empty = True
                return
            given = arrays[len(arrays) - len(self._later) :]
            self._initialize({v: array for v, array in zip(self._later, given, strict=True) if array is not None})

    def _initialize(self, owned: Mapping[int, np.ndarray[Any, Any]]) -> None:
        assert self._constants is not None
        self._graph.initialize({value: owned.get(value, array) for value, array in self._constants.items()})
        self._constants = None  # the steps keep what they need
        self._ready[0] = True

    def profile(self, /, **bindings: Any) -> tuple[Any, tuple[StepTime, ...]]:
        """Run the graph once, as ``dispatch`` does; return its outputs and when each step ran.

        It writes no file, as a session's ``profile`` does: that is ``write_trace``.
        ``describe`` and ``write_trace`` tell the times of the last profile. Of graphs dispatched for the first time
        they include what happens once: memory is touched, threads are started.

        Raises:
            BindingError, DmlError, MemoryError: As ``dispatch``.
        """
        try:
            outputs, times = self._graph.profile(bindings)
        except IndexError as error:
            raise _wrong_index(error) from None
        steps = zip(self.steps, times, strict=True)
        self._times = taken = tuple(StepTime(step.type, step.name, *time) for step, time in steps)
        return outputs, taken

    def write_trace(self, path: str | PathLike[str]) -> None:
        """Write the last profile as a trace that chrome://tracing and ui.perfetto.dev show.

        Raises:
            DmlError: The graph was not profiled.
            OSError: The file cannot be written.
        """
        times = self._times
        if not times:
            raise DmlError("graph: call profile before write_trace")
        write_trace(path, [PartTime("dmlcpu", 0, _duration(times), times)])


def _wrong_index(error: IndexError) -> BindingError:
    """Return what to raise where an index that was bound, or computed of what was, names nothing; it names the node."""
    return BindingError(str(error))


def _in_a_line(name: str) -> str:
    """Return the name of a node with what ends a line, or has no width, escaped."""
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in name)


def _duration(times: Sequence[StepTime]) -> int:
    """Return the nanoseconds from the beginning of a dispatch to the end of its last step."""
    return times[-1].begin + times[-1].duration
