"""RotaryEmbedding: pairs of a head's elements turned by angles that follow from a token's position (arXiv 2104.09864).

The angles' cosines and sines are rows of two tables, by position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from dmlcpu.dtypes import FLOAT32
from dmlcpu.onnx.constant_arrays import Array, Constant, constant_by
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.attention.heads import in_heads, out_of_heads
from dmlcpu.onnx.rules.element_operators import INTEGER_TYPES, on_integers, pairs_turned
from dmlcpu.onnx.rules.movement.gathered_values import chosen_by
from dmlcpu.onnx.rules.movement.moved_values import join, reshaped, sliced_along
from dmlcpu.onnx.rules.native_functions import IntegerBinary
from dmlcpu.onnx.rules.operands import computed, computed_floats, present
from dmlcpu.onnx.values import Tensor, Value, element_type

__all__ = ["RULES", "Turns", "in_order", "positions_from"]


def positions_from(lowering: Lowering, first: Value, tokens: int) -> Value:
    """Return the positions of tokens in a row, {N, tokens}, from those of the first ones, {N, 1}."""
    if tokens == 1:
        return first
    return on_integers(lowering, IntegerBinary.ADD, first, constant_by(in_order, element_type(first), tokens))


def in_order(dtype: np.dtype[np.generic], tokens: int) -> Array:
    """Return the positions from 0 on, {1, tokens}."""
    return np.arange(tokens, dtype=dtype).reshape(1, tokens)


def _rows_at(lowering: Lowering, table: Value, positions: Value) -> Tensor:
    """Return rows of a table by positions, {N, tokens}: {N, 1, tokens, columns}."""
    if len(table.shape) != 2 or len(positions.shape) != 2:
        raise NotNative(f"a table of shape {table.shape} with positions of shape {positions.shape}")
    return _for_all_heads(lowering, chosen_by(lowering, table, 0, positions))


def _for_all_heads(lowering: Lowering, rows: Value) -> Tensor:
    if len(rows.shape) != 3:
        raise NotNative(f"cosines or sines of shape {rows.shape}")
    images, tokens, columns = rows.shape
    return computed(lowering, reshaped(lowering, rows, (images, 1, tokens, columns)))


def _for_pairs(lowering: Lowering, angles: Tensor, axis: int) -> Tensor:
    """Return angles' cosines or sines with an axis along which the elements of pairs lie."""
    shape = [*angles.shape]
    shape.insert(axis, 1)
    return lowering.reshaped(angles, shape)


class Turns:
    """The angles of all tokens.

    Args:
        cosines, sines: Of these angles, {N, 1, tokens, pairs of elements}.
        is_interleaved: Whether neighbours are the pairs; else the halves of what turns are.
    """

    def __init__(self, cosines: Tensor, sines: Tensor, is_interleaved: bool) -> None:
        if cosines.shape != sines.shape:
            raise NotNative(f"cosines of shape {cosines.shape} and sines of shape {sines.shape}")
        self._cosines, self._sines, self._is_interleaved = cosines, sines, is_interleaved

    @classmethod
    def at(cls, lowering: Lowering, tables: Sequence[Value], positions: Value, is_interleaved: bool) -> Turns:
        """Return the angles of positions, {N, tokens}, of tables of cosines and sines; looked up once for all nodes.

        Raises:
            NotNative: Their shapes do not fit together.
        """
        rows = [lowering.once([table, positions], _rows_at) for table in tables]
        return cls(rows[0], rows[1], is_interleaved)

    @classmethod
    def of(cls, lowering: Lowering, cosines: Value, sines: Value, is_interleaved: bool) -> Turns:
        """Return the angles that are given for all tokens, {N, tokens, pairs}."""
        return cls(_for_all_heads(lowering, cosines), _for_all_heads(lowering, sines), is_interleaved)

    def turned(self, lowering: Lowering, heads: Value) -> Tensor:
        """Return the elements of heads, {N, heads, tokens, elements}, turned; those beyond the pairs as they are.

        Raises:
            NotNative: There are fewer elements, or other images or tokens.
        """
        images, _, tokens, elements = heads.shape
        pairs = self._cosines.shape[-1]
        if 2 * pairs > elements or self._cosines.shape[2] != tokens or self._cosines.shape[0] not in (1, images):
            raise NotNative(f"angles of shape {self._cosines.shape} for heads of shape {heads.shape}")
        x = computed_floats(lowering, heads)
        if 2 * pairs == elements:
            return self._pairs_turned(lowering, x)
        turned = self._pairs_turned(lowering, sliced_along(lowering, x, 3, 0, 2 * pairs))
        rest = computed(lowering, sliced_along(lowering, x, 3, 2 * pairs, elements - 2 * pairs))
        return join(lowering, [turned, rest], 3)

    def _pairs_turned(self, lowering: Lowering, heads: Value) -> Tensor:
        """Return heads of pairs alone turned."""
        images, count, tokens, elements = heads.shape
        pairs = elements // 2
        axis, sizes = (4, (pairs, 2)) if self._is_interleaved else (3, (2, pairs))
        of_pairs = (images, count, tokens, *sizes)
        cosines, sines = (lowering.once([each], _for_pairs, axis) for each in (self._cosines, self._sines))
        x = computed(lowering, reshaped(lowering, heads, of_pairs))
        return lowering.reshaped(pairs_turned(lowering, x, cosines, sines, axis), heads.shape)


