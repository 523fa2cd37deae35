"""Onnx's evaluator, which is imported when something is left to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx

if TYPE_CHECKING:
    from onnx.reference import ReferenceEvaluator

__all__ = ["evaluator_of"]


def evaluator_of(model: onnx.ModelProto) -> ReferenceEvaluator:
    """Return what computes a model, one node after the other."""
    from onnx.reference import ReferenceEvaluator  # here: it takes more than 200 modules, and few models need it

    return ReferenceEvaluator(model)
