"""Products of matrices, of codes or of floats: MatMul and its quantized kin."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import onnx

from dmlcpu.dtypes import CODE_TYPES, FLOAT32
from dmlcpu.graph.lengths import broadcast_shapes
from dmlcpu.onnx.lowering import Lowering, Rule, broadcast_to
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.parameters import Parameters
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.element_operators import on_floats
from dmlcpu.onnx.rules.matrix.coded_product import coded_operand, coded_product
from dmlcpu.onnx.rules.matrix.product_axes import on_few_axes
from dmlcpu.onnx.rules.native_functions import FloatBinary
from dmlcpu.onnx.rules.operands import aligned, constant, present
from dmlcpu.onnx.rules.quantization.quantization import dynamically_quantized
from dmlcpu.onnx.values import Array, Constant, Deferred, Dequantized, Elements, Operand, Table, Tensor, Value

__all__ = ["RULES", "Factor", "Product", "factors", "float_product", "matmul", "product_of_codes", "times"]

# Factors between these go from one operand to the other, and make neither of usual size overflow or vanish.
_LEAST_FACTOR: Final = 2.0**-32
_LARGEST_FACTOR: Final = 2.0**32


class Factor:
    """One operand of a product: codes, and scale and zero point, one or several along one of its last two axes."""

    def __init__(self, codes: Elements, scale: Operand, zero_point: Operand) -> None:
        self.codes, self.scale, self.zero_point = codes, scale, zero_point

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the codes."""
        return tuple(self.codes.shape)

    def left(self, lowering: Lowering, batch: tuple[int, ...]) -> Operand:
        """Return the codes with batch axes, by strides of 0 where they are repeated."""
        shape = (*batch, *self.shape[-2:])
        if isinstance(self.codes, Tensor):
            return lowering.expanded(self.codes, shape)
        return broadcast_to(self.codes, shape)

    def right(self, lowering: Lowering, batch: tuple[int, ...]) -> Operand:
        """Return the codes as a right operand, which products repeat themselves.

        Constants stay what they are for every batch, and are packed once.
        """
        return self.left(lowering, batch) if isinstance(self.codes, Tensor) else self.codes


def _factor(lowering: Lowering, value: Value, column_axis: bool) -> Factor:
    """Return a dequantized value as an operand; several scales lie along columns."""
    if isinstance(value, Table) and value.parameters is not None:
        scale, zero_point = lowering.pair(value.parameters)
        return Factor(value.codes, scale, zero_point)
    if not isinstance(value, Dequantized) or value.dtype not in CODE_TYPES:
        raise NotNative("an operand is not quantized to 8 bits")
    if value.scale.size > 1 and not (column_axis and value.axis == len(value.shape) - 1):
        raise NotNative("scales along another axis than the columns'")
    return Factor(value.held, value.scale, value.zero_point)


