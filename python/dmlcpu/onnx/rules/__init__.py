"""The rules by which nodes are lowered: one table, by domain and operator."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from dmlcpu.onnx.lowering import Rule
from dmlcpu.onnx.rules import (
    activation,
    arithmetic,
    chains,
    convolution,
    matrix_multiply,
    movement,
    normalization,
    pooling,
    quantization,
    resizing,
)

__all__ = ["RULES"]

_MODULES = (
    quantization,
    convolution,
    matrix_multiply,
    activation,
    arithmetic,
    movement,
    pooling,
    normalization,
    chains,
    resizing,
)

RULES: Final[Mapping[tuple[str, str], Rule]] = MappingProxyType(
    {key: rule for module in _MODULES for key, rule in module.RULES.items()}
)
"""Rules, such as ``("com.microsoft", "QLinearAdd")``'s."""
