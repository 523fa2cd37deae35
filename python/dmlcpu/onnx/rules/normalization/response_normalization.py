"""LRN: elements over a power of the mean square of a window of channels, composed of functions that kernels have."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.element_wise.float_functions import Floats
from dmlcpu.onnx.rules.movement.moved_values import reshaped, transposed
from dmlcpu.onnx.rules.native_functions import FloatUnary, Pooling
from dmlcpu.onnx.rules.operands import computed, computed_floats, present
from dmlcpu.onnx.rules.pooling.float_pooling import float_pooling
from dmlcpu.onnx.rules.windows import Window
from dmlcpu.onnx.values import Value

__all__ = ["RULES"]

# Each whole power is a product; a logarithm times more than 1 would lose bits.
_LARGEST_POWER: Final = 4


def _power(base: Floats, exponent: float) -> Floats:
    """Return a power with an exponent above 0: of what is no whole number the rest by roots or a logarithm."""
    whole = int(exponent)
    fraction = exponent - whole
    factors = [base] * whole
    if fraction in (0.25, 0.5, 0.75):
        root = base.function(FloatUnary.SQUARE_ROOT)
        factors += [root] if fraction >= 0.5 else []
        factors += [root.function(FloatUnary.SQUARE_ROOT)] if fraction != 0.5 else []
    elif fraction:
        factors.append((base.function(FloatUnary.LOGARITHM) * fraction).function(FloatUnary.EXPONENTIAL))
    return math.prod(factors[1:], start=factors[0])


def local_response_normalization(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """LRN."""
    given = node.attributes
    size, exponent = int(given.get("size", 0)), float(given.get("beta", 0.75))
    value = present(inputs[0])
    if len(value.shape) < 2 or size < 1 or not 0 < exponent <= _LARGEST_POWER:
        raise NotNative(f"windows of {size} channels of shape {value.shape} with the exponent {exponent}")
    x = computed_floats(lowering, value)
    images, channels, *spatial = x.shape
    # With channels innermost, as convolutions leave them, rows of channels are a view.
    last = (0, *range(2, len(x.shape)), 1)
    squares = transposed(lowering, (Floats(lowering, x) * Floats(lowering, x)).tensor, last)
    rows = reshaped(lowering, squares, (images, 1, math.prod(spatial), channels))
    before = (size - 1) // 2
    output = (math.prod(spatial), channels)
    window = Window((1, size), (1, 1), (1, 1), (0, before), (0, size - 1 - before), output)
    means = float_pooling(lowering, computed(lowering, rows), window, Pooling.AVERAGES, include_padding=True)
    as_volume = reshaped(lowering, means, (images, *spatial, channels))
    mean = transposed(lowering, as_volume, (0, len(x.shape) - 1, *range(1, len(x.shape) - 1)))
    base = Floats(lowering, computed(lowering, mean)) * given.get("alpha", 1e-4) + given.get("bias", 1.0)
    return [(Floats(lowering, x) / _power(base, exponent)).tensor]


RULES: Final[Mapping[tuple[str, str], Rule]] = {("", "LRN"): local_response_normalization}
