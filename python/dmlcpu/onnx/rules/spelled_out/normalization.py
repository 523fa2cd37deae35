"""Layer normalization, with the mean or without, where models spell it out on floats."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.rules.element_wise.arithmetic import binary, power
from dmlcpu.onnx.rules.normalization.layer_normalization import LayerNormalization, root_mean_square_normalization
from dmlcpu.onnx.rules.operands import beside, number_of, present
from dmlcpu.onnx.rules.reduction.reduction import computed_mean, mean_axes
from dmlcpu.onnx.rules.spelled_out.steps import Following, Kind, Step, function_as, is_same
from dmlcpu.onnx.values import Value

__all__ = ["NORMALIZATION_STEPS", "trailing_axes"]


def _distances(step: Step, node: Node, inputs: Sequence[Value | None]) -> Value | None:
    if not is_same(inputs[0], step.x):
        return None
    return step.next(binary, node, inputs, Kind.DISTANCES, axes=0, mean_axes=step.form.axes)


def _squares(step: Step, node: Node, inputs: Sequence[Value | None]) -> Value | None:
    if node.operator == "Pow":
        return step.next(power, node, inputs, Kind.SQUARES) if number_of(inputs[1]) == 2 else None
    return step.next(binary, node, inputs, Kind.SQUARES) if inputs[0] is inputs[1] else None


def trailing_axes(node: Node, inputs: Sequence[Value | None]) -> int | None:
    """Return over how many axes a mean is, if it is over the last ones and keeps them."""
    rank = len(present(inputs[0]).shape)
    axes = mean_axes(node, inputs, rank)
    if not node.attributes.get("keepdims", 1) or axes != tuple(range(rank - len(axes), rank)):
        return None
    return len(axes)


def _mean_as(kind: Kind) -> Following:
    """Return what makes a mean over the last axes a step of a kind."""

    def follow(step: Step, node: Node, inputs: Sequence[Value | None]) -> Value | None:
        count = trailing_axes(node, inputs)
        if count is None or (step.form.kind == Kind.SQUARES and count != step.form.mean_axes):
            return None
        return step.next(computed_mean, node, inputs, kind, axes=count)

    return follow


def _with_epsilon_as(kind: Kind) -> Following:
    """Return what makes a sum with a number, the epsilon, a step of a kind."""

    def follow(step: Step, node: Node, inputs: Sequence[Value | None]) -> Value | None:
        epsilon = number_of(beside(step, inputs))
        return None if epsilon is None else step.next(binary, node, inputs, kind, epsilon=epsilon)

    return follow


def _normalized(step: Step, node: Node, inputs: Sequence[Value | None]) -> Value | None:
    deviation = inputs[1]
    if not step.is_beside(deviation, Kind.DEVIATION):
        return None
    if deviation.form.axes != step.form.mean_axes:
        return None
    count, epsilon = deviation.form.axes, deviation.form.epsilon
    ones = np.ones(math.prod(step.shape[len(step.shape) - count :]), np.float32)
    return LayerNormalization(step.lowering, step.x, count, epsilon, ones, np.zeros_like(ones))


def _over_root(step: Step, node: Node, inputs: Sequence[Value | None]) -> Value | None:
    if is_same(inputs[0], step.x):
        return _by_root(step)
    return step.next(binary, node, inputs, Kind.INVERSE_ROOT) if number_of(inputs[0]) == 1 else None


def _by_root(step: Step) -> Value:
    """Return x over the root of the mean of its squares, which a step is, or its reciprocal."""
    count, epsilon = step.form.axes, step.form.epsilon
    ones = np.ones(math.prod(step.x.shape[len(step.shape) - count :]), np.float32)
    return root_mean_square_normalization(step.lowering, step.x, count, epsilon, ones)


def _times_inverse_root(step: Step, node: Node, inputs: Sequence[Value | None]) -> Value | None:
    return _by_root(step) if is_same(beside(step, inputs), step.x) else None


NORMALIZATION_STEPS: Final[Mapping[tuple[Kind, str], Following]] = {
    (Kind.MEAN, "Sub"): _distances,
    (Kind.DISTANCES, "Pow"): _squares,
    (Kind.DISTANCES, "Mul"): _squares,
    (Kind.SQUARES, "ReduceMean"): _mean_as(Kind.VARIANCE),
    (Kind.VARIANCE, "Add"): _with_epsilon_as(Kind.SUM),
    (Kind.SUM, "Sqrt"): function_as(Kind.DEVIATION),
    (Kind.DISTANCES, "Div"): _normalized,
    (Kind.SQUARE, "ReduceMean"): _mean_as(Kind.MEAN_SQUARE),
    (Kind.MEAN_SQUARE, "Add"): _with_epsilon_as(Kind.MEAN_SQUARE_SUM),
    (Kind.MEAN_SQUARE_SUM, "Sqrt"): function_as(Kind.ROOT),
    (Kind.ROOT, "Div"): _over_root,
    (Kind.ROOT, "Reciprocal"): function_as(Kind.INVERSE_ROOT),
    (Kind.INVERSE_ROOT, "Mul"): _times_inverse_root,
}
"""What a node makes of a step towards a normalization, by the step's kind and the node's operator."""
