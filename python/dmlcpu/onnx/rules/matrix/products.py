"""Products of matrices, of codes or of floats, as what follows them may take them in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from dmlcpu.dtypes import CODE_TYPES, FLOAT32
from dmlcpu.graph.lengths import broadcast_shapes, told_unfit
from dmlcpu.onnx.constant_arrays import Array, Constant, ConstantElements, broadcast_to, constant_by, source_of
from dmlcpu.onnx.lowering import Lowering
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.parameters import Parameters
from dmlcpu.onnx.refusals import NotFitting, NotNative
from dmlcpu.onnx.rules.element_operators import broadcast, on_floats
from dmlcpu.onnx.rules.matrix.coded_product import coded_operand, coded_product
from dmlcpu.onnx.rules.native_functions import FloatBinary
from dmlcpu.onnx.rules.operands import aligned, beside, codes_of, constant, makes_floats
from dmlcpu.onnx.values import CONSTANTS, AffineTable, Deferred, Dequantized, Elements, Operand, Tensor, Value

__all__ = ["Factor", "IntegerProduct", "Product", "factors", "float_product", "product_of_codes", "times"]


# One array, which graphs have once, for all products that are not scaled.
_ONE: Final = np.ones(1, np.float32)
_ONE.flags.writeable = False


class Factor:
    """One operand of a product: codes, and scale and zero point, one or several along one of its last two axes.

    Attributes:
        shape: Of the codes.
    """

    def __init__(self, codes: Elements, scale: Operand, zero_point: Operand) -> None:
        self.codes, self.scale, self.zero_point = codes, scale, zero_point
        self.shape: tuple[int, ...] = tuple(codes.shape)

    def left(self, lowering: Lowering, batch: tuple[int, ...]) -> Operand:
        """Return the codes with batch axes, by strides of 0 where they are repeated."""
        return broadcast(lowering, self.codes, (*batch, *self.shape[-2:]))

    def right(self, lowering: Lowering, batch: tuple[int, ...]) -> Operand:
        """Return the codes as a right operand, which products repeat themselves.

        Constants stay what they are for every batch, and are packed once.
        """
        return self.left(lowering, batch) if isinstance(self.codes, Tensor) else self.codes


def _factor(lowering: Lowering, value: Value, is_right: bool) -> Factor | None:
    """Return dequantized 8-bit codes as an operand; None of any other value, and of scales that are not of columns."""
    if isinstance(value, AffineTable):
        return Factor(value.codes, *lowering.pair(value.parameters))
    if not isinstance(value, Dequantized) or value.dtype not in CODE_TYPES:
        return None
    if value.scale.size > 1 and not (is_right and value.axis == len(value.shape) - 1):
        return None
    return Factor(value.held, value.scale, value.zero_point)


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
    """Return the operands a, a scale, a zero point, b, b scale, b zero point.

    Raises:
        NotNative: They are no matrices of codes, or scales and zero points are none of their rows or columns.
    """
    a, a_scale, a_zero_point, b, b_scale, b_zero_point = operands
    left, right = codes_of(a, "an operand"), codes_of(b, "an operand")
    if min(len(left.shape), len(right.shape)) < 2:
        raise NotNative("vectors")
    rows, columns = left.shape[-2], right.shape[-1]
    return (
        Factor(left, *(_parameter(lowering, value, True, rows) for value in (a_scale, a_zero_point))),
        Factor(right, *(_parameter(lowering, value, False, columns) for value in (b_scale, b_zero_point))),
    )


def _shape(a: Factor, b: Factor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the batch axes and the shape of a product."""
    if min(len(a.shape), len(b.shape)) < 2 or max(len(a.shape), len(b.shape)) > 4:
        raise NotNative(f"a product of {a.shape} and {b.shape}")
    if a.shape[-1] != b.shape[-2]:
        raise NotFitting(told_unfit(a.shape, b.shape))
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return batch, (*batch, a.shape[-2], b.shape[-1])


