"""Softmax and normalizations, also where models fuse them with what is before them."""

from __future__ import annotations

from typing import Final

from dmlcpu.onnx.rules.normalization import (
    embedding,
    group_normalization,
    layer_normalization,
    residual_normalization,
    response_normalization,
    row_normalization,
    softmax,
)

__all__ = ["MODULES"]

MODULES: Final = (
    embedding,
    group_normalization,
    layer_normalization,
    residual_normalization,
    response_normalization,
    row_normalization,
    softmax,
)
"""Those that have rules of their own."""
