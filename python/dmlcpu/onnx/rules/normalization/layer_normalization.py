"""Layer normalization and its kin: elements less the mean of their row, over its deviation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from dmlcpu.dtypes import FLOAT32
from dmlcpu.graph.native_graph import Attributes
from dmlcpu.onnx.constant_arrays import Array, Constant
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.parameters import Parameters
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.element_operators import float_bits
from dmlcpu.onnx.rules.operands import axis_within, beside, computed_floats, present
from dmlcpu.onnx.values import CONSTANTS, AffineTable, Deferred, Operand, Tensor, Value

__all__ = ["MOST_CODES", "RULES", "LayerNormalization", "root_mean_square_normalization"]

MOST_CODES: Final = 1 << 23
"""In a row of codes that is normalized."""


class LayerNormalization(Deferred):
    """The elements along the last axes less their mean, over their deviation, times a weight, plus a bias.

    Without the mean they are over the root of the mean of their squares.

    Attributes:
        x: What is normalized.
        count: How many axes are, the last ones.
        epsilon: Added to the variance.
        weight, bias: FLOAT32, each an element for each place on those axes.
        uses_mean: Whether it is with the mean.
    """

    def __init__(
        self,
        lowering: Lowering,
        x: Value,
        count: int,
        epsilon: np.float32,
        weight: Array,
        bias: Array,
        uses_mean: bool = True,
    ) -> None:
        self._lowering, self.uses_mean = lowering, uses_mean
        self.x, self.count, self.epsilon, self.weight, self.bias = x, count, epsilon, weight, bias
        self.shape = x.shape

    def quantized(self, parameters: Parameters) -> Tensor | None:
        """Add the normalization from codes to codes, if it is of such and with the mean."""
        if not isinstance(self.x, AffineTable) or not self.uses_mean:
            return None
        scale, zero_point = self._lowering.pair(parameters)
        input_scale, _ = self._lowering.pair(self.x.parameters)
        operands: list[Operand] = [input_scale, self.weight / scale, self.bias / scale, zero_point]
        return self._emitted("QUANTIZED_LAYER_NORMALIZATION", self.x.codes, operands, parameters.dtype, {})

    def with_node(self, node: Node, inputs: Sequence[Value | None]) -> Value | None:
        """Take a constant weight, and then a constant bias, where this one has neither."""
        if node.operator not in ("Mul", "Add") or self.bias.any():
            return None
        other = beside(self, inputs)
        shape = self.shape[len(self.shape) - self.count :]
        if not isinstance(other, CONSTANTS) or len(other.shape) > len(shape):
            return None
        array, weight = _along_axes(other, shape, 1), self.weight
        if node.operator == "Add":
            return self._with(weight, array)
        if (weight != 1).any():
            return None
        return self._with(array, self.bias)

    def _with(self, weight: Array, bias: Array) -> LayerNormalization:
        return LayerNormalization(self._lowering, self.x, self.count, self.epsilon, weight, bias, self.uses_mean)

    def floats(self) -> Tensor:
        """Add the normalization of floats."""
        x, mean = computed_floats(self._lowering, self.x), {"use_mean": (int(self.uses_mean),)}
        return self._emitted("LAYER_NORMALIZATION", x, [self.weight, self.bias], FLOAT32, mean)

    def _emitted(
        self,
        operator: str,
        x: Tensor,
        operands: Sequence[Operand],
        dtype: np.dtype[np.generic],
        attributes: Attributes,
    ) -> Tensor:
        """Add an operator; the axes that are normalized are one to it."""
        outer = self.shape[: len(self.shape) - self.count]
        rows = self._lowering.reshaped(x, (*outer, self.weight.size))
        own = {"axis": (len(outer),), "epsilon": (float_bits(self.epsilon),), **attributes}
        result = self._lowering.emit(operator, [rows, *operands], dtype, rows.shape, own)
        return self._lowering.reshaped(result, self.shape)


def root_mean_square_normalization(
    lowering: Lowering, x: Value, count: int, epsilon: np.float32, weight: Array
) -> LayerNormalization:
    """Return the elements along the last axes over the root of the mean of their squares, times a weight."""
    # A bias of -0 changes no product, not even a zero's sign.
    bias = np.full(weight.shape, -0.0, np.float32)
    return LayerNormalization(lowering, x, count, epsilon, weight, bias, uses_mean=False)


def _along_axes(value: Value | None, shape: tuple[int, ...], absent: float) -> Array:
    """Return a constant weight or bias with an element for each place of a shape, as one axis."""
    if value is None:
        return np.full(math.prod(shape), absent, np.float32)
    if not isinstance(value, CONSTANTS):
        raise NotNative("a weight or bias that is computed")
    array = value.array
    if array.dtype != np.float32 or array.ndim > len(shape):
        raise NotNative(f"a weight or bias of type {array.dtype} and shape {array.shape}")
    return np.ascontiguousarray(np.broadcast_to(array, shape)).reshape(-1)


def layer_normalization(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """LayerNormalization."""
    x, weight, bias = (*inputs, None)[:3]
    value = present(x)
    if any(node.outputs[1:]):
        raise NotNative("mean or deviation is asked for")
    if node.attributes.get("stash_type", 1) != 1:
        raise NotNative("another precision")
    shape = value.shape[axis_within(int(node.attributes.get("axis", -1)), len(value.shape)) :]
    if isinstance(value, Tensor | Constant):
        computed_floats(lowering, value)
    epsilon = np.float32(node.attributes.get("epsilon", 1e-5))
    parameters = _along_axes(weight, shape, 1), _along_axes(bias, shape, 0)
    return [LayerNormalization(lowering, value, len(shape), epsilon, *parameters)]


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("", "LayerNormalization"): layer_normalization,
}
