"""GroupQueryAttention: attention of tokens to those before them, several heads of queries to one of keys and values.

Keys and values of earlier tokens come in a past, of which a number of rows counts that only a run tells: so many
precede the new ones in the present (``cpp/operators/movement/append_to_past.cpp``). Of the first tokens it is not read:
each attends to those before it, of which those that fill up a row come last.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from dmlcpu.dtypes import FLOAT32, INT64
from dmlcpu.errors import InvalidModelError
from dmlcpu.onnx.constant_arrays import Array, Constant, constant_by
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.attention.heads import in_heads, out_of_heads, side_by_side
from dmlcpu.onnx.rules.attention.rotary import Turns, in_order, positions_from
from dmlcpu.onnx.rules.attention.scores import (
    HIDDEN,
    attention_scale,
    grouped_means,
    hidden_in_order,
    row_of_places,
    scaled_queries,
)
from dmlcpu.onnx.rules.element_operators import chosen, compared, on_integers
from dmlcpu.onnx.rules.movement.moved_values import reshaped
from dmlcpu.onnx.rules.native_functions import IntegerBinary, Logical
from dmlcpu.onnx.rules.operands import computed, computed_floats, integers, present, written
from dmlcpu.onnx.values import Tensor, Value, element_type

__all__ = ["RULES"]

# Places within it are INT32.
_LARGEST_WINDOW: Final = 1 << 30


@dataclass(frozen=True)
class _Shape:
    """What attention is of.

    Attributes:
        batch, tokens: Images, and new tokens of each.
        heads, groups: Heads of queries, and of keys and values.
        size: Elements of a head.
        past, present: Rows of keys and values that are given, and that the node returns.
        is_first: Whether there are no tokens before these.
        window: To how many tokens each attends, its own and those right before it; 0 for all.
    """

    batch: int
    tokens: int
    heads: int
    groups: int
    size: int
    past: int
    present: int
    is_first: bool
    window: int


def _refuse(node: Node, inputs: Sequence[Value | None]) -> None:
    """Raise NotNative where a node has what is not known here."""
    if any(value is not None for value in inputs[9:]):
        raise NotNative("positions, a bias or sinks")
    if any(node.outputs[3:]):
        raise NotNative("scores that are returned")
    for name in ("smooth_softmax", "qk_output", "kv_cache_bit_width"):
        if node.attributes.get(name, 0):
            raise NotNative(name)
    for name in ("k_quant_type", "v_quant_type"):
        if node.attributes.get(name, b"NONE") != b"NONE":
            raise NotNative(name)


def _parts(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> list[Value]:
    """Return queries, keys and values, all heads side by side; the queries are scaled."""
    heads, groups = int(node.attributes["num_heads"]), int(node.attributes["kv_num_heads"])
    query, key, value = present(inputs[0]), inputs[1], inputs[2]
    if len(query.shape) != 3 or groups < 1 or heads % groups:
        raise NotNative(f"queries of shape {query.shape}, {heads} heads in {groups} groups")
    if key is None or value is None:
        size, rest = divmod(query.shape[-1], heads + 2 * groups)
        lengths = (heads * size, groups * size, groups * size)
        if rest or key is not value:
            raise NotNative(f"{query.shape[-1]} columns of {heads} heads in {groups} groups")
        parts = side_by_side(lowering, computed_floats(lowering, query), lengths)
    else:
        size = query.shape[-1] // heads
        parts = [query, key, value]
        if any(
            part.shape != (*query.shape[:2], count * size)
            for part, count in zip(parts, (heads, groups, groups), strict=True)
        ):
            raise NotNative(f"queries, keys and values of shapes {[part.shape for part in parts]}")
    if any(element_type(part) != FLOAT32 for part in parts):
        raise NotNative(f"elements of type {element_type(parts[0])}")
    alone = lowering.uses.is_read_once(node.inputs[0])
    parts[0] = scaled_queries(lowering, parts[0], attention_scale(node, size), alone)
    return parts


def _shape(node: Node, inputs: Sequence[Value | None], parts: Sequence[Value]) -> _Shape:
    """Return what attention is of.

    Raises:
        NotNative: Shapes do not fit together, or only a run tells how many tokens there are.
    """
    heads, groups = int(node.attributes["num_heads"]), int(node.attributes["kv_num_heads"])
    batch, tokens, columns = parts[0].shape
    size = columns // heads
    [total] = integers(present(inputs[6]), "the number of tokens")
    lengths = present(inputs[5])
    if element_type(lengths) != np.int32 or math.prod(lengths.shape) != batch:
        raise NotNative(f"lengths of type {element_type(lengths)} and shape {lengths.shape} for {batch} images")
    pair = [value for value in inputs[3:5] if value is not None]
    past = pair[0].shape[2] if len(pair) == 2 and len(pair[0].shape) == 4 else 0
    if any(value.shape != (batch, groups, past, size) or element_type(value) != FLOAT32 for value in pair):
        raise NotNative(f"a past of shapes {[value.shape for value in pair]}")
    is_first = tokens == total
    if not is_first and (past == 0 or (tokens != 1 and batch != 1)):
        raise NotNative(f"{tokens} of {total} tokens after a past of {past}, {batch} times")
    rows = total if total >= past else past
    if tokens > rows:
        raise NotNative(f"{tokens} tokens of {total}")
    window = int(node.attributes.get("local_window_size", -1))
    if window == 0 or window > _LARGEST_WINDOW:
        raise NotNative(f"a window of {window} tokens")
    return _Shape(batch, tokens, heads, groups, size, past, rows, is_first, max(window, 0))


def _counted(lowering: Lowering, lengths: Value, tokens: int) -> Tensor:
    """Return how many tokens precede the new ones of each image, {N}, of the places of the last ones."""
    counts = lowering.reshaped(computed(lowering, lengths), (math.prod(lengths.shape),))
    if tokens == 1:
        return counts
    return on_integers(lowering, IntegerBinary.SUBTRACT, counts, constant_by(_one_less, tokens))


def _one_less(tokens: int) -> Array:
    return np.array([tokens - 1], np.int32)


def _hidden(lowering: Lowering, counts: Tensor, tokens: int, rows: int, window: int) -> Tensor:
    """Return what hides from each token the rows behind it, and those before its window: {N, 1, tokens, rows}."""
    images = counts.shape[0]
    own = positions_from(lowering, lowering.reshaped(counts, (images, 1)), tokens)
    own = reshaped(lowering, own, (images, 1, tokens, 1))
    places = constant_by(row_of_places, rows)
    hidden = compared(lowering, Logical.GREATER_THAN, places, own)
    if window > 0:
        before = on_integers(lowering, IntegerBinary.SUBTRACT, own, Constant(np.full((1, 1, 1, 1), window, np.int32)))
        hidden = compared(lowering, Logical.OR, hidden, compared(lowering, Logical.LESS_THAN_OR_EQUAL, places, before))
    return chosen(lowering, hidden, np.asarray(HIDDEN), np.zeros((), np.float32))


def group_query_attention(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """GroupQueryAttention."""
    inputs = (*inputs, *(None,) * (9 - len(inputs)))
    if 0 in present(inputs[0]).shape:  # onnxruntime divides by their number
        raise InvalidModelError(f"node {node}: got queries of shape {present(inputs[0]).shape}, expected some")
    _refuse(node, inputs)
    parts = _parts(lowering, node, inputs)
    shape = _shape(node, inputs, parts)
    counts = None if shape.is_first else lowering.once([present(inputs[5])], _counted, shape.tokens)
    queries, keys, values = (
        in_heads(lowering, part, heads)
        for part, heads in zip(parts, (shape.heads, shape.groups, shape.groups), strict=True)
    )
    if node.attributes.get("do_rotary", 0):
        if counts is None:
            positions: Value = lowering.constant_once(in_order, INT64, shape.tokens)
        else:
            positions = lowering.once([counts], _later_positions, shape.tokens)
        is_interleaved = bool(node.attributes.get("rotary_interleaved", 0))
        turns = Turns.at(lowering, [present(table) for table in inputs[7:9]], positions, is_interleaved)
        queries, keys = turns.turned(lowering, queries), turns.turned(lowering, keys)
    pair = [
        _appended(lowering, past, computed(lowering, heads), counts, shape)
        for past, heads in zip(inputs[3:5], (keys, values), strict=True)
    ]
    return written(node, [_attended(lowering, node, queries, pair, counts, shape), *pair])


def _later_positions(lowering: Lowering, counts: Tensor, tokens: int) -> Value:
    return positions_from(lowering, lowering.reshaped(counts, (counts.shape[0], 1)), tokens)


def _appended(lowering: Lowering, past: Value | None, new: Tensor, counts: Tensor | None, shape: _Shape) -> Tensor:
    """Return keys or values of the past and the new ones behind them."""
    if counts is None and shape.present == shape.tokens:
        return new
    lengths = Constant(np.zeros(1, np.int32)) if counts is None else counts
    rows = (shape.batch, shape.groups, shape.present, shape.size)
    each = lowering.expanded(computed(lowering, lengths), (shape.batch,))
    return lowering.emit("APPEND_TO_PAST", [computed(lowering, present(past)), new, each], FLOAT32, rows)


def _attended(
    lowering: Lowering,
    node: Node,
    queries: Value,
    pair: Sequence[Tensor],
    counts: Tensor | None,
    shape: _Shape,
) -> Value:
    """Return the values of all heads, each a mean by the softmax of its scores, side by side."""
    hidden: Value | None = None
    if counts is not None:
        hidden = lowering.once([counts], _hidden, shape.tokens, shape.present, shape.window)
    elif shape.present != 1:
        hidden = lowering.constant_once(hidden_in_order, shape.tokens, shape.present, shape.window, 0)
    means = grouped_means(lowering, queries, pair, hidden, float(node.attributes.get("softcap", 0.0)))
    return out_of_heads(lowering, means)


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("com.microsoft", "GroupQueryAttention"): group_query_attention,
}
