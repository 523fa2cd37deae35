"""Transposed convolutions of floats whose windows do not overlap: each input pixel becomes a block, by one product.

Quantizers leave ConvTranspose in floating point in QOperator and dynamically quantized models.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from dmlcpu.onnx.lowering import Lowering, NotNative, Rule
from dmlcpu.onnx.nodes import Node
from dmlcpu.onnx.rules.matrix_multiply import matmul
from dmlcpu.onnx.rules.movement import reshaped, transposed
from dmlcpu.onnx.rules.normalization import computed_floats
from dmlcpu.onnx.rules.operands import constant, on_floats, present
from dmlcpu.onnx.rules.transposed_convolution import transposed_convolution
from dmlcpu.onnx.values import Constant, Dequantized, Table, Value

__all__ = ["RULES"]


def _are_blocks(node: Node, kernel: tuple[int, ...]) -> bool:
    """Whether each input pixel writes a block of its own, and all outputs are written."""
    attributes = node.attributes
    ones = (1,) * len(kernel)
    return (
        tuple(attributes.get("strides", ones)) == kernel
        and tuple(attributes.get("dilations", ones)) == ones
        and not any((*attributes.get("pads", ()), *attributes.get("output_padding", ())))
        and not attributes.get("output_shape")
        and attributes.get("auto_pad", b"NOTSET") in (b"NOTSET", b"", b"VALID")
        and attributes.get("group", 1) == 1
    )


def blocks(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """ConvTranspose, 1-D and 2-D; of floats where the stride is the kernel, in one group."""
    value, weights, bias = (*inputs, None)[:3]
    x, filter_value = present(value), present(weights)
    if isinstance(filter_value, Dequantized) and isinstance(x, Table):
        return transposed_convolution(lowering, node, inputs)
    filters = constant(filter_value, "a filter")
    rank = len(x.shape)
    if filters.ndim != rank or rank not in (3, 4) or filters.dtype != np.float32 or filters.shape[0] != x.shape[1]:
        raise NotNative(f"an input of shape {x.shape} with a filter of shape {filters.shape}")
    kernel, outputs = filters.shape[2:], filters.shape[1]
    if not _are_blocks(node, kernel):
        raise NotNative("a transposed convolution of floats whose windows overlap")
    images, channels, *spatial = x.shape
    last = transposed(lowering, computed_floats(lowering, x), (0, *range(2, rank), 1))
    rows = reshaped(lowering, last, (images * math.prod(spatial), channels))
    [product] = matmul(lowering, node, [rows, Constant(filters.reshape(channels, -1))])
    if bias is not None:
        addends = np.repeat(constant(bias, "a bias"), math.prod(kernel))
        product = on_floats(lowering, 0, product, Constant(addends))
    product = reshaped(lowering, product, (images, *spatial, outputs, *kernel))
    # {N, H, W, C, rows, columns} becomes {N, C, H, rows, W, columns}.
    count = len(kernel)
    order = [axis for index in range(count) for axis in (1 + index, 2 + count + index)]
    product = transposed(lowering, product, (0, 1 + count, *order))
    lengths = (length * window for length, window in zip(spatial, kernel, strict=True))
    return [reshaped(lowering, product, (images, outputs, *lengths))]


RULES: Final[Mapping[tuple[str, str], Rule]] = {("", "ConvTranspose"): blocks}
