"""What models compute with shapes that are known only later: Shape, Gather, Concat and their kin, entry by entry.

The entries are lengths of a record (``dmlcpu.graph.record``), and the results are lengths of it, too.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import onnx

from dmlcpu.dtypes import FLOAT32
from dmlcpu.graph.lengths import decided_by, derived, length_by
from dmlcpu.graph.record import Derived
from dmlcpu.onnx.constant_arrays import Array, Constant, FreeArray
from dmlcpu.onnx.constants.movement_functions import is_numpys_slice
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.values import Value

__all__ = ["FreeNumbers", "computed_with_shapes", "numbers"]

# Arrays of more elements are no shapes.
_MOST_ENTRIES: Final = 64
_INTEGERS: Final = (np.dtype(np.int64), np.dtype(np.int32))


class FreeNumbers(FreeArray):
    """Numbers, such as a shape, some of which follow from lengths that are known only later.

    Attributes:
        entries: The numbers, objects.
    """

    __slots__ = ("entries",)
    entries: Array

    def __init__(self, entries: Array, dtype: np.dtype[Any]) -> None:
        super().__init__(None, dtype, entries.shape)
        object.__setattr__(self, "entries", entries)

    def _recorded(self) -> Derived:
        made: Derived = derived(_array_of, self.dtype, self.shape, *self.entries.flat)
        return made


def _array_of(dtype: np.dtype[Any], shape: Sequence[int], *entries: Any) -> Array:
    return np.array(entries, dtype).reshape(shape)


def numbers(entries: Sequence[Any] | Array, dtype: np.dtype[Any], shape: Sequence[int] | None = None) -> Constant:
    """Return entries, some perhaps lengths that are known only later, as a constant of their shape or another."""
    flat = np.empty(len(entries), object)
    flat[:] = entries
    held: Array = flat if shape is None else flat.reshape(shape)
    if any(isinstance(entry, Derived) for entry in entries):
        return FreeNumbers(held, dtype)
    return Constant(held.astype(dtype))


def computed_with_shapes(node: Node, inputs: Sequence[Value | None]) -> Constant | None:
    """Return the result of a node of constants some of which are shapes known only later; None if it is no such."""
    if not any(isinstance(value, FreeNumbers) for value in inputs):
        return None
    rule = _RULES.get(node.operator)
    constants = [value for value in inputs if isinstance(value, Constant)]
    if rule is None or node.domain != "" or None in inputs:
        return None
    if not all(map(_is_entrywise, constants[1:] if node.operator == "Where" else constants)):
        return None
    try:
        return rule(node, constants)
    except (ArithmeticError, LookupError, TypeError, ValueError):  # folding computes it, or says what is wrong with it
        return None


def _is_entrywise(value: Constant) -> bool:
    """Return whether a constant may be a shape, or is computed with some."""
    if isinstance(value, FreeArray) and not isinstance(value, FreeNumbers):
        return False
    return value.dtype in (*_INTEGERS, FLOAT32) and math.prod(value.shape) <= _MOST_ENTRIES


def _known(operand: Constant) -> Array:
    """Return an operand that says which entries there are.

    Raises:
        ValueError: It is known only later, and what follows from it is an array, not entries.
    """
    if isinstance(operand, FreeArray):
        raise ValueError("it is known only later")
    return operand.array


def _of(entries: Array, dtype: np.dtype[Any]) -> Constant:
    return numbers(entries.reshape(-1).tolist(), dtype, entries.shape)


def _axes(node: Node, operands: Sequence[Constant]) -> tuple[int, ...] | None:
    if len(operands) > 1:
        return tuple(_known(operands[1]).reshape(-1).tolist())
    return node.attributes.get("axes")


def _gather(node: Node, operands: Sequence[Constant]) -> Constant:
    taken = np.take(operands[0].entries, _known(operands[1]), node.attributes.get("axis", 0))
    return _of(np.asarray(taken, object), operands[0].dtype)  # numpy gives a single one without an array


def _unsqueeze(node: Node, operands: Sequence[Constant]) -> Constant | None:
    axes = _axes(node, operands)
    return _of(np.expand_dims(operands[0].entries, axes), operands[0].dtype) if axes else None


def _squeeze(node: Node, operands: Sequence[Constant]) -> Constant:
    return _of(np.squeeze(operands[0].entries, _axes(node, operands) or None), operands[0].dtype)


def _reshape(node: Node, operands: Sequence[Constant]) -> Constant | None:
    shape = _known(operands[1]).tolist()
    return (
        None if 0 in shape or min(shape, default=0) < -1 else _of(operands[0].entries.reshape(shape), operands[0].dtype)
    )


def _concat(node: Node, operands: Sequence[Constant]) -> Constant | None:
    if len({operand.dtype for operand in operands}) != 1:
        return None
    joined = np.concatenate([operand.entries for operand in operands], node.attributes["axis"])
    return _of(joined, operands[0].dtype)


def _slice(node: Node, operands: Sequence[Constant]) -> Constant | None:
    if node.version < 10:
        given = [[*node.attributes[name]] for name in ("starts", "ends")] + [[*node.attributes.get("axes", (0,))]]
    else:
        given = [_known(operand).tolist() for operand in operands[1:]]
    if any(len(numbers) != 1 for numbers in given):
        return None
    start, end, axis, step = [numbers[0] for numbers in given] + [0, 1][len(given) - 2 :]
    entries = operands[0].entries
    if not is_numpys_slice(start, end, step, entries.shape[axis]):
        return None
    index = [slice(None)] * entries.ndim
    index[axis] = slice(start, end, step)
    return _of(entries[tuple(index)], operands[0].dtype)


def _transpose(node: Node, operands: Sequence[Constant]) -> Constant:
    return _of(operands[0].entries.transpose(node.attributes.get("perm")), operands[0].dtype)


def _cast(node: Node, operands: Sequence[Constant]) -> Constant | None:
    [operand] = operands
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(node.attributes["to"]))
    if dtype == operand.dtype:
        return operand
    if dtype in _INTEGERS and operand.dtype in _INTEGERS:
        return _each(operator.pos, [operand], dtype)
    if dtype == FLOAT32:
        return _each(np.float32, [operand], dtype)
    return _each(_truncated, [operand], dtype) if dtype in _INTEGERS else None


def _truncated(number: np.float32) -> int:
    return int(number)


def _each(function: Callable[..., Any], operands: Sequence[Constant], dtype: np.dtype[Any]) -> Constant:
    """Return a function of entries, broadcast to each other."""
    broadcast = np.broadcast_arrays(*(operand.entries for operand in operands))
    rows = [*zip(*(array.reshape(-1).tolist() for array in broadcast), strict=True)]
    entries: list[Any]
    if dtype in _INTEGERS:
        entries = [length_by(function, *row) for row in rows]
        limits = np.iinfo(dtype)
        if not all(int(limits.min) <= entry <= int(limits.max) for entry in entries):
            raise OverflowError("an array would hold another number")
    else:
        entries = [derived(_in_float32, function, *row) for row in rows]
    return numbers(entries, dtype, broadcast[0].shape)


def _in_float32(function: Callable[..., Any], *operands: Any) -> Any:
    """Return what a function makes of operands rounded to FLOAT32, rounded as well."""
    return np.float32(function(*map(_rounded_once, operands)))


def _rounded_once(number: Any) -> Any:
    """Return a number in FLOAT32; of Python's integers numpy makes double precision first."""
    return np.int64(number).astype(np.float32) if isinstance(number, int) else np.float32(number)


