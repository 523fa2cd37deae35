"""Rows of all heads side by side, {N, rows, heads times elements}, and head by head, {N, heads, rows, elements}."""

from __future__ import annotations

from collections.abc import Sequence

from dmlcpu.onnx.lowering import Lowering
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.movement.moved_values import join, reshaped, sliced_along, transposed
from dmlcpu.onnx.rules.operands import computed, computed_floats
from dmlcpu.onnx.values import Value

__all__ = ["behind", "in_heads", "out_of_heads", "side_by_side"]


def in_heads(lowering: Lowering, value: Value, heads: int) -> Value:
    """Return rows of all heads side by side head by head.

    Raises:
        NotNative: Their elements cannot be divided among the heads.
    """
    *rows, elements = value.shape
    if heads < 1 or elements % heads:
        raise NotNative(f"{elements} columns of {heads} heads")
    parts = (*rows, heads, elements // heads)
    return transposed(lowering, reshaped(lowering, computed_floats(lowering, value), parts), (0, 2, 1, 3))


def out_of_heads(lowering: Lowering, value: Value) -> Value:
    """Return rows head by head with all heads side by side."""
    images, heads, rows, elements = value.shape
    return reshaped(lowering, transposed(lowering, value, (0, 2, 1, 3)), (images, rows, heads * elements))


def behind(lowering: Lowering, past: Value, new: Value) -> Value:
    """Return rows of a past with new ones behind them, head by head."""
    return join(lowering, [computed(lowering, past), computed(lowering, new)], 2)


def side_by_side(lowering: Lowering, rows: Value, sizes: Sequence[int]) -> list[Value]:
    """Return columns, so many each."""
    begins = (sum(sizes[:index]) for index in range(len(sizes)))
    return [sliced_along(lowering, rows, 2, begin, size) for begin, size in zip(begins, sizes, strict=True)]
