"""Einsum: a transposition, or products, two operands at a time, of each two elements or of matrices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np

from dmlcpu.graph.lengths import derived, is_free
from dmlcpu.graph.record import Derived
from dmlcpu.onnx.constant_arrays import Array, Constant, constant_by
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotFitting, NotNative
from dmlcpu.onnx.rules.element_wise.arithmetic import of_two
from dmlcpu.onnx.rules.matrix.matrix_multiply import matmul
from dmlcpu.onnx.rules.movement.moved_values import reshaped, transposed
from dmlcpu.onnx.rules.operands import present
from dmlcpu.onnx.values import CONSTANTS, Value, element_type

__all__ = ["RULES"]

_MOST_AXES: Final = 8
_MOST_OPERANDS: Final = 8
# Of a product of constants that a plan holds.
_MOST_ELEMENTS: Final = 1 << 24


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
                raise NotFitting(f"an axis of both {lengths[name]} and {length} elements")
            if not is_free([length]):  # as a constant's are, which keeps its codes in shapes that are known
                lengths[name] = length
    return lengths


def _element_by_element(
    lowering: Lowering, values: Sequence[Value], equation: Equation, lengths: Mapping[str, int]
) -> Value:
    """Return the product without sums: operands with an axis of length 1 where they lack one of the result."""
    operands = []
    for value, axes in zip(values, equation.operands, strict=True):
        order = "".join(name for name in equation.result if name in axes)
        shape = [lengths[name] if name in axes else 1 for name in equation.result]
        operands.append(reshaped(lowering, _in_order(lowering, value, axes, order), shape))
    return of_two(lowering, "Mul", *operands)


def _merged(terms: Sequence[str], result: str, pair: tuple[int, int]) -> str:
    """Return the axes of the product of two operands: those that others or the result name, as a product has them."""
    a, b = (terms[index] for index in pair)
    named = {*result, *"".join(term for index, term in enumerate(terms) if index not in pair)}
    order = [name for name in a if name in b] + [name for name in a if name not in b] + [*b]
    return "".join(name for name in dict.fromkeys(order) if name in named)


def _pairs(equation: Equation, names: str, *lengths: int) -> tuple[tuple[int, int], ...]:
    """Return which two operands become one, time after time until two are left: those of the smallest product.

    The product takes the place of the first. Of products as small the one that comes first in the equation is taken.
    """
    length_of, terms, pairs = dict(zip(names, lengths, strict=True)), [*equation.operands], []
    while len(terms) > 2:
        merged = {pair: _merged(terms, equation.result, pair) for pair in combinations(range(len(terms)), 2)}
        pair = min(merged, key=lambda each: math.prod(length_of[name] for name in merged[each]))
        terms[pair[0]] = merged[pair]
        del terms[pair[1]]
        pairs.append(pair)
    return tuple(pairs)


def _constant_product(names: str, a: str, b: str, merged: str, left: Array, right: Array) -> Array:
    """Return the product of two arrays of floats with named axes."""
    axes = [[names.index(name) for name in term] for term in (a, b, merged)]
    # In single precision the last bits are the processor's.
    doubles: list[Array] = [left.astype(np.float64), right.astype(np.float64)]
    product: Array = np.einsum(doubles[0], axes[0], doubles[1], axes[1], axes[2], optimize=True)
    return product.astype(np.float32)


def _by_pairs(
    lowering: Lowering, node: Node, values: Sequence[Value], equation: Equation, lengths: Mapping[str, int]
) -> Value:
    """Return the product of three operands or more, by products of two."""
    if len(values) > _MOST_OPERANDS or any(element_type(value) != np.float32 for value in values):
        raise NotNative(f"{len(values)} operands, or some that are no FLOAT32")
    factors, terms, names = [*values], [*equation.operands], "".join(lengths)
    order = derived(_pairs, equation, names, *lengths.values())
    for a, b in order.bound if isinstance(order, Derived) else order:
        pair, step = (factors[a], factors[b]), (terms[a], terms[b])
        merged = _merged(terms, equation.result, (a, b))
        sources = [value.source for value in pair if isinstance(value, CONSTANTS)]
        if len(sources) == 2 and math.prod(lengths[name] for name in merged) <= _MOST_ELEMENTS:
            factors[a] = constant_by(_constant_product, names, *step, merged, *sources)  # which no run computes
        else:
            factors[a] = _contracted(lowering, node, pair, Equation(step, merged), lengths)
        terms[a] = merged
        del factors[b], terms[b]
    return _contracted(lowering, node, factors, Equation(tuple(terms), equation.result), lengths)


def _contracted(
    lowering: Lowering, node: Node, values: Sequence[Value], equation: Equation, lengths: Mapping[str, int]
) -> Value:
    """Return the product of two operands; axes of both that the result lacks are summed over."""
    a, b = equation.operands
    shared = [name for name in a if name in b]
    batch = "".join(name for name in equation.result if name in shared)
    summed = "".join(name for name in shared if name not in equation.result)
    rows, columns = ("".join(name for name in equation.result if name in axes and name not in batch) for axes in (a, b))
    if not summed:
        return _element_by_element(lowering, values, equation, lengths)

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
    return _in_order(lowering, product, order, equation.result)


def einsum(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Einsum; axes of several operands that the result lacks are summed over."""
    values = [present(value) for value in inputs]
    text = node.attributes["equation"]
    equation = Equation.of(text.decode() if isinstance(text, bytes) else text, [len(value.shape) for value in values])
    lengths = _lengths(values, equation)
    if any(length == 0 for length in lengths.values()):  # sums of nothing, which onnxruntime ends the process on
        return [Constant(np.zeros([int(lengths[name]) for name in equation.result], element_type(values[0])))]
    if any("".join(equation.operands).count(name) == 1 for name in lengths if name not in equation.result):
        raise NotNative("sums over an axis of one operand")
    if len(values) == 1:
        return [_in_order(lowering, values[0], equation.operands[0], equation.result)]
    return [(_contracted if len(values) == 2 else _by_pairs)(lowering, node, values, equation, lengths)]


RULES: Final[Mapping[tuple[str, str], Rule]] = {("", "Einsum"): einsum}
