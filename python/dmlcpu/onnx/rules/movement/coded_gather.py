"""GatherBlockQuantized, which chooses rows of a constant matrix of codes, such as an embedding of 4 bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from dmlcpu.enums import TensorDataType
from dmlcpu.onnx.coded_weights import ConstantOfBlocks, codes_of_halves, is_block_size
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.movement.gathered_values import chosen_by
from dmlcpu.onnx.rules.operands import constant, present
from dmlcpu.onnx.values import Value
from dmlcpu.tensor import dtype_of

__all__ = ["RULES"]

# Types of codes and their bits: of UINT8 with 4 two are in a byte.
_FORMS: Final = (("int4", 4), ("uint4", 4), ("uint8", 4), ("uint8", 8))


def gather_block_quantized(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """GatherBlockQuantized: rows of codes with blocks of columns, dequantized."""
    data, places, scale, zero_point = (*inputs, None, None, None)[:4]
    codes, scales = constant(data, "the codes"), constant(scale, "a scale")
    bits, block_size, gather_axis, quantize_axis = (
        int(node.attributes.get(name, default))
        for name, default in (("bits", 4), ("block_size", 128), ("gather_axis", 0), ("quantize_axis", 1))
    )
    if gather_axis != 0 or quantize_axis not in (1, -1) or codes.ndim != 2 or not is_block_size(block_size):
        raise NotNative(f"codes that are no rows of blocks, or blocks of {block_size}")
    if (codes.dtype.name, bits) not in _FORMS:
        raise NotNative(f"codes of type {codes.dtype} and {bits} bits")
    in_halves = codes.dtype == np.uint8 and bits == 4
    default = 1 << (bits - 1) if codes.dtype == np.uint8 else 0
    if in_halves:
        codes = codes_of_halves(codes).view(dtype_of(TensorDataType.UINT4))
    shape = codes.shape[0], -(-codes.shape[1] // block_size)
    if scales.shape != shape:
        raise NotNative(f"scales of shape {scales.shape}, not {shape}")
    points = np.full(shape, default, np.uint8).astype(codes.dtype)
    if zero_point is not None:
        points = constant(zero_point, "a zero point")
        if in_halves and points.dtype == np.uint8 and points.shape == (shape[0], -(-shape[1] // 2)):
            points = codes_of_halves(points)[:, : shape[1]].astype(codes.dtype)
    if points.shape != shape or not ConstantOfBlocks.has_type(codes, scales, points):
        raise NotNative(f"zero points of shape {points.shape}, codes of type {codes.dtype}, scales of {scales.dtype}")
    return [chosen_by(lowering, ConstantOfBlocks(codes, scales, points, block_size, 1), 0, present(places))]


RULES: Final[Mapping[tuple[str, str], Rule]] = {("com.microsoft", "GatherBlockQuantized"): gather_block_quantized}
