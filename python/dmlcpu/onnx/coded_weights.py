"""Constant weights that stay codes: what a product of floats and a matrix of codes of 4 or 8 bits reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from dmlcpu.onnx.constant_arrays import Array, Constant, ConstantElements, constant_by, source_of
from dmlcpu.onnx.values import Dequantized, Value

__all__ = [
    "CodedMatrix",
    "ConstantOfBlocks",
    "DequantizedNibbles",
    "coded_matrix",
    "codes_of_halves",
    "is_block_size",
]

_WORD_BITS: Final = 32  # blocks are of whole words of codes, where a column has several
_LEAST_BLOCK: Final = 16
_BITS: Final = {"int4": 4, "uint4": 4, "int8": 8, "uint8": 8}
_OF_BYTES: Final = {"int4": np.dtype(np.int8), "uint4": np.dtype(np.uint8)}
_UNITS_OF_NIBBLES: Final = np.float32(16)  # what a code of 4 bits counts in the upper half of a byte


@dataclass(frozen=True, slots=True, eq=False)
class DequantizedNibbles(Dequantized):
    """Constant codes of 4 bits, held as INT8 or UINT8 in the upper halves of bytes, with a sixteenth of their scale.

    So rules for 8-bit codes take them, and round a bias of floats to units as fine as those of 8-bit weights. Products
    of floats pack them as 4 bits again.
    """

    @classmethod
    def of(cls, codes: ConstantElements, scale: Array, zero_point: Array, axis: int) -> DequantizedNibbles:
        """Return the floats of INT4 or UINT4 codes; arguments are as those of what is dequantized."""
        held = constant_by(_in_upper_halves, source_of(codes)).elements()
        return cls(held, scale / _UNITS_OF_NIBBLES, _in_upper_halves(zero_point), axis)

    @staticmethod
    def has_type(dtype: np.dtype[Any]) -> bool:
        """Whether codes of this type are held so."""
        return dtype.name in _OF_BYTES

    def nibbles(self) -> tuple[Array, Array, Array]:
        """Return the codes in the lower halves of bytes, their scale and their zero point."""
        codes, zero_point = (array.view(np.uint8) >> 4 for array in (self.codes, self.zero_point))
        return codes.view(self.dtype), self.scale * _UNITS_OF_NIBBLES, zero_point.view(self.dtype)


def _in_upper_halves(codes: Array) -> Array:
    """Return codes of 4 bits times 16, as bytes; the higher bits of what they come in do not count."""
    return (codes.view(np.uint8) << 4).view(_OF_BYTES[codes.dtype.name])


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
        fields = {"codes": codes, "scale": scale, "zero_point": zero_point, "block_size": block_size, "axis": axis}
        for name, field in fields.items():
            object.__setattr__(self, name, field)
        object.__setattr__(self, "_floats", None)

    @staticmethod
    def has_type(codes: Array, scale: Array, zero_point: Array) -> bool:
        """Whether arrays are of the types that they have here."""
        return codes.dtype.name in _BITS and scale.dtype == np.float32 and zero_point.dtype == codes.dtype

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
        return np.dtype(np.float32)

    def transpose(self, order: Sequence[int]) -> ConstantOfBlocks:
        """Return the same with axes in another order."""
        codes, scale, zero_point = (array.transpose(order) for array in (self.codes, self.scale, self.zero_point))
        return ConstantOfBlocks(codes, scale, zero_point, self.block_size, list(order).index(self.axis))


@dataclass(frozen=True, slots=True, eq=False)
class CodedMatrix:
    """The right operand of a product, as DEQUANTIZED_PRODUCT and QUANTIZED_BLOCK_PRODUCT read it: columns of codes.

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
    if len(value.shape) != 2 or 0 in value.shape:
        return None
    if isinstance(value, ConstantOfBlocks) and value.axis == 0:
        codes, scale, zero_point, block_size = value.codes, value.scale, value.zero_point, value.block_size
        block_size, bits = min(block_size, value.shape[0]), _BITS[codes.dtype.name]
    elif (
        isinstance(value, Dequantized)
        and isinstance(value.held, np.ndarray)
        and value.has_scales_along(1)
        and ConstantOfBlocks.has_type(value.held, value.scale, value.zero_point)
    ):
        codes, scale, zero_point, bits = value.codes, value.scale, value.zero_point, 8
        if isinstance(value, DequantizedNibbles):
            codes, scale, zero_point = value.nibbles()
            bits = 4
        scale, zero_point, block_size = scale.reshape(1, -1), zero_point.reshape(1, -1), value.shape[0]
    else:
        return None
    rows, columns = value.shape
    if rows > block_size and block_size * bits % _WORD_BITS:
        return None
    return CodedMatrix(
        (_in_pairs(codes, block_size) if bits == 4 else _filled(_unsigned(codes, bits), block_size)).T,
        np.broadcast_to(scale.T, (columns, scale.shape[0])),
        np.broadcast_to(_unsigned(zero_point, bits).T, (columns, scale.shape[0])),
        bits,
        block_size,
        rows,
    )


def is_block_size(block_size: int) -> bool:
    """Whether operators of com.microsoft have blocks of this size: a power of 2 from 16 on."""
    return block_size >= _LEAST_BLOCK and block_size & (block_size - 1) == 0


def codes_of_halves(packed: Array) -> Array:
    """Return the codes of bytes, two in each, the lower half first: UINT8, twice as many along the last axis."""
    return np.stack([packed & 15, packed >> 4], axis=-1).reshape(*packed.shape[:-1], -1)


def _is_signed(codes: Array) -> bool:
    return bool(codes.dtype.name.startswith("int"))


def _unsigned(codes: Array, bits: int) -> Array:
    """Return codes as UINT8, signed ones with their lowest value at 0: a byte each, whose higher bits do not count."""
    code_bytes = codes.view(np.uint8)
    if _is_signed(codes):
        code_bytes = code_bytes ^ np.uint8(1 << (bits - 1))
    return code_bytes & np.uint8(15) if bits == 4 else code_bytes


def _filled(codes: Array, rows: int) -> Array:
    """Return a matrix of a multiple of so many rows, filled up with zeros."""
    missing = -codes.shape[0] % rows
    return np.pad(codes, ((0, missing), (0, 0))) if missing else codes


def _in_pairs(codes: Array, block_size: int) -> Array:
    """Return codes of 4 bits, unsigned as by ``_unsigned``, two of a column in a byte: half as many rows.

    Row by row, as they lie: for columns numpy takes several times as long.
    """
    filled = _filled(codes.view(np.uint8), block_size + block_size % 2)
    pairs: Array = filled[1::2] << 4
    pairs |= filled[::2] & 15
    return pairs ^ np.uint8(0x88) if _is_signed(codes) else pairs
