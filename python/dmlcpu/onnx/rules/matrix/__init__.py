"""Products of matrices, and what becomes them."""

from __future__ import annotations

from typing import Final

from dmlcpu.onnx.rules.matrix import coded_product, contraction, gemm, matrix_multiply, scaled_product

__all__ = ["MODULES"]

MODULES: Final = (coded_product, contraction, gemm, matrix_multiply, scaled_product)
"""Those that have rules of their own."""
