"""Functions of two operands, element by element: Add, Mul and their kin."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from dmlcpu.graph.lengths import broadcast_shapes
from dmlcpu.onnx.constant_arrays import Array, Constant
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.parameters import Parameters
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.element_operators import broadcast, on_each_float, on_floats, on_integers
from dmlcpu.onnx.rules.element_wise.activation import evaluated
from dmlcpu.onnx.rules.element_wise.channel_affine import channel_affine, channel_constant, number_for_channels
from dmlcpu.onnx.rules.native_functions import FloatBinary, FloatUnary, IntegerBinary
from dmlcpu.onnx.rules.operands import computed, constant, dequantized, number_of, parameters_of, present
from dmlcpu.onnx.values import (
    CONSTANTS,
    AffineTable,
    Deferred,
    Dequantized,
    Elements,
    Operand,
    Table,
    Tensor,
    Value,
    element_type,
)

__all__ = ["RULES", "binary", "of_two", "plus", "power"]


@dataclass(frozen=True, slots=True, eq=False)
class Quantized:
    """Codes of one scale, computed or constant."""

    codes: Elements
    parameters: Parameters

    @classmethod
    def of(cls, value: Value) -> Quantized | None:
        """Return the codes behind a value; None if it has none, or several scales."""
        if isinstance(value, AffineTable):
            return cls(value.codes, value.parameters)
        if isinstance(value, Dequantized) and (parameters := value.parameters) is not None:
            return cls(value.held, parameters)
        return None

    def reshaped(self, lowering: Lowering, shape: tuple[int, ...]) -> Quantized:
        """Return the same codes in another shape."""
        if isinstance(self.codes, Tensor):
            return Quantized(lowering.reshaped(self.codes, shape), self.parameters)
        return Quantized(self.codes.reshape(shape), self.parameters)

    def operands(self, lowering: Lowering, shape: tuple[int, ...]) -> list[Operand]:
        """Return codes broadcast to a shape, scale and zero point."""
        return [broadcast(lowering, self.codes, shape), *lowering.pair(self.parameters)]


class QuantizedPair(Deferred):
    """A function of two dequantized operands for which there is an operator from codes to codes."""

    def __init__(
        self,
        lowering: Lowering,
        operator: str,
        function: FloatBinary,
        a: Value,
        b: Value,
        pair: tuple[Quantized, Quantized],
    ) -> None:
        self._lowering, self._operator, self._function = lowering, operator, function
        self._values, self._pair = (a, b), pair
        self.shape = broadcast_shapes(a.shape, b.shape)

    def quantized(self, parameters: Parameters) -> Tensor:
        """Add the operator on codes."""
        shape, pair = _with_axes_joined(self._lowering, self.shape, self._pair)
        a, b = (operand.operands(self._lowering, shape) for operand in pair)
        operands = [*a, *b, *self._lowering.pair(parameters)]
        codes = self._lowering.emit(self._operator, operands, parameters.dtype, shape)
        return self._lowering.reshaped(codes, self.shape)

    def floats(self) -> Tensor:
        """Add the operator on floats."""
        return on_floats(self._lowering, self._function, *self._values)


def _with_axes_joined(
    lowering: Lowering, shape: tuple[int, ...], pair: tuple[Quantized, Quantized]
) -> tuple[tuple[int, ...], tuple[Quantized, Quantized]]:
    """Return shape and operands of a function of two with the axes joined that an operand was computed with.

    Such as the two halves of an image's channels, {N, 2, C, H, W}: as {N, 2 * C, H, W} they keep the image's layout.
    """
    for operand in pair:
        if not isinstance(operand.codes, Tensor) or operand.codes.shape != shape:
            continue
        joined = lowering.unshaped(operand.codes).shape
        groups = _groups_of_axes(shape, joined)
        if groups is None:
            continue
        shapes = [_joined(other.codes.shape, shape, groups) for other in pair]
        if None not in shapes:
            a, b = (other.reshaped(lowering, lengths) for other, lengths in zip(pair, shapes, strict=True) if lengths)
            return joined, (a, b)
    return shape, pair


def _groups_of_axes(shape: Sequence[int], joined: Sequence[int]) -> list[range] | None:
    """Return the neighbouring axes of a shape that each axis of another one with fewer axes consists of."""
    groups, begin = [], 0
    for length in joined if len(joined) < len(shape) else ():
        end, count = begin, 1
        while end < len(shape) and (end == begin or count < length):
            count, end = count * shape[end], end + 1
        if count != length:
            return None
        groups.append(range(begin, end))
        begin = end
    return groups if begin == len(shape) else None


def _joined(shape: Sequence[int], whole: Sequence[int], groups: Sequence[range]) -> tuple[int, ...] | None:
    """Return the shape of an operand of a broadcast with axes joined; None where it has only some of them."""
    aligned = (*(1,) * (len(whole) - len(shape)), *shape)
    lengths = [[aligned[axis] for axis in group] for group in groups]
    wholes = [[whole[axis] for axis in group] for group in groups]
    if any(math.prod(own) != 1 and own != full for own, full in zip(lengths, wholes, strict=True)):
        return None
    return tuple(math.prod(own) for own in lengths)


# The operators: the function on floats, the operator on codes, and the function on arrays.
_FUNCTIONS: Final[Mapping[str, tuple[FloatBinary, str, np.ufunc]]] = {
    "Add": (FloatBinary.ADD, "ELEMENT_WISE_QUANTIZED_LINEAR_ADD", np.add),
    "Sub": (FloatBinary.SUBTRACT, "ELEMENT_WISE_QUANTIZED_LINEAR_ADD", np.subtract),
    "Mul": (FloatBinary.MULTIPLY, "QUANTIZED_MULTIPLY", np.multiply),
    "Div": (FloatBinary.DIVIDE, "", np.divide),
    "Max": (FloatBinary.MAXIMUM, "", np.maximum),
    "Min": (FloatBinary.MINIMUM, "", np.minimum),
}


def binary(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """A function of two floats, at least one of which is computed; of more, one after the other, of one it is that."""
    if len(inputs) != 2:
        value = present(inputs[0])
        for other in inputs[1:]:
            value = on_floats(lowering, _FUNCTIONS[node.operator][0], value, present(other))
        return [value]
    return [of_two(lowering, node.operator, present(inputs[0]), present(inputs[1]))]


def of_two(lowering: Lowering, operator: str, a: Value, b: Value) -> Value:
    """Return a function of two values, by the name that ONNX has for it."""
    table = _as_table(lowering, operator, a, b)
    if table is not None:
        return table
    function, of_codes, _ = _FUNCTIONS[operator]
    first, second = Quantized.of(a), Quantized.of(b)
    if of_codes and first is not None and second is not None:
        if operator == "Sub":
            parameters = replace(second.parameters, scale=-second.parameters.scale)
            second = Quantized(second.codes, parameters)
        return QuantizedPair(lowering, of_codes, function, a, b, (first, second))
    if any(element_type(value) != np.float32 for value in (a, b)):
        return on_integers(lowering, IntegerBinary[function.name], a, b)
    affine = _channel_affine(lowering, operator, a, b)
    return on_floats(lowering, function, a, b) if affine is None else affine


def modulus(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Of integers, with the sign of the divisor or, with fmod, of what is divided."""
    function = IntegerBinary.REMAINDER if node.attributes.get("fmod", 0) else IntegerBinary.MODULUS
    return [on_integers(lowering, function, present(inputs[0]), present(inputs[1]))]


