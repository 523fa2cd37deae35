"""Write weights.npz from the ONNX form of the network: `python convert.py image_classification.qop.onnx`.

The ONNX file is the int8 TFLite network of this folder's README with one QOperator node for each layer. This script
needs the `onnx` package; using the weights does not.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

Array = NDArray[np.generic]

# The names under which ../resnet8.py looks for the layers, in the order of the nodes.
CONVOLUTIONS = (
    "stem",
    "block1.first",
    "block1.second",
    "block2.first",
    "block2.second",
    "block2.shortcut",
    "block3.first",
    "block3.second",
    "block3.shortcut",
)
ADDS = ("block1.sum", "block2.sum", "block3.sum")


def per_tensor(array: Array) -> Array:
    """Reshape one scale or zero point to {1, 1, 1, 1}."""
    return array.reshape(1, 1, 1, 1)


def per_channel(array: Array) -> Array:
    """Reshape filter scales or biases, one for each output channel, to {1, C, 1, 1}."""
    return array.reshape(1, -1, 1, 1)


def convert(model: onnx.ModelProto) -> dict[str, Any]:
    """Return the constants of the network, keyed `layer.field` and shaped as the operators' descs want them."""
    constants: dict[str, Array] = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    nodes: dict[str, list[list[Array]]] = {}
    for node in model.graph.node:
        # An activation is no initializer; an empty array keeps the places of the others.
        inputs = [constants.get(name, np.empty(0)) for name in node.input]
        nodes.setdefault(node.op_type, []).append(inputs)

    weights: dict[str, Any] = {}

    def store_activation(layer: str, scale: Array, zero_point: Array) -> None:
        weights[f"{layer}.scale"] = per_tensor(scale)
        weights[f"{layer}.zero_point"] = per_tensor(zero_point)

    def store_filter(layer: str, filter_codes: Array, scale: Array, zero_point: Array, bias: Array) -> None:
        if np.any(zero_point):
            raise ValueError(f"{layer}: the network is expected to have filter zero points of 0")
        weights[f"{layer}.filter"] = filter_codes
        weights[f"{layer}.filter_scale"] = per_channel(scale)
        weights[f"{layer}.bias"] = per_channel(bias)

    _, image_scale, image_zero_point, *_ = nodes["QLinearConv"][0]
    store_activation("image", image_scale, image_zero_point)
    for layer, inputs in zip(CONVOLUTIONS, nodes["QLinearConv"], strict=True):
        _, _, _, filter_codes, scale, zero_point, output_scale, output_zero_point, bias = inputs
        store_filter(layer, filter_codes, scale, zero_point, bias)
        store_activation(layer, output_scale, output_zero_point)
    for layer, inputs in zip(ADDS, nodes["QLinearAdd"], strict=True):
        *_, output_scale, output_zero_point = inputs
        store_activation(layer, output_scale, output_zero_point)

    # The mean over 8 x 8 pixels as a depthwise convolution: codes 1 at a scale of 1/64 are filters of 1/64, exactly.
    (inputs,) = nodes["QLinearAveragePool"]
    _, _, _, output_scale, output_zero_point = inputs
    channels = weights["block3.second.filter"].shape[0]
    ones = np.ones((channels, 1, 8, 8), np.int8)
    store_filter("mean", ones, np.full(1, 1 / 64, np.float32), np.zeros(1, np.int8), np.zeros(channels, np.int32))
    store_activation("mean", output_scale, output_zero_point)

    # The dense layer as a 1x1 convolution over the single pixel that is left.
    (inputs,) = nodes["QGemm"]
    _, _, _, filter_codes, scale, zero_point, bias, output_scale, output_zero_point = inputs
    store_filter("logits", filter_codes.reshape(*filter_codes.shape, 1, 1), scale, zero_point, bias)
    store_activation("logits", output_scale, output_zero_point)
    return weights


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: convert.py image_classification.qop.onnx")
    np.savez_compressed(Path(__file__).with_name("weights.npz"), **convert(onnx.load(sys.argv[1])))
