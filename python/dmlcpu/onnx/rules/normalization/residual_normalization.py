"""Normalization of sums, as the optimizers of transformers fuse it, and by the mean square alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from dmlcpu.graph.lengths import broadcast_shapes
from dmlcpu.onnx.constant_arrays import Array, Constant
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.element_wise.arithmetic import of_two, plus
from dmlcpu.onnx.rules.normalization.layer_normalization import LayerNormalization, root_mean_square_normalization
from dmlcpu.onnx.rules.operands import present, vector
from dmlcpu.onnx.values import Deferred, Value

__all__ = ["RULES"]


def skip_layer_normalization(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """SkipLayerNormalization: of an input plus a skipped one plus a bias, which a product among these takes."""
    x, _, weight, bias, addend = (*inputs, None, None)[:5]
    length = present(x).shape[-1]
    parameters = vector(weight, length, "the weight"), _or_zeros(bias, length, "the bias")
    total = _total(lowering, node, inputs, addend)
    epsilon = np.float32(node.attributes.get("epsilon", 1e-12))
    return _with_total(node, LayerNormalization(lowering, total, 1, epsilon, *parameters), total)


def skip_rms_normalization(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """SkipSimplifiedLayerNormalization: the same by the mean square alone."""
    x, _, weight, addend = (*inputs, None)[:4]
    factors = vector(weight, present(x).shape[-1], "the weight")
    total = _total(lowering, node, inputs, addend)
    epsilon = np.float32(node.attributes.get("epsilon", 1e-12))
    return _with_total(node, root_mean_square_normalization(lowering, total, 1, epsilon, factors), total)


def _or_zeros(value: Value | None, length: int, what: str) -> Array:
    return np.zeros(length, np.float32) if value is None else vector(value, length, what)


def _total(lowering: Lowering, node: Node, inputs: Sequence[Value | None], addend: Value | None) -> Value:
    """Return the sum that is normalized."""
    x, skip = present(inputs[0]), present(inputs[1])
    if any(node.outputs[1:3]):
        raise NotNative("mean or deviation is asked for")
    if len(x.shape) < 2 or broadcast_shapes(x.shape, skip.shape) != x.shape or skip.shape[-1:] != x.shape[-1:]:
        raise NotNative(f"a sum of {x.shape} and {skip.shape}")
    terms = [(node.inputs[0], x), (node.inputs[1], skip)]
    if addend is None:
        return plus(lowering, node, terms[0], skip)
    own = Constant(vector(addend, x.shape[-1], "the bias of the sum"))
    # A product that nothing else reads takes a bias without a step of its own, whichever term it is.
    terms.sort(key=lambda term: not isinstance(term[1], Deferred))
    biased = plus(lowering, node, terms[0], own)
    return of_two(lowering, "Add", biased, terms[1][1])


def _with_total(node: Node, normalized: Value, total: Value) -> Sequence[Value]:
    """Return those of the outputs that the node names."""
    values = (normalized, None, None, total)
    return [value for value, name in zip(values, node.outputs, strict=False) if name and value is not None]


def rms_normalization(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """RMSNormalization, and SimplifiedLayerNormalization, as onnxruntime calls it, along the last axis."""
    x = present(inputs[0])
    if any(node.outputs[1:]) or node.attributes.get("stash_type", 1) != 1:
        raise NotNative("the deviation is asked for, or another precision")
    if node.attributes.get("axis", -1) not in (-1, len(x.shape) - 1):
        raise NotNative("another axis than the last one")
    epsilon = np.float32(node.attributes.get("epsilon", 1e-5))
    weight = vector(inputs[1], x.shape[-1], "the weight")
    return [root_mean_square_normalization(lowering, x, 1, epsilon, weight)]


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("", "RMSNormalization"): rms_normalization,
    ("", "SimplifiedLayerNormalization"): rms_normalization,
    ("com.microsoft", "SkipLayerNormalization"): skip_layer_normalization,
    ("com.microsoft", "SkipSimplifiedLayerNormalization"): skip_rms_normalization,
}
