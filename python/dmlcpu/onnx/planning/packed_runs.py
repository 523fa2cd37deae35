"""Fast paths through plans of one part, for arrays just as such a part takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dmlcpu.onnx.constant_arrays import Array, ArrayType
from dmlcpu.onnx.foreign.runner import ForeignRunner
from dmlcpu.onnx.planning.plans import NativePart, OutputViews, Plan

__all__ = ["PackedRun", "packed_run"]

PackedRun: TypeAlias = Callable[[dict[str, Any]], list[Array] | None]
"""Takes the model's inputs by name. If they are packed arrays of the very types and shapes that a plan is for, it runs
the plan and returns the model's outputs, new arrays. Of any others, or where something is wrong with them, it returns
None: the slow path then takes or refuses them."""

_CONDITIONS = np.dtype(np.bool_)
_BYTES = np.dtype(np.uint8)


def packed_run(plan: Plan, arrays: Mapping[str, ArrayType], runners: Sequence[object]) -> PackedRun | None:
    """Return the fast path through a plan of inputs of given types and shapes; None if it has none.

    It has one if it is a native graph, or a part that onnxruntime runs, which takes what the plan is given, and makes
    the model's outputs of it.
    """
    if len(plan.parts) != 1 or plan.rest is not None or not all(isinstance(output, str) for output in plan.outputs):
        return None
    [part], [runner] = plan.parts, runners
    if part.conditions or plan.told or arrays.keys() != {*part.inputs}:
        return None
    if isinstance(runner, ForeignRunner):
        outputs = [output for output in plan.outputs if isinstance(output, str)]
        return _Foreign(runner, arrays, outputs).run if runner.can_run_packed(outputs) else None
    if not isinstance(part, NativePart) or part.outputs != plan.outputs:
        return None
    run = part.graph.run_packed
    viewed = [(name, *type) for name, type in arrays.items() if not type[1] or type[0].kind == "b"]
    return _Viewed(run, viewed, part.views).run if viewed or any(part.views) else run


class _Viewed:
    """A graph some of whose arrays are views of the model's, or the model's of the graph's."""

    def __init__(
        self, run: PackedRun, inputs: Sequence[tuple[str, np.dtype[Any], tuple[int, ...]]], outputs: OutputViews
    ) -> None:
        self._run, self._outputs = run, outputs
        self._inputs = tuple((name, dtype, shape, dtype == _CONDITIONS) for name, dtype, shape in inputs)

    def run(self, inputs: dict[str, Any]) -> list[Array] | None:
        """Run the graph as ``PackedRun`` says."""
        if self._inputs:
            inputs = inputs.copy()
            for name, dtype, shape, is_condition in self._inputs:
                array = inputs.get(name)
                # The graph sees the views alone.
                if type(array) is not np.ndarray or array.dtype != dtype or array.shape != shape:
                    return None
                if not shape:
                    array = array.reshape(1)
                inputs[name] = array.view(_BYTES) if is_condition else array
        outputs = self._run(inputs)
        if outputs is not None:
            for index in self._outputs.scalars:
                outputs[index] = outputs[index].reshape(())
            for index in self._outputs.conditions:
                outputs[index] = outputs[index].view(_CONDITIONS)
        return outputs


class _Foreign:
    """A part of onnxruntime's, and what it is fed and asked for."""

    def __init__(self, runner: ForeignRunner, arrays: Mapping[str, ArrayType], outputs: list[str]) -> None:
        self._runner, self._outputs = runner, outputs
        self._types = tuple((name, *type) for name, type in arrays.items())

    def run(self, inputs: dict[str, Any]) -> list[Array] | None:
        """Run the part as ``PackedRun`` says."""
        if len(inputs) != len(self._types):
            return None
        for name, dtype, shape in self._types:
            array = inputs.get(name)
            if type(array) is not np.ndarray or array.dtype != dtype or array.shape != shape:
                return None
            flags = array.flags
            if not flags.c_contiguous or not flags.aligned:
                return None
        return self._runner.run_packed(inputs, self._outputs)
