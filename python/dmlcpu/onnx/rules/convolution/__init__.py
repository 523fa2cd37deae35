"""Convolutions, transposed or not, of rows, images and volumes."""

from __future__ import annotations

from typing import Final

from dmlcpu.onnx.rules.convolution import convolution, deformable_convolution, transposed_convolution

__all__ = ["MODULES"]

MODULES: Final = (convolution, deformable_convolution, transposed_convolution)
"""Those that have rules of their own."""
