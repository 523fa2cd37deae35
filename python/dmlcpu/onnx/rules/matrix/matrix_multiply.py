"""MatMul and its quantized kin."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from dmlcpu.graph.lengths import broadcast_shapes
from dmlcpu.onnx.constant_arrays import Array, constant_by
from dmlcpu.onnx.constants.empty_arrays import zeros_of
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.matrix.coded_product import coded_operand
from dmlcpu.onnx.rules.matrix.product_axes import on_few_axes
from dmlcpu.onnx.rules.matrix.products import (
    Factor,
    IntegerProduct,
    Product,
    factors,
    float_product,
    product_of_codes,
    times,
)
from dmlcpu.onnx.rules.operands import aligned, constant, present, vector
from dmlcpu.onnx.rules.quantization.quantization import dynamically_quantized
from dmlcpu.onnx.values import Deferred, Tensor, Value

__all__ = ["RULES", "matmul"]

# Factors between these go from one operand to the other, and make neither of usual size overflow or vanish.
_LEAST_FACTOR: Final = 2.0**-32
_LARGEST_FACTOR: Final = 2.0**32


@on_few_axes(1)
def matmul(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """MatMul: of codes where both operands are quantized, else of floats."""
    a, b = present(inputs[0]), present(inputs[1])
    product = product_of_codes(lowering, a, b)
    if product is not None:
        return [product]
    if coded_operand(lowering, b) is None:  # codes do not take a factor
        a, b = _scaled_once(lowering, a, b)
    return [float_product(lowering, a, b)]


def _scaled_once(lowering: Lowering, a: Value, b: Value) -> tuple[Value, Value]:
    """Return operands of a product of floats, of which the larger one is no multiple: its factor is the other's.

    Attention is written with a factor for queries and one for keys, of which there are many.
    """
    operands, multiples = [a, b], [_multiple(a), _multiple(b)]
    if all(factor == 1 for _, factor in multiples):
        return a, b
    smaller = min(range(2), key=lambda index: math.prod(operands[index].shape))
    (x, factor), (y, factor_of_y) = multiples[1 - smaller], multiples[smaller]
    if factor != 1 and _LEAST_FACTOR <= abs(factor * factor_of_y) <= _LARGEST_FACTOR:
        operands[1 - smaller], operands[smaller] = x, times(lowering, y, factor * factor_of_y)
    return operands[0], operands[1]


def _multiple(value: Value) -> tuple[Value, np.float32]:
    """Return what a value is a number of times, and the number: 1 where there is none, or it is not to be moved."""
    x, number = value.as_multiple() if isinstance(value, Deferred) else (value, np.float32(1))
    return (x, number) if _LEAST_FACTOR <= abs(number) <= _LARGEST_FACTOR else (value, np.float32(1))


def _shape_of_empty_sums(a: Value | None, b: Value | None) -> tuple[int, ...] | None:
    """Return the shape of a product of matrices along an axis of length 0; None of others."""
    a, b = present(a), present(b)
    if 0 not in a.shape[-1:] or 0 not in b.shape[-2:-1]:
        return None
    return (*broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])


def _repeated(number: Array, *shape: int) -> Array:
    return np.full(shape, number.reshape(()), number.dtype)


@on_few_axes(3)
def qlinear_matmul(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """QLinearMatMul."""
    if (shape := _shape_of_empty_sums(inputs[0], inputs[3])) is not None:
        code = constant(inputs[7], "a zero point")
        if code.size == 1:
            return [constant_by(_repeated, code, *shape)]
    a, b = factors(lowering, inputs[:6])
    scale = aligned(lowering, present(inputs[6]), (1,), "a scale")
    zero_point = aligned(lowering, present(inputs[7]), (1,), "a zero point")
    if any(
        not isinstance(value, Tensor | np.ndarray) or value.dtype != np.float32 for value in (a.scale, b.scale, scale)
    ):
        raise NotNative("scales that are not FLOAT32")
    assert isinstance(zero_point, Tensor | np.ndarray)
    return [Product(lowering, a, b).codes(scale, zero_point, zero_point.dtype)]


@on_few_axes(1)
def matmul_integer(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """MatMulInteger."""
    a_codes, b_codes, a_zero_point, b_zero_point = (*inputs, None, None)[:4]
    if (shape := _shape_of_empty_sums(a_codes, b_codes)) is not None:
        return [zeros_of(np.dtype(np.int32), shape)]
    a, b = factors(lowering, [a_codes, None, a_zero_point, b_codes, None, b_zero_point])
    return [IntegerProduct(lowering, a, b)]


def matmul_integer_to_float(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """MatMulIntegerToFloat: the scaled sums, plus a row vector."""
    a, b, a_scale, b_scale, a_zero_point, b_zero_point, bias = (*inputs, None, None, None)[:7]
    left, right = factors(lowering, [a, a_scale, a_zero_point, b, b_scale, b_zero_point])
    return [_biased(lowering, left, right, bias)]


def _biased(lowering: Lowering, a: Factor, b: Factor, bias: Value | None) -> Product:
    """Return a product that is of floats, with a constant row vector."""
    return Product(lowering, a, b, None if bias is None else vector(bias, b.shape[-1], "the bias"))


def dynamic_quantize_matmul(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """DynamicQuantizeMatMul: quantize the rows' tensor by its range, then the scaled sums."""
    a, b, b_scale, b_zero_point, bias = (*inputs, None, None)[:5]
    left, right = factors(lowering, [*dynamically_quantized(lowering, present(a)), b, b_scale, b_zero_point])
    return [_biased(lowering, left, right, bias)]


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("", "MatMul"): matmul,
    ("", "QLinearMatMul"): qlinear_matmul,
    ("", "MatMulInteger"): matmul_integer,
    ("com.microsoft", "MatMulIntegerToFloat"): matmul_integer_to_float,
    ("com.microsoft", "DynamicQuantizeMatMul"): dynamic_quantize_matmul,
}
