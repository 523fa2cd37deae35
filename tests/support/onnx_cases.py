"""Nodes between dequantize and quantize, as tests of rules take them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from onnx_models import Builder, codes

__all__ = ["IMAGE", "POINTS", "SCALE", "TYPES", "Case", "ints", "qdq_of", "small_convolution"]

Array = NDArray[Any]
TYPES: Final = ("uint8", "int8")
POINTS: Final[Mapping[str, Any]] = {"uint8": np.uint8(121), "int8": np.int8(-7)}
SCALE: Final = 0.03125 * 1.37
IMAGE: Final = (2, 3, 7, 6)


def qdq_of(
    operator: str,
    x_type: str,
    y_type: str,
    shape: Sequence[int],
    others: Sequence[Any] = (),
    opset: int = 17,
    y_scale: float = SCALE,
    **attributes: Any,
) -> bytes:
    """Dequantize, operate, quantize, on one computed operand; other inputs follow it."""
    builder = Builder(opset)
    value = builder.dequantized(builder.input(x_type, shape), SCALE, POINTS[x_type])
    result = builder.node(operator, [value, *others], **attributes)
    builder.output(builder.quantized(result, y_scale, POINTS[y_type]), y_type)
    return builder.build()


class Case:
    def __init__(
        self, operator: str, shape: Sequence[int], others: Sequence[Any] = (), most: int = 0, **options: Any
    ) -> None:
        self.operator, self.shape, self.others, self.most, self.options = operator, shape, others, most, options

    def __repr__(self) -> str:
        words = [f"{key}={value}" for key, value in self.options.items()]
        return " ".join([self.operator, *words]).replace("/", "_")


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


def small_convolution(builder: Builder, name: str, shape: Sequence[int], rng: np.random.Generator) -> Any:
    """A convolution of a new input to four channels, between dequantized operands; returns its name."""
    value = builder.dequantized(builder.input("uint8", shape, name), SCALE, POINTS["uint8"])
    scales = rng.uniform(0.001, 0.01, 4).astype(np.float32)
    weights = builder.dequantized(codes(rng, "int8", (4, shape[1], 3, 3)), scales, np.zeros(4, np.int8), axis=0)
    bias = builder.dequantized(
        np.int32([999, -5000, 700, 0]), np.float32(SCALE) * scales, np.zeros(4, np.int32), axis=0
    )
    return builder.node("Conv", [value, weights, bias], pads=[1, 1, 1, 1])
