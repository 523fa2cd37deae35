"""The rules by which nodes are lowered: one table, by domain and operator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from dmlcpu.onnx.lowering import Rule
from dmlcpu.onnx.rules import (
    activation,
    arithmetic,
    attention,
    chains,
    channel_affine,
    coded_gather,
    coded_product,
    composed_reduction,
    conditions,
    contraction,
    convolution,
    diagonals,
    embedding,
    float_functions,
    gather_nd,
    gathering,
    gelu,
    gemm,
    grid_sample,
    grouped_attention,
    lp_pooling,
    matrix_multiply,
    movement,
    normalization,
    padding,
    pooling,
    quantization,
    rearrangement,
    recurrence,
    reduction,
    residual_normalization,
    resizing,
    response_normalization,
    reversal,
    rotary,
    row_normalization,
    scaled_attention,
    scaled_product,
    scattering,
    softmax,
    top_k,
    transposed_convolution,
)

__all__ = ["RULES"]

_MODULES = (
    quantization,
    convolution,
    transposed_convolution,
    matrix_multiply,
    coded_product,
    gemm,
    contraction,
    activation,
    float_functions,
    arithmetic,
    channel_affine,
    movement,
    rearrangement,
    gather_nd,
    gathering,
    coded_gather,
    reversal,
    scattering,
    conditions,
    diagonals,
    padding,
    pooling,
    lp_pooling,
    softmax,
    normalization,
    row_normalization,
    response_normalization,
    reduction,
    top_k,
    composed_reduction,
    chains,
    resizing,
    grid_sample,
    gelu,
    scaled_product,
    residual_normalization,
    embedding,
    attention,
    rotary,
    grouped_attention,
    scaled_attention,
    recurrence,
)


def _merged(tables: Iterable[Mapping[tuple[str, str], Rule]]) -> dict[tuple[str, str], Rule]:
    merged: dict[tuple[str, str], Rule] = {}
    for table in tables:
        twice = merged.keys() & table.keys()
        if twice:
            raise ValueError(f"more than one rule for {sorted(twice)}")
        merged.update(table)
    return merged


RULES: Final[Mapping[tuple[str, str], Rule]] = MappingProxyType(_merged(module.RULES for module in _MODULES))
"""Rules, such as ``("com.microsoft", "QLinearAdd")``'s."""
