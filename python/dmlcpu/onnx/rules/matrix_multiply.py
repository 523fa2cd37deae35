"""Matrix products on quantized operands: MatMul, Gemm, and their quantized kin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import onnx

from dmlcpu.onnx.lowering import FLOAT32, Lowering, NotNative, Rule
from dmlcpu.onnx.model import Node
from dmlcpu.onnx.rules.convolution import Filter, QuantizedConvolution, Window, integer_bias
from dmlcpu.onnx.rules.movement import transposed
from dmlcpu.onnx.rules.operands import CODE_TYPES, aligned, constant, parameters_of, present
from dmlcpu.onnx.rules.product_axes import on_few_axes
from dmlcpu.onnx.values import Array, Constant, Deferred, Dequantized, Operand, Parameters, Table, Tensor, Value

__all__ = ["RULES", "matmul"]

_POINT: Final = Window((1, 1), (1, 1), (1, 1), (0, 0), (0, 0), (1, 1))


class Factor:
    """One operand of a product: codes, and scale and zero point, one or several along one of its last two axes."""

    def __init__(self, codes: Tensor | Array, scale: Operand, zero_point: Operand) -> None:
        self.codes, self.scale, self.zero_point = codes, scale, zero_point

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the codes."""
        return tuple(self.codes.shape)

    def operand(self, lowering: Lowering, batch: tuple[int, ...]) -> Operand:
        """Return the codes with batch axes, by strides of 0 where they are repeated."""
        shape = (*batch, *self.shape[-2:])
        if isinstance(self.codes, Tensor):
            return lowering.expanded(self.codes, shape)
        return np.broadcast_to(self.codes, shape)


def _factor(lowering: Lowering, value: Value, column_axis: bool) -> Factor:
    """Return a dequantized value as an operand; several scales lie along columns."""
    if isinstance(value, Table) and value.parameters is not None:
        scale, zero_point = lowering.pair(value.parameters)
        return Factor(value.codes, scale, zero_point)
    if not isinstance(value, Dequantized) or value.codes.dtype not in CODE_TYPES or value.scale.dtype != np.float32:
        raise NotNative("an operand is not quantized to 8 bits")
    if value.scale.size > 1 and not (column_axis and value.axis == value.codes.ndim - 1):
        raise NotNative("scales along another axis than the columns'")
    return Factor(value.codes, value.scale, value.zero_point)


