"""Gemm, a product of two matrices plus an addend: of codes a dense layer, which is a convolution of one pixel a row."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeGuard

import numpy as np

from dmlcpu.dtypes import CODE_TYPES
from dmlcpu.graph.lengths import broadcast_shapes, told_unfit
from dmlcpu.onnx.constant_arrays import Array, Constant
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.parameters import Parameters
from dmlcpu.onnx.refusals import NotFitting, NotNative
from dmlcpu.onnx.rules.element_operators import on_floats
from dmlcpu.onnx.rules.element_wise.arithmetic import of_two
from dmlcpu.onnx.rules.matrix.matrix_multiply import matmul
from dmlcpu.onnx.rules.matrix.products import Product, float_product, times
from dmlcpu.onnx.rules.movement.moved_values import sliced_along, transposed
from dmlcpu.onnx.rules.native_functions import FloatBinary
from dmlcpu.onnx.rules.operands import computed, constant, parameters_of, present, table_of
from dmlcpu.onnx.rules.quantized_convolution import Filter, QuantizedConvolution, is_better_in_floats, with_bias
from dmlcpu.onnx.rules.windows import ConvolutionWindow, Window
from dmlcpu.onnx.values import CONSTANTS, AffineTable, Deferred, Dequantized, Tensor, Value, as_value, element_type

__all__ = ["RULES"]


class _Dense(QuantizedConvolution):
    """A product of rows and a constant matrix, plus a bias: a convolution of an image, its pixels the rows.

    Channels lie innermost in memory, so that the image is a view of the rows, and the rows of the result one of it.
    """

    def __init__(self, lowering: Lowering, x: AffineTable, weights: Filter, bias: Array | None) -> None:
        rows, columns = x.shape
        image = lowering.reshaped(lowering.transposed(x.codes), (1, columns, rows, 1))
        window = ConvolutionWindow(Window.plain((1, 1), (rows, 1)), 1)
        super().__init__(lowering, replace(x, codes=image), weights, bias, window)

    def _rows(self, image: Tensor) -> Tensor:
        _, channels, rows, _ = image.shape
        return self._lowering.transposed(self._lowering.reshaped(image, (channels, rows)))

    def quantized(self, parameters: Parameters) -> Tensor:
        """Add the convolution, and take its pixels as rows."""
        return self._rows(super().quantized(parameters))

    def floats(self) -> Tensor:
        """Add the integer convolution, and take its pixels as rows."""
        return self._rows(super().floats())


class Layer(Deferred):
    """A dense layer's result, with the shape of a matrix.

    Parts of it that become codes, such as queries, keys and values, each with parameters of their own, are layers by
    themselves; those that become floats are parts of the whole, which is computed once.
    """

    def __init__(
        self,
        lowering: Lowering,
        x: AffineTable,
        weights: Filter,
        bias: Array | None,
        whole: tuple[Layer, int] | None = None,
    ) -> None:
        self._lowering, self._x, self._weights, self._bias = lowering, x, weights, bias
        self._whole = whole
        self.shape = (x.shape[0], weights.codes.shape[0])

    @property
    def has_floats(self) -> bool:
        """Whether those of the whole are there, or of a whole that is no part had better be."""
        if super().has_floats:
            return True
        if self._whole is not None:
            return self._whole[0]._computed is not None
        return is_better_in_floats(self._lowering, self, self._weights.codes.shape)

    def sliced(self, starts: Sequence[int], steps: Sequence[int], shape: Sequence[int]) -> Layer | None:
        """Return some columns that are neighbours, of all rows."""
        if shape[0] != self.shape[0] or steps[1] != 1:
            return None
        begin, end = int(starts[1]), int(starts[1]) + int(shape[1])
        weights = self._weights
        codes, scale, points = weights.codes[begin:end], weights.scale, weights.zero_point
        if scale.size > 1:
            scale, points = scale[begin:end], points[begin:end]
        bias = None if self._bias is None else self._bias[begin:end]
        whole, first = self._whole or (self, 0)
        part = Layer(self._lowering, self._x, Filter(codes, scale, points), bias, (whole, first + begin))
        self._lowering.goes_on(self, part)
        return part

    def _dense(self) -> _Dense:
        return _Dense(self._lowering, self._x, self._weights, self._bias)

    def quantized(self, parameters: Parameters) -> Tensor:
        """Add the layer from codes to codes."""
        return self._dense().quantized(parameters)

    def floats(self) -> Tensor:
        """Add the layer in floating point."""
        if self._whole is None:
            return self._dense().floats()
        layer, first = self._whole
        whole = self._lowering.floats(layer)
        return computed(self._lowering, sliced_along(self._lowering, whole, 1, first, self.shape[1]))


def _dense(lowering: Lowering, x: AffineTable, b: Dequantized, bias: Value | None, transposed: bool) -> Value:
    """Return a matrix product with a bias; b is {columns of x, outputs}, or transposed, with scales of outputs."""
    if len(x.shape) != 2 or b.codes.ndim != 2:
        raise NotNative("operands that are no matrices")
    codes = b.codes if transposed else b.codes.T
    if codes.shape[1] != x.shape[1]:
        raise NotFitting(told_unfit(x.shape, b.codes.shape))
    filter_codes = codes.reshape(*codes.shape, 1, 1)  # a view: packing transposes faster than numpy
    weights = Filter.of(Dequantized(filter_codes, b.scale, b.zero_point, 0))
    if bias is not None and bias.shape != (codes.shape[0],):
        bias = Constant(np.broadcast_to(constant(bias, "a bias").reshape(-1), codes.shape[0]))

    def multiplied(codes_of_bias: Array | None) -> Value:
        return Layer(lowering, x, weights, codes_of_bias)

    return with_bias(lowering, bias, weights.unit(x.parameters), codes.shape[0], multiplied)


def _is_bias(value: Value, columns: int) -> bool:
    """Return whether an addend is constant, of one number or one for each column."""
    is_constant = isinstance(value, CONSTANTS)
    return is_constant and (math.prod(value.shape) == 1 or value.shape in ((columns,), (1, columns)))


def _with_addend(lowering: Lowering, node: Node, x: AffineTable, matrix: Value, addend: Value) -> Value:
    """Return a matrix product plus what is computed, or constant in rows of their own: a MatMul and an Add."""
    [product] = matmul(lowering, node, [x, matrix])
    if element_type(addend) != np.float32 or broadcast_shapes(addend.shape, product.shape) != product.shape:
        raise NotNative(f"an addend of type {element_type(addend)} and shape {addend.shape} for {product.shape}")
    if isinstance(product, Product) and isinstance(addend, CONSTANTS):
        return product.with_bias(constant(addend, "an addend"))
    return of_two(lowering, "Add", product, addend)


def _is_of_codes(b: Value | None, is_transposed: bool) -> TypeGuard[Dequantized]:
    """Whether a matrix is constant codes of 8 bits, with one scale or one for each column."""
    return isinstance(b, Dequantized) and b.dtype in CODE_TYPES and b.has_scales_along(0 if is_transposed else 1)


def gemm(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Gemm: of codes with a constant matrix of 8 bits, or of floats."""
    value, b, addend = (*inputs, None)[:3]
    is_transposed = bool(node.attributes.get("transB", 0))
    if not isinstance(value, AffineTable) or not _is_of_codes(b, is_transposed):
        return [_float_gemm(lowering, node, present(value), present(b), addend)]
    x = lowering.affine(transposed(lowering, value, (1, 0))) if node.attributes.get("transA", 0) else value
    matrix = _scaled_matrix(b, node)
    beta = np.float32(node.attributes.get("beta", 1.0))
    if addend is not None:
        addend = None if beta == 0 else times(lowering, addend, beta)
    if addend is None or _is_bias(addend, matrix.shape[0 if is_transposed else 1]):
        return [_dense(lowering, x, matrix, addend, is_transposed)]
    factor = transposed(lowering, matrix, (1, 0)) if is_transposed else matrix
    return [_with_addend(lowering, node, x, factor, addend)]