class Product(Deferred):
    """A product of dequantized codes."""

    def __init__(self, lowering: Lowering, a: Factor, b: Factor, bias: ConstantElements | None = None) -> None:
        self._lowering, self._a, self._b, self._bias = lowering, a, b, bias
        self._batch, self.shape = _shape(a, b)

    def _operands(self) -> list[Operand]:
        a, b = self._a, self._b
        return [
            a.left(self._lowering, self._batch), a.scale, a.zero_point,
            b.right(self._lowering, self._batch), b.scale, b.zero_point,
        ]  # fmt: skip

    def quantized(self, parameters: Parameters) -> Tensor | None:
        """Add the product from codes to codes, which takes no bias."""
        return self.codes(*self._lowering.pair(parameters), parameters.dtype) if self._bias is None else None

    def codes(self, scale: Operand, zero_point: Operand, dtype: np.dtype[Any]) -> Tensor:
        """Add the product, without its bias, from codes to codes of a scale and zero point that may be computed."""
        operands = [*self._operands(), scale, zero_point]
        return self._lowering.emit("QUANTIZED_LINEAR_MATRIX_MULTIPLY", operands, dtype, self.shape)

    def floats(self) -> Tensor:
        """Add the product with its scaled sums."""
        bias = None if self._bias is None else broadcast_to(self._bias, self.shape)
        return self._lowering.emit("MATRIX_MULTIPLY_INTEGER_TO_FLOAT", [*self._operands(), bias], FLOAT32, self.shape)

    def with_bias(self, bias: ConstantElements | None) -> Product:
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
        bias = None if self._bias is None else constant_by(np.multiply, source_of(self._bias), numbers).elements()
        return Product(self._lowering, self._a, b, bias)

    def with_node(self, node: Node, inputs: Sequence[Value | None]) -> Value | None:
        """Take a constant that is added as a bias."""
        other = beside(self, inputs) if node.operator == "Add" and self._bias is None else None
        if not isinstance(other, Constant) or not _fits(other, self.shape):
            return None
        return self.with_bias(other.elements())


def _fits(bias: Constant, shape: tuple[int, ...]) -> bool:
    """Whether a constant is of floats that can be broadcast to a shape."""
    return bias.dtype == np.float32 and broadcast_shapes(bias.shape, shape) == shape


class IntegerProduct(Deferred):
    """Sums of products of codes, in INT32, until they are scaled."""

    dtype = np.dtype(np.int32)

    def __init__(self, lowering: Lowering, a: Factor, b: Factor) -> None:
        self._lowering, self._a, self._b = lowering, a, b
        self._batch, self.shape = _shape(a, b)

    def floats(self) -> Tensor:
        """Add the product that ends in sums."""
        a, b = self._a, self._b
        left, right = a.left(self._lowering, self._batch), b.right(self._lowering, self._batch)
        operands = [left, a.zero_point, right, b.zero_point]
        return self._lowering.emit("MATRIX_MULTIPLY_INTEGER", operands, np.int32, self.shape)

    def with_node(self, node: Node, inputs: Sequence[Value | None]) -> Value | None:
        """Become floats, in the product itself if nothing else reads the sums."""
        return _UnscaledProduct(self._lowering, self._a, self._b) if makes_floats(node) else None


class _UnscaledProduct(Product):
    """Sums of products of codes as floats, which the scales follow: the product of both, as columns have it."""

    def __init__(self, lowering: Lowering, a: Factor, b: Factor) -> None:
        super().__init__(lowering, Factor(a.codes, _ONE, a.zero_point), Factor(b.codes, _ONE, b.zero_point))

    def with_node(self, node: Node, inputs: Sequence[Value | None]) -> Value | None:
        """Take the scales, which are one or of columns; a product with 1 does not change them."""
        if node.operator != "Mul":
            return super().with_node(node, inputs)
        scale = beside(self, inputs)
        if not isinstance(scale, Tensor | Constant) or scale.dtype != np.float32 or len(scale.shape) > len(self.shape):
            return None
        count = math.prod(scale.shape)
        if count != 1 and not scale.shape[-1] == count == self.shape[-1]:
            return None
        scales = aligned(self._lowering, scale, (count,), "scales")
        return Product(self._lowering, self._a, Factor(self._b.codes, scales, self._b.zero_point))


def product_of_codes(lowering: Lowering, a: Value, b: Value) -> Product | None:
    """Return the product of two values that are dequantized codes; None if they are not both."""
    left, right = _factor(lowering, a, is_right=False), _factor(lowering, b, is_right=True)
    return None if left is None or right is None else Product(lowering, left, right)


def times(lowering: Lowering, value: Value, number: np.float32) -> Value:
    """Return floats times a number."""
    if number == 1:
        return value
    if isinstance(value, CONSTANTS):
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
