"""Products of floats and a constant matrix of codes: weights of 4 or 8 bits, where activations stay floats."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from dmlcpu.dtypes import FLOAT32
from dmlcpu.errors import InvalidModelError
from dmlcpu.graph.lengths import told_unfit
from dmlcpu.onnx.coded_weights import CodedMatrix, coded_matrix, codes_of_halves, is_block_size
from dmlcpu.onnx.constant_arrays import Array
from dmlcpu.onnx.constants.empty_arrays import zeros_of
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotFitting, NotNative
from dmlcpu.onnx.rules.element_operators import on_floats
from dmlcpu.onnx.rules.movement.moved_values import reshaped
from dmlcpu.onnx.rules.native_functions import FloatBinary
from dmlcpu.onnx.rules.operands import computed_floats, constant, present
from dmlcpu.onnx.values import Tensor, Value, element_type

__all__ = ["RULES", "coded_operand", "coded_product"]

_QUANTIZED_ROWS: Final = 4  # the accuracy_level that allows for it
_MOST_OF_QUANTIZED_ROWS: Final = 256  # terms of a block
_MOST_AXES: Final = 4


def coded_operand(lowering: Lowering, value: Value) -> CodedMatrix | None:
    """Return the right operand of a product as a coded matrix, made once for all who read it; None if it is none."""
    return lowering.once([value], _coded_matrix)


def _coded_matrix(_: Lowering, value: Value) -> CodedMatrix | None:
    return coded_matrix(value)


def coded_product(lowering: Lowering, a: Value, b: CodedMatrix, *, of_integers: bool = False) -> Tensor:
    """Add a product of floats and a coded matrix; of integers within a block if the floats may be quantized by blocks.

    Raises:
        NotNative: They are of another type, or their shapes do not fit together.
    """
    floats = lowering.floats(a)
    if floats.dtype != np.float32 or not 2 <= len(floats.shape) <= _MOST_AXES:
        raise NotNative(f"a product of {floats.dtype} {floats.shape}")
    if floats.shape[-1] != b.rows:
        raise NotFitting(told_unfit(floats.shape, (b.rows, b.codes.shape[0])))
    return lowering.emit(
        "QUANTIZED_BLOCK_PRODUCT" if of_integers else "DEQUANTIZED_PRODUCT",
        [floats, b.codes, b.scale, b.zero_point],
        FLOAT32,
        (*floats.shape[:-1], b.codes.shape[0]),
        {"bits": (b.bits,), "block_size": (b.block_size,)},
    )


def matmul_n_bits(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """MatMulNBits: the columns of the matrix are blocks of codes."""
    value, codes, scale, zero_point, order, bias = (*inputs, None, None, None, None)[:6]
    a = present(value)
    if order is not None:
        raise NotNative("rows of another order")
    matrix, rests = _matrix_of_blocks(node, codes, scale, zero_point)
    columns = matrix.codes.shape[0]
    if bias is not None and bias.shape != (columns,):
        raise InvalidModelError(f"node {node}: got a bias of shape {bias.shape}, expected {(columns,)}")
    if a.shape[-1:] != (matrix.rows,):
        raise NotFitting(told_unfit(a.shape, (matrix.rows, columns)))
    shape = (*a.shape[:-1], columns)
    if 0 in shape:
        return [zeros_of(FLOAT32, shape)]
    if not 2 <= len(shape) <= _MOST_AXES:
        a = reshaped(lowering, a, (math.prod(shape[:-1]), matrix.rows))
    has_float_points = zero_point is not None and element_type(zero_point) == FLOAT32
    of_integers = node.attributes.get("accuracy_level", 0) == _QUANTIZED_ROWS and not has_float_points
    result = coded_product(
        lowering, a, matrix, of_integers=of_integers and matrix.block_size <= _MOST_OF_QUANTIZED_ROWS
    )
    if rests is not None:
        result = on_floats(lowering, FloatBinary.ADD, result, _product_of_means(lowering, a, rests))
    if bias is not None:
        result = on_floats(lowering, FloatBinary.ADD, result, bias)
    return [lowering.reshaped(result, shape)]


def _product_of_means(lowering: Lowering, a: Value, rests: Array) -> Tensor:
    """Return the product of each row's means of blocks and what a block of a column has for each unit of the mean."""
    floats, (blocks, columns) = computed_floats(lowering, a), rests.shape
    *leading, terms = floats.shape
    rows = math.prod(leading)
    apart = lowering.reshaped(floats, (rows, blocks, terms // blocks))
    means = lowering.emit("REDUCE_MEAN", [apart], FLOAT32, (rows, blocks, 1), {"axis": (2,)})
    product = lowering.emit(
        "FLOAT_PRODUCT", [lowering.reshaped(means, (rows, blocks)), rests], FLOAT32, (rows, columns)
    )
    return lowering.reshaped(product, (*leading, columns))


def _matrix_of_blocks(
    node: Node, codes: Value | None, scale: Value | None, zero_point: Value | None
) -> tuple[CodedMatrix, Array | None]:
    """Return the matrix of a MatMulNBits, and what is missing where zero points are no integers.

    The latter is for each block and column, and for each unit of the mean of what is multiplied by the block. Kernels
    have integers as zero points, but HQQ quantizers make others: what is between them is the same for a whole block.
    """
    rows, columns, bits, block_size = (
        int(node.attributes.get(name, default))
        for name, default in (("K", 0), ("N", 0), ("bits", 4), ("block_size", 0))
    )
    if bits not in (4, 8) or min(rows, columns) < 1 or not is_block_size(block_size):
        raise NotNative(f"blocks of {block_size} codes of {bits} bits, {rows} rows and {columns} columns")
    if node.attributes.get("weight_prepacked", 0):
        raise NotNative("a matrix packed for another runtime")
    bytes_of_blocks, scales = constant(codes, "the matrix"), constant(scale, "a scale")
    if bytes_of_blocks.dtype != np.uint8 or scales.dtype != np.float32:
        raise NotNative(f"codes of type {bytes_of_blocks.dtype} with scales of type {scales.dtype}")
    blocks = -(-rows // block_size)
    _check_shape(node, "codes", bytes_of_blocks, (columns, blocks, block_size * bits // 8))
    _check_shape(node, "scales", scales, (columns, blocks))
    scales, rests = scales.reshape(columns, -1), None
    if zero_point is not None and element_type(zero_point) == np.float32:
        points, missing = _rounded_zero_points(node, constant(zero_point, "a zero point"), (columns, blocks), bits)
        if rows % block_size:
            raise NotNative("zero points of type float32, and a block of fewer rows than others")
        rests = np.ascontiguousarray((missing * scales * np.float32(block_size)).T) if missing.any() else None
    else:
        points = _zero_points(node, zero_point, (columns, blocks), bits)
    return CodedMatrix(bytes_of_blocks.reshape(columns, -1), scales, points, bits, block_size, rows), rests


def _check_shape(node: Node, what: str, array: Array, shape: tuple[int, ...]) -> None:
    """Raise if an array has another shape; scales and zero points may be vectors."""
    if array.shape != shape and (len(shape) > 2 or array.shape != (shape[0] * shape[1],)):
        raise InvalidModelError(f"node {node}: got {what} of shape {array.shape}, expected {shape}")


def _rounded_zero_points(node: Node, points: Array, shape: tuple[int, int], bits: int) -> tuple[Array, Array]:
    """Return the codes next to zero points that are floats, and how far they lie above these.

    Raises:
        NotNative: Some are no numbers.
    """
    _check_shape(node, "zero points", points, shape)
    if not np.isfinite(points).all():
        raise NotNative("zero points that are no numbers")
    points = points.reshape(shape)
    rounded = np.clip(np.rint(points), 0, (1 << bits) - 1)
    return rounded.astype(np.uint8), rounded - points


def _zero_points(node: Node, value: Value | None, shape: tuple[int, int], bits: int) -> Array:
    """Return zero points as bytes; those of 4 bits come two in a byte, each column beginning with one of its own."""
    if value is None:
        return _middle_codes(bits, shape)
    packed = constant(value, "a zero point")
    if packed.dtype != np.uint8:
        raise NotNative(f"zero points of type {packed.dtype}")
    columns, blocks = shape
    _check_shape(node, "zero points", packed, (columns, -(-blocks * bits // 8)))
    packed = packed.reshape(columns, -1)
    if bits == 4:
        packed = codes_of_halves(packed)
    return packed[:, :blocks]


@lru_cache  # most matrices of a network are as another one is
def _middle_codes(bits: int, shape: tuple[int, int]) -> Array:
    return np.broadcast_to(np.uint8(1 << (bits - 1)), shape)


RULES: Final[Mapping[tuple[str, str], Rule]] = {("com.microsoft", "MatMulNBits"): matmul_n_bits}
