"""Attention in one node, as the optimizers of transformers fuse it: Attention, QAttention and MultiHeadAttention.

It becomes the operators that it was fused of: products, a softmax, views for the heads. The scale of the scores goes
into the scales and the bias of the projection, where that is a product of codes, else the queries are multiplied by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from dmlcpu.onnx.constant_arrays import Constant, constant_by
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.attention.heads import behind, in_heads, out_of_heads, side_by_side
from dmlcpu.onnx.rules.attention.scores import (
    attention_scale,
    grouped_means,
    hidden_in_order,
    row_of_places,
    scaled_queries,
)
from dmlcpu.onnx.rules.element_operators import chosen, compared, on_floats
from dmlcpu.onnx.rules.element_wise.arithmetic import plus
from dmlcpu.onnx.rules.matrix.products import Product, factors, float_product, product_of_codes, times
from dmlcpu.onnx.rules.movement.moved_values import join, reshaped, sliced_along
from dmlcpu.onnx.rules.native_functions import FloatBinary, Logical
from dmlcpu.onnx.rules.operands import computed, present, vector, written
from dmlcpu.onnx.values import Value

__all__ = ["RULES"]

_LOWEST: Final = np.finfo(np.float32).min


@dataclass(frozen=True)
class _Shape:
    """What attention is of.

    Attributes:
        batch: Images of queries, keys and values.
        queries, keys: How many of each there are; of values there are as many as of keys.
        heads: Among which the elements of each are divided.
        past: How many of the keys were there before, in front of the others.
    """

    batch: int
    queries: int
    keys: int
    heads: int
    past: int = 0

    def after(self, past: Sequence[Value]) -> _Shape:
        """Return the shape with keys and values in front."""
        return replace(self, keys=past[0].shape[2] + self.keys, past=past[0].shape[2]) if past else self


def _hidden(lowering: Lowering, node: Node, mask: Value, shape: _Shape) -> Value | None:
    """Return what a mask adds to the scores: a filter value where it hides a key; None if it hides nothing.

    Raises:
        NotNative: It is of another form than lengths, ends and starts, or a number for each key or query and key.
    """
    filter_value = np.float32(node.attributes.get("mask_filter_value", -10000.0))
    if not -np.inf < filter_value <= 0:
        raise NotNative(f"a mask that adds {filter_value}")
    elements = computed(lowering, mask)
    if elements.dtype != np.int32:
        raise NotNative(f"a mask of type {elements.dtype}")
    batch, keys, is_merged = shape.batch, shape.keys, node.operator != "MultiHeadAttention"
    places = constant_by(row_of_places, keys)
    if elements.shape == (batch,):
        shown = compared(lowering, Logical.LESS_THAN, places, lowering.reshaped(elements, (batch, 1, 1, 1)))
    elif elements.shape == (2 * batch,) and is_merged:
        ends, starts = (
            reshaped(lowering, sliced_along(lowering, elements, 0, first, batch), (batch, 1, 1, 1))
            for first in (0, batch)
        )
        shown = compared(lowering, Logical.LESS_THAN, places, ends)
        begun = compared(lowering, Logical.GREATER_THAN_OR_EQUAL, places, starts)
        shown = compared(lowering, Logical.AND, shown, begun)
    elif elements.shape in ((1, 1), (batch, 1)) and is_merged:
        return None  # the same for all keys, which a softmax does not see
    elif elements.shape in ((batch, keys), (batch, shape.queries, keys)):
        alone = (batch, 1, elements.shape[-2] if len(elements.shape) == 3 else 1, keys)
        zero = Constant(np.zeros((), np.int32))
        shown = compared(lowering, Logical.GREATER_THAN, lowering.reshaped(elements, alone), zero)
    else:
        raise NotNative(f"a mask of shape {elements.shape} for {batch} times {keys} keys")
    return chosen(lowering, shown, np.zeros((), np.float32), np.asarray(filter_value))


def _addend(lowering: Lowering, node: Node, mask: Value | None, bias: Value | None, shape: _Shape) -> Value | None:
    """Return what is added to the scores: of a mask, of the order of the tokens, and a bias."""
    if bias is not None:
        wanted = (shape.batch, shape.heads, shape.queries, shape.keys)
        is_repeated = len(bias.shape) == 4 and bias.shape[0] in (1, shape.batch) and bias.shape[1] in (1, shape.heads)
        if not is_repeated or bias.shape[2:] != wanted[2:]:
            raise NotNative(f"a bias of shape {bias.shape} for scores of shape {wanted}")
    is_ordered = bool(node.attributes.get("unidirectional", 0)) and shape.queries > 1
    if is_ordered and shape.keys != shape.past + shape.queries:
        raise NotNative(f"an order of {shape.queries} queries among {shape.keys} keys")
    addend = None if mask is None else _hidden(lowering, node, mask, shape)
    if is_ordered:
        hidden = lowering.constant_once(hidden_in_order, shape.queries, shape.keys, 0, shape.past, _LOWEST)
        addend = hidden if addend is None else on_floats(lowering, FloatBinary.MINIMUM, addend, hidden)
    if bias is None or addend is None:
        return bias if addend is None else addend
    return on_floats(lowering, FloatBinary.ADD, bias, addend)


def _attended(
    lowering: Lowering, parts: Sequence[Value], shape: _Shape, addend: Value | None, past: Sequence[Value]
) -> list[Value]:
    """Return the values of all heads, each a mean by the softmax of its scores, and keys and values, head by head.

    Args:
        lowering: Where operators are added.
        parts: Queries, scaled, keys and values, all heads side by side, or keys and values head by head.
        shape: What attention is of.
        addend: What is added to the scores.
        past: Keys and values in front of these, head by head; or nothing.
    """
    queries, *pair = (part if len(part.shape) == 4 else in_heads(lowering, part, shape.heads) for part in parts)
    if past:
        pair = [behind(lowering, *rows) for rows in zip(past, pair, strict=True)]
    return [out_of_heads(lowering, grouped_means(lowering, queries, pair, addend)), *pair]


def _past(lowering: Lowering, past: Value | None, shape: _Shape, sizes: Sequence[int]) -> list[Value]:
    """Return the keys and values that came before, head by head, of a tensor of both; nothing where there are none.

    Raises:
        NotNative: They are of another shape.
    """
    if past is None or (len(past.shape) == 5 and past.shape[3] == 0):
        return []
    head = (shape.batch, shape.heads, past.shape[3] if len(past.shape) == 5 else 0, sizes[0] // shape.heads)
    if past.shape != (2, *head) or sizes[2] != sizes[0]:
        raise NotNative(f"a past of shape {past.shape} for {shape.batch} times {shape.heads} heads")
    return [reshaped(lowering, sliced_along(lowering, past, 0, which, 1), head) for which in (0, 1)]


def _with_present(lowering: Lowering, node: Node, results: Sequence[Value]) -> list[Value]:
    """Return attention, and where the node wants them keys and values in one tensor."""
    attended, *pair = results
    if not any(node.outputs[1:]):
        return [attended]
    parts = [computed(lowering, reshaped(lowering, part, (1, *part.shape))) for part in pair]
    return written(node, [attended, join(lowering, parts, 0)])


def _refuse(node: Node, inputs: Sequence[Value | None], unknown: Sequence[int]) -> None:
    """Raise NotNative where a node has what makes more of it than attention among tokens and those before them."""
    if any(index < len(inputs) and inputs[index] is not None for index in unknown):
        raise NotNative("a past in a buffer for all that is to come")
    for name in ("do_rotary", "past_present_share_buffer"):
        if node.attributes.get(name, 0):
            raise NotNative(name)


def _check_sizes(sizes: Sequence[int], columns: int, heads: int) -> None:
    """Check that queries, keys and values of so many elements are all columns, and can be divided among the heads.

    Raises:
        NotNative: They are not, or cannot.
    """
    fit = len(sizes) == 3 and sum(sizes) == columns and sizes[0] == sizes[1]
    if not fit or any(size < 1 or size % heads for size in sizes):
        raise NotNative(f"{columns} columns as {tuple(sizes)} of {heads} heads")


def _divided(node: Node, rows: Sequence[int], matrix: Sequence[int]) -> tuple[_Shape, tuple[int, ...]]:
    """Return what attention is of, and how long queries, keys and values are side by side in a projection.

    Raises:
        NotNative: The shapes are none of tokens and a matrix, or the columns cannot be divided.
    """
    if len(rows) != 3 or len(matrix) != 2 or rows[2] != matrix[0]:
        raise NotNative(f"a projection of {tuple(rows)} by {tuple(matrix)}")
    shape = _Shape(rows[0], rows[1], rows[1], int(node.attributes["num_heads"]))
    sizes = tuple(node.attributes.get("qkv_hidden_sizes", ())) or (matrix[1] // 3,) * 3
    _check_sizes(sizes, matrix[1], shape.heads)
    return shape, sizes


def _of_product(lowering: Lowering, node: Node, product: Product, sizes: Sequence[int], heads: int) -> list[Value]:
    """Return queries, scaled, keys and values of a projection that is a product of codes, bias included."""
    scale = attention_scale(node, sizes[0] // heads)
    scaled = product.scaled(np.repeat(np.array([scale, 1, 1], np.float32), sizes))
    return side_by_side(lowering, scaled.computed(), sizes)


def attention(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Attention: a projection to queries, keys and values, and attention among these."""
    x, weights, bias, mask, before, addend = (*inputs, *(None,) * 6)[:6]
    _refuse(node, inputs, (6,))
    rows, matrix = present(x), present(weights)
    shape, sizes = _divided(node, rows.shape, matrix.shape)
    past = _past(lowering, before, shape, sizes)
    shape = shape.after(past)
    own = None if bias is None else vector(bias, sum(sizes), "the bias")
    total = _addend(lowering, node, mask, addend, shape)
    product = product_of_codes(lowering, rows, matrix)
    if product is not None:
        parts = _of_product(lowering, node, product.with_bias(own), sizes, shape.heads)
    else:
        projected = float_product(lowering, rows, matrix)
        if own is not None:
            projected = on_floats(lowering, FloatBinary.ADD, projected, Constant(own))
        parts = side_by_side(lowering, projected, sizes)
        parts[0] = times(lowering, parts[0], attention_scale(node, sizes[0] // shape.heads))
    return _with_present(lowering, node, _attended(lowering, parts, shape, total, past))


def quantized_attention(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """QAttention: the same, its projection a product of codes."""
    x, weights, bias, x_scale, scale, mask, x_point, point, before = (*inputs, *(None,) * 9)[:9]
    _refuse(node, inputs, ())
    shape, sizes = _divided(node, present(x).shape, present(weights).shape)
    past = _past(lowering, before, shape, sizes)
    shape = shape.after(past)
    own = vector(bias, sum(sizes), "the bias")
    a, b = factors(lowering, [x, present(x_scale), x_point, weights, present(scale), point])
    total = _addend(lowering, node, mask, None, shape)
    parts = _of_product(lowering, node, Product(lowering, a, b, own), sizes, shape.heads)
    return _with_present(lowering, node, _attended(lowering, parts, shape, total, past))


def _projected(node: Node, parts: Sequence[Value]) -> tuple[_Shape, list[int]]:
    """Return what attention is of, and how long queries, keys and values are, all heads together.

    Raises:
        NotNative: Keys and values are neither heads side by side nor, as of another attention's, head by head.
    """
    heads = int(node.attributes["num_heads"])
    query, key, value = (part.shape for part in parts)
    axes = (len(query), len(key), len(value))
    if axes not in ((3, 3, 3), (3, 4, 4)):
        raise NotNative("queries, keys or values that are packed")
    kept = (0, 1, 2) if axes[1] == 4 else (0, 1)  # which axes of keys and values are the same
    fits = key[0] == query[0] and all(key[axis] == value[axis] for axis in kept)
    if not fits or (axes[1] == 4 and key[1] != heads):
        raise NotNative(f"queries, keys and values of shapes {[part.shape for part in parts]}")
    sizes = [shape[-1] * (heads if len(shape) == 4 else 1) for shape in (query, key, value)]
    return _Shape(query[0], query[1], key[-2], heads), sizes


def multi_head_attention(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """MultiHeadAttention: of queries, keys and values that are projected already, but for their bias."""
    query, key, value, bias, mask, addend, *before = (*inputs, *(None,) * 8)[:8]
    _refuse(node, inputs, (8, 9))
    parts = [present(part) for part in (query, key, value)]
    shape, sizes = _projected(node, parts)
    _check_sizes(sizes, sum(sizes), shape.heads)
    is_apart = len(parts[1].shape) == 4
    if is_apart and (any(value is not None for value in before) or any(node.outputs[1:])):
        raise NotNative("a past or present of keys and values that come head by head")
    past = _pair_of_past(before, shape, sizes)
    shape = shape.after(past)
    own = None if bias is None else vector(bias, sum(sizes), "the bias")
    total = _addend(lowering, node, mask, addend, shape)
    is_read_once = lowering.uses.is_read_once(node.inputs[0])
    if own is not None:
        columns = np.split(own, np.cumsum(sizes)[:-1])
        named = list(zip(node.inputs, parts, columns, strict=False))[: 1 if is_apart else 3]
        parts[: len(named)] = [plus(lowering, node, (name, part), Constant(addend)) for name, part, addend in named]
    scale = attention_scale(node, sizes[0] // shape.heads)
    parts[0] = scaled_queries(lowering, parts[0], scale, alone=own is not None or is_read_once)
    return written(node, _attended(lowering, parts, shape, total, past))


def _pair_of_past(pair: Sequence[Value | None], shape: _Shape, sizes: Sequence[int]) -> list[Value]:
    """Return the keys and values that came before, head by head; nothing where there are none.

    Raises:
        NotNative: They are of other shapes, or one of them is absent.
    """
    given = [value for value in pair if value is not None]
    if not given or (len(given) == 2 and all(len(value.shape) == 4 and value.shape[2] == 0 for value in given)):
        return []
    past = given[0].shape[2] if len(given[0].shape) == 4 else 0
    wanted = [(shape.batch, shape.heads, past, size // shape.heads) for size in sizes[1:]]
    if [value.shape for value in given] != wanted:
        raise NotNative(f"a past of shapes {[value.shape for value in given]}")
    return given


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("com.microsoft", "Attention"): attention,
    ("com.microsoft", "QAttention"): quantized_attention,
    ("com.microsoft", "MultiHeadAttention"): multi_head_attention,
}
