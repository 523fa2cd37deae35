"""Group normalization and its kin: elements less the mean of their group of channels, over its deviation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from dmlcpu.dtypes import FLOAT32
from dmlcpu.onnx.constant_arrays import Array, Constant, constant_by
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.parameters import Parameters
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.element_operators import float_bits
from dmlcpu.onnx.rules.normalization.layer_normalization import MOST_CODES
from dmlcpu.onnx.rules.operands import beside, computed_floats, constant, present, shape_asked_for
from dmlcpu.onnx.values import AffineTable, Deferred, Operand, Tensor, Value

__all__ = ["RULES"]

# Rows of fewer elements take longer with a weight of their own.
_SHORT_ROW: Final = 16


@dataclass(frozen=True, slots=True)
class Groups:
    """What groups of channels are normalized with.

    Attributes:
        count: How many groups of neighbouring channels an image has.
        epsilon: Added to the variance.
        weight, bias: FLOAT32, one for each channel.
    """

    count: int
    epsilon: np.float32
    weight: Array
    bias: Array


class GroupNormalization(Deferred):
    """Dequantized codes less the mean of their group, over its deviation, times a weight, plus a bias of the channel.

    Attributes:
        x: What is normalized: images, channels, pixels.
        groups: What its groups are.
    """

    def __init__(self, lowering: Lowering, x: AffineTable, groups: Groups) -> None:
        self._lowering, self.x, self.groups, self.shape = lowering, x, groups, x.shape

    def quantized(self, parameters: Parameters) -> Tensor:
        """Add the normalization from codes to codes."""
        scale, zero_point = self._lowering.pair(parameters)
        input_scale, _ = self._lowering.pair(self.x.parameters)
        codes, groups = self._images_of_groups(), self.groups
        repeats = codes.shape[1] // groups.weight.size
        arrays = (np.repeat(array / scale, repeats) for array in (groups.weight, groups.bias))
        attributes = {"groups": (groups.count,), "epsilon": (float_bits(groups.epsilon),)}
        operands: list[Operand] = [codes, input_scale, *arrays, zero_point]
        result = self._lowering.emit(
            "QUANTIZED_GROUP_NORMALIZATION", operands, parameters.dtype, codes.shape, attributes
        )
        return self._lowering.reshaped(result, self.shape)

    def _images_of_groups(self) -> Tensor:
        """Return the codes; if these are rows of whole channels of an image, as exporters write groups, the image."""
        codes = self.x.codes
        image = self._lowering.unshaped(codes)
        if len(image.shape) < 3 or image.shape[0] != codes.shape[0] or image.shape[1] % self.groups.weight.size:
            return codes
        return image

    def floats(self) -> Tensor:
        """Add the normalization of floats."""
        return computed_floats(self._lowering, _float_groups(self._lowering, self.x, self.groups))


class FloatGroups(Deferred):
    """Floats less the mean of their group, over its deviation, times a weight, plus a bias of the channel.

    Exporters write groups as instances, whose weights and biases, ones and zeros, a product and a sum in another shape
    follow: these are taken as the channels'.

    Attributes:
        x: What is normalized: images, groups of neighbouring channels, pixels.
        groups: What its groups are.
    """

    def __init__(self, lowering: Lowering, x: Tensor, groups: Groups, shape: tuple[int, ...]) -> None:
        self._lowering, self.x, self.groups, self.shape = lowering, x, groups, shape

    def with_node(self, node: Node, inputs: Sequence[Value | None]) -> Value | None:
        """Take another shape, a constant weight of the channels and then a bias, where this one has neither."""
        if self.groups.bias.any():
            return None
        weight = self.groups.weight
        is_plain = bool((weight == 1).all())
        if node.operator == "Reshape" and inputs[0] is self and is_plain:
            return self._in_shape(shape_asked_for(node, inputs))
        if node.operator not in ("Mul", "Add") or (node.operator == "Mul" and not is_plain):
            return None
        array = self._of_channels(beside(self, inputs))
        if array is None:
            return None
        # Nothing is added as -0, which leaves the sign of a zero.
        return self._with(array, -np.zeros_like(array)) if node.operator == "Mul" else self._with(weight, array)

    def _in_shape(self, shape: tuple[int, ...]) -> FloatGroups | None:
        """Return the same of images of as many channels as a shape has, all weights and biases being equal."""
        if len(shape) < 3 or shape[0] != self.shape[0] or shape[1] % self.groups.count != 0:
            return None
        if math.prod(shape) != math.prod(self.shape) or any(length < 1 for length in shape):
            return None
        ones = np.ones(shape[1], np.float32)
        groups = replace(self.groups, weight=ones, bias=np.zeros_like(ones))
        return FloatGroups(self._lowering, self.x, groups, shape)

    def _of_channels(self, value: Value | None) -> Array | None:
        """Return an operand that differs from channel to channel alone, None of any other."""
        if not isinstance(value, Constant) or value.dtype != np.float32:
            return None
        rank = len(self.shape)
        along = (1,) * (rank - len(value.shape)) + value.shape
        if len(along) > rank or any(length != 1 for axis, length in enumerate(along) if axis != 1):
            return None
        channels = self.groups.weight.shape
        if along[1] not in (1, *channels):
            return None
        return np.ascontiguousarray(np.broadcast_to(value.array.reshape(-1), channels))

    def _with(self, weight: Array, bias: Array) -> FloatGroups:
        return FloatGroups(self._lowering, self.x, replace(self.groups, weight=weight, bias=bias), self.shape)

    def floats(self) -> Tensor:
        """Add the normalization."""
        groups = self.groups
        length = math.prod(self.shape[1:]) // groups.count
        rows = self._lowering.reshaped(self.x, (self.shape[0], groups.count, length))
        attributes = {"axis": (2,), "epsilon": (float_bits(groups.epsilon),)}
        operands: list[Operand] = [rows, groups.weight, groups.bias]
        result = self._lowering.emit("GROUP_NORMALIZATION", operands, FLOAT32, rows.shape, attributes)
        return self._lowering.reshaped(result, self.shape)


def _float_groups(lowering: Lowering, value: Value, groups: Groups) -> Value:
    """Return normalized floats; of channels that are all scaled alike, by other numbers than 1 and 0, as of rows."""
    x = computed_floats(lowering, value)
    weight, bias, length = groups.weight, groups.bias, math.prod(x.shape[1:]) // groups.count
    is_plain = bool((weight == 1).all() and (bias == 0).all()) and length >= _SHORT_ROW
    if is_plain or (weight != weight[0]).any() or (bias != bias[0]).any():
        return FloatGroups(lowering, x, groups, x.shape)
    rows = lowering.reshaped(x, (x.shape[0], groups.count, length))
    operands: list[Operand] = [rows, *(constant_by(_repeated, each[0], length) for each in (weight, bias))]
    attributes = {"axis": (2,), "epsilon": (float_bits(groups.epsilon),), "use_mean": (1,)}
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
    count, channels = int(node.attributes.get("num_groups", x.shape[1])), x.shape[1]
    if 0 < weight.size == bias.size == count and node.version < 21 and node.operator == "GroupNormalization":
        weight, bias = (np.repeat(array, channels // count) for array in (weight, bias))
    if channels % count:
        raise NotNative(f"{channels} channels in {count} groups")
    if not weight.dtype == bias.dtype == np.float32 or not weight.size == bias.size == channels:
        raise NotNative(f"{channels} channels with weights of shape {weight.shape}")
    epsilon = np.float32(node.attributes.get("epsilon", 1e-5))
    groups = Groups(count, epsilon, weight.reshape(-1), bias.reshape(-1))
    if isinstance(x, AffineTable) and math.prod(x.shape[1:]) // count <= MOST_CODES:
        return [GroupNormalization(lowering, x, groups)]
    return [_float_groups(lowering, x, groups)]


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("", "InstanceNormalization"): instance_normalization,
    ("", "GroupNormalization"): instance_normalization,
}
