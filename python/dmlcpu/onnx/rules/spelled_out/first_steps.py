"""Nodes that may begin a function that is spelled out: arithmetic, Sigmoid, HardSigmoid, ReduceMean and Slice."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, TypeGuard

import numpy as np

from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.rules.element_wise.activation import element_wise
from dmlcpu.onnx.rules.element_wise.arithmetic import binary, power
from dmlcpu.onnx.rules.movement.gathering import places_of, slice_
from dmlcpu.onnx.rules.operands import computed_floats, number_of, present
from dmlcpu.onnx.rules.pooling.pooled_values import StackedSum
from dmlcpu.onnx.rules.reduction.reduction import computed_mean, mean_axes
from dmlcpu.onnx.rules.spelled_out.gelu import GELU_STEPS
from dmlcpu.onnx.rules.spelled_out.hard_swish import HARD_SWISH_STEPS, SHIFT, is_sixth
from dmlcpu.onnx.rules.spelled_out.normalization import NORMALIZATION_STEPS, trailing_axes
from dmlcpu.onnx.rules.spelled_out.rotation import ROTATION_STEPS, are_angles, part_of_pairs
from dmlcpu.onnx.rules.spelled_out.steps import Form, Kind, Step
from dmlcpu.onnx.values import AffineTable, Deferred, Table, Tensor, Value

__all__ = ["RULES"]

_FOLLOWING: Final = {**NORMALIZATION_STEPS, **GELU_STEPS, **HARD_SWISH_STEPS, **ROTATION_STEPS}


def shifted(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Add; by 3 it may begin a HardSwish of what is computed already: to what is not it may be a bias."""
    for x, other in (inputs, inputs[::-1]) if len(inputs) == 2 else ():
        if isinstance(x, Tensor) and _is_float(x) and number_of(other) == SHIFT:
            if len(present(other).shape) > len(x.shape):
                continue
            return [_begun(lowering, binary, node, inputs, x, Form(Kind.SHIFTED))]
    return binary(lowering, node, inputs)


def squared(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Pow; a square may begin a normalization without the mean, a cube a GELU."""
    x, exponent = inputs[0], number_of(inputs[1])
    if _is_float(x) and x.shape and exponent in (2, 3) and len(present(inputs[1]).shape) <= len(x.shape):
        return [_begun(lowering, power, node, inputs, x, Form(Kind.SQUARE if exponent == 2 else Kind.CUBE))]
    return power(lowering, node, inputs)


def scaled(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Mul and Div; by a number they may begin a GELU, by 1 they are nothing.

    A square may begin a normalization, a product with as many numbers as a head has elements a rotation.
    """
    if len(inputs) != 2:
        return binary(lowering, node, inputs)
    a, b = inputs
    kind, pairs = (Kind.QUOTIENT, [(a, b)]) if node.operator == "Div" else (Kind.PRODUCT, [(a, b), (b, a)])
    if kind == Kind.PRODUCT and a is b and _is_float(a):
        return [_begun(lowering, binary, node, inputs, a, Form(Kind.SQUARE))]
    for x, other in pairs:
        number = number_of(other)
        if number is None or other is None or not _is_float(x):
            continue
        if math.prod(x.shape) == 1 or len(other.shape) > len(x.shape):
            continue  # a scale, or axes more than x has
        return [x if number == 1 else _begun(lowering, binary, node, inputs, x, Form(kind, factor=number))]
    if kind == Kind.PRODUCT:
        for name, (x, angles) in zip(node.inputs, pairs, strict=True):
            if x is not None and lowering.uses.is_sliced(name) and _may_rotate(x) and are_angles(angles, x):
                if isinstance(x, Deferred):
                    computed_floats(lowering, x)  # once, before parts of it are quantized
                return [_begun(lowering, binary, node, inputs, x, Form(Kind.BY_COSINES, angles=angles))]
    return binary(lowering, node, inputs)


def mean(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """ReduceMean; over the last axes it may begin a layer normalization, but for the average of an image's codes."""
    value = present(inputs[0])
    axes = mean_axes(node, inputs, len(value.shape))
    count = trailing_axes(node, inputs)
    if isinstance(value, Tensor):
        computed_floats(lowering, value)
    if count is not None and not (isinstance(value, Table | StackedSum) and axes == (2, 3)):
        return [_begun(lowering, computed_mean, node, inputs, value, Form(Kind.MEAN, axes=count))]
    return computed_mean(lowering, node, inputs)


def sigmoid(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Sigmoid; of floats it may begin a SiLU."""
    if _is_float(inputs[0]):
        return [_begun(lowering, element_wise, node, inputs, inputs[0], Form(Kind.SIGMOID))]
    return element_wise(lowering, node, inputs)


def hard_sigmoid(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """HardSigmoid; of floats, and with the slope of a HardSwish, it may begin one."""
    if _is_float(inputs[0]) and is_sixth(node):
        return [_begun(lowering, element_wise, node, inputs, inputs[0], Form(Kind.SIXTH))]
    return element_wise(lowering, node, inputs)


def sliced(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Slice; a part of what also is multiplied may begin a rotation, unless it is an operand of arithmetic itself."""
    x, is_operand = inputs[0], lowering.uses.is_calculated_with
    if x is not None and _may_rotate(x) and is_operand(node.inputs[0]) and not is_operand(node.outputs[0]):
        places = places_of(node, inputs)
        form = part_of_pairs(x, places.starts, places.steps, places.shape)
        if form is not None and not places.backwards:
            return [_begun(lowering, slice_, node, inputs, x, form, tuple(places.shape))]
    return slice_(lowering, node, inputs)


def _may_rotate(x: Value) -> bool:
    return _is_float(x) or isinstance(x, AffineTable)


def _is_float(value: Value | None) -> TypeGuard[Tensor | Deferred]:
    return isinstance(value, Tensor | Deferred) and value.dtype == np.float32


def _begun(
    lowering: Lowering,
    rule: Rule,
    node: Node,
    inputs: Sequence[Value | None],
    x: Value,
    form: Form,
    shape: tuple[int, ...] | None = None,
) -> Step:
    return Step(lowering, rule, node, inputs, x, form, _FOLLOWING, shape)


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("", "Add"): shifted,
    ("", "Mul"): scaled,
    ("", "Div"): scaled,
    ("", "Pow"): squared,
    ("", "Sigmoid"): sigmoid,
    ("", "HardSigmoid"): hard_sigmoid,
    ("", "ReduceMean"): mean,
    ("", "Slice"): sliced,
}
