"""Means, sums, extremes and their places, along axes."""

from __future__ import annotations

from typing import Final

from dmlcpu.onnx.rules.reduction import composed_reduction, reduction, top_k

__all__ = ["MODULES"]

MODULES: Final = (composed_reduction, reduction, top_k)
"""Those that have rules of their own."""
