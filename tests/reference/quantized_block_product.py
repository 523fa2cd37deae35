"""QUANTIZED_BLOCK_PRODUCT: rows quantized by blocks, integer sums within a block, fma from block to block."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reference.arithmetic import FloatArray, fused_multiply_add

__all__ = ["quantized_block_product"]

Array = NDArray[Any]


def in_blocks(rows: Array, block_size: int) -> Array:
    """{.., k} as {.., blocks, block_size}, filled up with zeros."""
    missing = -rows.shape[-1] % block_size
    filled = np.pad(rows, [(0, 0)] * (rows.ndim - 1) + [(0, missing)])
    return filled.reshape(*rows.shape[:-1], -1, block_size)


@np.errstate(all="ignore")
def quantized_block_product(a: FloatArray, codes: Array, scale: FloatArray, zero_point: Array, size: int) -> FloatArray:
    """a {.., m, k}, codes {k, n}, scale and zero_point {blocks, n}, blocks of `size` rows."""
    blocks = in_blocks(a, size)
    largest = np.abs(blocks).max(-1)
    is_finite = np.isfinite(blocks).all(-1)
    a_scale = np.where(is_finite, largest / np.float32(127), np.float32(np.nan))
    has_codes = is_finite & (largest >= np.float32(2.0**-120))
    inverse = np.where(has_codes, np.float32(127) / largest, np.float32(0))
    scaled = np.where(has_codes[..., None], blocks, np.float32(0)) * inverse[..., None]
    a_codes = np.rint(scaled).astype(np.int64)
    of_block = np.arange(codes.shape[0]) // size
    differences = in_blocks((codes.astype(np.int64) - zero_point.astype(np.int64)[of_block]).T, size)
    sums = np.zeros((*a.shape[:-1], codes.shape[1]), np.float32)
    for block in range(blocks.shape[-2]):
        dots = (a_codes[..., block, :] @ differences[:, block].T).astype(np.float32)
        sums = fused_multiply_add(dots, a_scale[..., block, None] * scale[block], sums)
    return sums
