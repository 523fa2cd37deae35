"""Rows of a constant matrix of codes, chosen before they are dequantized: embeddings of 4 or 8 bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from dmlcpu.dtypes import FLOAT32
from dmlcpu.onnx.coded_weights import ConstantOfBlocks, coded_matrix
from dmlcpu.onnx.constant_arrays import Array, Constant
from dmlcpu.onnx.lowering import Lowering
from dmlcpu.onnx.rules.element_operators import on_floats
from dmlcpu.onnx.rules.movement.moved_values import join
from dmlcpu.onnx.rules.native_functions import FloatBinary
from dmlcpu.onnx.values import Tensor, Value

__all__ = ["dequantized_rows"]

_BYTES: Final = np.arange(256, dtype=np.uint8)


def dequantized_rows(lowering: Lowering, matrix: ConstantOfBlocks, chosen: Callable[[Array], Tensor]) -> Tensor | None:
    """Return rows of a matrix as floats, the same as of its floats; None if its blocks are not whole ones of columns.

    Args:
        lowering: Where operators are added.
        matrix: Its codes stay as they are.
        chosen: Chooses rows of an array.
    """
    coded = coded_matrix(matrix.transpose((1, 0))) if len(matrix.shape) == 2 else None
    if coded is None or coded.rows % coded.block_size or coded.block_size * coded.bits % 8:
        return None
    codes = chosen(coded.codes)
    places, blocks = codes.shape[:-1], coded.scale.shape[1]
    points, one_point = coded.zero_point, np.float32(coded.zero_point.flat[0])
    has_one = bool((points == points.flat[0]).all())

    def looked_up(of_bytes: Array) -> Tensor:
        floats = of_bytes.astype(np.float32) - (one_point if has_one else np.float32(0))
        return lowering.emit("FLOAT_TABLE", [codes, floats], FLOAT32, codes.shape)

    if coded.bits == 4:
        halves = [lowering.reshaped(looked_up(half), (*codes.shape, 1)) for half in (_BYTES & 15, _BYTES >> 4)]
        floats = join(lowering, halves, len(codes.shape))
    else:
        floats = looked_up(_BYTES)
    result = lowering.reshaped(floats, (*places, blocks, coded.block_size))
    if not has_one:
        chosen_points = chosen(points)
        table = Constant(_BYTES.astype(np.float32))
        of_points = lowering.emit("FLOAT_TABLE", [chosen_points, table], FLOAT32, chosen_points.shape)
        result = _with_parameters(lowering, FloatBinary.SUBTRACT, result, of_points)
    result = _with_parameters(lowering, FloatBinary.MULTIPLY, result, chosen(coded.scale))
    return lowering.reshaped(result, (*places, coded.rows))


def _with_parameters(lowering: Lowering, function: FloatBinary, blocks: Tensor, parameters: Tensor) -> Tensor:
    one_each: Value = lowering.reshaped(parameters, (*parameters.shape, 1))
    return on_floats(lowering, function, blocks, one_each)
