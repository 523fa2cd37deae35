"""ConvTranspose as convolutions with stride 1, on quantized operands or on floats; see ``transposed_phases``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from dmlcpu.dtypes import CODE_TYPES
from dmlcpu.onnx.constant_arrays import Array, Constant
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.parameters import Parameters
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.convolution.float_convolution import float_convolution
from dmlcpu.onnx.rules.convolution.transposed_blocks import are_blocks, transposed_blocks
from dmlcpu.onnx.rules.convolution.transposed_phases import Phase, PhasedConvolution, phases_of_node, taps_of
from dmlcpu.onnx.rules.convolution.volumes import convolution_of_slices
from dmlcpu.onnx.rules.movement.volume_slices import VOLUME_RANK
from dmlcpu.onnx.rules.operands import computed, constant, present
from dmlcpu.onnx.rules.quantized_convolution import Filter, QuantizedConvolution, is_better_in_floats, with_bias
from dmlcpu.onnx.values import AffineTable, Deferred, Dequantized, Tensor, Value, element_type

__all__ = ["RULES"]

# Convolutions of floats with fewer output channels in a group are slower than a transposed one elsewhere.
_FEWEST_CHANNELS: Final = 8
# Of more the filters take longer to be made and packed than many runs.
_MOST_PHASES: Final = 64


class TransposedConvolution(Deferred):
    """A transposed convolution of dequantized codes, plus a bias.

    The filter's codes are {output channels, input channels / groups, ...}, as a convolution has them.
    """

    def __init__(
        self, lowering: Lowering, x: AffineTable, weights: Filter, bias: Array | None, phased: PhasedConvolution
    ) -> None:
        self._lowering, self._x, self._filter, self._bias, self._phased = lowering, x, weights, bias, phased
        self.shape = (x.shape[0], phased.channels, *phased.spatial)

    @property
    def has_floats(self) -> bool:
        """Whether there are floats, or had better be."""
        return super().has_floats or is_better_in_floats(self._lowering, self, self._filter.codes.shape)

    def quantized(self, parameters: Parameters) -> Tensor:
        """Add quantized convolutions."""
        return self._assembled(lambda part: part.quantized(parameters))

    def floats(self) -> Tensor:
        """Add convolutions with their scaled sums."""
        return self._assembled(QuantizedConvolution.floats)

    def _assembled(self, compute: Callable[[QuantizedConvolution], Tensor]) -> Tensor:
        return self._phased.assembled(lambda leading, columns: self._convolved(leading, columns, compute))

    def _convolved(
        self, leading: Sequence[Phase], columns: Sequence[Phase], compute: Callable[[QuantizedConvolution], Tensor]
    ) -> Tensor:
        axes, weights = (*leading, columns[0]), self._filter
        codes = np.concatenate(
            [
                taps_of(weights.codes, weights.zero_point, [phase.taps for phase in (*leading, column)])
                for column in columns
            ]
        )

        def repeated(array: Array) -> Array:
            return array if array.size == 1 else np.tile(array, len(columns))

        taken = Filter(codes, repeated(weights.scale), repeated(weights.zero_point))
        bias = None if self._bias is None else np.tile(self._bias, len(columns))
        x = replace(self._x, codes=self._phased.read_by(axes, self._x.codes))
        window = self._phased.window(axes)
        if len(axes) + 2 != VOLUME_RANK:
            return compute(QuantizedConvolution(self._lowering, x, taken, bias, window))
        of_slices, volumes = convolution_of_slices(self._lowering, x, taken, bias, window)
        return computed(self._lowering, volumes(compute(of_slices)))


def _of_floats(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Tensor:
    """Add convolutions of floats with a constant filter.

    Raises:
        NotNative: The filter or the bias is computed, they are of other types, there are few output channels in a
            group, or many phases, or it is depthwise and each output a single product.
    """
    if math.prod(node.attributes.get("strides", ())) > _MOST_PHASES:
        raise NotNative("a transposed convolution of floats in many phases")
    x, bias = present(inputs[0]), (*inputs, None)[2]
    given, biases = constant(inputs[1], "the filter"), None if bias is None else constant(bias, "the bias")
    if not element_type(x) == given.dtype == np.float32 or (biases is not None and biases.dtype != np.float32):
        raise NotNative(f"a transposed convolution of {element_type(x)} with {given.dtype}")
    groups = int(node.attributes.get("group", 1))
    is_depthwise = groups > 1 and given.shape[:2] == (groups, 1)
    if given.shape[1] < _FEWEST_CHANNELS and not is_depthwise:
        raise NotNative("a transposed convolution of floats to few channels")
    weights = _as_filter(given, groups)
    channels = weights.shape[0]
    if biases is not None and biases.shape != (channels,):
        raise NotNative(f"a bias of shape {biases.shape} for {channels} channels")
    phased = _phased(lowering, node, x.shape, weights.shape, groups)
    if is_depthwise and all(len(phase.taps) == 1 for axis in phased.phases for phase in axis):
        raise NotNative("a depthwise transposed convolution of floats whose windows do not overlap")
    tensor, zero = computed(lowering, x), np.zeros((), np.float32)

    def convolved(leading: Sequence[Phase], columns: Sequence[Phase]) -> Tensor:
        axes = (*leading, columns[0])
        taken = [taps_of(weights, zero, [phase.taps for phase in (*leading, column)]) for column in columns]
        bias = None if biases is None else np.tile(biases, len(columns))
        read = phased.read_by(axes, tensor)
        return float_convolution(lowering, read, np.concatenate(taken), bias, phased.window(axes))

    return phased.assembled(convolved)


def _phased(
    lowering: Lowering, node: Node, x_shape: Sequence[int], filter_shape: Sequence[int], groups: int
) -> PhasedConvolution:
    """Return the phases of a node; the filter is {output channels, input channels / groups, ...}.

    Raises:
        NotNative: The operands do not fit each other, or they are too many.
    """
    if not 3 <= len(x_shape) <= VOLUME_RANK:
        raise NotNative(f"a convolution of {len(x_shape)} dimensions")
    if len(filter_shape) != len(x_shape) or filter_shape[1] * groups != x_shape[1]:
        raise NotNative(f"{groups} groups of {x_shape[1]} channels with a filter of {filter_shape[1]} for each")
    phases = phases_of_node(node, x_shape[2:], filter_shape[2:])
    return PhasedConvolution(lowering, x_shape[2:], phases, filter_shape[0], groups)


def _as_filter(array: Array, groups: int) -> Array:
    """Return a filter {input channels, output channels / groups, ...} as a convolution has it."""
    if groups < 1 or array.ndim < 2 or array.shape[0] % groups:
        raise NotNative(f"{groups} groups with a filter of shape {array.shape}")
    inputs, outputs = array.shape[0] // groups, array.shape[1]
    swapped: Array = array.reshape(groups, inputs, outputs, *array.shape[2:]).swapaxes(1, 2)
    return swapped.reshape(-1, inputs, *array.shape[2:])


def _scales_of_channels(filters: Dequantized, groups: int) -> Array | None:
    """Return which of a filter's several scales each output channel has; None if it has more than one of them."""
    inputs, outputs = filters.shape[:2]
    channels = np.arange(groups * outputs)
    if filters.axis == 1:
        return channels % outputs
    return channels // outputs if filters.axis == 0 and inputs == groups else None


