"""Networks whose convolutions have element-wise operators as stages, or these as steps of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from conftest import SEED
from dmlcpu import Device, TensorDesc
from dmlcpu.graph.compiled_graph import CompiledGraph
from dmlcpu.graph.native_graph import NativeGraph

__all__ = ["NetworkUnderConstruction", "channels_last", "stages_of"]


def channels_last(sizes: Sequence[int]) -> tuple[int, ...]:
    n, c, *spatial = sizes
    return np.moveaxis(np.empty((n, *spatial, c), np.uint8), -1, 1).strides


class NetworkUnderConstruction:
    """A graph, and whether the results of its convolutions are outputs too: then none is fused.

    Networks that are built alike draw the same numbers.
    """

    def __init__(self, *, bound: bool = False) -> None:
        self.graph, self.rng, self.bound = NativeGraph(), np.random.default_rng(SEED), bound
        self.inputs: dict[str, Any] = {}
        self._outputs = 0

    def input_of(self, array: Any, *, planes: bool = False) -> int:
        """An input with channels innermost, unless it lies by planes."""
        if not planes:
            array = np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1)
        name = f"input_{len(self.inputs)}"
        self.inputs[name] = array
        return self.graph.add_input(name, TensorDesc.from_array(array))

    def output(self, value: int, *, planes: bool = False) -> int:
        desc = self.graph.desc(value)
        strides = None if planes else channels_last(desc.sizes)
        bound = TensorDesc(desc.data_type, desc.sizes, strides=strides)
        self.graph.mark_output(value, f"output_{self._outputs}", bound)
        self._outputs += 1
        return value

    def compiled(self, device: Device) -> CompiledGraph:
        return CompiledGraph(device, self.graph.copy())

    def run(self, device: Device) -> Any:
        """The output that was marked last."""
        result = self.compiled(device).dispatch(**self.inputs)
        return result if self._outputs == 1 else result[-1]


def stages_of(network: NetworkUnderConstruction, device: Device | None = None) -> list[str]:
    """The names of the operators that are stages."""
    text = network.compiled(Device(num_threads=1) if device is None else device).describe()
    return [part.split()[1] for line in text.splitlines() for part in line.split("; ") if part.startswith("with ")]
