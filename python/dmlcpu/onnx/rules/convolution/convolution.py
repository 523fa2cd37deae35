"""Conv, on quantized operands or on floats, QLinearConv and ConvInteger; of volumes see ``volumes``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np

from dmlcpu.dtypes import CODE_TYPES
from dmlcpu.onnx.constant_arrays import Array
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative, NotValid
from dmlcpu.onnx.rules.convolution.float_convolution import float_convolution
from dmlcpu.onnx.rules.convolution.integer_convolution import image_sums
from dmlcpu.onnx.rules.convolution.volumes import convolved_volume, volume_sums, volume_window
from dmlcpu.onnx.rules.movement.channels_last import with_channels_last
from dmlcpu.onnx.rules.movement.volume_slices import VOLUME_RANK
from dmlcpu.onnx.rules.operands import computed, constant, parameters_of, present, table_of
from dmlcpu.onnx.rules.quantized_convolution import (
    Filter,
    QuantizedConvolution,
    ScaledFilter,
    convolution_of_computed,
    filter_of,
    window_of_convolution,
    with_bias,
)
from dmlcpu.onnx.values import CONSTANTS, AffineTable, Dequantized, Tensor, Value, as_value, element_type

__all__ = ["RULES"]


def _is_of_codes(weights: Value | None) -> bool:
    """Whether a filter is dequantized 8-bit codes, computed, or constant with one scale or one for each channel."""
    if isinstance(weights, Dequantized):
        return weights.dtype in CODE_TYPES and weights.has_scales_along(0)
    return isinstance(weights, AffineTable)


def _float_convolution(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Tensor:
    """Add a convolution of floats; a computed filter is packed at each run.

    Raises:
        NotNative: The bias is computed, they are of other types, or it is one of volumes with a computed filter.
    """
    x, bias = present(inputs[0]), (*inputs, None)[2]
    given = present(inputs[1])
    weights = constant(given, "the filter") if isinstance(given, CONSTANTS) else computed(lowering, given)
    if not element_type(x) == weights.dtype == np.float32:
        raise NotNative(f"a convolution of {element_type(x)} with {weights.dtype}")
    window = (volume_window if len(x.shape) == VOLUME_RANK else window_of_convolution)(node, x.shape, weights.shape)
    biases = None if bias is None else constant(bias, "the bias")
    if biases is not None and (biases.shape != weights.shape[:1] or biases.dtype != np.float32):
        raise NotNative(f"a bias of shape {biases.shape} and type {biases.dtype}")
    return float_convolution(lowering, computed(lowering, x), weights, biases, window)


def convolution(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Conv: of codes where both operands are quantized, else of floats."""
    x, bias = present(inputs[0]), (*inputs, None)[2]
    if not isinstance(x, AffineTable) or not _is_of_codes(inputs[1]):
        return [_float_convolution(lowering, node, inputs)]
    weights = filter_of(inputs[1])
    convolved = partial(_convolved, lowering, node, x, weights)
    return [with_bias(lowering, bias, weights.unit(x.parameters), weights.codes.shape[0], convolved)]


def _convolved(lowering: Lowering, node: Node, x: AffineTable, weights: ScaledFilter, bias: Array | None) -> Value:
    """Return the convolution of an image or a volume of codes."""
    if len(x.shape) == VOLUME_RANK:
        if not isinstance(weights, Filter):
            raise NotNative("a 3-D convolution with a computed filter")
        return convolved_volume(lowering, node, x, weights, bias)
    window = window_of_convolution(node, x.shape, weights.codes.shape)
    return QuantizedConvolution(lowering, x, weights, bias, window)


def qlinear_conv(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """QLinearConv."""
    operands = (*inputs, None)[:9]
    x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, bias = operands
    if bias is not None and (dtype := element_type(bias)) != np.int32:  # as a quantizer leaves constants of two nodes
        raise NotValid(f"got {dtype} for its input 8, expected int32")
    are_computed = any(isinstance(value, Tensor) for value in inputs[1:])
    if are_computed and isinstance(x, Tensor) and len(x.shape) != VOLUME_RANK:
        return [convolution_of_computed(lowering, node, x, operands)]
    table = table_of(x, x_scale, x_zero_point)
    scales = constant(w_scale, "a scale").reshape(-1)
    points = constant(w_zero_point, "a zero point").reshape(-1)
    if scales.size != points.size:
        length = max(scales.size, points.size)
        scales, points = np.broadcast_to(scales, length), np.broadcast_to(points, length)
    weights = Filter(constant(w, "the filter"), scales, points)
    result = _convolved(lowering, node, table, weights, None if bias is None else constant(bias, "the bias"))
    return [as_value(lowering.quantized(result, parameters_of(y_scale, y_zero_point)))]


def conv_integer(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """ConvInteger; the input's zero point may be computed."""
    of_volume = isinstance(inputs[0], Tensor) and len(inputs[0].shape) == VOLUME_RANK
    return [(volume_sums if of_volume else image_sums)(lowering, node, inputs)]


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("", "Conv"): convolution,
    ("", "QLinearConv"): qlinear_conv,
    ("com.microsoft", "QLinearConv"): with_channels_last(qlinear_conv),
    ("", "ConvInteger"): conv_integer,
}
