"""ONNX's own Attention: of queries, keys and values that are projected already, with a mask and a past or without."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from dmlcpu.dtypes import FLOAT32
from dmlcpu.onnx.constant_arrays import Constant
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.attention.heads import behind, in_heads, out_of_heads
from dmlcpu.onnx.rules.attention.scores import attention_scale, grouped_means, hidden_in_order
from dmlcpu.onnx.rules.element_operators import chosen, compared, on_floats
from dmlcpu.onnx.rules.matrix.products import times
from dmlcpu.onnx.rules.movement.moved_values import reshaped
from dmlcpu.onnx.rules.native_functions import FloatBinary, Logical
from dmlcpu.onnx.rules.operands import computed, present, written
from dmlcpu.onnx.rules.pooling.pooled_values import maximum
from dmlcpu.onnx.rules.windows import Window
from dmlcpu.onnx.values import Tensor, Value, element_type

__all__ = ["RULES"]


# Later versions have more, such as windows.
_ATTRIBUTES: Final = frozenset(
    {"is_causal", "kv_num_heads", "q_num_heads", "qk_matmul_output_mode", "scale", "softcap", "softmax_precision"}
)


def _in_heads(lowering: Lowering, node: Node, value: Value, attribute: str) -> Value:
    """Return queries, keys or values as {N, heads, rows, elements}.

    Raises:
        NotNative: They are not FLOAT32, or cannot be divided among the heads.
    """
    if element_type(value) != FLOAT32 or len(value.shape) not in (3, 4):
        raise NotNative(f"an operand of type {element_type(value)} and shape {value.shape}")
    if len(value.shape) == 4:
        return value
    return in_heads(lowering, value, int(node.attributes.get(attribute, 0)))


def _after(lowering: Lowering, past: Value | None, heads: Value) -> Value:
    """Return keys or values behind those that came before.

    Raises:
        NotNative: These are of another shape.
    """
    if past is None:
        return heads
    fits = len(past.shape) == 4 and (*past.shape[:2], past.shape[3]) == (*heads.shape[:2], heads.shape[3])
    if not fits or element_type(past) != FLOAT32:
        raise NotNative(f"a past of shape {past.shape} before {heads.shape}")
    if past.shape[2] == 0:
        return heads
    return behind(lowering, past, heads)


def _masked(lowering: Lowering, mask: Value, *shape: int) -> Value:
    """Return what a mask adds to scores of a shape.

    Raises:
        NotNative: It is of another type, or has no number for each key.
    """
    aligned = (1,) * (len(shape) - len(mask.shape)) + mask.shape
    fits = len(aligned) == len(shape) and all(own in (1, whole) for own, whole in zip(aligned, shape, strict=True))
    if not fits or aligned[-1] != shape[-1]:  # of fewer keys later versions hide the others
        raise NotNative(f"a mask of shape {mask.shape} for scores of shape {shape}")
    values = reshaped(lowering, mask, aligned)
    dtype = element_type(mask)
    if dtype == FLOAT32:
        return values
    if dtype != np.bool_:
        raise NotNative(f"a mask of type {dtype}")
    shown, hidden = (np.asarray(number, np.float32) for number in (0, -np.inf))
    return chosen(lowering, computed(lowering, values), shown, hidden)


def _sum(lowering: Lowering, a: Value, b: Value) -> Tensor:
    return on_floats(lowering, FloatBinary.ADD, a, b)


def _all_hidden(lowering: Lowering, hidden: Value) -> Value:
    """Return from which queries all keys are hidden, of what is added to the scores: one condition a row."""
    rows = hidden.shape[:-1]
    image = reshaped(lowering, computed(lowering, hidden), (1, math.prod(rows), 1, hidden.shape[-1]))
    largest = computed(lowering, maximum(lowering, image, Window.plain(image.shape[2:], (1, 1))))
    blank = compared(lowering, Logical.EQUALS, largest, Constant(np.full((), -np.inf, np.float32)))
    return reshaped(lowering, blank, (*rows, 1))


def attention(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Attention."""
    query, key, value, mask, past_key, past_value, *more = (*inputs, *(None,) * 6)
    attributes = node.attributes
    if unknown := set(attributes) - _ATTRIBUTES:
        raise NotNative(", ".join(sorted(unknown)))
    if any(given is not None for given in more) or any(node.outputs[3:]) or attributes.get("softmax_precision", 1) != 1:
        raise NotNative("lengths of keys, scores that are returned, or a softmax of another type")
    if attributes.get("scale", 1.0) <= 0:
        raise NotNative(f"a scale of {attributes['scale']}")
    if any(0 in present(part).shape for part in (query, key, value)):
        raise NotNative("queries, keys or values without elements")
    queries = _in_heads(lowering, node, present(query), "q_num_heads")
    pair = [
        _after(lowering, past, _in_heads(lowering, node, present(given), "kv_num_heads"))
        for given, past in ((key, past_key), (value, past_value))
    ]
    (batch, heads, tokens, size), (_, groups, rows, _) = queries.shape, pair[0].shape
    if pair[0].shape != (batch, groups, rows, size) or pair[1].shape[:3] != (batch, groups, rows) or heads % groups:
        raise NotNative(f"queries, keys and values of shapes {[part.shape for part in (queries, *pair)]}")
    hidden = None if mask is None else lowering.once([mask], _masked, batch, heads, tokens, rows)
    if attributes.get("is_causal", 0):
        before = 0 if past_key is None else past_key.shape[2]
        later: Value = lowering.constant_once(hidden_in_order, tokens, rows, 0, before)
        hidden = later if hidden is None else lowering.once([hidden, later], _sum)
    cap = float(attributes.get("softcap", 0.0))
    if cap != 0 and hidden is not None:
        raise NotNative("a cap of masked scores")
    scaled = times(lowering, queries, attention_scale(node, size))
    blank = None if mask is None else lowering.once([present(hidden)], _all_hidden)
    means: Value = grouped_means(lowering, scaled, pair, hidden, cap, blank)
    if len(present(query).shape) == 3:
        means = out_of_heads(lowering, means)
    return written(node, [means, *pair])


RULES: Final[Mapping[tuple[str, str], Rule]] = {("", "Attention"): attention}
