"""Operators of constants as functions of numpy: what masks, positions and shapes are computed with.

Onnx's evaluator computes any operator, but takes a third of a millisecond for a node, and there are dozens of them for
each new shape of the inputs. The functions here have its results, to the bit, but for AffineGrid's, those that depend
on the processor there (``element_functions``, and sums of products, which are added in double precision here), and
where it is wrong: OneHot is one of two values, not one plus their difference, and what has no axes has its places along
one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
import onnx

from dmlcpu.onnx.constant_arrays import Array
from dmlcpu.onnx.constants.affine_grid import affine_grid
from dmlcpu.onnx.constants.element_functions import ELEMENT_FUNCTIONS, ElementFunction
from dmlcpu.onnx.constants.movement_functions import (
    MOST_ELEMENTS,
    MOVEMENT_FUNCTIONS,
    ConstantFunction,
    given_axes,
    is_small,
)
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotFolded

__all__ = ["by_numpy", "non_zero_places"]

_MOST_SLOW_ELEMENTS: Final = 1 << 10
_PLAIN: Final = frozenset(map(np.dtype, "?bhilqBHILQefd"))
_OF_ANY_TYPE: Final = frozenset({"AffineGrid", "Constant", "Reshape", "Unsqueeze", "Squeeze", "Transpose"})
_FLOATS: Final = (np.dtype(np.float32), np.dtype(np.float64))
_LARGEST: Final = float(np.finfo(np.float32).max)


def by_numpy(node: Node, arrays: Sequence[Array]) -> Array | None:
    """Return the result of a node; None if it is not computed here, or not valid, of which the evaluator says more.

    Args:
        node: Of the domain of ONNX.
        arrays: Those of its inputs that are there.
    """
    function = _FUNCTIONS.get(node.operator)
    if function is None or not (node.operator in _OF_ANY_TYPE or all([array.dtype in _PLAIN for array in arrays])):
        return None
    try:
        result = function(node, arrays)
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):  # of more axes than numpy has, too
        return None
    return None if result is None else np.asarray(result)  # of arrays without axes numpy makes numbers


def _constant(node: Node, arrays: Sequence[Array]) -> Array | None:
    value = node.attributes.get("value")
    return value if isinstance(value, np.ndarray) else None


def _range(node: Node, arrays: Sequence[Array]) -> Array | None:
    start, end, step = (array.item() for array in arrays)
    dtype = arrays[0].dtype
    if not (dtype.kind == "i" or dtype in _FLOATS) or len({array.dtype for array in arrays}) != 1:
        return None
    return np.arange(start, end, step).astype(dtype) if (end - start) // step < MOST_ELEMENTS else None


def _affine_grid(node: Node, arrays: Sequence[Array]) -> Array:
    """Return onnxruntime's result, which is another than the evaluator's.

    Raises:
        NotFolded: It is of another type or too large, or onnxruntime has to say what is wrong.
    """
    theta, size = arrays[0], arrays[1].reshape(-1).tolist()
    count, lengths, axes = size[:1], size[2:], len(size) - 2
    is_valid = axes in (2, 3) and theta.shape == (*count, axes, axes + 1) and min(size) > 0
    if not is_valid or theta.dtype != np.float32 or not is_small([*count, *lengths, axes]):
        raise NotFolded("a grid of another type, or too large")
    return affine_grid(theta, tuple(lengths), bool(node.attributes.get("align_corners", 0)))


def _constant_of_shape(node: Node, arrays: Sequence[Array]) -> Array | None:
    value = node.attributes.get("value", np.zeros(1, np.float32))
    shape = tuple(arrays[0].tolist())
    return np.full(shape, value.item(), value.dtype) if is_small(shape) and value.dtype in _PLAIN else None


def _eye_like(node: Node, arrays: Sequence[Array]) -> Array | None:
    """Return ones on a diagonal of a matrix."""
    [array] = arrays
    named = node.attributes.get("dtype")
    dtype = array.dtype if named is None else np.dtype(onnx.helper.tensor_dtype_to_np_dtype(named))
    rows, columns = array.shape
    is_taken = dtype in _PLAIN and is_small(array.shape)
    return np.eye(rows, columns, node.attributes.get("k", 0), dtype) if is_taken else None


def _one_hot(node: Node, arrays: Sequence[Array]) -> Array | None:
    """Return, along a new axis, one value at what indices name, and another elsewhere."""
    indices, depth, values = arrays
    count = depth.item()
    axis = range(indices.ndim + 1)[node.attributes.get("axis", -1)]
    are_integers = {indices.dtype.kind, depth.dtype.kind} == {"i"}
    if not are_integers or depth.ndim or not is_small((*indices.shape, count)) or values.dtype.kind not in "iuf":
        return None
    places = np.arange(count).reshape(-1, *(1,) * (indices.ndim - axis))
    named = np.where(indices < 0, indices + np.int64(count), indices)
    off, on = values
    made: Array = np.where(places == np.expand_dims(named, axis), on, off)
    return made


def non_zero_places(array: Array) -> Array:
    """Return where an array is not 0, as NonZero does: INT64 {axes, places}; one without axes has one here."""
    return np.array(np.nonzero(np.atleast_1d(array)), np.int64)


def _non_zero(node: Node, arrays: Sequence[Array]) -> Array | None:
    [array] = arrays
    return non_zero_places(array) if array.size <= MOST_ELEMENTS else None


def _dequantized(node: Node, arrays: Sequence[Array]) -> Array | None:
    """Return codes by one scale, or by one for each index of an axis, as FLOAT32; before version 19 as from then on."""
    codes, scale, *points = arrays
    is_plain = not node.attributes.get("block_size", 0) and not node.attributes.get("output_dtype", 0)
    if not is_plain or scale.dtype != np.float32 or codes.dtype.kind not in "iu" or codes.size > MOST_ELEMENTS:
        return None
    if any([point.dtype != codes.dtype for point in points]) or any([array.ndim > 1 for array in arrays[1:]]):
        return None
    along = [1] * codes.ndim
    if scale.size > 1:
        along[node.attributes.get("axis", 1)] = -1
    scale, *points = [array.reshape(along if array.size > 1 else ()) for array in (scale, *points)]
    differences = codes.astype(np.float32)
    for point in points:
        differences = differences - point  # in double precision of 32 bits
    return np.asarray(differences * scale).astype(np.float32)


def _are_small_together(arrays: Sequence[Array]) -> bool:
    """Return whether arrays that are broadcast to each other have few elements."""
    most = math.prod([array.size for array in arrays])  # in a fraction of the time that the shape takes
    return most <= MOST_ELEMENTS or is_small(np.broadcast_shapes(*[array.shape for array in arrays]))


def _cast(node: Node, arrays: Sequence[Array]) -> Array | None:
    [array] = arrays
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(node.attributes["to"]))
    return array.astype(dtype) if dtype in _PLAIN and array.size <= MOST_ELEMENTS else None


def _where(node: Node, arrays: Sequence[Array]) -> Array | None:
    condition, a, b = arrays
    if condition.dtype != np.bool_ or a.dtype != b.dtype:
        return None
    return np.where(condition, a, b) if _are_small_together(arrays) else None


def _clip(node: Node, arrays: Sequence[Array]) -> Array | None:
    array, given = arrays[0], arrays[1:]
    if node.version < 11 and array.dtype == np.float32:
        lowest, highest = (node.attributes.get(*limit) for limit in (("min", -_LARGEST), ("max", _LARGEST)))
        return None if given or lowest != lowest or highest != highest else np.clip(array, lowest, highest)
    are_numbers = all([limit.size == 1 and limit.dtype == array.dtype for limit in given])
    if node.version < 11 or not are_numbers or len(node.inputs) > 3:
        return None
    if array.dtype.kind == "f" and any([np.isnan(limit).any() for limit in given]):
        return None  # which onnxruntime passes over
    numbers = iter([limit.reshape(()) for limit in given])
    least, most, *_ = (*(next(numbers) if name else None for name in node.inputs[1:]), None, None)
    return array if least is most is None else np.clip(array, least, most)


def _quotients(node: Node, arrays: Sequence[Array]) -> Array | None:
    """Return quotients of floats, or of integers that are not negative, which are rounded in one way."""
    a, b = arrays
    if a.dtype.kind in "iu" and a.size and b.size and a.min() >= 0 and b.min() > 0:
        return _of_two(np.floor_divide, "iu")(node, arrays)
    return _of_two(np.divide, "f")(node, arrays)


def _remainders(node: Node, arrays: Sequence[Array]) -> Array | None:
    """Return remainders of integers, which have the divisors' sign."""
    if node.attributes.get("fmod", 0) or not arrays[1].all():
        return None
    return _of_two(np.remainder, "iu")(node, arrays)


