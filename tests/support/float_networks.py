"""Networks of convolutions and element-wise functions of floats, which are stages of these or steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from conftest import SEED
from dmlcpu import Device, TensorDataType, TensorDesc
from dmlcpu.graph.compiled_graph import CompiledGraph
from dmlcpu.graph.native_graph import NativeGraph
from dmlcpu.onnx.rules.native_functions import FloatBinary, FloatUnary

__all__ = ["FUNCTIONS", "FloatNetwork", "stages_of_floats"]

FUNCTIONS: Final[Mapping[str, FloatUnary]] = {
    function.name.lower().replace("_", " "): function for function in FloatUnary
}
_SPECIAL: Final = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e30)


class FloatNetwork:
    """A graph under construction, and whether the results of its convolutions are outputs too: then none is fused.

    Networks that are built alike draw the same numbers.
    """

    def __init__(self, *, bound: bool = False) -> None:
        self.graph, self.rng, self.bound = NativeGraph(), np.random.default_rng(SEED), bound
        self.inputs: dict[str, Any] = {}
        self._outputs = 0

    def input(self, sizes: Sequence[int], *, planes: bool = False, special: bool = False) -> int:
        """With channels innermost unless it lies by planes; some of it is special: infinite, or no number."""
        array = self.rng.normal(size=sizes).astype(np.float32)
        if special:
            array[self.rng.random(array.shape) < 0.05] = self.rng.choice(np.array(_SPECIAL, np.float32))
            array.flat[: len(_SPECIAL)] = _SPECIAL
        if not planes:
            array = np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1)
        name = f"input_{len(self.inputs)}"
        self.inputs[name] = array
        return self.graph.add_input(name, TensorDesc.from_array(array))

    def convolution(
        self,
        x: int,
        channels: int,
        *,
        kernel: int = 1,
        groups: int = 1,
        stride: int = 1,
        dilation: int = 1,
        padding: int = 0,
    ) -> int:
        n, c, *spatial = self.graph.desc(x).sizes
        rank = len(spatial)
        made = tuple((size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1 for size in spatial)
        filters = self.rng.normal(size=(channels, c // groups, *(kernel,) * rank)).astype(np.float32)
        bias = self.rng.normal(size=(1, channels, *(1,) * rank)).astype(np.float32)
        attributes = {
            "strides": (stride,) * rank,
            "dilations": (dilation,) * rank,
            "start_padding": (padding,) * rank,
            "end_padding": (padding,) * rank,
            "group_count": (groups,),
        }
        operands = [x, self.graph.add_array(filters), self.graph.add_array(bias)]
        [y] = self.graph.add_node("FLOAT_CONVOLUTION", operands, [_floats((n, channels, *made))], attributes)
        return self.output(y) if self.bound else y

    def unary(self, function: str, x: int, alpha: float = 0.0, beta: float = 0.0) -> int:
        bits = {name: (int(np.float32(number).view(np.uint32)),) for name, number in (("alpha", alpha), ("beta", beta))}
        attributes = {"function": (FUNCTIONS[function],), **bits}
        [y] = self.graph.add_node("ELEMENT_WISE_UNARY", [x], [_floats(self.graph.desc(x).sizes)], attributes)
        return y

    def binary(self, function: str, a: int, b: int) -> int:
        attributes = {"function": (FloatBinary[function.upper()],)}
        [y] = self.graph.add_node("ELEMENT_WISE_BINARY", [a, b], [_floats(self.graph.desc(a).sizes)], attributes)
        return y

    def output(self, value: int, *, planes: bool = False) -> int:
        sizes = self.graph.desc(value).sizes
        pixels = np.moveaxis(np.empty((sizes[0], *sizes[2:], sizes[1]), np.float32), -1, 1)
        strides = None if planes else tuple(step // pixels.itemsize for step in pixels.strides)
        bound = TensorDesc(TensorDataType.FLOAT32, sizes, strides=strides)
        self.graph.mark_output(value, f"output_{self._outputs}", bound)
        self._outputs += 1
        return value

    def run(self, device: Device) -> Any:
        """The output that was marked last."""
        result = CompiledGraph(device, self.graph.copy()).dispatch(**self.inputs)
        return np.ascontiguousarray(result if self._outputs == 1 else result[-1])


def _floats(sizes: Sequence[int]) -> TensorDesc:
    return TensorDesc(TensorDataType.FLOAT32, tuple(sizes))


def stages_of_floats(network: FloatNetwork, device: Device) -> list[str]:
    """The names of the operators that are stages."""
    text = CompiledGraph(device, network.graph.copy()).describe()
    return [part.split()[1] for line in text.splitlines() for part in line.split("; ") if part.startswith("with ")]
