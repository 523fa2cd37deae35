"""Products of operands with any number of axes, by products with two to four."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps

from dmlcpu.graph.lengths import broadcast_shapes, told_unfit
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotFitting, NotNative
from dmlcpu.onnx.rules.movement.moved_values import reshaped
from dmlcpu.onnx.rules.operands import present
from dmlcpu.onnx.values import Value

__all__ = ["on_few_axes"]

_MOST_AXES = 4


def _merged(a: Sequence[int], b: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return batch axes with neighbours as one where both operands have them, or only a has, or only b."""
    lengths: tuple[list[int], list[int]] = [], []
    last = None
    for pair in zip(a, b, strict=True):
        has = pair[0] != 1, pair[1] != 1
        if not any(has):
            continue
        for merged, length in zip(lengths, pair, strict=True):
            if has == last:
                merged[-1] *= length
            else:
                merged.append(length)
        last = has
    return lengths


def on_few_axes(second: int) -> Callable[[Rule], Rule]:
    """Return a decorator of a rule of products that takes matrices with up to two batch axes.

    The rule becomes one for operands with any number of axes, where what is broadcast leaves no more than that:
    windows of attention have three, and all but the last two are one axis. A vector is a matrix with one row, or
    column.

    Args:
        second: The place of the right operand among the node's inputs, of which the left one is the first.
    """

    def decorated(rule: Rule) -> Rule:
        @wraps(rule)
        def lower(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
            a, b = present(inputs[0]), present(inputs[second])
            ranks = len(a.shape), len(b.shape)
            if min(ranks) >= 2 and max(ranks) <= _MOST_AXES:
                return rule(lowering, node, inputs)
            if min(ranks) == 0:
                raise NotNative(f"a product of {a.shape} and {b.shape}")
            left = a.shape if ranks[0] > 1 else (1, *a.shape)
            right = b.shape if ranks[1] > 1 else (*b.shape, 1)
            batch = broadcast_shapes(left[:-2], right[:-2])
            outer = [(*(1,) * (len(batch) - len(shape) + 2), *shape[:-2]) for shape in (left, right)]
            lengths = _merged(*outer)
            if left[-1] != right[-2]:
                raise NotFitting(told_unfit(a.shape, b.shape))
            if len(lengths[0]) > _MOST_AXES - 2 or 0 in (*a.shape, *b.shape):
                raise NotNative(f"a product of {a.shape} and {b.shape}")
            operands = list(inputs)
            operands[0] = reshaped(lowering, a, (*lengths[0], *left[-2:]))
            operands[second] = reshaped(lowering, b, (*lengths[1], *right[-2:]))
            [product] = rule(lowering, node, operands)
            rows, columns = left[-2:-1] if ranks[0] > 1 else (), right[-1:] if ranks[1] > 1 else ()
            return [reshaped(lowering, product, (*batch, *rows, *columns))]

        return lower

    return decorated
