"""A matrix product as data: its sizes and types, and the cases that tests make of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from filled_tensors import FilledTensors
from fills import Fill, any_integers, ordinary_floats, ordinary_scales
from operator_case import OperatorCase
from strided_tensor import blank_tensor

__all__ = ["OPERATORS", "MatrixShape", "MatrixTypes", "matrix_case"]

OPERATORS = ("MATRIX_MULTIPLY_INTEGER", "QUANTIZED_LINEAR_MATRIX_MULTIPLY", "MATRIX_MULTIPLY_INTEGER_TO_FLOAT")


@dataclass(frozen=True)
class MatrixShape:
    m: int
    k: int
    n: int
    batch: tuple[int, ...] = ()

    def __str__(self) -> str:
        return "x".join(map(str, (*self.batch, self.m, self.k, self.n)))


@dataclass(frozen=True)
class MatrixTypes:
    a: str = "UINT8"
    b: str = "INT8"
    output: str = "UINT8"


def transposed(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of matrices whose rows are neighbours."""
    *batch, rows, columns = sizes
    strides = [1, rows]
    step = rows * columns
    for size in reversed(batch):
        strides.insert(0, step)
        step *= size
    return tuple(strides)


def shared(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of one matrix for all of a batch."""
    return (*(0 for _ in sizes[:-2]), sizes[-1], 1)


def matrix_case(
    operator: str,
    shape: MatrixShape,
    types: MatrixTypes,
    rng: np.random.Generator,
    *,
    by_line: bool = True,
    is_transposed: bool = False,
    is_shared: bool = False,
    operand_fill: Fill = any_integers,
) -> OperatorCase:
    """Everything present; parameters of one element, or of one for each row and column."""
    a_sizes, b_sizes = (*shape.batch, shape.m, shape.k), (*shape.batch, shape.k, shape.n)
    output_sizes = (*shape.batch, shape.m, shape.n)
    row, column = ((shape.m, 1), (shape.n,)) if by_line else ((1,), (1,))
    is_float = operator == "MATRIX_MULTIPLY_INTEGER_TO_FLOAT"
    has_scales = operator != "MATRIX_MULTIPLY_INTEGER"
    scale_type = types.output if is_float else "FLOAT32"
    made = FilledTensors(rng)
    made.add("a", types.a, a_sizes, operand_fill, transposed(a_sizes) if is_transposed else None)
    if has_scales:
        made.add("a_scale", scale_type, row, ordinary_scales)
    made.add("a_zero_point", types.a, row, any_integers)
    b_strides = shared(b_sizes) if is_shared else transposed(b_sizes) if is_transposed else None
    made.add("b", types.b, b_sizes, operand_fill, b_strides)
    if has_scales:
        made.add("b_scale", scale_type, column, ordinary_scales)
    made.add("b_zero_point", types.b, column, any_integers)
    if is_float:
        bias_strides = (*(0 for _ in shape.batch), 0, 1) if is_shared else None
        made.add("bias", types.output, output_sizes, ordinary_floats, bias_strides)
    elif has_scales:
        # Large enough for a part of the results to fall between the ends of the range.
        made.add("output_scale", "FLOAT32", row, lambda rng, dtype, count: np.full(count, 40 * shape.k**0.5, dtype))
        made.add("output_zero_point", types.output, row, any_integers)
    output_type = types.output if has_scales else "INT32"
    strides = transposed(output_sizes) if is_transposed else None
    made.tensors["output_tensor"] = blank_tensor(output_type, output_sizes, strides)
    attributes: dict[str, Any] = {}
    return OperatorCase(operator, made.tensors, attributes)
