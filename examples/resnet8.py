"""A trained ResNet-8 in 8-bit integers, built from two quantized operators: convolution and addition.

Each block adds what two 3x3 convolutions find to its own input; where a block halves the image, a 1x1 convolution
brings the input to the same size. There is no activation function to compute: an output zero point of -128 cuts off
everything below 0, which is a ReLU. The mean over the last 8 x 8 pixels is a depthwise convolution, and the dense layer
at the end is a 1x1 convolution.

python examples/resnet8.py prints the layers, and what the network makes of a photograph of a cat.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import dmlcpu
from dmlcpu import TensorDataType, TensorDesc, TensorFlags

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
IMAGE_SIDE = 32
WEIGHTS = Path(__file__).parent / "image_classification" / "weights.npz"


class Layer(NamedTuple):
    """A compiled operator and, for each tensor that a dispatch binds, the layer it comes from."""

    name: str
    sources: dict[str, str]
    compiled: dmlcpu.CompiledOperator


class ResNet8:
    """The network for one device and batch size, compiled once and dispatched as often as there are images."""

    def __init__(self, device: dmlcpu.Device, batch_size: int = 1) -> None:
        self._device = device
        self._batch_size = batch_size
        self._layers: list[Layer] = []
        with np.load(WEIGHTS) as weights:
            self._weights = dict(weights)
        self._outputs = {"image": channels_last((batch_size, 3, IMAGE_SIDE, IMAGE_SIDE))}

        self._convolution("stem", "image", padding=(1, 1))
        self._convolution("block1.first", "stem", padding=(1, 1))
        self._convolution("block1.second", "block1.first", padding=(1, 1))
        self._addition("block1.sum", "stem", "block1.second")
        for block, previous in (("block2", "block1.sum"), ("block3", "block2.sum")):
            self._convolution(f"{block}.first", previous, stride=2, padding=(0, 1))
            self._convolution(f"{block}.second", f"{block}.first", padding=(1, 1))
            self._convolution(f"{block}.shortcut", previous, stride=2)
            self._addition(f"{block}.sum", f"{block}.shortcut", f"{block}.second")
        self._convolution("mean", "block3.sum", group_count=64)
        self._convolution("logits", "mean")

    def logits(self, images: NDArray[np.int8]) -> NDArray[np.int8]:
        """Return one quantized score for each image and class.

        images: {batch_size, 32, 32, 3}, contiguous, RGB, each value the pixel's 0..255 less 128.
        Returns {batch_size, 10}, in the order of CLASSES.
        """
        # The operators' axes are N, C, H, W; the descs' strides say that the memory is N, H, W, C. So this is a view.
        tensors: dict[str, NDArray[np.int8]] = {"image": images.transpose(0, 3, 1, 2)}
        for name, sources, compiled in self._layers:
            tensors[name] = compiled.dispatch(**{field: tensors[source] for field, source in sources.items()})
        return tensors["logits"].reshape(self._batch_size, len(CLASSES))

    def probabilities(self, images: NDArray[np.int8]) -> NDArray[np.float32]:
        """Return {batch_size, 10}: for each image, as in `logits`, probabilities of the classes that add up to 1."""
        scale, zero_point = self._weights["logits.scale"], self._weights["logits.zero_point"]
        scores = dmlcpu.dequantize_linear(self.logits(images), scale.item(), zero_point.item(), device=self._device)
        exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
        probabilities: NDArray[np.float32] = exponentials / exponentials.sum(axis=1, keepdims=True)
        return probabilities

    def __str__(self) -> str:
        """Return a line for each layer: its operator, and the sizes of its output."""
        lines = (
            f"{name:<15}  {compiled.desc.operator_type.name:<33}  {self._outputs[name].sizes}"
            for name, _, compiled in self._layers
        )
        return "\n".join(lines)

    def _convolution(
        self, name: str, source: str, *, stride: int = 1, padding: tuple[int, int] = (0, 0), group_count: int = 1
    ) -> None:
        """Append a convolution of the layer `source`; padding is before and after, the same on both spatial axes."""
        start, end = padding
        batch_size, _, height, width = self._outputs[source].sizes
        channels, _, kernel_height, kernel_width = self._weights[f"{name}.filter"].shape
        output_height = (height + start + end - kernel_height) // stride + 1
        output_width = (width + start + end - kernel_width) // stride + 1
        self._outputs[name] = channels_last((batch_size, channels, output_height, output_width))

        # Constants are OWNED_BY_DML: bound once, at initialize, where the operator packs them for its kernels.
        constants = {
            "input_scale_tensor": self._weights[f"{source}.scale"],
            "input_zero_point_tensor": self._weights[f"{source}.zero_point"],
            "filter_tensor": self._weights[f"{name}.filter"],
            "filter_scale_tensor": self._weights[f"{name}.filter_scale"],
            "bias_tensor": self._weights[f"{name}.bias"],
            "output_scale_tensor": self._weights[f"{name}.scale"],
            "output_zero_point_tensor": self._weights[f"{name}.zero_point"],
        }
        desc = dmlcpu.QuantizedLinearConvolutionOperatorDesc(
            input_tensor=self._outputs[source],
            filter_zero_point_tensor=None,
            output_tensor=self._outputs[name],
            strides=(stride, stride),
            dilations=(1, 1),
            start_padding=(start, start),
            end_padding=(end, end),
            group_count=group_count,
            **owned_by_dml(constants),
        )
        compiled = self._device.compile_operator(self._device.create_operator(desc))
        compiled.initialize(**constants)
        self._layers.append(Layer(name, {"input_tensor": source}, compiled))

    def _addition(self, name: str, a: str, b: str) -> None:
        """Append the element-wise sum of the layers `a` and `b`."""
        self._outputs[name] = self._outputs[a]
        constants = {
            "a_scale_tensor": self._weights[f"{a}.scale"],
            "a_zero_point_tensor": self._weights[f"{a}.zero_point"],
            "b_scale_tensor": self._weights[f"{b}.scale"],
            "b_zero_point_tensor": self._weights[f"{b}.zero_point"],
            "output_scale_tensor": self._weights[f"{name}.scale"],
            "output_zero_point_tensor": self._weights[f"{name}.zero_point"],
        }
        desc = dmlcpu.ElementWiseQuantizedLinearAddOperatorDesc(
            a_tensor=self._outputs[a],
            b_tensor=self._outputs[b],
            output_tensor=self._outputs[name],
            **owned_by_dml(constants),
        )
        compiled = self._device.compile_operator(self._device.create_operator(desc))
        compiled.initialize(**constants)
        self._layers.append(Layer(name, {"a_tensor": a, "b_tensor": b}, compiled))


def channels_last(sizes: tuple[int, int, int, int]) -> TensorDesc:
    """Describe an int8 activation of sizes {N, C, H, W} whose memory is N, H, W, C, as images come."""
    _, channels, height, width = sizes
    strides = (height * width * channels, 1, width * channels, channels)
    return TensorDesc(TensorDataType.INT8, sizes, strides=strides)


def owned_by_dml(constants: dict[str, NDArray[np.generic]]) -> dict[str, TensorDesc]:
    """Describe arrays that are bound at initialization, field by field."""
    return {field: TensorDesc.from_array(array, flags=TensorFlags.OWNED_BY_DML) for field, array in constants.items()}


def main() -> None:
    """Classify the sample photograph."""
    from classify import SAMPLE_PHOTO, format_table, read_photo

    network = ResNet8(dmlcpu.Device())
    print(f"{network}\n")
    [probabilities] = network.probabilities(read_photo(SAMPLE_PHOTO))
    print(f"{SAMPLE_PHOTO}\n\n{format_table(probabilities)}")


if __name__ == "__main__":
    main()
