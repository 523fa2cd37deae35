"""Scores of queries and keys: their scale, what hides some of them, and the means of values by their softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from dmlcpu.dtypes import FLOAT32
from dmlcpu.onnx.constant_arrays import Array
from dmlcpu.onnx.lowering import Lowering
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.rules.element_operators import chosen, on_each_float, on_floats
from dmlcpu.onnx.rules.matrix.products import Product, float_product, times
from dmlcpu.onnx.rules.movement.moved_values import reshaped, transposed
from dmlcpu.onnx.rules.native_functions import FloatBinary, FloatUnary
from dmlcpu.onnx.rules.operands import computed
from dmlcpu.onnx.values import Tensor, Value

__all__ = ["HIDDEN", "attention_scale", "grouped_means", "hidden_in_order", "row_of_places", "scaled_queries"]

HIDDEN: Final = np.float32(-np.inf)
"""Added to a score, it leaves nothing for a softmax to take a share of."""


def attention_scale(node: Node, size: int) -> np.float32:
    """Return what scores are multiplied by; of heads of a size, if the node does not tell."""
    given = float(node.attributes.get("scale", 0.0))
    scale: np.float32 = np.float32(given if given != 0 else 1 / math.sqrt(size))
    return scale


def scaled_queries(lowering: Lowering, queries: Value, scale: np.float32, alone: bool) -> Value:
    """Return queries times a scale, of a product that nothing else reads by its scales."""
    if isinstance(queries, Product) and alone:
        return queries.scaled(scale.reshape(1))
    return times(lowering, queries, scale)


def row_of_places(keys: int) -> Array:
    """Return the places of keys, {1, 1, 1, keys}."""
    return np.arange(keys, dtype=np.int32).reshape(1, 1, 1, keys)


def hidden_in_order(tokens: int, rows: int, window: int, before: int, addend: np.float32 = HIDDEN) -> Array:
    """Return what hides from each token the rows behind it, and those before its window: {1, 1, tokens, rows}.

    Args:
        tokens, rows: How many of each there are.
        window: How many rows a token sees, its own the last; 0 for all that are not behind it.
        before: How many rows precede that of the first token.
        addend: What hides a row.
    """
    places = np.arange(rows) - (before + np.arange(tokens)[:, None])
    hidden = (places > 0) | ((window > 0) & (places <= -window))
    addends: Array = np.where(hidden, addend, np.float32(0)).astype(np.float32)
    return addends[None, None]


def _capped(lowering: Lowering, scores: Tensor, cap: float) -> Tensor:
    """Return scores brought to within a cap by the hyperbolic tangent."""
    if cap == 0:
        return scores
    divided = computed(lowering, times(lowering, scores, np.float32(1 / cap)))
    tangents = on_each_float(lowering, FloatUnary.TANH, divided)
    return computed(lowering, times(lowering, tangents, np.float32(cap)))


def grouped_means(
    lowering: Lowering,
    queries: Value,
    pair: Sequence[Value],
    hidden: Value | None,
    cap: float = 0,
    blank: Value | None = None,
) -> Tensor:
    """Return for each query the mean of values by the softmax of its scores: {N, heads, queries, elements of values}.

    Args:
        lowering: Where operators are added.
        queries: Scaled, {N, heads, queries, elements}.
        pair: Keys, {N, groups, keys, elements}, and values; as many heads follow each other as share those of a group.
        hidden: What is added to the scores, {N, heads, queries, keys} or broadcast to that.
        cap: What scores are brought to within before, by the hyperbolic tangent; 0 for no such thing.
        blank: From which queries all keys are hidden, by minus infinity: their means are 0. Broadcast to the means.
    """
    keys, values = pair
    batch, heads, tokens, size = queries.shape
    groups, rows = keys.shape[1:3]
    together = heads // groups * tokens
    grouped = reshaped(lowering, queries, (batch, groups, together, size))
    scores = float_product(lowering, grouped, transposed(lowering, keys, (0, 1, 3, 2)))
    scores = _capped(lowering, lowering.reshaped(scores, (batch, heads, tokens, rows)), cap)
    if hidden is not None:
        scores = on_floats(lowering, FloatBinary.ADD, scores, hidden)
    shares = lowering.emit("SOFTMAX", [scores], FLOAT32, scores.shape, {"axis": (3,)})
    taken = float_product(lowering, lowering.reshaped(shares, (batch, groups, together, rows)), values)
    means = lowering.reshaped(taken, (batch, heads, tokens, values.shape[3]))
    if blank is None:
        return means
    return chosen(lowering, lowering.elements(blank), np.zeros((), np.float32), means)