def _cumulative(function: Callable[..., Array]) -> ConstantFunction:
    """Return a function of the integers up to each one along an axis."""

    def compute(node: Node, arrays: Sequence[Array]) -> Array | None:
        array, axis = arrays
        is_plain = not node.attributes.get("exclusive", 0) and not node.attributes.get("reverse", 0)
        if not array.ndim:
            raise NotFolded("a single element has no axes")
        if not is_plain or axis.size != 1 or array.dtype.kind not in "iu" or array.size > MOST_ELEMENTS:
            return None
        return function(array, axis.item(), array.dtype)

    return compute


def _sums_of_products(node: Node, arrays: Sequence[Array]) -> Array | None:
    """Return an Einsum, such as angles of places and frequencies.

    Raises:
        NotFolded: There are many products, or no telling how many.
    """
    equation = node.attributes["equation"].decode().replace(" ", "")
    terms = equation.split("->")[0].split(",")
    if not arrays or not equation.replace("->", "").replace(",", "").isalpha() or len(terms) != len(arrays):
        raise NotFolded("axes without letters, or not as many arrays as there are letters for")
    lengths: dict[str, int] = {}
    for letter, length in zip("".join(terms), [each for array in arrays for each in array.shape], strict=True):
        lengths[letter] = max(length, lengths.get(letter, 0))
    if not is_small(tuple(lengths.values())) or arrays[0].dtype not in _FLOATS:
        raise NotFolded("many products, or of another type")
    if len({array.dtype for array in arrays}) > 1:
        return None
    made: Array = np.einsum(equation, *arrays, dtype=np.float64).astype(arrays[0].dtype)
    return made


