"""FusedMatMul: a product of matrices, transposed or not, times a number."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.matrix.products import float_product, product_of_codes, times
from dmlcpu.onnx.rules.movement.moved_values import transposed
from dmlcpu.onnx.rules.operands import present
from dmlcpu.onnx.values import Value

__all__ = ["RULES"]


def fused_matmul(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """FusedMatMul, and TransposeMatMul, as it was called: of codes the scales have the number, else the smaller one."""
    operands = [present(value) for value in inputs[:2]]
    ranks = [len(operand.shape) for operand in operands]
    if min(ranks) < 2:
        raise NotNative("vectors")
    for index, (name, rank) in enumerate(zip("AB", ranks, strict=True)):
        rows = rank - 2
        if node.attributes.get(f"transBatch{name}", 0):
            if rank < 3 or len({*ranks}) > 1:
                raise NotNative("a transposed batch of operands without one, or of different ranks")
            rows = 0  # before the axes of the batch, which keep their order
        ends = (rank - 1, rows) if node.attributes.get(f"trans{name}", 0) else (rows, rank - 1)
        batch = (axis for axis in range(rank - 1) if axis != rows)
        operands[index] = transposed(lowering, operands[index], (*batch, *ends))
    alpha = np.float32(node.attributes.get("alpha", 1.0))
    product = product_of_codes(lowering, operands[0], operands[1])
    if product is not None:
        return [product.scaled(alpha.reshape(1))]
    smaller = min(range(2), key=lambda index: math.prod(operands[index].shape))
    operands[smaller] = times(lowering, operands[smaller], alpha)
    return [float_product(lowering, operands[0], operands[1])]


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("com.microsoft", "FusedMatMul"): fused_matmul,
    ("com.microsoft", "TransposeMatMul"): fused_matmul,
}
