"""TopK along any axis; of dequantized codes the codes', where these have the floats' order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import index
from typing import Final

import numpy as np

from dmlcpu.dtypes import CODE_TYPES, FLOAT32
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.element_operators import INTEGER_TYPES
from dmlcpu.onnx.rules.operands import axis_within, in_order, integers, present
from dmlcpu.onnx.values import AffineTable, Value

__all__ = ["RULES"]


def top_k(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """TopK: values and indices, in order even where the node asks for none."""
    value = present(inputs[0])
    axis = axis_within(node.attributes.get("axis", -1), len(value.shape))
    [count] = integers(inputs[1], "the number of elements") if len(inputs) > 1 else (index(node.attributes["k"]),)
    if not 1 <= count <= value.shape[axis]:
        raise NotNative(f"{count} of {value.shape[axis]} elements")
    tensor = in_order(lowering, value)
    if tensor.dtype not in (*CODE_TYPES, *INTEGER_TYPES, FLOAT32):
        raise NotNative(f"elements of type {tensor.dtype}")
    shape = (*tensor.shape[:axis], count, *tensor.shape[axis + 1 :])
    attributes = {"axis": (axis,), "axis_direction": (int(bool(node.attributes.get("largest", 1))),)}
    values, indices = lowering.emit_several("TOP_K", [tensor], [(tensor.dtype, shape), (np.int64, shape)], attributes)
    if isinstance(value, AffineTable) and tensor is value.codes:
        return [replace(value, codes=values), indices]
    return [values, indices]


RULES: Final[Mapping[tuple[str, str], Rule]] = {("", "TopK"): top_k}
