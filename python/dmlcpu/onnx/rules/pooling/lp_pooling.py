"""LpPool and GlobalLpPool: roots of sums of powers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.element_wise.float_functions import Floats
from dmlcpu.onnx.rules.native_functions import FloatUnary, Pooling
from dmlcpu.onnx.rules.operands import computed, computed_floats, present
from dmlcpu.onnx.rules.pooling.float_pooling import float_pooling
from dmlcpu.onnx.rules.pooling.pooling import pooled_as_image, window_of_pooling
from dmlcpu.onnx.rules.windows import Window, automatic_padding
from dmlcpu.onnx.values import Table, Tensor, Value

__all__ = ["RULES"]


def _square_root(sums: Floats) -> Floats:
    return sums.function(FloatUnary.SQUARE_ROOT)


def _cube_root(sums: Floats) -> Floats:
    return (sums.function(FloatUnary.LOGARITHM) / 3.0).function(FloatUnary.EXPONENTIAL)


_ROOTS: Final[Mapping[int, Callable[[Floats], Floats]]] = {
    1: lambda sums: sums,
    2: _square_root,
    3: _cube_root,
    4: lambda sums: _square_root(_square_root(sums)),
}


def _powers(lowering: Lowering, value: Value, degree: int) -> Value:
    """Return powers of the elements' distances to 0; of codes a table."""
    if isinstance(value, Table):
        with np.errstate(over="ignore"):
            return Table(value.codes, np.abs(value.floats) ** np.float32(degree))
    x = Floats(lowering, computed_floats(lowering, value))
    base = x.absolute() if degree % 2 else x * x
    return (base if degree <= 2 else base * (x * x if degree == 3 else base)).tensor


def lp_pool(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """LpPool and GlobalLpPool; padding adds nothing.

    Onnxruntime, whose shapes are the model's, passes over ``ceil_mode``, and dilations beside automatic padding.
    """
    value, degree = present(inputs[0]), node.attributes.get("p", 2)
    pads_itself = automatic_padding(node) is not None
    is_dilated = any(dilation != 1 for dilation in node.attributes.get("dilations", ()))
    if node.attributes.get("ceil_mode", 0) or (pads_itself and is_dilated) or node.version < 2:
        raise NotNative("a window that is told otherwise than onnxruntime understands it")
    if degree not in _ROOTS or len(value.shape) not in (3, 4, 5):
        raise NotNative(f"the norm {degree} of windows of {len(value.shape)} dimensions")
    window = window_of_pooling(node, value.shape[2:])

    def pool(image: Value, part: Window) -> Tensor:
        floats = computed(lowering, image)
        return float_pooling(lowering, floats, part, Pooling.SUMS)

    sums = pooled_as_image(lowering, _powers(lowering, value, degree), window, pool)
    return [_ROOTS[degree](Floats(lowering, computed(lowering, sums))).tensor]


RULES: Final[Mapping[tuple[str, str], Rule]] = {("", name): lp_pool for name in ("LpPool", "GlobalLpPool")}
