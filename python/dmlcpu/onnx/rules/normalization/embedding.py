"""Embeddings looked up, added and normalized in one node: EmbedLayerNormalization, its tables of floats or codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from dmlcpu.errors import InvalidModelError
from dmlcpu.onnx.constant_arrays import Array, Constant, constant_by
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.element_operators import compared
from dmlcpu.onnx.rules.element_wise.arithmetic import of_two
from dmlcpu.onnx.rules.movement.gathered_values import looked_up
from dmlcpu.onnx.rules.movement.moved_values import sliced_along
from dmlcpu.onnx.rules.native_functions import Logical
from dmlcpu.onnx.rules.normalization.layer_normalization import LayerNormalization
from dmlcpu.onnx.rules.operands import computed, present, vector
from dmlcpu.onnx.rules.quantization.quantization import dequantize_linear
from dmlcpu.onnx.rules.reduction.reduction import sum_of_integers
from dmlcpu.onnx.values import Tensor, Value

__all__ = ["RULES"]


@dataclass(frozen=True)
class _Embedding:
    """The operands of such a node, codes dequantized.

    Attributes:
        words, segments, positions: INT32 numbers of rows; of positions all in order if they are absent.
        tables: Of words, positions and segments; the last may be absent, as may be the numbers of segments.
        weight, bias: Of the normalization.
        mask: INT32, 1 where a token counts; it may be absent.
    """

    words: Value
    segments: Value | None
    positions: Value | None
    tables: tuple[Value, Value, Value | None]
    weight: Value
    bias: Value
    mask: Value | None


def _check_shapes(node: Node, embedding: _Embedding) -> None:
    """Check that there is a number for each token, or of positions one for each place of a row.

    Raises:
        InvalidModelError: There is not. By positions without rows onnxruntime ends the process.
        NotNative: Positions have other axes.
    """
    tokens, positions = embedding.words.shape, embedding.positions
    for value in (embedding.segments, embedding.mask):
        if value is not None and value.shape != tokens:
            raise InvalidModelError(f"node {node}: got numbers of shape {value.shape}, expected {tokens}")
    if positions is not None and len(positions.shape) < 2:
        raise InvalidModelError(f"node {node}: got numbers of shape {positions.shape}, expected rows of them")
    if positions is not None and positions.shape not in (tokens, (1, *tokens[1:])):
        raise NotNative(f"positions of shape {positions.shape} for tokens of shape {tokens}")


def _numbers(lowering: Lowering, value: Value | None) -> Tensor:
    """Return INT32 numbers."""
    numbers = computed(lowering, present(value))
    if numbers.dtype != np.int32:
        raise NotNative(f"numbers of type {numbers.dtype}")
    return numbers


def _summed(lowering: Lowering, embedding: _Embedding) -> Value:
    """Return the rows of all tables, added."""
    shape = embedding.words.shape
    words, positions, segments = embedding.tables
    width = words.shape[-1]
    for table in (words, positions, segments):
        if table is not None and (len(table.shape) != 2 or table.shape[1] != width):
            raise NotNative(f"tables of shapes {words.shape} and {table.shape}")
    if len(shape) != 2 or (segments is None) != (embedding.segments is None):
        raise NotNative(f"tokens of shape {shape}, or segments without their table")
    total = looked_up(lowering, words, 0, _numbers(lowering, embedding.words))
    terms: list[Value] = []
    if embedding.positions is not None:
        terms.append(looked_up(lowering, positions, 0, _numbers(lowering, embedding.positions)))
    elif shape[1] <= positions.shape[0]:
        terms.append(sliced_along(lowering, positions, 0, 0, shape[1]))
    else:
        raise NotNative(f"{shape[1]} positions of {positions.shape[0]}")
    if segments is not None:
        terms.append(looked_up(lowering, segments, 0, _numbers(lowering, embedding.segments)))
    for term in terms:
        total = of_two(lowering, "Add", total, term)
    return total


def _count(lowering: Lowering, mask: Value | None, shape: tuple[int, ...]) -> Value:
    """Return how many tokens of each row count; 0 without a mask."""
    if mask is None:
        return constant_by(_zeros, *shape[:1])
    counts = compared(lowering, Logical.EQUALS, _numbers(lowering, mask), Constant(np.ones((), np.int32)))
    whole = lowering.emit("CAST", [counts], np.int32, counts.shape)
    return lowering.reshaped(sum_of_integers(lowering, whole, 1), shape[:1])


def _zeros(count: int) -> Array:
    return np.zeros(count, np.int32)


def _normalized(lowering: Lowering, node: Node, embedding: _Embedding) -> Sequence[Value]:
    """Return those outputs that the node names: the normalized sum, the lengths, the sum."""
    _check_shapes(node, embedding)
    width = embedding.tables[0].shape[-1]
    parameters = [
        vector(value, width, what) for value, what in ((embedding.weight, "the weight"), (embedding.bias, "the bias"))
    ]
    total = _summed(lowering, embedding)
    if not isinstance(total, Tensor):
        total = computed(lowering, total)
    if total.dtype != np.float32:
        raise NotNative(f"tables of type {total.dtype}")
    epsilon = np.float32(node.attributes.get("epsilon", 1e-12))
    results: list[Value] = []
    for name, place in zip(node.outputs, range(3), strict=False):
        if name and place == 0:
            weight, bias = parameters
            results.append(LayerNormalization(lowering, total, 1, epsilon, weight, bias))
        elif name:
            results.append(_count(lowering, embedding.mask, embedding.words.shape) if place == 1 else total)
    return results


def embed_layer_normalization(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """EmbedLayerNormalization."""
    words, segments, word, position, segment, weight, bias, mask, positions = (*inputs, None, None)[:9]
    tables = present(word), present(position), segment
    operands = present(words), segments, positions, tables, present(weight), present(bias), mask
    return _normalized(lowering, node, _Embedding(*operands))


def quantized_embed_layer_normalization(
    lowering: Lowering, node: Node, inputs: Sequence[Value | None]
) -> Sequence[Value]:
    """QEmbedLayerNormalization: the same, all of its tables and vectors codes with a scale each."""
    words, segments, *codes = (*inputs, *(None,) * 18)[:18]
    mask, scales, points = codes[5], codes[6:11], codes[11:16]
    plain = replace(node, domain="", operator="DequantizeLinear", attributes={})
    floats: list[Value | None] = []
    for array, scale, point in zip(codes[:5], scales, points, strict=True):
        floats.append(None if array is None else dequantize_linear(lowering, plain, [array, scale, point])[0])
    word, position, segment, weight, bias = floats
    tables = present(word), present(position), segment
    return _normalized(
        lowering, node, _Embedding(present(words), segments, None, tables, present(weight), present(bias), mask)
    )


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("com.microsoft", "EmbedLayerNormalization"): embed_layer_normalization,
    ("com.microsoft", "QEmbedLayerNormalization"): quantized_embed_layer_normalization,
}