def _product(node: Node, arrays: Sequence[Array]) -> Array | None:
    """Return a product of matrices of floats, if it is made of few products of elements."""
    a, b = arrays
    if a.dtype != b.dtype or a.dtype not in _FLOATS or not (a.ndim and b.ndim):
        return None
    if not is_small((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *a.shape[-2:], *b.shape[1:][-1:])):
        return None
    made: Array = np.matmul(a, b, dtype=np.float64).astype(a.dtype)
    return made


def _reduced(function: np.ufunc) -> ConstantFunction:
    """Return a function that reduces integers along axes; an extreme of nothing is left to the evaluator."""

    def compute(node: Node, arrays: Sequence[Array]) -> Array | None:
        array, axes = arrays[0], given_axes(node, arrays)
        is_taken = array.dtype.kind in "iu" and 0 < array.size <= MOST_ELEMENTS
        if not is_taken or (axes in (None, ()) and node.attributes.get("noop_with_empty_axes", 0)):
            return None
        keeps = bool(node.attributes.get("keepdims", 1))
        result: Array = function.reduce(array, axis=axes or None, dtype=array.dtype, keepdims=keeps)
        return result

    return compute


def _of_two(function: Callable[..., Array], kinds: str) -> ConstantFunction:
    """Return a function of two arrays of one type, of one of these kinds, broadcast to each other."""

    def compute(node: Node, arrays: Sequence[Array]) -> Array | None:
        a, b = arrays
        if a.dtype != b.dtype or a.dtype.kind not in kinds or not _are_small_together(arrays):
            return None
        return function(a, b)

    return compute


