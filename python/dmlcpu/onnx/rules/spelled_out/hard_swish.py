"""HardSwish, where models spell it out on floats: x * clip(x + 3, 0, 6) / 6, or x * HardSigmoid(x)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.rules.element_operators import on_each_float
from dmlcpu.onnx.rules.element_wise.activation import element_wise
from dmlcpu.onnx.rules.element_wise.arithmetic import binary
from dmlcpu.onnx.rules.native_functions import FloatUnary
from dmlcpu.onnx.rules.operands import beside, computed_floats, number_of
from dmlcpu.onnx.rules.spelled_out.steps import Following, Kind, Step, is_same
from dmlcpu.onnx.values import Value

__all__ = ["HARD_SWISH_STEPS", "SHIFT", "is_sixth"]

SHIFT: Final = 3
"""What is added to x first."""

_MOST: Final = 6
_SIXTH: Final = np.float32(1 / 6)
_CLIP_BY_OPERANDS: Final = 11


def is_sixth(hard_sigmoid: Node) -> bool:
    """Return whether a HardSigmoid is clip(x + 3, 0, 6) / 6."""
    alpha, beta = (float(hard_sigmoid.attributes.get(name, number)) for name, number in (("alpha", 0.2), ("beta", 0.5)))
    return bool(np.float32(alpha) == _SIXTH) and beta == 0.5


def _clipped(step: Step, node: Node, inputs: Sequence[Value | None]) -> Value | None:
    if node.version < _CLIP_BY_OPERANDS:
        bounds = [node.attributes.get("min"), node.attributes.get("max")]
    else:
        bounds = [number_of(value) for value in (*inputs, None, None)[1:3]]
    return step.next(element_wise, node, inputs, Kind.CLIPPED) if bounds == [0, _MOST] else None


def _divides(step: Step, node: Node, inputs: Sequence[Value | None]) -> bool:
    """Return whether a node makes a sixth of a step."""
    number, wanted = (inputs[1], _MOST) if node.operator == "Div" else (beside(step, inputs), _SIXTH)
    return bool(number_of(number) == wanted)


def _divided(step: Step, node: Node, inputs: Sequence[Value | None]) -> Value | None:
    return step.next(binary, node, inputs, Kind.SIXTH) if _divides(step, node, inputs) else None


def _times_x_or_divided(step: Step, node: Node, inputs: Sequence[Value | None]) -> Value | None:
    if is_same(beside(step, inputs), step.x):
        return step.next(binary, node, inputs, Kind.SIX_TIMES)
    return _divided(step, node, inputs)


def _hard_swish(step: Step) -> Value:
    x = computed_floats(step.lowering, step.x)
    return on_each_float(step.lowering, FloatUnary.HARD_SWISH, x, alpha=_SIXTH, beta=0.5)


def _sixth(step: Step, node: Node, inputs: Sequence[Value | None]) -> Value | None:
    return _hard_swish(step) if _divides(step, node, inputs) else None


def _times_x(step: Step, node: Node, inputs: Sequence[Value | None]) -> Value | None:
    return _hard_swish(step) if is_same(beside(step, inputs), step.x) else None


HARD_SWISH_STEPS: Final[Mapping[tuple[Kind, str], Following]] = {
    (Kind.SHIFTED, "Clip"): _clipped,
    (Kind.CLIPPED, "Mul"): _times_x_or_divided,
    (Kind.CLIPPED, "Div"): _divided,
    (Kind.SIX_TIMES, "Div"): _sixth,
    (Kind.SIX_TIMES, "Mul"): _sixth,
    (Kind.SIXTH, "Mul"): _times_x,
}
"""What a node makes of a step towards a HardSwish, by the step's kind and the node's operator."""
