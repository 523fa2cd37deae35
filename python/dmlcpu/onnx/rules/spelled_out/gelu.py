"""GELU, by the error function or by tanh, and SiLU, where models spell them out on floats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.rules.element_wise.arithmetic import binary
from dmlcpu.onnx.rules.element_wise.gelu import gated, gelu_by_error_function, gelu_by_tanh
from dmlcpu.onnx.rules.operands import beside, number_of
from dmlcpu.onnx.rules.spelled_out.steps import Following, Kind, Step, function_as, is_same
from dmlcpu.onnx.values import Value

__all__ = ["GELU_STEPS"]

_ONE: Final = np.float32(1)


def _and_one_as(kind: Kind) -> Following:
    """Return what makes a sum with 1 a step of a kind."""

    def follow(step: Step, node: Node, inputs: Sequence[Value | None]) -> Value | None:
        return step.next(binary, node, inputs, kind) if number_of(beside(step, inputs)) == 1 else None

    return follow


def _times_x_as(kind: Kind) -> Following:
    """Return what makes a product with x a step of a kind; with half of x it is the function."""

    def follow(step: Step, node: Node, inputs: Sequence[Value | None]) -> Value | None:
        other = beside(step, inputs)
        if step.is_beside(other, Kind.PRODUCT) and other.form.factor == 0.5:
            return _gelu(step)
        return step.next(binary, node, inputs, kind) if is_same(other, step.x) else None

    return follow


def _gelu(step: Step) -> Value:
    """Return the GELU of x, by the function that a step is on the way to."""
    if step.form.kind in (Kind.ERF_AND_1, Kind.TWICE):
        return gelu_by_error_function(step.lowering, step.x, float(step.form.factor))
    return gelu_by_tanh(step.lowering, step.x, float(step.form.factor), float(step.form.cubic))


def _half(step: Step, node: Node, inputs: Sequence[Value | None]) -> Value | None:
    return _gelu(step) if number_of(beside(step, inputs)) == 0.5 else None


def _scaled_as(kind: Kind) -> Following:
    """Return what makes a product with a number a step of a kind, and one of a square with x its cube."""

    def follow(step: Step, node: Node, inputs: Sequence[Value | None]) -> Value | None:
        other = beside(step, inputs)
        if step.form.kind == Kind.SQUARE and is_same(other, step.x):
            return step.next(binary, node, inputs, Kind.CUBE)
        factor = number_of(other)
        if factor is None:
            return None
        own = step.form
        return step.next(binary, node, inputs, kind, factor=own.factor * factor, cubic=own.cubic * factor)

    return follow


def _product_times_x(step: Step, node: Node, inputs: Sequence[Value | None]) -> Value | None:
    return step.next(binary, node, inputs, Kind.QUADRATIC) if is_same(beside(step, inputs), step.x) else None


def _plus_x(step: Step, node: Node, inputs: Sequence[Value | None]) -> Value | None:
    if not is_same(beside(step, inputs), step.x):
        return None
    return step.next(binary, node, inputs, Kind.CUBIC, factor=_ONE, cubic=step.form.factor)


def _times_multiple(step: Step, node: Node, inputs: Sequence[Value | None]) -> Value | None:
    """The sum of 1 and a multiple of x squared, times x or another multiple of it."""
    other = beside(step, inputs)
    if step.is_beside(other, Kind.PRODUCT):
        factor = other.form.factor
    elif is_same(other, step.x):
        factor = _ONE
    else:
        return None
    return step.next(binary, node, inputs, Kind.CUBIC, factor=factor, cubic=factor * step.form.factor)


def _gated(step: Step, node: Node, inputs: Sequence[Value | None]) -> Value | None:
    """The sigmoid of x, or of its product with a number, times x."""
    if not is_same(beside(step, inputs), step.x):
        return None
    return gated(step.lowering, step.x, float(step.form.factor))


GELU_STEPS: Final[Mapping[tuple[Kind, str], Following]] = {
    (Kind.QUOTIENT, "Erf"): function_as(Kind.ERF),
    (Kind.ERF, "Add"): _and_one_as(Kind.ERF_AND_1),
    (Kind.ERF_AND_1, "Mul"): _times_x_as(Kind.TWICE),
    (Kind.TWICE, "Mul"): _half,
    (Kind.SQUARE, "Mul"): _scaled_as(Kind.QUADRATIC),
    (Kind.PRODUCT, "Mul"): _product_times_x,
    (Kind.QUADRATIC, "Add"): _and_one_as(Kind.QUADRATIC_AND_1),
    (Kind.QUADRATIC_AND_1, "Mul"): _times_multiple,
    (Kind.CUBE, "Mul"): _scaled_as(Kind.CUBE),
    (Kind.CUBE, "Add"): _plus_x,
    (Kind.CUBIC, "Mul"): _scaled_as(Kind.CUBIC),
    (Kind.CUBIC, "Tanh"): function_as(Kind.TANH),
    (Kind.TANH, "Add"): _and_one_as(Kind.TANH_AND_1),
    (Kind.TANH_AND_1, "Mul"): _times_x_as(Kind.TWICE_BY_TANH),
    (Kind.TWICE_BY_TANH, "Mul"): _half,
    (Kind.PRODUCT, "Sigmoid"): function_as(Kind.SIGMOID),
    (Kind.SIGMOID, "Mul"): _gated,
}
"""What a node makes of a step towards a GELU or SiLU, by the step's kind and the node's operator."""
