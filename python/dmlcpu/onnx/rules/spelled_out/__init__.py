"""Normalizations, GELU and SiLU where models spell them out, node by node.

Each node on the way is kept as a step (``steps``), from the first ones (``first_steps``) on. The last one is the
function itself.
"""

from __future__ import annotations

from typing import Final

from dmlcpu.onnx.rules.spelled_out import first_steps

__all__ = ["MODULES"]

MODULES: Final = (first_steps,)
"""Those that have rules of their own."""
