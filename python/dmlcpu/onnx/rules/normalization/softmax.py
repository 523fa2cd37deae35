"""Softmax and its kin: shares of the elements along an axis, or before opset 13 along all from one on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from dmlcpu.dtypes import FLOAT32
from dmlcpu.onnx.constant_arrays import Array, constant_by
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.parameters import Parameters
from dmlcpu.onnx.rules.element_operators import compared
from dmlcpu.onnx.rules.movement.moved_values import reshaped
from dmlcpu.onnx.rules.native_functions import Logical
from dmlcpu.onnx.rules.operands import axis_within, between_codes, computed_floats, computed_with_axes, present
from dmlcpu.onnx.rules.reduction.reduction import place_of_extreme
from dmlcpu.onnx.values import AffineTable, Deferred, Operand, Table, Tensor, Value

__all__ = ["RULES"]


# Of the output. The operator on codes rounds exponentials to multiples of 2^-31: 2^-12 of a code here.
_LEAST_SCALE: Final = np.float32(2**-20)


class Softmax(Deferred):
    """The softmax of dequantized codes along an axis."""

    def __init__(self, lowering: Lowering, x: AffineTable, axis: int) -> None:
        self._lowering, self._x, self._axis = lowering, x, axis
        self.shape = x.shape

    def quantized(self, parameters: Parameters) -> Tensor | None:
        """Add the softmax from codes to codes, unless its results are finer than exponentials of codes."""
        if not parameters.scale >= _LEAST_SCALE:
            return None
        pairs = (*self._lowering.pair(self._x.parameters), *self._lowering.pair(parameters))
        operands: list[Operand] = [self._x.codes, *pairs]
        return self._lowering.emit("QUANTIZED_SOFTMAX", operands, parameters.dtype, self.shape, {"axis": (self._axis,)})

    def floats(self) -> Tensor:
        """Add the softmax of floats."""
        floats = self._lowering.floats(self._x)
        return self._lowering.emit("SOFTMAX", [floats], FLOAT32, self.shape, {"axis": (self._axis,)})


def _in_rows(lowering: Lowering, value: Value, node: Node, version: int) -> tuple[Value, int]:
    """Return what a node is of, and its one axis; before version 13 all axes from the given one on are one."""
    rank = len(value.shape)
    axis = axis_within(node.attributes.get("axis", -1 if version >= 13 else 1), max(rank, 1))
    if version >= 13 or axis >= rank - 1:
        return value, axis
    return reshaped(lowering, value, (math.prod(value.shape[:axis]), math.prod(value.shape[axis:]))), 1


def _in_shape(lowering: Lowering, rows: Value, value: Value) -> Value:
    """Return what was computed of the rows of a value in its shape."""
    return rows if rows.shape == value.shape else reshaped(lowering, rows, value.shape)


def _softmax(lowering: Lowering, node: Node, value: Value, version: int) -> Value:
    rows, axis = _in_rows(lowering, value, node, version)
    if isinstance(rows, AffineTable):
        return _in_shape(lowering, Softmax(lowering, rows, axis), value)
    tensor = computed_with_axes(lowering, rows)
    shares = lowering.emit("SOFTMAX", [tensor], FLOAT32, tensor.shape, {"axis": (axis,)})
    return _in_shape(lowering, shares, value)


def softmax(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Softmax."""
    return [_softmax(lowering, node, present(inputs[0]), node.version)]


@between_codes
def qlinear_softmax(lowering: Lowering, node: Node, table: Table) -> Value:
    """QLinearSoftmax."""
    return _softmax(lowering, node, table, int(node.attributes.get("opset", 13)))


def log_softmax(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """LogSoftmax."""
    value = present(inputs[0])
    rows, axis = _in_rows(lowering, computed_with_axes(lowering, value), node, node.version)
    x = computed_floats(lowering, rows)
    logarithms = lowering.emit("LOG_SOFTMAX", [x], FLOAT32, x.shape, {"axis": (axis,)})
    return [_in_shape(lowering, logarithms, value)]


def hardmax(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Hardmax: 1 at the place of the first largest element, 0 elsewhere."""
    value = present(inputs[0])
    rows, axis = _in_rows(lowering, computed_with_axes(lowering, value), node, node.version)
    x = computed_floats(lowering, rows)
    largest = place_of_extreme(lowering, "ARGMAX", x, axis)
    along = (-1, *(1 for _ in x.shape[axis + 1 :]))
    places = constant_by(_counted, x.shape[axis], *along)
    chosen = compared(lowering, Logical.EQUALS, places, largest)
    return [_in_shape(lowering, lowering.emit("CAST", [chosen], FLOAT32, chosen.shape), value)]


def _counted(length: int, *shape: int) -> Array:
    return np.arange(length).reshape(shape)


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("", "Softmax"): softmax,
    ("", "LogSoftmax"): log_softmax,
    ("", "Hardmax"): hardmax,
    ("com.microsoft", "QLinearSoftmax"): qlinear_softmax,
}
