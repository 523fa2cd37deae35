"""Fast paths through plans of one part, for arrays just as such a part takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from dmlcpu.onnx.planning.plans import NativePart, Plan
from dmlcpu.onnx.values import Array, ArrayType

__all__ = ["PackedRun", "packed_run"]

PackedRun: TypeAlias = Callable[[dict[str, Any]], list[Array] | None]
"""Takes the model's inputs by name. If they are packed arrays of the very types and shapes that a plan is for, it runs
the plan and returns the model's outputs, new arrays; of any others it returns None, and has run nothing."""

_CONDITIONS = np.dtype(np.bool_)
_BYTES = np.dtype(np.uint8)


def packed_run(plan: Plan, arrays: Mapping[str, ArrayType]) -> PackedRun | None:
    """Return the fast path through a plan of inputs of given types and shapes; None if it has none.

    It has one if it is a native graph that takes what the plan is given, and makes the model's outputs of it.
    """
    if len(plan.parts) != 1 or plan.rest is not None or not all(isinstance(output, str) for output in plan.outputs):
        return None
    [part] = plan.parts
    if not isinstance(part, NativePart) or arrays.keys() != {*part.inputs} or part.outputs != plan.outputs:
        return None
    run = part.graph.run_packed
    if any(map(_is_viewed, (*part.types, *arrays.values()))):
        return _Viewed(run, arrays, part.types).run
    return run


def _is_viewed(type: ArrayType) -> bool:
    """Return whether a graph has arrays of a type as others: without axes as one element, conditions as bytes."""
    dtype, shape = type
    return not shape or dtype == _CONDITIONS


class _Viewed:
    """A graph some of whose arrays are views of the model's, or the model's of the graph's."""

    def __init__(self, run: PackedRun, arrays: Mapping[str, ArrayType], types: tuple[ArrayType, ...]) -> None:
        self._run = run
        self._inputs = tuple(
            (name, dtype, shape, dtype == _CONDITIONS)
            for name, (dtype, shape) in arrays.items()
            if _is_viewed((dtype, shape))
        )
        self._outputs = tuple(
            (index, not shape, dtype == _CONDITIONS)
            for index, (dtype, shape) in enumerate(types)
            if _is_viewed((dtype, shape))
        )

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
            for index, is_scalar, is_condition in self._outputs:
                if is_scalar:
                    outputs[index] = outputs[index].reshape(())
                if is_condition:
                    outputs[index] = outputs[index].view(_CONDITIONS)
        return outputs
