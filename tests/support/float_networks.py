"""Networks of convolutions and element-wise functions of floats, which are stages of these or steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from dmlcpu import Device, TensorDataType, TensorDesc
from dmlcpu.onnx.rules.native_functions import FloatBinary, FloatUnary
from networks_under_construction import NetworkUnderConstruction

__all__ = ["FUNCTIONS", "FloatNetwork"]

FUNCTIONS: Final[Mapping[str, FloatUnary]] = {
    function.name.lower().replace("_", " "): function for function in FloatUnary
}
_SPECIAL: Final = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e30)


class FloatNetwork(NetworkUnderConstruction):
    """A network of convolutions of floats."""

    def input(self, sizes: Sequence[int], *, planes: bool = False, special: bool = False) -> int:
        """With channels innermost unless it lies by planes; some of it is special: infinite, or no number."""
        array = self.rng.normal(size=sizes).astype(np.float32)
        if special:
            array[self.rng.random(array.shape) < 0.05] = self.rng.choice(np.array(_SPECIAL, np.float32))
            array.flat[: len(_SPECIAL)] = _SPECIAL
        return self.input_of(array, planes=planes)

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

    def run(self, device: Device) -> Any:
        """The output that was marked last."""
        return np.ascontiguousarray(super().run(device))


def _floats(sizes: Sequence[int]) -> TensorDesc:
    return TensorDesc(TensorDataType.FLOAT32, tuple(sizes))