def _float_gemm(lowering: Lowering, node: Node, a: Value, b: Value, addend: Value | None) -> Tensor:
    """Add a product of two matrices of floats, transposed or not, plus an addend, both times a number."""
    if len(a.shape) != 2 or len(b.shape) != 2:
        raise NotNative("operands that are no matrices")
    operands = [
        transposed(lowering, value, (1, 0)) if node.attributes.get(name, 0) else value
        for value, name in ((a, "transA"), (b, "transB"))
    ]
    result = float_product(lowering, operands[0], operands[1])
    alpha, beta = (np.float32(node.attributes.get(name, 1.0)) for name in ("alpha", "beta"))
    if alpha != 1:
        result = on_floats(lowering, FloatBinary.MULTIPLY, result, Constant(alpha.reshape(())))
    if addend is None or beta == 0:
        return result
    if broadcast_shapes(addend.shape, result.shape) != result.shape:
        raise NotNative(f"an addend of shape {addend.shape} for {result.shape}")
    if beta != 1:
        addend = on_floats(lowering, FloatBinary.MULTIPLY, addend, Constant(beta.reshape(())))
    return on_floats(lowering, FloatBinary.ADD, result, addend)


def _scaled_matrix(matrix: Dequantized, node: Node) -> Dequantized:
    """Return a matrix times the factor of a product with it."""
    alpha = np.float32(node.attributes.get("alpha", 1.0))
    return matrix if alpha == 1 else replace(matrix, scale=(matrix.scale * alpha).astype(matrix.scale.dtype))


def qgemm(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """QGemm: codes to codes, or to floats where no output scale is given."""
    a, a_scale, a_zero_point, b, b_scale, b_zero_point, c, y_scale, y_zero_point = (*inputs, None, None, None)[:9]
    x = table_of(a, a_scale, a_zero_point)
    codes, is_transposed = constant(b, "the matrix"), bool(node.attributes.get("transB", 0))
    scales = constant(b_scale, "a scale").reshape(-1)
    points = constant(b_zero_point, "a zero point").reshape(-1)
    if points.shape != scales.shape:
        points = np.broadcast_to(points, scales.shape)
    matrix = _scaled_matrix(Dequantized(codes, scales, points, 0 if is_transposed else 1), node)
    if node.attributes.get("transA", 0):
        x = lowering.affine(transposed(lowering, x, (1, 0)))
    if c is not None and not _is_bias(c, matrix.shape[0 if is_transposed else 1]):
        raise NotNative("a bias that is no constant with a value for each column")
    # The bias is INT32 in units of both scales and the factor.
    unit = x.parameters.scale * matrix.scale
    zeros = np.zeros(unit.size, np.int32)
    bias = None if c is None else Dequantized(constant(c, "the bias").reshape(-1), unit, zeros, 0)
    result = _dense(lowering, x, matrix, bias, is_transposed)
    if y_scale is None:
        return [result]
    return [as_value(lowering.quantized(result, parameters_of(y_scale, y_zero_point, x.codes.dtype)))]


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("", "Gemm"): gemm,
    ("com.microsoft", "QGemm"): qgemm,
}
