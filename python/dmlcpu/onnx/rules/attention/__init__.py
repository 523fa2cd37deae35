"""Attention, as one node, and what goes with its heads."""

from __future__ import annotations

from typing import Final

from dmlcpu.onnx.rules.attention import attention, grouped_attention, rotary, scaled_attention

__all__ = ["MODULES"]

MODULES: Final = (attention, grouped_attention, rotary, scaled_attention)
"""Those that have rules of their own."""