_OF_BITS: Final = {
    "BitwiseAnd": IntegerBinary.BITWISE_AND,
    "BitwiseOr": IntegerBinary.BITWISE_OR,
    "BitwiseXor": IntegerBinary.BITWISE_XOR,
}


def of_bits(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Of the bits of integers."""
    return [on_integers(lowering, _OF_BITS[node.operator], present(inputs[0]), present(inputs[1]))]


def bitwise_not(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Of all bits of an integer: those that -1 does not have."""
    value = present(inputs[0])
    return [on_integers(lowering, IntegerBinary.BITWISE_XOR, value, Constant(np.array(-1, element_type(value))))]


def plus(lowering: Lowering, node: Node, named: tuple[str, Value], other: Value) -> Value:
    """Return the sum of an input of a fused node and another value, as if an Add stood before the node.

    Args:
        lowering: Where operators are added.
        node: The fused node.
        named: The input, and its name.
        other: What is added; a constant may become the bias of the product that the input is.
    """
    name, value = named
    if isinstance(value, Deferred):
        add = replace(node, domain="", operator="Add", attributes={})
        followed = value.followed_by(add, [value, other], lowering.uses.is_read_once(name))
        if followed is not None:
            return followed
    return of_two(lowering, "Add", value, other)


def _channel_affine(lowering: Lowering, operator: str, a: Value, b: Value) -> Value | None:
    """Return a function of codes and of one number for each channel, if it is one."""
    if isinstance(a, CONSTANTS) and operator in ("Add", "Mul"):
        a, b = b, a
    along = channel_constant(a, b) or number_for_channels(a, b)
    if along is None or operator not in ("Add", "Sub", "Mul", "Div"):
        return None
    axis, known = along

    def factor_and_addend() -> tuple[Array, Array]:
        numbers = known()
        ones, zeros = np.ones_like(numbers), np.zeros_like(numbers)
        factor = {"Mul": numbers, "Div": ones / numbers}.get(operator, ones)
        return factor, {"Add": numbers, "Sub": -numbers}.get(operator, zeros)

    def floats() -> Tensor:
        return on_floats(lowering, _FUNCTIONS[operator][0], a, b)

    return channel_affine(lowering, a, axis, factor_and_addend, floats)


class Multiple(Deferred):
    """The result of an operator times a number: its codes of a scale divided by the number."""

    def __init__(self, lowering: Lowering, source: Deferred, factor: float) -> None:
        self._lowering, self._source, self._factor = lowering, source, np.float32(factor)
        self.shape = source.shape

    def quantized(self, parameters: Parameters) -> Tensor:
        """Add the operator from codes to codes."""
        return self._lowering.quantized(self._source, replace(parameters, scale=parameters.scale / self._factor))

    def floats(self) -> Tensor:
        """Add the operator, and a product."""
        return on_floats(self._lowering, FloatBinary.MULTIPLY, self._source, Constant(np.array(self._factor)))


def sum_or_mean(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Sum and Mean."""
    if len(inputs) == 1:
        return [present(inputs[0])]
    [result] = binary(lowering, replace(node, operator="Add"), inputs)
    if node.operator == "Sum":
        return [result]
    if isinstance(result, Table):
        return [Table(result.codes, result.floats * np.float32(0.5))]
    if isinstance(result, QuantizedPair):
        return [Multiple(lowering, result, 0.5)]
    return [on_floats(lowering, FloatBinary.DIVIDE, result, Constant(np.float32(len(inputs)).reshape(())))]


def _as_table(lowering: Lowering, operator: str, a: Value, b: Value) -> Table | None:
    """Return the result as a function of the codes of one operand, if the other one is too, or is a number."""
    if isinstance(a, Table) and isinstance(b, Table) and a.codes is not b.codes:
        # Such as a value and its sigmoid, quantized: of the same codes further back.
        others = {table.codes: table for table in lowering.origins(b)}
        common = next((table for table in lowering.origins(a) if table.codes in others), None)
        if common is None:
            return None
        a, b = common, others[common.codes]
    operands = []
    codes: Tensor | None = None
    for value in (a, b):
        if isinstance(value, Table):
            codes = value.codes
            operands.append(value.floats)
        elif (number := number_of(value)) is not None:
            operands.append(np.broadcast_to(number, 256))
        else:
            return None
    if codes is None:
        return None
    if len(broadcast_shapes(a.shape, b.shape)) != len(codes.shape):
        return None
    return Table(codes, _FUNCTIONS[operator][2](*operands).astype(np.float32))


def power(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """A power with a constant exponent: a table, or on floats a square, a cube, a root or a reciprocal."""
    base, exponent = present(inputs[0]), present(inputs[1])
    is_known = isinstance(exponent, CONSTANTS) and math.prod(exponent.shape) == 1
    if isinstance(base, Table) and is_known and len(exponent.shape) <= len(base.shape):
        number = Constant(constant(exponent, "the exponent").reshape(1))
        return [Table(base.codes, evaluated(node, base.floats, [number]))]
    array = constant(exponent, "the exponent")
    degree, tensor = float(array.reshape(-1)[0]) if array.size == 1 else math.nan, computed(lowering, base)
    if tensor.dtype != np.float32 or array.ndim > len(tensor.shape):
        raise NotNative(f"powers of elements of type {tensor.dtype}")
    if degree == 2:
        return [on_floats(lowering, FloatBinary.MULTIPLY, tensor, tensor)]
    if degree in _POWERS:
        return [on_each_float(lowering, _POWERS[degree], tensor)]
    if not 0 < abs(degree) < 1:  # otherwise the logarithm's last bit would be one of many of the power's
        raise NotNative("a power other than a square, a cube, a root or a reciprocal")
    logarithm = on_each_float(lowering, FloatUnary.LOGARITHM, tensor)
    product = on_floats(lowering, FloatBinary.MULTIPLY, logarithm, Constant(np.array(degree, np.float32)))
    return [on_each_float(lowering, FloatUnary.EXPONENTIAL, product)]


# Exponents whose powers are functions with kernels.
_POWERS: Final[Mapping[float, FloatUnary]] = {
    3.0: FloatUnary.CUBE,
    0.5: FloatUnary.SQUARE_ROOT,
    -0.5: FloatUnary.RECIPROCAL_SQUARE_ROOT,
    -1.0: FloatUnary.RECIPROCAL,
}


def qlinear_binary(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """QLinearAdd and QLinearMul."""
    a, a_scale, a_zero_point, b, b_scale, b_zero_point, c_scale, c_zero_point = (*inputs, None)[:8]
    left, right = dequantized(lowering, a, a_scale, a_zero_point), dequantized(lowering, b, b_scale, b_zero_point)
    parameters = parameters_of(c_scale, c_zero_point, element_type(present(a)))
    if node.operator == "QLinearMul" and isinstance(left, AffineTable) and isinstance(right, AffineTable):
        product = _as_table(lowering, "Mul", left, right)  # whose bits the kernel has
        if product is not None:
            return [lowering.recoded(product, parameters)]
    function, operator, _ = _FUNCTIONS[node.operator.removeprefix("QLinear")]
    first, second = Quantized.of(left), Quantized.of(right)
    assert first is not None
    assert second is not None
    return [QuantizedPair(lowering, operator, function, left, right, (first, second)).quantized(parameters)]


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    # Add, Mul, Div and Pow, which may begin a normalization or an activation, are in ``spelled_out``.
    **{("", name): binary for name in _FUNCTIONS if name not in ("Add", "Mul", "Div")},
    ("", "Mod"): modulus,
    **{("", name): of_bits for name in _OF_BITS},
    ("", "BitwiseNot"): bitwise_not,
    ("", "Sum"): sum_or_mean,
    ("", "Mean"): sum_or_mean,
    ("com.microsoft", "QLinearAdd"): qlinear_binary,
    ("com.microsoft", "QLinearMul"): qlinear_binary,
}
