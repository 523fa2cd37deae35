"""Einsum of one or two operands: a transposition, a product of each two elements, or a product of matrices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from dmlcpu.onnx.lowering import Lowering, NotNative, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.rules.arithmetic import binary
from dmlcpu.onnx.rules.matrix_multiply import matmul
from dmlcpu.onnx.rules.movement import reshaped, transposed
from dmlcpu.onnx.rules.operands import present
from dmlcpu.onnx.values import Value

__all__ = ["RULES"]

_MOST_AXES: Final = 8


@dataclass(frozen=True, slots=True)
class Equation:
    """The axes of operands and of the result, a character each.

    Attributes:
        operands: A string for each operand.
        result: Of the result.
    """

    operands: tuple[str, ...]
    result: str

    @classmethod
    def of(cls, text: str, ranks: Sequence[int]) -> Equation:
        """Return the equation of operands with so many axes.

        Raises:
            NotNative: It does not fit them, or an axis is named twice in one of them.
        """
        left, arrow, result = text.replace(" ", "").partition("->")
        terms = left.split(",")
        if len(terms) != len(ranks) or max(ranks) > _MOST_AXES:
            raise NotNative(f"an equation {text!r} of operands with {ranks} axes")
        # Axes without names are aligned at the last one, as in numpy; digits stand for them.
        counts = [rank - len(term.replace("...", "")) for rank, term in zip(ranks, terms, strict=True)]
        unnamed = "".join(chr(ord("0") + index) for index in range(max(counts, default=0)))
        if not arrow:
            letters = sorted({*left} - {*",."})
            result = ("..." if "..." in left else "") + "".join(each for each in letters if left.count(each) == 1)
        operands = [
            term.replace("...", unnamed[len(unnamed) - count :]) if count > 0 else term.replace("...", "")
            for term, count in zip(terms, counts, strict=True)
        ]
        result = result.replace("...", unnamed)
        for axes, rank in zip((*operands, result), (*ranks, len(result)), strict=True):
            if len(axes) != rank or len({*axes}) != rank or "." in axes:
                raise NotNative(f"an equation {text!r} of operands with {ranks} axes")
        if not {*result} <= {*"".join(operands)}:
            raise NotNative(f"an equation {text!r} with axes of no operand")
        return cls(tuple(operands), result)


def _in_order(lowering: Lowering, value: Value, axes: str, order: str) -> Value:
    """Return a value with its named axes in another order."""
    return value if axes == order else transposed(lowering, value, [axes.index(name) for name in order])


def _lengths(values: Sequence[Value], equation: Equation) -> dict[str, int]:
    lengths: dict[str, int] = {}
    for value, axes in zip(values, equation.operands, strict=True):
        for name, length in zip(axes, value.shape, strict=True):
            if lengths.setdefault(name, length) != length:
                raise NotNative(f"an axis of both {lengths[name]} and {length} elements")
    return lengths


def _element_by_element(
    lowering: Lowering, node: Node, values: Sequence[Value], equation: Equation, lengths: Mapping[str, int]
) -> Value:
    """Return the product without sums: operands with an axis of length 1 where they lack one of the result."""
    operands = []
    for value, axes in zip(values, equation.operands, strict=True):
        order = "".join(name for name in equation.result if name in axes)
        shape = [lengths[name] if name in axes else 1 for name in equation.result]
        operands.append(reshaped(lowering, _in_order(lowering, value, axes, order), shape))
    [product] = binary(lowering, replace(node, operator="Mul"), operands)
    return product


def einsum(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Einsum; of two operands axes of both that the result lacks are summed over."""
    values = [present(value) for value in inputs]
    text = node.attributes["equation"]
    equation = Equation.of(text.decode() if isinstance(text, bytes) else text, [len(value.shape) for value in values])
    lengths = _lengths(values, equation)
    if len(values) == 1 and len(equation.result) == len(equation.operands[0]):
        return [_in_order(lowering, values[0], equation.operands[0], equation.result)]
    if len(values) != 2:
        raise NotNative("sums of one operand, or more than two operands")
    a, b = equation.operands
    shared = [name for name in a if name in b]
    batch = "".join(name for name in equation.result if name in shared)
    summed = "".join(name for name in shared if name not in equation.result)
    rows, columns = ("".join(name for name in equation.result if name in axes and name not in batch) for axes in (a, b))
    if {*a, *b} != {*batch, *summed, *rows, *columns}:
        raise NotNative("sums over an axis of one operand")
    if not summed:
        return [_element_by_element(lowering, node, values, equation, lengths)]

    def count(axes: str) -> int:
        return math.prod(lengths[name] for name in axes)

    left = _in_order(lowering, values[0], a, batch + rows + summed)
    right = _in_order(lowering, values[1], b, batch + summed + columns)
    outer = (count(batch),) if batch else ()
    left = reshaped(lowering, left, (*outer, count(rows), count(summed)))
    right = reshaped(lowering, right, (*outer, count(summed), count(columns)))
    [product] = matmul(lowering, node, [left, right])
    order = batch + rows + columns
    product = reshaped(lowering, product, [lengths[name] for name in order])
    return [_in_order(lowering, product, order, equation.result)]


RULES: Final[Mapping[tuple[str, str], Rule]] = {("", "Einsum"): einsum}
