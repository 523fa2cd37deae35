"""ResNet-50 and MobileNetV2 with seeded random weights: the shapes of the networks, and activations of sane ranges.

Weights are drawn as He and others do, so that a layer keeps the variance of what it reads; batch normalisation is in
them. What such a network computes means nothing; how long it takes, and whether two runtimes agree, does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

__all__ = ["Builder", "mobilenet_v2", "resnet50"]

# Variance kept by a layer before a ReLU, which halves it, and by one before none.
_BEFORE_RELU, _LINEAR = 2.0, 1.0
# What the last layer of a residual block adds, so that sums of many blocks stay in range.
_RESIDUAL = 0.16

# Channels, blocks, stride of the first block.
_RESNET50 = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
# Expansion, channels, blocks, stride of the first block.
_MOBILENET_V2 = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip


class Builder:
    """A graph that grows node by node; values are told by their names."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []

    def constant(self, array: NDArray[np.generic]) -> str:
        """Add a constant, and return its name."""
        name = f"constant_{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(array, name))
        return name

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output, and return the output's name."""
        name = f"{operator}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, list(inputs), [f"{name}_output"], name, **attributes))
        return f"{name}_output"

    def convolution(
        self,
        x: str,
        channels: int,
        filters: int,
        kernel: int,
        *,
        stride: int = 1,
        groups: int = 1,
        gain: float = _BEFORE_RELU,
    ) -> str:
        """Add a convolution that halves what stride 2 asks it to; channels of the output differ in their ranges."""
        fan_in = channels // groups * kernel * kernel
        shape = (filters, channels // groups, kernel, kernel)
        weights = self._random.normal(0, np.sqrt(gain / fan_in), shape) * self._random.uniform(
            0.5, 1.5, (filters, 1, 1, 1)
        )
        bias = self._random.normal(0, 0.1, filters)
        return self.node(
            "Conv",
            x,
            self.constant(weights.astype(np.float32)),
            self.constant(bias.astype(np.float32)),
            kernel_shape=(kernel, kernel),
            strides=(stride, stride),
            pads=(kernel // 2,) * 4,
            group=groups,
        )

    def relu6(self, x: str) -> str:
        """Add bounds of 0 and 6."""
        zero, six = (self.constant(np.array(bound, np.float32)) for bound in (0, 6))
        return self.node("Clip", x, zero, six)

    def classifier(self, x: str, channels: int, classes: int) -> str:
        """Add the average over all pixels, and a product."""
        flat = self.node("Flatten", self.node("GlobalAveragePool", x))
        weights = self._random.normal(0, 0.05, (classes, channels)).astype(np.float32)
        return self.node("Gemm", flat, self.constant(weights), self.constant(np.zeros(classes, np.float32)), transB=1)

    def product(self, x: str, columns: int, results: int, gain: float = 1.0) -> str:
        """Add a product of the last axis and a matrix, and a bias."""
        weights = self._random.normal(0, np.sqrt(gain / columns), (columns, results)).astype(np.float32)
        bias = self._random.normal(0, 0.1, results).astype(np.float32)
        return self.node("Add", self.node("MatMul", x, self.constant(weights)), self.constant(bias))

    def drawn(self, size: float, shape: tuple[int, ...], mean: float = 0.0) -> str:
        """Add a constant of normally distributed numbers."""
        return self.constant(self._random.normal(mean, size, shape).astype(np.float32))

    def model(self, name: str, output: str) -> onnx.ModelProto:
        """Return the model, whose output is this value, the last node's."""
        self._nodes[-1].output[0] = "output"
        assert output == f"{self._nodes[-1].name}_output"
        return self.finished(
            name,
            [helper.make_tensor_value_info("input", TensorProto.FLOAT, ("N", 3, 224, 224))],
            [helper.make_tensor_value_info("output", TensorProto.FLOAT, ("N", 1000))],
        )

    def finished(
        self, name: str, inputs: Sequence[onnx.ValueInfoProto], outputs: Sequence[onnx.ValueInfoProto]
    ) -> onnx.ModelProto:
        """Return the model of these inputs and outputs."""
        graph = helper.make_graph(self._nodes, name, inputs, outputs, self._constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        onnx.checker.check_model(model)
        return model


def resnet50() -> onnx.ModelProto:
    """ResNet-50, its strides in the 3x3 convolutions."""
    build = Builder(50)
    x = build.node("Relu", build.convolution("input", 3, 64, 7, stride=2))
    x = build.node("MaxPool", x, kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1))
    channels = 64
    for width, blocks, first_stride in _RESNET50:
        for block in range(blocks):
            stride = first_stride if block == 0 else 1
            y = build.node("Relu", build.convolution(x, channels, width, 1))
            y = build.node("Relu", build.convolution(y, width, width, 3, stride=stride))
            y = build.convolution(y, width, 4 * width, 1, gain=_RESIDUAL)
            if block == 0:
                x = build.convolution(x, channels, 4 * width, 1, stride=stride, gain=_LINEAR)
            x = build.node("Relu", build.node("Add", y, x))
            channels = 4 * width
    return build.model("resnet50", build.classifier(x, channels, 1000))


def mobilenet_v2() -> onnx.ModelProto:
    """MobileNetV2 of width 1."""
    build = Builder(2)
    x = build.relu6(build.convolution("input", 3, 32, 3, stride=2))
    channels = 32
    for expansion, width, blocks, first_stride in _MOBILENET_V2:
        for block in range(blocks):
            stride, inner = first_stride if block == 0 else 1, channels * expansion
            is_residual = stride == 1 and channels == width
            y = x if expansion == 1 else build.relu6(build.convolution(x, channels, inner, 1))
            y = build.relu6(build.convolution(y, inner, inner, 3, stride=stride, groups=inner))
            y = build.convolution(y, inner, width, 1, gain=_RESIDUAL if is_residual else _LINEAR)
            x = build.node("Add", x, y) if is_residual else y
            channels = width
    x = build.relu6(build.convolution(x, channels, 1280, 1))
    return build.model("mobilenet_v2", build.classifier(x, 1280, 1000))