def _filter(value: Dequantized, groups: int) -> Filter:
    """Return a filter of codes {input channels, output channels / groups, ...} as a convolution has it."""
    scale, zero_point = value.scale, value.zero_point
    if scale.size > 1:
        of_channels = _scales_of_channels(value, groups)
        scale, zero_point = scale[of_channels], zero_point[of_channels]
    return Filter.of(Dequantized(_as_filter(value.codes, groups), scale, zero_point, axis=0))


def transposed_convolution(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """ConvTranspose."""
    value, weights, bias = present(inputs[0]), present(inputs[1]), (*inputs, None)[2]
    groups = int(node.attributes.get("group", 1))
    if isinstance(weights, Dequantized) and weights.scale.size > 1 and _scales_of_channels(weights, groups) is None:
        weights = Constant(weights.array)  # products of its codes have no unit that they could be summed in
    is_coded = isinstance(weights, Dequantized) and weights.dtype in CODE_TYPES
    of_codes = is_coded and isinstance(value, AffineTable)
    if (len(value.shape) == VOLUME_RANK or not of_codes) and are_blocks(node, tuple(weights.shape[2:])):
        return transposed_blocks(lowering, node, [value, weights, bias])
    if not of_codes:
        return [_of_floats(lowering, node, [value, weights, bias])]
    x = lowering.affine(value)
    assert isinstance(weights, Dequantized)
    taken = _filter(weights, groups)
    phased = _phased(lowering, node, x.shape, taken.codes.shape, groups)

    def convolved(codes_of_bias: Array | None) -> Value:
        return TransposedConvolution(lowering, x, taken, codes_of_bias, phased)

    return [with_bias(lowering, bias, taken.unit(x.parameters), phased.channels, convolved)]


RULES: Final[Mapping[tuple[str, str], Rule]] = {("", "ConvTranspose"): transposed_convolution}