def _in_heads(lowering: Lowering, node: Node, x: Value, pairs: int) -> Value:
    """Return the input of a node as {N, heads, tokens, elements}."""
    if len(x.shape) == 4:
        return x
    if len(x.shape) != 3:
        raise NotNative(f"an input of shape {x.shape}")
    return in_heads(lowering, x, int(node.attributes.get("num_heads", 0)) or x.shape[-1] // (2 * pairs))


def _turned(lowering: Lowering, node: Node, x: Value, turns: Turns, pairs: int) -> list[Value]:
    turned = turns.turned(lowering, _in_heads(lowering, node, x, pairs))
    return [turned if len(x.shape) == 4 else out_of_heads(lowering, turned)]


def _check(node: Node, x: Value, columns: int) -> None:
    """Check what both operators have in common.

    Raises:
        NotNative: The elements are no FLOAT32, or not as many turn as the tables tell.
    """
    turning, heads = (int(node.attributes.get(name, 0)) for name in ("rotary_embedding_dim", "num_heads"))
    if element_type(x) != FLOAT32 or turning not in (0, 2 * columns) or node.attributes.get("is_packed_batching", 0):
        raise NotNative(f"elements of type {element_type(x)}, of which {turning} turn by {columns} angles")
    if len(x.shape) == 4 and (heads not in (0, x.shape[1]) or (turning == 0 and x.shape[3] != 2 * columns)):
        raise NotNative(f"an input of shape {x.shape}, of {heads} heads and {columns} angles")
    if len(x.shape) == 3 and heads and turning == 0 and x.shape[2] != 2 * columns * heads:
        raise NotNative(f"{x.shape[2]} columns of {heads} heads and {columns} angles")


def _check_positions(positions: Value, x: Value) -> None:
    """Check that there is a position for each token, none below 0 if they are known.

    Raises:
        NotNative: There is not.
    """
    tokens = (x.shape[0], x.shape[2] if len(x.shape) == 4 else x.shape[1])
    if positions.shape != tokens:
        raise NotNative(f"positions of shape {positions.shape} for {tokens} tokens")
    _check_sign(positions)


def _check_sign(positions: Value) -> None:
    if type(positions) is Constant and (positions.array < 0).any():
        raise NotNative("a position below 0")


def rotary_embedding(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """ONNX's RotaryEmbedding: of tables and positions, or of cosines and sines for each token."""
    x, cosines, sines, positions = (*map(present, inputs[:3]), (*inputs, None)[3])
    is_interleaved, pairs = bool(node.attributes.get("interleaved", 0)), cosines.shape[-1]
    _check(node, x, pairs)
    if len(x.shape) == 3 and not node.attributes.get("num_heads", 0):
        raise NotNative("columns of no number of heads")
    if positions is None:
        turns = Turns.of(lowering, cosines, sines, is_interleaved)
    else:
        _check_positions(positions, x)
        turns = Turns.at(lowering, (cosines, sines), positions, is_interleaved)
    return _turned(lowering, node, x, turns, pairs)


def rotary_embedding_of_tables(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """RotaryEmbedding of com.microsoft: of tables, and of the positions of all tokens or of the first ones."""
    x, positions, cosines, sines = map(present, inputs[:4])
    pairs = cosines.shape[-1]
    _check(node, x, pairs)
    if node.attributes.get("scale", 1.0) != 1.0:
        raise NotNative("a scale")
    if len(positions.shape) == 1 and positions.shape[0] == 1:
        tokens = x.shape[2] if len(x.shape) == 4 else x.shape[1]
        if element_type(positions) not in INTEGER_TYPES:
            raise NotNative(f"positions of type {element_type(positions)}")
        _check_sign(positions)
        positions = positions_from(lowering, reshaped(lowering, positions, (1, 1)), tokens)
    else:
        _check_positions(positions, x)
    turns = Turns.at(lowering, (cosines, sines), positions, bool(node.attributes.get("interleaved", 0)))
    return _turned(lowering, node, x, turns, pairs)


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("", "RotaryEmbedding"): rotary_embedding,
    ("com.microsoft", "RotaryEmbedding"): rotary_embedding_of_tables,
}
