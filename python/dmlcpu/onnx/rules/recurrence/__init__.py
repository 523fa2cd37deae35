"""Recurrent layers, and sequences that are shorter than their tensor."""

from __future__ import annotations

from typing import Final

from dmlcpu.onnx.rules.recurrence import recurrence, reversal

__all__ = ["MODULES"]

MODULES: Final = (recurrence, reversal)
"""Those that have rules of their own."""
