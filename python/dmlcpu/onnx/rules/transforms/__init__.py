"""Fourier transforms, of axes and of windows that move along signals."""

from __future__ import annotations

from typing import Final

from dmlcpu.onnx.rules.transforms import fourier_transform, short_time_transform

__all__ = ["MODULES"]

MODULES: Final = (fourier_transform, short_time_transform)
"""Those that have rules of their own."""
