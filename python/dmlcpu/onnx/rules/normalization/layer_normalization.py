"""Layer normalization and its kin: elements less the mean of their row or group, over its deviation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from dmlcpu.dtypes import FLOAT32
from dmlcpu.graph.native_graph import Attributes
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.parameters import Parameters
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.element_operators import float_bits
from dmlcpu.onnx.rules.operands import axis_within, computed_floats, constant, present, shape_asked_for
from dmlcpu.onnx.values import Array, Constant, Deferred, Dequantized, Operand, Table, Tensor, Value, constant_by

__all__ = ["MOST_CODES", "RULES", "LayerNormalization", "root_mean_square_normalization"]


MOST_CODES: Final = 1 << 23
"""In a row of codes that is normalized."""

# Rows of fewer elements take longer with a weight of their own.
_SHORT_ROW: Final = 16


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

    def quantized(self, parameters: Parameters) -> Tensor:
        """Add the normalization from codes to codes, or of floats."""
        if not isinstance(self.x, Table) or self.x.parameters is None or not self.uses_mean:
            return self._lowering.quantized_tensor(self.computed(), parameters)
        scale, zero_point = self._lowering.pair(parameters)
        input_scale, _ = self._lowering.pair(self.x.parameters)
        operands: list[Operand] = [input_scale, self.weight / scale, self.bias / scale, zero_point]
        return self._emitted("QUANTIZED_LAYER_NORMALIZATION", self.x.codes, operands, parameters.dtype, {})

    def followed_by(self, node: Node, inputs: Sequence[Value | None], alone: bool) -> Value | None:
        """Take a constant weight, and then a constant bias, where this one has neither."""
        if not alone or node.domain or node.operator not in ("Mul", "Add") or self.bias.any():
            return None
        other = inputs[1] if inputs[0] is self else inputs[0]
        shape = self.shape[len(self.shape) - self.count :]
        if not isinstance(other, Constant | Dequantized) or len(other.shape) > len(shape):
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
    if not isinstance(value, Constant | Dequantized):
        raise NotNative("a weight or bias that is computed")
    array = value.floats() if isinstance(value, Dequantized) else value.array
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


class GroupNormalization(Deferred):
    """Dequantized codes less the mean of their group, over its deviation, times a weight, plus a bias of the channel.

    Attributes:
        x: What is normalized: images, channels, pixels.
        groups: How many groups of neighbouring channels an image has.
        epsilon: Added to the variance.
        weight, bias: FLOAT32, one for each channel.
    """

    def __init__(
        self, lowering: Lowering, x: Table, groups: int, epsilon: np.float32, weight: Array, bias: Array
    ) -> None:
        self._lowering, self.x, self.groups, self.epsilon = lowering, x, groups, epsilon
        self.weight, self.bias, self.shape = weight, bias, x.shape

    def quantized(self, parameters: Parameters) -> Tensor:
        """Add the normalization from codes to codes."""
        assert self.x.parameters is not None
        scale, zero_point = self._lowering.pair(parameters)
        input_scale, _ = self._lowering.pair(self.x.parameters)
        codes = self._images_of_groups()
        repeats = codes.shape[1] // self.weight.size
        arrays = (np.repeat(array / scale, repeats) for array in (self.weight, self.bias))
        attributes = {"groups": (self.groups,), "epsilon": (float_bits(self.epsilon),)}
        operands: list[Operand] = [codes, input_scale, *arrays, zero_point]
        result = self._lowering.emit(
            "QUANTIZED_GROUP_NORMALIZATION", operands, parameters.dtype, codes.shape, attributes
        )
        return self._lowering.reshaped(result, self.shape)

    def _images_of_groups(self) -> Tensor:
        """Return the codes; if these are rows of whole channels of an image, as exporters write groups, the image."""
        codes = self.x.codes
        image = self._lowering.unshaped(codes)
        if len(image.shape) < 3 or image.shape[0] != codes.shape[0] or image.shape[1] % self.weight.size:
            return codes
        return image

    def floats(self) -> Tensor:
        """Add the normalization of floats."""
        value = _float_groups(self._lowering, self.x, self.groups, self.epsilon, self.weight, self.bias)
        return computed_floats(self._lowering, value)


class FloatGroups(Deferred):
    """Floats less the mean of their group, over its deviation, times a weight, plus a bias of the channel.

    Exporters write groups as instances, whose weights and biases, ones and zeros, a product and a sum in another shape
    follow: these are taken as the channels'.

    Attributes:
        x: What is normalized: images, groups of neighbouring channels, pixels.
        groups: How many groups an image has.
        epsilon: Added to the variance.
        weight, bias: FLOAT32, one for each channel.
    """

    def __init__(
        self,
        lowering: Lowering,
        x: Tensor,
        groups: int,
        epsilon: np.float32,
        weight: Array,
        bias: Array,
        shape: tuple[int, ...] | None = None,
    ) -> None:
        self._lowering, self.x, self.groups, self.epsilon = lowering, x, groups, epsilon
        self.weight, self.bias, self.shape = weight, bias, shape or x.shape

    def quantized(self, parameters: Parameters) -> Tensor:
        """Quantize the floats."""
        return self._lowering.quantized_tensor(self.computed(), parameters)

    def followed_by(self, node: Node, inputs: Sequence[Value | None], alone: bool) -> Value | None:
        """Take another shape, a constant weight of the channels and then a bias, where this one has neither."""
        if not alone or node.domain or self.bias.any():
            return None
        is_plain = bool((self.weight == 1).all())
        if node.operator == "Reshape" and inputs[0] is self and is_plain:
            return self._in_shape(shape_asked_for(node, inputs))
        if node.operator not in ("Mul", "Add") or (node.operator == "Mul" and not is_plain):
            return None
        array = self._of_channels(inputs[1] if inputs[0] is self else inputs[0])
        if array is None:
            return None
        # Nothing is added as -0, which leaves the sign of a zero.
        return self._with(array, -np.zeros_like(array)) if node.operator == "Mul" else self._with(self.weight, array)

    def _in_shape(self, shape: tuple[int, ...]) -> FloatGroups | None:
        """Return the same of images of as many channels as a shape has, all weights and biases being equal."""
        if len(shape) < 3 or shape[0] != self.shape[0] or shape[1] % self.groups != 0:
            return None
        if math.prod(shape) != math.prod(self.shape) or any(length < 1 for length in shape):
            return None
        ones = np.ones(shape[1], np.float32)
        return self._with(ones, np.zeros_like(ones), shape)

    def _of_channels(self, value: Value | None) -> Array | None:
        """Return an operand that differs from channel to channel alone, None of any other."""
        if not isinstance(value, Constant) or value.dtype != np.float32:
            return None
        rank = len(self.shape)
        along = (1,) * (rank - len(value.shape)) + value.shape
        if len(along) > rank or any(length != 1 for axis, length in enumerate(along) if axis != 1):
            return None
        if along[1] not in (1, self.weight.size):
            return None
        return np.ascontiguousarray(np.broadcast_to(value.array.reshape(-1), self.weight.shape))

    def _with(self, weight: Array, bias: Array, shape: tuple[int, ...] | None = None) -> FloatGroups:
        return FloatGroups(self._lowering, self.x, self.groups, self.epsilon, weight, bias, shape or self.shape)

    def floats(self) -> Tensor:
        """Add the normalization."""
        length = math.prod(self.shape[1:]) // self.groups
        rows = self._lowering.reshaped(self.x, (self.shape[0], self.groups, length))
        attributes = {"axis": (2,), "epsilon": (float_bits(self.epsilon),)}
        operands: list[Operand] = [rows, self.weight, self.bias]
        result = self._lowering.emit("GROUP_NORMALIZATION", operands, FLOAT32, rows.shape, attributes)
        return self._lowering.reshaped(result, self.shape)


def _float_groups(
    lowering: Lowering, value: Value, groups: int, epsilon: np.float32, weight: Array, bias: Array
) -> Value:
    """Return normalized floats; of channels that are all scaled alike, by other numbers than 1 and 0, as of rows."""
    x = computed_floats(lowering, value)
    length = math.prod(x.shape[1:]) // groups
    is_plain = bool((weight == 1).all() and (bias == 0).all()) and length >= _SHORT_ROW
    if is_plain or (weight != weight[0]).any() or (bias != bias[0]).any():
        return FloatGroups(lowering, x, groups, epsilon, weight, bias)
    rows = lowering.reshaped(x, (x.shape[0], groups, length))
    operands: list[Operand] = [rows, *(constant_by(_repeated, each[0], length) for each in (weight, bias))]
    attributes = {"axis": (2,), "epsilon": (float_bits(epsilon),), "use_mean": (1,)}
    result = lowering.emit("LAYER_NORMALIZATION", operands, FLOAT32, rows.shape, attributes)
    return lowering.reshaped(result, x.shape)


def _repeated(number: np.float32, length: int) -> Array:
    return np.full(length, number, np.float32)


def instance_normalization(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """InstanceNormalization of floats, and GroupNormalization with a weight for each channel."""
    x = present(inputs[0])
    weight, bias = (constant(value, "a weight or bias") for value in inputs[1:3])
    if len(x.shape) < 3:
        raise NotNative(f"channels of shape {x.shape}")
    groups, channels = int(node.attributes.get("num_groups", x.shape[1])), x.shape[1]
    if 0 < weight.size == bias.size == groups and node.version < 21 and node.operator == "GroupNormalization":
        weight, bias = (np.repeat(array, channels // groups) for array in (weight, bias))
    if channels % groups:
        raise NotNative(f"{channels} channels in {groups} groups")
    if not weight.dtype == bias.dtype == np.float32 or not weight.size == bias.size == channels:
        raise NotNative(f"{channels} channels with weights of shape {weight.shape}")
    weight, bias = weight.reshape(-1), bias.reshape(-1)
    epsilon = np.float32(node.attributes.get("epsilon", 1e-5))
    if isinstance(x, Table) and x.parameters is not None and math.prod(x.shape[1:]) // groups <= MOST_CODES:
        return [GroupNormalization(lowering, x, groups, epsilon, weight, bias)]
    return [_float_groups(lowering, x, groups, epsilon, weight, bias)]


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("", "LayerNormalization"): layer_normalization,
    ("", "InstanceNormalization"): instance_normalization,
    ("", "GroupNormalization"): instance_normalization,
}
