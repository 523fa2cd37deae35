"""Softmax and normalizations, also where models fuse them with what is before them, or spell them out."""

from __future__ import annotations

from typing import Final

from dmlcpu.onnx.rules.normalization import (
    embedding,
    normalization,
    residual_normalization,
    response_normalization,
    row_normalization,
    softmax,
    spelled_out,
)

__all__ = ["MODULES"]

MODULES: Final = (
    spelled_out,
    embedding,
    normalization,
    residual_normalization,
    response_normalization,
    row_normalization,
    softmax,
)
"""Those that have rules of their own."""
