"""The smallest model of a session: codes in, doubled codes out."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from onnx_models import Builder

__all__ = ["X", "doubled", "expected"]

Array = NDArray[Any]


def doubled(shape: tuple[int | str, ...] = (2, 3)) -> bytes:
    """Codes x, and y: what they stand for, doubled."""
    builder = Builder()
    x = builder.input("uint8", shape)
    floats = builder.dequantized(x, 0.1, np.uint8(7))
    builder.output(builder.quantized(builder.node("Mul", [floats, np.float32(2)]), 0.1, np.uint8(7)), "uint8")
    return builder.build()


def expected(x: Array) -> Array:
    return np.clip(2 * (x.astype(int) - 7) + 7, 0, 255).astype(np.uint8)


X: Final = np.arange(6, dtype=np.uint8).reshape(2, 3) * 20
