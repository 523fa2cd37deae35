"""Nodes between dequantize and quantize, as tests of rules take them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from onnx_models import Builder

__all__ = ["IMAGE", "POINTS", "SCALE", "TYPES", "Case", "ints", "qdq_of"]

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