def _shape(a: Factor, b: Factor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the batch axes and the shape of a product."""
    if min(len(a.shape), len(b.shape)) < 2 or max(len(a.shape), len(b.shape)) > 4 or a.shape[-1] != b.shape[-2]:
        raise NotNative(f"a product of {a.shape} and {b.shape}")
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return batch, (*batch, a.shape[-2], b.shape[-1])


class Product(Deferred):
    """A product of dequantized codes."""

    def __init__(self, lowering: Lowering, a: Factor, b: Factor, bias: Array | None = None) -> None:
        self._lowering, self._a, self._b, self._bias = lowering, a, b, bias
        self._batch, self.shape = _shape(a, b)

    def _operands(self) -> list[Operand]:
        a, b = self._a, self._b
        return [
            a.left(self._lowering, self._batch), a.scale, a.zero_point,
            b.right(self._lowering, self._batch), b.scale, b.zero_point,
        ]  # fmt: skip

    def quantized(self, parameters: Parameters) -> Tensor:
        """Add the product from codes to codes."""
        if self._bias is not None:
            return self._lowering.quantized_tensor(self.computed(), parameters)
        return self.codes(*self._lowering.pair(parameters), parameters.dtype)

    def codes(self, scale: Operand, zero_point: Operand, dtype: np.dtype[Any]) -> Tensor:
        """Add the product, without its bias, from codes to codes of a scale and zero point that may be computed."""
        operands = [*self._operands(), scale, zero_point]
        return self._lowering.emit("QUANTIZED_LINEAR_MATRIX_MULTIPLY", operands, dtype, self.shape)

    def floats(self) -> Tensor:
        """Add the product with its scaled sums."""
        bias = None if self._bias is None else broadcast_to(self._bias, self.shape)
        return self._lowering.emit("MATRIX_MULTIPLY_INTEGER_TO_FLOAT", [*self._operands(), bias], FLOAT32, self.shape)

    def with_bias(self, bias: Array | None) -> Product:
        """Return this product, which has no bias, with one that can be broadcast to it."""
        return Product(self._lowering, self._a, self._b, bias)

    def scaled(self, numbers: Array) -> Product:
        """Return this product times FLOAT32 numbers, one or a vector of them for the columns."""
        scale = self._b.scale
        if isinstance(scale, Tensor):
            scale = on_floats(self._lowering, FloatBinary.MULTIPLY, scale, Constant(numbers))
        elif scale is not None:
            scale = (scale.array if isinstance(scale, Constant) else scale) * numbers
        b = Factor(self._b.codes, scale, self._b.zero_point)
        return Product(self._lowering, self._a, b, None if self._bias is None else self._bias * numbers)

    def followed_by(self, node: Node, inputs: Sequence[Value | None], alone: bool) -> Value | None:
        """Take a constant that is added as a bias."""
        if not alone or self._bias is not None or (node.domain, node.operator) != ("", "Add"):
            return None
        other = _other(self, inputs)
        if not isinstance(other, Constant) or not _fits(other.array, self.shape):
            return None
        return self.with_bias(other.array)


def _other(value: Value, inputs: Sequence[Value | None]) -> Value | None:
    """Return the operand beside another."""
    return inputs[1] if inputs[0] is value else inputs[0]


def _fits(array: Array, shape: tuple[int, ...]) -> bool:
    """Whether an array is of floats that can be broadcast to a shape."""
    return array.dtype == np.float32 and broadcast_shapes(array.shape, shape) == shape


class IntegerProduct(Deferred):
    """Sums of products of codes, in INT32, until they are scaled."""

    dtype = np.dtype(np.int32)

    def __init__(self, lowering: Lowering, a: Factor, b: Factor) -> None:
        self._lowering, self._a, self._b = lowering, a, b
        self._batch, self.shape = _shape(a, b)

    def quantized(self, parameters: Parameters) -> Tensor:
        """Quantize the sums, which are divided as floats."""
        return self._lowering.quantized_tensor(self.computed(), parameters)

    def floats(self) -> Tensor:
        """Add the product that ends in sums."""
        a, b = self._a, self._b
        left, right = a.left(self._lowering, self._batch), b.right(self._lowering, self._batch)
        operands = [left, a.zero_point, right, b.zero_point]
        return self._lowering.emit("MATRIX_MULTIPLY_INTEGER", operands, np.int32, self.shape)

    def followed_by(self, node: Node, inputs: Sequence[Value | None], alone: bool) -> Value | None:
        """Become floats, in the product itself if nothing else reads the sums."""
        if (node.domain, node.operator, node.attributes.get("to")) != ("", "Cast", onnx.TensorProto.FLOAT) or not alone:
            return None
        return _UnscaledProduct(self._lowering, self._a, self._b)


class _UnscaledProduct(Product):
    """Sums of products of codes as floats, which the scales follow: the product of both, as columns have it."""

    def __init__(self, lowering: Lowering, a: Factor, b: Factor) -> None:
        one = np.ones(1, np.float32)
        self._factors = a, b
        super().__init__(lowering, Factor(a.codes, one, a.zero_point), Factor(b.codes, one, b.zero_point))

    def followed_by(self, node: Node, inputs: Sequence[Value | None], alone: bool) -> Value | None:
        """Take the scales, which are one or of columns; a product with 1 does not change them."""
        if not alone or (node.domain, node.operator) != ("", "Mul"):
            return super().followed_by(node, inputs, alone)
        scale = _other(self, inputs)
        if not isinstance(scale, Tensor | Constant):
            return None
        count, columns = math.prod(scale.shape), self.shape[-1]
        dtype = scale.dtype if isinstance(scale, Tensor) else scale.array.dtype
        along_columns = scale.shape[-1:] == (columns,)
        if (
            dtype != np.float32
            or len(scale.shape) > len(self.shape)
            or not (count == 1 or (count == columns and along_columns))
        ):
            return None
        a, b = self._factors
        scales = aligned(self._lowering, scale, (count,), "scales")
        one = np.ones(1, np.float32)
        return Product(self._lowering, Factor(a.codes, one, a.zero_point), Factor(b.codes, scales, b.zero_point))


def product_of_codes(lowering: Lowering, a: Value, b: Value) -> Product | None:
    """Return the product of two values that are dequantized codes; None if they are not both."""
    try:
        left, right = _factor(lowering, a, False), _factor(lowering, b, True)
    except NotNative:
        return None
    return Product(lowering, left, right)


@on_few_axes(0, 1)
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


def times(lowering: Lowering, value: Value, number: np.float32) -> Value:
    """Return floats times a number."""
    if number == 1:
        return value
    if isinstance(value, Constant | Dequantized):
        return Constant(constant(value, "a factor") * number)
    return on_floats(lowering, FloatBinary.MULTIPLY, value, Constant(number.reshape(())))


def float_product(lowering: Lowering, a: Value, b: Value) -> Tensor:
    """Add a product of matrices of floats.

    Raises:
        NotNative: They are of another type, or their shapes do not fit together.
    """
    matrix = coded_operand(lowering, b)
    if matrix is not None:
        return coded_product(lowering, a, matrix)
    left, right = (Factor(lowering.elements(value), None, None) for value in (a, b))
    if not left.codes.dtype == right.codes.dtype == np.float32:
        raise NotNative(f"a product of {left.codes.dtype} and {right.codes.dtype}")
    batch, shape = _shape(left, right)
    operands = [left.left(lowering, batch), right.right(lowering, batch)]
    return lowering.emit("FLOAT_PRODUCT", operands, FLOAT32, shape)


def _codes_of(value: Value | None) -> Tensor | Array:
    if isinstance(value, Tensor) and value.dtype in CODE_TYPES:
        return value
    array = constant(value, "an operand")
    if array.dtype not in CODE_TYPES:
        raise NotNative(f"codes of type {array.dtype}")
    return array


def _parameter(lowering: Lowering, value: Value | None, rows: bool, length: int) -> Operand:
    """Return scales or zero points of a product: one, or one for each row or column."""
    if value is None:
        return None
    if isinstance(value, Tensor):
        if math.prod(value.shape) != 1:
            raise NotNative("several computed scales")
        return lowering.reshaped(value, (1,))
    array = constant(value, "a scale")
    if array.size == 1:
        return array.reshape(1)
    if array.size != length:
        raise NotNative(f"{array.size} scales of {length} rows or columns")
    return array.reshape(length, 1) if rows else array.reshape(length)


def factors(lowering: Lowering, operands: Sequence[Value | None]) -> tuple[Factor, Factor]:
    """Return the operands a, a scale, a zero point, b, b scale, b zero point."""
    a, a_scale, a_zero_point, b, b_scale, b_zero_point = operands
    left, right = _codes_of(a), _codes_of(b)
    if min(len(left.shape), len(right.shape)) < 2:
        raise NotNative("vectors")
    rows, columns = left.shape[-2], right.shape[-1]
    return (
        Factor(left, *(_parameter(lowering, value, True, rows) for value in (a_scale, a_zero_point))),
        Factor(right, *(_parameter(lowering, value, False, columns) for value in (b_scale, b_zero_point))),
    )


@on_few_axes(0, 3)
def qlinear_matmul(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """QLinearMatMul."""
    a, b = factors(lowering, inputs[:6])
    scale = aligned(lowering, present(inputs[6]), (1,), "a scale")
    zero_point = aligned(lowering, present(inputs[7]), (1,), "a zero point")
    if any(
        not isinstance(value, Tensor | np.ndarray) or value.dtype != np.float32 for value in (a.scale, b.scale, scale)
    ):
        raise NotNative("scales that are not FLOAT32")
    assert isinstance(zero_point, Tensor | np.ndarray)
    return [Product(lowering, a, b).codes(scale, zero_point, zero_point.dtype)]


@on_few_axes(0, 1)
def matmul_integer(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """MatMulInteger."""
    a_codes, b_codes, a_zero_point, b_zero_point = (*inputs, None, None)[:4]
    a, b = factors(lowering, [a_codes, None, a_zero_point, b_codes, None, b_zero_point])
    return [IntegerProduct(lowering, a, b)]


def matmul_integer_to_float(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """MatMulIntegerToFloat: the scaled sums, plus a row vector."""
    a, b, a_scale, b_scale, a_zero_point, b_zero_point, bias = (*inputs, None, None, None)[:7]
    left, right = factors(lowering, [a, a_scale, a_zero_point, b, b_scale, b_zero_point])
    return [_biased(lowering, left, right, bias)]


def _biased(lowering: Lowering, a: Factor, b: Factor, bias: Value | None) -> Product:
    """Return a product that is of floats, with a constant row vector."""
    if bias is None:
        return Product(lowering, a, b)
    array = constant(bias, "the bias")
    if array.dtype != np.float32 or array.shape != b.shape[-1:]:
        raise NotNative(f"a bias of type {array.dtype} and shape {array.shape}")
    return Product(lowering, a, b, array)


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