def _of_one(function: Callable[..., Array], kinds: str = "f") -> ConstantFunction:
    """Return a function of floats, or of arrays of other kinds."""

    def compute(node: Node, arrays: Sequence[Array]) -> Array | None:
        [array] = arrays
        is_taken = array.dtype.kind in kinds and (array.dtype.kind != "f" or array.dtype in _FLOATS)
        return function(array) if is_taken and array.size <= MOST_ELEMENTS else None

    return compute


def _of_floats(function: ElementFunction) -> ConstantFunction:
    """Return a function of FLOAT32 elements, and of numbers of any type beside them."""
    most = _MOST_SLOW_ELEMENTS if function.is_slow else MOST_ELEMENTS

    def compute(node: Node, arrays: Sequence[Array]) -> Array | None:
        attributes = [node.attributes.get(name, default) for name, default in function.defaults.items()]
        x, *others = arrays
        if x.dtype == np.float64 and x.size <= most and not others and isinstance(function.compute, np.ufunc):
            return np.asarray(function.compute(x))  # numpy's own, as positions may be computed with
        are_known = all(map(isinstance, attributes, map(type, function.defaults.values())))
        are_floats = x.dtype == np.float32 and all([array.size == 1 for array in others])
        if node.version < function.since or x.size > most or not (are_known and are_floats):
            return None
        given = x if function.is_plain else x.astype(np.float64)
        return function.compute(given, *others, *attributes).astype(np.float32)

    return compute


_FUNCTIONS: Final[Mapping[str, ConstantFunction]] = {
    **{name: _of_floats(function) for name, function in ELEMENT_FUNCTIONS.items()},
    **MOVEMENT_FUNCTIONS,
    "Constant": _constant,
    "Range": _range,
    "AffineGrid": _affine_grid,
    "ConstantOfShape": _constant_of_shape,
    "EyeLike": _eye_like,
    "OneHot": _one_hot,
    "NonZero": _non_zero,
    "DequantizeLinear": _dequantized,
    "Cast": _cast,
    "CumSum": _cumulative(np.cumsum),
    "CumProd": _cumulative(np.cumprod),
    "Einsum": _sums_of_products,
    "MatMul": _product,
    "ReduceMax": _reduced(np.maximum),
    "ReduceMin": _reduced(np.minimum),
    "ReduceSum": _reduced(np.add),
    "ReduceProd": _reduced(np.multiply),
    "Clip": _clip,
    "Where": _where,
    "Add": _of_two(np.add, "iuf"),
    "Sub": _of_two(np.subtract, "iuf"),
    "Mul": _of_two(np.multiply, "iuf"),
    "Div": _quotients,
    "Mod": _remainders,
    "Max": _of_two(np.maximum, "iuf"),
    "Min": _of_two(np.minimum, "iuf"),
    "Equal": _of_two(np.equal, "biuf"),
    "Greater": _of_two(np.greater, "iuf"),
    "GreaterOrEqual": _of_two(np.greater_equal, "iuf"),
    "Less": _of_two(np.less, "iuf"),
    "LessOrEqual": _of_two(np.less_equal, "iuf"),
    "And": _of_two(np.logical_and, "b"),
    "Or": _of_two(np.logical_or, "b"),
    "Xor": _of_two(np.logical_xor, "b"),
    "Not": _of_one(np.logical_not, "b"),
    "Relu": _of_one(lambda array: np.maximum(array, 0), "iuf"),
    "Neg": _of_one(np.negative, "if"),
    "Abs": _of_one(np.abs, "iuf"),
    "Sign": _of_one(np.sign, "iuf"),
    "Sqrt": _of_one(np.sqrt),
    "Floor": _of_one(np.floor),
    "Ceil": _of_one(np.ceil),
}
