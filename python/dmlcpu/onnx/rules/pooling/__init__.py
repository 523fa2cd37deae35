"""Averages and maxima of windows, and what is made of them."""

from __future__ import annotations

from typing import Final

from dmlcpu.onnx.rules.pooling import lp_pooling, pooling

__all__ = ["MODULES"]

MODULES: Final = (lp_pooling, pooling)
"""Those that have rules of their own."""
