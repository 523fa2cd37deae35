"""Transposed convolutions whose windows do not overlap: each input pixel becomes a block, by one product.

Of floats, in which quantizers leave ConvTranspose in QOperator and dynamically quantized models, and of volumes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dmlcpu.onnx.constant_arrays import Constant
from dmlcpu.onnx.lowering import Lowering
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.element_operators import on_floats
from dmlcpu.onnx.rules.matrix.matrix_multiply import matmul
from dmlcpu.onnx.rules.matrix.products import Product
from dmlcpu.onnx.rules.movement.moved_values import reshaped, transposed
from dmlcpu.onnx.rules.movement.volume_slices import VOLUME_RANK
from dmlcpu.onnx.rules.native_functions import FloatBinary
from dmlcpu.onnx.rules.operands import computed_floats, constant, present
from dmlcpu.onnx.rules.windows import automatic_padding
from dmlcpu.onnx.values import Dequantized, Table, Value

__all__ = ["are_blocks", "transposed_blocks"]


def are_blocks(node: Node, kernel: tuple[int, ...]) -> bool:
    """Return whether each input pixel writes a block of its own, and all outputs are written."""
    attributes = node.attributes
    ones = (1,) * len(kernel)
    return (
        tuple(attributes.get("strides", ones)) == kernel
        and tuple(attributes.get("dilations", ones)) == ones
        and not any((*attributes.get("pads", ()), *attributes.get("output_padding", ())))
        and not attributes.get("output_shape")
        and automatic_padding(node) in (None, b"VALID")
        and attributes.get("group", 1) == 1
    )


def _as_matrix(filters: Constant | Dequantized) -> Constant | Dequantized:
    """Return a filter {input channels, output channels, ...} as {input channels, all others}."""
    channels, _, *kernel = filters.shape
    if isinstance(filters, Constant):
        return Constant(filters.array.reshape(channels, -1))
    codes, taps = filters.codes.reshape(channels, -1), math.prod(kernel)
    if filters.scale.size == 1:
        return replace(filters, held=codes, axis=1)
    assert filters.axis == 1
    scale, zero_point = (np.repeat(array, taps) for array in (filters.scale, filters.zero_point))
    return replace(filters, held=codes, scale=scale, zero_point=zero_point)


def transposed_blocks(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """ConvTranspose, 1-D to 3-D, where the stride is the kernel, in one group."""
    value, weights, bias = (*inputs, None)[:3]
    x, filters = present(value), present(weights)
    rank = len(x.shape)
    if not (isinstance(filters, Dequantized) and isinstance(x, Table)):
        filters = Constant(constant(filters, "a filter"))
        x = computed_floats(lowering, x)
    if len(filters.shape) != rank or not 3 <= rank <= VOLUME_RANK or filters.shape[0] != x.shape[1]:
        raise NotNative(f"an input of shape {x.shape} with a filter of shape {filters.shape}")
    outputs, *kernel = filters.shape[1:]
    if not are_blocks(node, tuple(kernel)):
        raise NotNative("a transposed convolution of volumes whose windows overlap")
    images, channels, *spatial = x.shape
    last = transposed(lowering, x, (0, *range(2, rank), 1))
    rows = reshaped(lowering, last, (images * math.prod(spatial), channels))
    [product] = matmul(lowering, node, [rows, _as_matrix(filters)])
    if bias is not None:
        addends = np.repeat(constant(bias, "a bias"), math.prod(kernel))
        if isinstance(product, Product):
            product = product.with_bias(addends)
        else:
            product = on_floats(lowering, FloatBinary.ADD, product, Constant(addends))
    product = reshaped(lowering, product, (images, *spatial, outputs, *kernel))
    # {N, H, W, C, rows, columns} becomes {N, C, H, rows, W, columns}.
    count = len(kernel)
    order = [axis for index in range(count) for axis in (1 + index, 2 + count + index)]
    product = transposed(lowering, product, (0, 1 + count, *order))
    lengths = (length * window for length, window in zip(spatial, kernel, strict=True))
    return [reshaped(lowering, product, (images, outputs, *lengths))]
