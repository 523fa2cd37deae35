"""What moves elements and computes none: views, slices, elements chosen and placed by indices, padding."""

from __future__ import annotations

from typing import Final

from dmlcpu.onnx.rules.movement import (
    coded_gather,
    folding_back,
    gather_nd,
    gathering,
    movement,
    padding,
    rearrangement,
    scattering,
)

__all__ = ["MODULES"]

MODULES: Final = (coded_gather, folding_back, gather_nd, gathering, movement, padding, rearrangement, scattering)
"""Those that have rules of their own."""
