"""Codes of 16 bits in models under construction, and floats around such codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from onnx_models import Builder

__all__ = ["POINTS", "SCALE", "SCALES", "WIDE_POINT", "numbers", "rounded"]

Array = NDArray[Any]
SCALE: Final = np.float32(0.00123)
WIDE_POINT: Final = np.uint16(30000)
SCALES: Final = (1, 0.0123, 3.0518044e-05, 1e-45, 1.1e-38, 3e38, -0.5, 0, np.inf, np.nan)
POINTS: Final[Mapping[str, Sequence[int]]] = {"uint16": (0, 65535, 32775), "int16": (-32768, 32767, 0, -77)}


def rounded(builder: Builder, value: Any, scale: Any = SCALE, point: Any = WIDE_POINT, domain: str = "") -> str:
    """Quantize and dequantize; returns the floats."""
    parameters = [np.float32(scale), point]
    quantized = builder.node(f"{domain}QuantizeLinear", [value, *parameters])
    name: str = builder.node(f"{domain}DequantizeLinear", [quantized, *parameters])
    return name


def numbers(rng: np.random.Generator, scale: float) -> Array:
    """Around codes and the middles between them, and any others."""
    middles = rng.integers(-140000, 140000, 40_000).astype(np.float32) / np.float32(2)
    with np.errstate(all="ignore"):
        near = middles * np.float32(scale)
    anything = rng.integers(0, 2**32, 40_003, np.uint32).view(np.float32)
    return np.concatenate([near, anything, np.float32([0, -0.0, np.nan, np.inf, -np.inf])])
