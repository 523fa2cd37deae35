"""Codes made of floats, and floats of codes: of 8 bits, and of other types that no kernel has."""

from __future__ import annotations

from typing import Final

from dmlcpu.onnx.rules.quantization import quantization

__all__ = ["MODULES"]

MODULES: Final = (quantization,)
"""Those that have rules of their own."""