def _shape(a: Factor, b: Factor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the batch axes and the shape of a product."""
    if min(len(a.shape), len(b.shape)) < 2 or max(len(a.shape), len(b.shape)) > 4 or a.shape[-1] != b.shape[-2]:
        raise NotNative(f"a product of {a.shape} and {b.shape}")
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return batch, (*batch, a.shape[-2], b.shape[-1])


class Product(Deferred):
    """A product of dequantized codes."""

    def __init__(self, lowering: Lowering, a: Factor, b: Factor, bias: Array | None = None) -> None:
        self._lowering, self._a, self._b, self._bias = lowering, a, b, bias
        self._batch, self.shape = _shape(a, b)

    def _operands(self) -> list[Operand]:
        a, b = self._a, self._b
        return [
            a.operand(self._lowering, self._batch), a.scale, a.zero_point,
            b.operand(self._lowering, self._batch), b.scale, b.zero_point,
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
        bias = None if self._bias is None else np.broadcast_to(self._bias, self.shape)
        return self._lowering.emit("MATRIX_MULTIPLY_INTEGER_TO_FLOAT", [*self._operands(), bias], FLOAT32, self.shape)

    def followed_by(self, node: Node, inputs: Sequence[Value | None], alone: bool) -> Value | None:
        """Take a constant that is added as a bias."""
        if not alone or self._bias is not None or (node.domain, node.operator) != ("", "Add"):
            return None
        other = _other(self, inputs)
        if not isinstance(other, Constant) or not _fits(other.array, self.shape):
            return None
        return Product(self._lowering, self._a, self._b, other.array)


def _other(value: Value, inputs: Sequence[Value | None]) -> Value | None:
    """Return the operand beside another."""
    return inputs[1] if inputs[0] is value else inputs[0]


def _fits(array: Array, shape: tuple[int, ...]) -> bool:
    """Whether an array is of floats that can be broadcast to a shape."""
    return array.dtype == np.float32 and np.broadcast_shapes(array.shape, shape) == shape


class IntegerProduct(Deferred):
    """Sums of products of codes, in INT32, until they are scaled."""

    dtype = np.dtype(np.int32)

    def __init__(self, lowering: Lowering, a: Factor, b: Factor) -> None:
        self._lowering, self._a, self._b = lowering, a, b
        self._batch, self.shape = _shape(a, b)

    def quantized(self, parameters: Parameters) -> Tensor:
        """Leave it to another runtime."""
        raise NotNative("sums that are quantized")

    def floats(self) -> Tensor:
        """Add the product that ends in sums."""
        a, b = (factor.operand(self._lowering, self._batch) for factor in (self._a, self._b))
        operands = [a, self._a.zero_point, b, self._b.zero_point]
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
        count, columns = int(np.prod(scale.shape)), self.shape[-1]
        dtype = scale.dtype if isinstance(scale, Tensor) else scale.array.dtype
        along_columns = scale.shape[-1:] == (columns,) and len(scale.shape) <= len(self.shape)
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


@on_few_axes(0, 1)
def matmul(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """MatMul: of codes where both operands are quantized, else of floats."""
    values = present(inputs[0]), present(inputs[1])
    try:
        a, b = _factor(lowering, values[0], False), _factor(lowering, values[1], True)
    except NotNative:
        return [_float_product(lowering, *values)]
    return [Product(lowering, a, b)]


def _float_product(lowering: Lowering, a: Value, b: Value) -> Tensor:
    left, right = (Factor(lowering.floats(value), None, None) for value in (a, b))
    if not left.codes.dtype == right.codes.dtype == np.float32:
        raise NotNative(f"a product of {left.codes.dtype} and {right.codes.dtype}")
    batch, shape = _shape(left, right)
    operands = [factor.operand(lowering, batch) for factor in (left, right)]
    return lowering.emit("FLOAT_PRODUCT", operands, FLOAT32, shape)


class _Dense(QuantizedConvolution):
    """A product of rows and a constant matrix, plus a bias: a convolution of an image, its pixels the rows.

    Channels lie innermost in memory, so that the image is a view of the rows, and the rows of the result one of it.
    """

    def __init__(self, lowering: Lowering, x: Table, weights: Filter, bias: Array | None) -> None:
        rows, columns = x.shape
        self._outer = lowering
        image = lowering.reshaped(self._transposed(x.codes), (1, columns, rows, 1))
        window = replace(_POINT, output=(rows, 1))
        super().__init__(lowering, replace(x, codes=image), weights, bias, window, 1)

    def _transposed(self, tensor: Tensor) -> Tensor:
        shape = tensor.shape[::-1]
        return self._outer.emit("TRANSPOSE", [tensor], tensor.dtype, shape, {"permutation": (1, 0)})

    def _rows(self, image: Tensor) -> Tensor:
        _, channels, rows, _ = image.shape
        return self._transposed(self._outer.reshaped(image, (channels, rows)))

    def quantized(self, parameters: Parameters) -> Tensor:
        """Add the convolution, and take its pixels as rows."""
        return self._rows(super().quantized(parameters))

    def floats(self) -> Tensor:
        """Add the integer convolution, and take its pixels as rows."""
        return self._rows(super().floats())


class Flattened(Deferred):
    """A dense layer's result, with the shape of a matrix."""

    def __init__(self, dense: _Dense, shape: tuple[int, ...]) -> None:
        self._dense = dense
        self.shape = shape

    def quantized(self, parameters: Parameters) -> Tensor:
        """Add the layer from codes to codes."""
        return self._dense.quantized(parameters)

    def floats(self) -> Tensor:
        """Add the layer in floating point."""
        return self._dense.computed()


def _dense(lowering: Lowering, x: Table, b: Dequantized, bias: Value | None, transposed: bool) -> Deferred:
    """Return a matrix product with a bias; b is {columns of x, outputs}, or transposed."""
    if len(x.shape) != 2 or b.codes.ndim != 2:
        raise NotNative("operands that are no matrices")
    codes, axis = (b.codes, b.axis) if transposed else (b.codes.T, 1 - b.axis)
    if codes.shape[1] != x.shape[1]:
        raise NotNative(f"a product of {x.shape} and {b.codes.shape}")
    if b.scale.size > 1 and axis != 0:
        raise NotNative("scales along another axis than the columns'")
    filter_codes = codes.reshape(*codes.shape, 1, 1)  # a view: packing transposes faster than numpy
    weights = Filter.of(Dequantized(filter_codes, b.scale, b.zero_point, 0))
    assert x.parameters is not None
    if bias is not None and bias.shape != (codes.shape[0],):
        flat = constant(bias, "a bias").reshape(-1)
        if flat.size != 1 and bias.shape != (1, codes.shape[0]):
            raise NotNative("a bias that has not a value for each column")
        bias = Constant(np.broadcast_to(flat, codes.shape[0]))
    sums = integer_bias(bias, x.parameters.scale * weights.scale, codes.shape[0])
    return Flattened(_Dense(lowering, x, weights, sums), (x.shape[0], codes.shape[0]))


def gemm(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Gemm with a constant matrix."""
    value, b, bias = (*inputs, None)[:3]
    if node.attributes.get("transA", 0):
        value = transposed(lowering, present(value), (1, 0))
    x = lowering.affine(present(value))
    if not isinstance(b, Dequantized):
        raise NotNative("a matrix that is no constant quantized to 8 bits")
    beta = np.float32(node.attributes.get("beta", 1.0))
    if bias is not None and beta != 1:
        bias = Constant(constant(bias, "the bias") * beta)
    return [_dense(lowering, x, _times(b, node), bias, bool(node.attributes.get("transB", 0)))]


def _times(matrix: Dequantized, node: Node) -> Dequantized:
    """Return a matrix times the factor of a product with it."""
    alpha = np.float32(node.attributes.get("alpha", 1.0))
    return matrix if alpha == 1 else replace(matrix, scale=(matrix.scale * alpha).astype(matrix.scale.dtype))


def qgemm(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """QGemm: codes to codes, or to floats where no output scale is given."""
    a, a_scale, a_zero_point, b, b_scale, b_zero_point, c, y_scale, y_zero_point = (*inputs, None, None, None)[:9]
    if not isinstance(a, Tensor):
        raise NotNative("an input that is no tensor of codes")
    codes, is_transposed = constant(b, "the matrix"), bool(node.attributes.get("transB", 0))
    scales = constant(b_scale, "a scale").reshape(-1)
    points = np.broadcast_to(constant(b_zero_point, "a zero point").reshape(-1), scales.shape)
    matrix = _times(Dequantized(codes, scales, points, 0 if is_transposed else 1), node)
    x = Table(a, parameters_of(a_scale, a_zero_point, a.dtype))
    if node.attributes.get("transA", 0):
        x = lowering.affine(transposed(lowering, x, (1, 0)))
    assert x.parameters is not None
    # The bias is INT32 in units of both scales and the factor.
    unit = x.parameters.scale * matrix.scale
    zeros = np.zeros(unit.size, np.int32)
    bias = None if c is None else Dequantized(constant(c, "the bias").reshape(-1), unit, zeros, 0)
    result = _dense(lowering, x, matrix, bias, is_transposed)
    if y_scale is None:
        return [result]
    return [result.quantized(parameters_of(y_scale, y_zero_point, a.dtype))]


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
        if int(np.prod(value.shape)) != 1:
            raise NotNative("several computed scales")
        return lowering.reshaped(value, (1,))
    array = constant(value, "a scale")
    if array.size == 1:
        return array.reshape(1)
    if array.size != length:
        raise NotNative(f"{array.size} scales of {length} rows or columns")
    return array.reshape(length, 1) if rows else array.reshape(length)


def _pair(lowering: Lowering, operands: Sequence[Value | None]) -> tuple[Factor, Factor]:
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
    a, b = _pair(lowering, inputs[:6])
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
    a, b = _pair(lowering, [a_codes, None, a_zero_point, b_codes, None, b_zero_point])
    return [IntegerProduct(lowering, a, b)]


def matmul_integer_to_float(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """MatMulIntegerToFloat: the scaled sums, plus a row vector."""
    a, b, a_scale, b_scale, a_zero_point, b_zero_point, bias = (*inputs, None, None, None)[:7]
    left, right = _pair(lowering, [a, a_scale, a_zero_point, b, b_scale, b_zero_point])
    return [Product(lowering, left, right, None if bias is None else constant(bias, "the bias")).floats()]


def dynamic_quantize_matmul(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """DynamicQuantizeMatMul: quantize the rows' tensor by its range, then the scaled sums."""
    a, b, b_scale, b_zero_point, bias = (*inputs, None, None)[:5]
    floats = lowering.floats(present(a))
    if not isinstance(floats, Tensor) or floats.dtype != np.float32:
        raise NotNative("an input that is no FLOAT32 tensor")
    ones = (1,) * len(floats.shape)
    outputs: list[tuple[Any, tuple[int, ...]]] = [(np.uint8, floats.shape), (np.float32, ones), (np.uint8, ones)]
    codes, scale, zero_point = lowering.emit_several("DYNAMIC_QUANTIZE_LINEAR", [floats], outputs)
    left, right = _pair(lowering, [codes, scale, zero_point, b, b_scale, b_zero_point])
    return [Product(lowering, left, right, None if bias is None else constant(bias, "the bias")).floats()]


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("", "MatMul"): matmul,
    ("", "Gemm"): gemm,
    ("", "QLinearMatMul"): qlinear_matmul,
    ("", "MatMulInteger"): matmul_integer,
    ("com.microsoft", "QGemm"): qgemm,
    ("com.microsoft", "MatMulIntegerToFloat"): matmul_integer_to_float,
    ("com.microsoft", "DynamicQuantizeMatMul"): dynamic_quantize_matmul,
}
