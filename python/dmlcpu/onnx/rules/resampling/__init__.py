"""Images of other sizes, or with pixels at other places."""

from __future__ import annotations

from typing import Final

from dmlcpu.onnx.rules.resampling import grid_sample, resizing

__all__ = ["MODULES"]

MODULES: Final = (grid_sample, resizing)
"""Those that have rules of their own."""
