"""Products of floats and a constant matrix of codes: weights of 4 or 8 bits, where activations stay floats.

MatMulNBits, and MatMul of a matrix that DequantizeLinear makes, of blocks or columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from dmlcpu.errors import InvalidModelError
from dmlcpu.onnx.lowering import FLOAT32, Lowering, NotNative, Rule
from dmlcpu.onnx.nodes import Node
from dmlcpu.onnx.rules.operands import constant, on_floats, present
from dmlcpu.onnx.values import Array, Constant, Dequantized, Tensor, Value

__all__ = ["RULES", "CodedMatrix", "ConstantOfBlocks", "coded_matrix", "coded_product"]

_ADD: Final = 0  # its number among the functions of two floats
_QUANTIZED_ROWS: Final = 4  # the accuracy_level that allows for it
_MOST_OF_BLOCK: Final = 256  # codes of rows that are quantized
_WORD_BITS: Final = 32  # several blocks are of whole words of codes
_BITS: Final = {"int4": 4, "uint4": 4, "int8": 8, "uint8": 8}


class ConstantOfBlocks(Constant):
    """The floats of constant codes which have a scale and a zero point for each block along an axis.

    Attributes:
        codes: INT4, UINT4, INT8 or UINT8.
        scale: FLOAT32, of the codes' shape, but along the axis one a block.
        zero_point: Of the codes' type and the scale's shape.
        block_size: Elements.
        axis: From 0 on.
    """

    __slots__ = ("_floats", "axis", "block_size", "codes", "scale", "zero_point")
    codes: Array
    scale: Array
    zero_point: Array
    block_size: int
    axis: int
    _floats: Array | None

    def __init__(self, codes: Array, scale: Array, zero_point: Array, block_size: int, axis: int) -> None:
        if codes.dtype.name not in _BITS or scale.dtype != np.float32 or zero_point.dtype != codes.dtype:
            raise NotNative(f"codes of type {codes.dtype} with blocks of scales of type {scale.dtype}")
        fields = {"codes": codes, "scale": scale, "zero_point": zero_point, "block_size": block_size, "axis": axis}
        for name, field in fields.items():
            object.__setattr__(self, name, field)
        object.__setattr__(self, "_floats", None)

    @property
    def array(self) -> Array:
        """The floats: one array, whoever asks."""
        if self._floats is None:
            of_block = np.arange(self.codes.shape[self.axis]) // self.block_size
            zero_points = np.take(self.zero_point, of_block, self.axis).astype(np.int32)
            differences = (self.codes.astype(np.int32) - zero_points).astype(np.float32)
            object.__setattr__(self, "_floats", differences * np.take(self.scale, of_block, self.axis))
        assert self._floats is not None
        return self._floats

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the codes."""
        return tuple(self.codes.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """FLOAT32."""
        return FLOAT32


@dataclass(frozen=True, slots=True, eq=False)
class CodedMatrix:
    """The right operand of a product, as DEQUANTIZED_PRODUCT reads it: columns of codes.

    Attributes:
        codes: UINT8, {columns, bytes of a column}; of 4 bits two in a byte, the first one in the lower half.
        scale: FLOAT32, {columns, blocks}.
        zero_point: UINT8, {columns, blocks}.
        bits: Of a code.
        block_size: Rows.
        rows: Of the matrix.
    """

    codes: Array
    scale: Array
    zero_point: Array
    bits: int
    block_size: int
    rows: int


def coded_matrix(value: Value) -> CodedMatrix | None:
    """Return the codes of a constant matrix; None if it has none that are dequantized by blocks of rows or columns."""
    if isinstance(value, ConstantOfBlocks) and value.axis == 0:
        block_size, scale, zero_point = value.block_size, value.scale, value.zero_point
    elif (
        isinstance(value, Dequantized)
        and isinstance(value.held, np.ndarray)
        and (value.axis == 1 or value.scale.size == 1)
    ):
        block_size, scale, zero_point = value.shape[0], value.scale.reshape(1, -1), value.zero_point.reshape(1, -1)
    else:
        return None
    codes = value.codes
    bits = _BITS.get(codes.dtype.name, 0)
    if codes.ndim != 2 or not codes.size or not bits or scale.dtype != np.float32 or zero_point.dtype != codes.dtype:
        return None
    if codes.shape[0] > block_size and block_size * bits % _WORD_BITS:
        return None
    rows, columns = codes.shape
    by_column = _unsigned(codes, bits).T
    return CodedMatrix(
        _in_halves(by_column, block_size) if bits == 4 else _filled(by_column, block_size),
        np.broadcast_to(scale.T, (columns, scale.shape[0])),
        np.broadcast_to(_unsigned(zero_point, bits).T, (columns, scale.shape[0])),
        bits,
        block_size,
        rows,
    )


def _unsigned(codes: Array, bits: int) -> Array:
    """Return codes as UINT8, signed ones with their lowest value at 0."""
    offset = 1 << (bits - 1) if codes.dtype.name.startswith("int") else 0
    return (codes.astype(np.int16) + offset).astype(np.uint8)


def _filled(columns: Array, block_size: int) -> Array:
    """Return columns of whole blocks, filled up with zeros."""
    rows = columns.shape[1]
    missing = -rows % block_size
    return np.ascontiguousarray(np.pad(columns, ((0, 0), (0, missing))) if missing else columns)


def _in_halves(columns: Array, block_size: int) -> Array:
    """Return columns of codes of 4 bits, two in a byte."""
    filled = _filled(columns, block_size + block_size % 2)
    halves: Array = filled[:, ::2] | filled[:, 1::2] << 4
    return halves


def coded_product(lowering: Lowering, a: Value, b: CodedMatrix, *, of_integers: bool = False) -> Tensor:
    """Add a product of floats and a coded matrix; of integers within a block if the floats may be quantized by blocks.

    Raises:
        NotNative: They are of another type, or their shapes do not fit together.
    """
    floats = lowering.floats(a)
    if floats.dtype != np.float32 or not 2 <= len(floats.shape) <= 4 or floats.shape[-1] != b.rows:
        raise NotNative(f"a product of {floats.dtype} {floats.shape} and a matrix of {b.rows} rows")
    return lowering.emit(
        "QUANTIZED_BLOCK_PRODUCT" if of_integers else "DEQUANTIZED_PRODUCT",
        [floats, b.codes, b.scale, b.zero_point],
        FLOAT32,
        (*floats.shape[:-1], b.codes.shape[0]),
        {"bits": (b.bits,), "block_size": (b.block_size,)},
    )


def matmul_n_bits(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """MatMulNBits: the columns of the matrix are blocks of codes."""
    a, codes, scale, zero_point, order, bias = (*inputs, None, None, None)[:6]
    if order is not None:
        raise NotNative("rows of another order")
    matrix = _matrix_of_blocks(node, codes, scale, zero_point)
    of_integers = node.attributes.get("accuracy_level", 0) == _QUANTIZED_ROWS and matrix.block_size <= _MOST_OF_BLOCK
    result = coded_product(lowering, present(a), matrix, of_integers=of_integers)
    return [result if bias is None else on_floats(lowering, _ADD, result, bias)]


def _matrix_of_blocks(node: Node, codes: Value | None, scale: Value | None, zero_point: Value | None) -> CodedMatrix:
    rows, columns, bits, block_size = (
        int(node.attributes.get(name, default))
        for name, default in (("K", 0), ("N", 0), ("bits", 4), ("block_size", 0))
    )
    if bits not in _BITS.values() or min(rows, columns, block_size) < 1 or block_size * bits % _WORD_BITS:
        raise NotNative(f"blocks of {block_size} codes of {bits} bits, {rows} rows and {columns} columns")
    if node.attributes.get("weight_prepacked", 0):
        raise NotNative("a matrix packed for another runtime")
    blocks = -(-rows // block_size)
    bytes_of_blocks, scales = constant(codes, "the matrix"), constant(scale, "a scale")
    if bytes_of_blocks.dtype != np.uint8 or scales.dtype != np.float32:
        raise NotNative(f"codes of type {bytes_of_blocks.dtype} with scales of type {scales.dtype}")
    sizes = bytes_of_blocks.size, scales.size
    if sizes != (columns * blocks * (block_size * bits // 8), columns * blocks):
        raise InvalidModelError(
            f"node {node}: got {sizes[0]} bytes of codes and {sizes[1]} scales of {columns} columns"
        )
    return CodedMatrix(
        bytes_of_blocks.reshape(columns, -1),
        scales.reshape(columns, -1),
        _zero_points(node, zero_point, (columns, blocks), bits),
        bits,
        block_size,
        rows,
    )


def _zero_points(node: Node, value: Value | None, shape: tuple[int, int], bits: int) -> Array:
    """Return zero points as bytes; those of 4 bits come two in a byte, each column beginning with one of its own."""
    if value is None:
        return np.broadcast_to(np.uint8(1 << (bits - 1)), shape)
    packed = constant(value, "a zero point")
    if packed.dtype != np.uint8:
        raise NotNative(f"zero points of type {packed.dtype}")
    columns, blocks = shape
    if packed.size != columns * -(-blocks * bits // 8):
        raise InvalidModelError(f"node {node}: got {packed.size} bytes of zero points of {columns} columns")
    packed = packed.reshape(columns, -1)
    if bits == 4:
        packed = np.stack([packed & 15, packed >> 4], axis=-1).reshape(columns, -1)
    return packed[:, :blocks]


RULES: Final[Mapping[tuple[str, str], Rule]] = {("com.microsoft", "MatMulNBits"): matmul_n_bits}
