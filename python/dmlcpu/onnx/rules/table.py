"""The one table of rules, put together of those of all modules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from dmlcpu.onnx.lowering import Rule
from dmlcpu.onnx.rules.attention import attention, grouped_attention, rotary, scaled_attention
from dmlcpu.onnx.rules.convolution import convolution, deformable_convolution, transposed_convolution
from dmlcpu.onnx.rules.element_wise import (
    activation,
    arithmetic,
    channel_affine,
    conditions,
    diagonals,
    float_functions,
    gelu,
)
from dmlcpu.onnx.rules.matrix import coded_product, contraction, gemm, matrix_multiply, scaled_product
from dmlcpu.onnx.rules.movement import (
    coded_gather,
    column_to_image,
    gather_nd,
    gathering,
    movement,
    padding,
    rearrangement,
    scattering,
)
from dmlcpu.onnx.rules.normalization import (
    embedding,
    group_normalization,
    layer_normalization,
    residual_normalization,
    response_normalization,
    row_normalization,
    softmax,
)
from dmlcpu.onnx.rules.pooling import lp_pooling, max_unpooling, pooling
from dmlcpu.onnx.rules.quantization import quantization
from dmlcpu.onnx.rules.recurrence import recurrence, reversal
from dmlcpu.onnx.rules.reduction import composed_reduction, reduction, top_k
from dmlcpu.onnx.rules.resampling import affine_grid, grid_sample, resizing
from dmlcpu.onnx.rules.spelled_out import first_steps
from dmlcpu.onnx.rules.transforms import fourier_transform, short_time_transform

__all__ = ["RULES"]

# Those that have rules of their own, by folder: a folder imports those before it.
_MODULES: Final = (
    quantization,
    coded_gather, column_to_image, gather_nd, gathering, movement, padding, rearrangement, scattering,
    activation, arithmetic, channel_affine, conditions, diagonals, float_functions, gelu,
    coded_product, contraction, gemm, matrix_multiply, scaled_product,
    convolution, deformable_convolution, transposed_convolution,
    lp_pooling, max_unpooling, pooling,
    composed_reduction, reduction, top_k,
    embedding, group_normalization, layer_normalization, residual_normalization, response_normalization,
    row_normalization, softmax,
    first_steps,
    attention, grouped_attention, rotary, scaled_attention,
    affine_grid, grid_sample, resizing,
    recurrence, reversal,
    fourier_transform, short_time_transform,
)  # fmt: skip


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