def _quotient(a: int, b: int) -> int:
    """Return the quotient rounded towards 0."""
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


_FUNCTIONS: Final[Mapping[str, tuple[Callable[..., Any], Callable[..., Any]]]] = {
    "Add": (operator.add, np.add),
    "Sub": (operator.sub, np.subtract),
    "Mul": (operator.mul, np.multiply),
    "Div": (_quotient, np.divide),
    "Max": (max, np.maximum),
    "Min": (min, np.minimum),
    "Neg": (operator.neg, np.negative),
    "Mod": (operator.mod, np.mod),
}
"""Of integers, and of FLOAT32."""


def _function(node: Node, operands: Sequence[Constant]) -> Constant | None:
    dtypes = {operand.dtype for operand in operands}
    if len(dtypes) != 1 or node.attributes.get("fmod", 0):
        return None
    [dtype] = dtypes
    return _each(_FUNCTIONS[node.operator][dtype == FLOAT32], operands, dtype)


def _rounded(node: Node, operands: Sequence[Constant]) -> Constant | None:
    function = np.floor if node.operator == "Floor" else np.ceil
    return _each(function, operands, FLOAT32) if operands[0].dtype == FLOAT32 else None


def _equal(node: Node, operands: Sequence[Constant]) -> Constant | None:
    """Return which entries are equal: decided."""
    if operands[0].dtype != operands[1].dtype:
        return None
    a, b = np.broadcast_arrays(*(operand.entries for operand in operands))
    pairs = zip(a.reshape(-1).tolist(), b.reshape(-1).tolist(), strict=True)
    decisions = [bool(decided_by(operator.eq, left, right)) for left, right in pairs]
    return Constant(np.array(decisions, np.bool_).reshape(a.shape))


def _where(node: Node, operands: Sequence[Constant]) -> Constant | None:
    """Return entries of one operand or another, as known conditions say."""
    condition, a, b = operands
    if condition.dtype != np.bool_ or a.dtype != b.dtype:
        return None
    return _of(np.where(_known(condition), a.entries, b.entries), a.dtype)


_REDUCTIONS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "ReduceMax": max,
    "ReduceMin": min,
    "ReduceProd": operator.mul,
    "ReduceSum": operator.add,
}


def _reduced(node: Node, operands: Sequence[Constant]) -> Constant | None:
    """Return one entry of all those of a row of integers."""
    given, axes = operands[0], _axes(node, operands)
    if given.dtype not in _INTEGERS or given.entries.ndim != 1 or (axes and tuple(axes) not in ((0,), (-1,))):
        return None
    if not axes and node.attributes.get("noop_with_empty_axes", 0):
        return given
    result, *others = (numbers([entry], given.dtype) for entry in given.entries.tolist())
    for other in others:
        result = _each(_REDUCTIONS[node.operator], [result, other], given.dtype)
    return result if node.attributes.get("keepdims", 1) else _of(result.entries.reshape(()), given.dtype)


_Rule = Callable[[Node, Sequence[Constant]], Constant | None]
_RULES: Final[Mapping[str, _Rule]] = {
    "Gather": _gather,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Reshape": _reshape,
    "Concat": _concat,
    "Slice": _slice,
    "Transpose": _transpose,
    "Cast": _cast,
    "Identity": lambda node, operands: operands[0],
    **dict.fromkeys(_FUNCTIONS, _function),
    "Floor": _rounded,
    "Ceil": _rounded,
    "Equal": _equal,
    "Where": _where,
    **dict.fromkeys(_REDUCTIONS, _reduced),
}
