"""Images of other sizes, or with pixels at other places."""

from __future__ import annotations

from typing import Final

from dmlcpu.onnx.rules.resampling import affine_grid, grid_sample, resizing

__all__ = ["MODULES"]

MODULES: Final = (affine_grid, grid_sample, resizing)
"""Those that have rules of their own."""
