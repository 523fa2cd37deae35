"""Functions of elements, on codes, floats, integers and conditions."""

from __future__ import annotations

from typing import Final

from dmlcpu.onnx.rules.element_wise import (
    activation,
    arithmetic,
    channel_affine,
    conditions,
    diagonals,
    float_functions,
    gelu,
)

__all__ = ["MODULES"]

MODULES: Final = (activation, arithmetic, channel_affine, conditions, diagonals, float_functions, gelu)
"""Those that have rules of their own."""
