"""Sessions: a model that is loaded once and run many times, with onnxruntime's names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from threading import Lock
from typing import Any

import numpy as np

from dmlcpu.device import Device
from dmlcpu.onnx.execution import ExecutablePlan, PartTime
from dmlcpu.onnx.model import Model, load_model
from dmlcpu.onnx.planning import ArrayType, make_plan
from dmlcpu.onnx.values import Array

__all__ = ["InferenceSession"]


class InferenceSession:
    """A quantized ONNX model, ready to run."""

    def __init__(
        self,
        path_or_bytes: str | PathLike[str] | bytes,
        sess_options: Any = None,
        providers: Sequence[Any] | None = None,
        *,
        device: Device | None = None,
    ) -> None:
        self._model: Model = load_model(path_or_bytes)
        self._device = Device() if device is None else device
        self._plans: dict[tuple[Any, ...], ExecutablePlan] = {}
        self._lock = Lock()

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: Any = None
    ) -> list[Array]:
        """Run the model."""
        feeds = self._checked(input_feed)
        names = [output.name for output in self._model.outputs]
        indices = range(len(names)) if output_names is None else [names.index(name) for name in output_names]
        plan, values = self._run(feeds)
        return plan.outputs(values, indices)

    def _run(
        self, feeds: Mapping[str, Array], profile: list[PartTime] | None = None
    ) -> tuple[ExecutablePlan, dict[str, Array]]:
        arrays = {name: (array.dtype, array.shape) for name, array in feeds.items()}
        plan = self._plan(arrays)
        values = plan.run(feeds, profile)
        while plan.plan.unknown:
            arrays.update({name: (values[name].dtype, values[name].shape) for name in plan.plan.unknown})
            done = len(plan.plan.parts)
            plan = self._plan(arrays)
            values = plan.run(values, profile, skip=done)
        return plan, values

    def _plan(self, arrays: Mapping[str, ArrayType]) -> ExecutablePlan:
        key = tuple(arrays.items())
        with self._lock:
            if key not in self._plans:
                self._plans[key] = ExecutablePlan(
                    make_plan(self._model, arrays, self._device), self._device.num_threads
                )
            return self._plans[key]

    def _checked(self, input_feed: Mapping[str, Any]) -> dict[str, Array]:
        feeds = {}
        for value in self._model.inputs:
            array = np.asarray(input_feed[value.name])
            feeds[value.name] = np.ascontiguousarray(array) if array.ndim else array
        return feeds
