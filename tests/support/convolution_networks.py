"""Networks of convolutions and element-wise operators on codes, which are stages of these or steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dmlcpu import TensorDataType, TensorDesc
from networks_under_construction import NetworkUnderConstruction
from sample_graphs import codes

__all__ = ["ADD", "MULTIPLY", "TABLE", "Network"]

ADD, MULTIPLY, TABLE = "ELEMENT_WISE_QUANTIZED_LINEAR_ADD", "QUANTIZED_MULTIPLY", "CODE_TABLE"


class Network(NetworkUnderConstruction):
    """A network of convolutions of codes."""

    def input(self, sizes: Sequence[int], dtype: Any = np.uint8, *, planes: bool = False) -> int:
        return self.input_of(codes(self.rng, sizes, dtype), planes=planes)

    def scale(self) -> int:
        return self.graph.add_array(self.rng.uniform(0.1, 2, 1).astype(np.float32))

    def zero_point(self, value: int) -> int:
        dtype = np.int8 if self.graph.desc(value).data_type is TensorDataType.INT8 else np.uint8
        return self.graph.add_array(codes(self.rng, (1,), dtype))

    def parameters(self, *operands: int) -> list[int]:
        """Of operators that read and write codes: each with its scale and its zero point."""
        return [number for value in operands for number in (value, self.scale(), self.zero_point(value))]

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
        dtype: TensorDataType = TensorDataType.UINT8,
        zero_points: bool = False,
    ) -> int:
        n, c, h, w = self.graph.desc(x).sizes
        height, width = ((size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1 for size in (h, w))
        filters = codes(self.rng, (channels, c // groups, kernel, kernel), np.int8)
        # So that about half of the codes saturate.
        scales = self.rng.uniform(0.005, 0.01, (1, channels, 1, 1)) / np.sqrt(c // groups * kernel**2)
        output = TensorDesc(dtype, (n, channels, height, width))
        zero_point = codes(self.rng, (1,), np.int8 if dtype is TensorDataType.INT8 else np.uint8)
        one = self.graph.add_array(np.ones(1, np.float32))
        of_filter = self.graph.add_array(codes(self.rng, (1, channels, 1, 1), np.int8)) if zero_points else None
        [y] = self.graph.add_node(
            "QUANTIZED_LINEAR_CONVOLUTION",
            [
                *(x, one, self.zero_point(x)),
                *(self.graph.add_array(filters), self.graph.add_array(scales.astype(np.float32)), of_filter),
                *(None, one, self.graph.add_array(zero_point)),
            ],
            [output],
            {
                "strides": (stride, stride),
                "dilations": (dilation, dilation),
                "start_padding": (padding, padding),
                "end_padding": (padding, padding),
                "group_count": (groups,),
            },
        )
        if self.bound:
            self.output(y)
        return y

    def binary(self, type: str, a: int, b: int, dtype: TensorDataType = TensorDataType.UINT8) -> int:
        output = TensorDesc(dtype, self.graph.desc(a).sizes)
        zero_point = codes(self.rng, (1,), np.int8 if dtype is TensorDataType.INT8 else np.uint8)
        inputs = [*self.parameters(a, b), self.scale(), self.graph.add_array(zero_point)]
        [y] = self.graph.add_node(type, inputs, [output])
        return y

    def table(self, x: int, dtype: TensorDataType = TensorDataType.UINT8) -> int:
        desc = TensorDesc(dtype, self.graph.desc(x).sizes)
        [y] = self.graph.add_node(TABLE, [x, self.graph.add_array(codes(self.rng, (256,)))], [desc])
        return y
