"""The rules by which nodes are lowered: one table, by domain and operator.

Most folders are named after those of the native operators. Each imports those before it in ``_FOLDERS`` alone, and the
modules beside them, which several need: what is asked of a node's operands (``operands``), native operators that are
added to a graph (``element_operators``, with the numbers in ``native_functions``, ``quantized_convolution``,
``quantized_resampling``), and ``windows``, of convolutions and poolings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from dmlcpu.onnx.lowering import Rule
from dmlcpu.onnx.rules import (
    attention,
    convolution,
    element_wise,
    matrix,
    movement,
    normalization,
    pooling,
    quantization,
    recurrence,
    reduction,
    resampling,
    spelled_out,
    transforms,
)

__all__ = ["RULES"]

_FOLDERS: Final = (
    quantization,
    movement,
    element_wise,
    matrix,
    convolution,
    pooling,
    reduction,
    normalization,
    spelled_out,
    attention,
    resampling,
    recurrence,
    transforms,
)


def _merged(tables: Iterable[Mapping[tuple[str, str], Rule]]) -> dict[tuple[str, str], Rule]:
    merged: dict[tuple[str, str], Rule] = {}
    for table in tables:
        twice = merged.keys() & table.keys()
        if twice:
            raise ValueError(f"more than one rule for {sorted(twice)}")
        merged.update(table)
    return merged


RULES: Final[Mapping[tuple[str, str], Rule]] = MappingProxyType(
    _merged(module.RULES for folder in _FOLDERS for module in folder.MODULES)
)
"""Rules, such as ``("com.microsoft", "QLinearAdd")``'s."""
