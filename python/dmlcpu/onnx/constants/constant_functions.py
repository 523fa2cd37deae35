"""Operators of constants as functions of numpy: what masks, positions and shapes are computed with.

Onnx's evaluator computes any operator, but takes a third of a millisecond for a node, and there are dozens of them for
each new shape of the inputs. The functions here have its results, to the bit, but for AffineGrid's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
import onnx

from dmlcpu.onnx.constants.affine_grid import affine_grid
from dmlcpu.onnx.constants.element_functions import ELEMENT_FUNCTIONS, ElementFunction
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotFolded, NotNative
from dmlcpu.onnx.values import Array

__all__ = ["LARGEST_ENDS", "by_numpy", "is_numpys_slice"]

# Ends of slices by which exporters mean all that is left, and onnxruntime takes them so, whichever way a slice goes.
LARGEST_ENDS: Final = ((1 << 31) - 1, (1 << 63) - 1)
# Of what has more elements the evaluator is asked, which is asked first how many there are.
_MOST_ELEMENTS: Final = 1 << 20
_MOST_SLOW_ELEMENTS: Final = 1 << 10
_PLAIN: Final = frozenset(map(np.dtype, "?bhilqBHILQefd"))
_OF_ANY_TYPE: Final = frozenset({"AffineGrid", "Constant", "Reshape", "Unsqueeze", "Squeeze", "Transpose"})
_FLOATS: Final = (np.dtype(np.float32), np.dtype(np.float64))
_LARGEST: Final = float(np.finfo(np.float32).max)

_Function = Callable[[Node, Sequence[Array]], Array | None]


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


def _reshape(node: Node, arrays: Sequence[Array]) -> Array | None:
    """Return an array in another shape, in which 0 is the length that it has there.

    Raises:
        NotNative: A length is below -1, which the evaluator takes.
    """
    array, shape = arrays
    if node.attributes.get("allowzero", 0):
        return None
    lengths = [length or array.shape[axis] for axis, length in enumerate(shape.tolist())]
    if min(lengths, default=0) < -1:
        raise NotNative(f"a shape of {lengths}")
    return array.reshape(lengths)


def _axes(node: Node, arrays: Sequence[Array]) -> tuple[int, ...] | None:
    """Return the axes of an attribute, or of the second input where an operator of its version has one."""
    if len(arrays) > 1:
        return tuple(arrays[1].tolist())
    return tuple(node.attributes.get("axes", ())) or None


def _unsqueeze(node: Node, arrays: Sequence[Array]) -> Array | None:
    axes = _axes(node, arrays)
    if axes is None:
        return None
    if len(axes) == 1 and 0 <= axes[0] <= arrays[0].ndim:  # in a fifth of the time
        return arrays[0][(slice(None),) * axes[0] + (None,)]
    return np.expand_dims(arrays[0], axes)


def _squeeze(node: Node, arrays: Sequence[Array]) -> Array:
    return np.squeeze(arrays[0], _axes(node, arrays) or None)  # of no axes all of length 1, as in runtimes


def _transpose(node: Node, arrays: Sequence[Array]) -> Array:
    return np.transpose(arrays[0], node.attributes.get("perm"))


def _concat(node: Node, arrays: Sequence[Array]) -> Array | None:
    is_large = sum(array.size for array in arrays) > _MOST_ELEMENTS or len({array.dtype for array in arrays}) != 1
    return None if is_large else np.concatenate(arrays, node.attributes["axis"])


def is_numpys_slice(start: int, end: int, step: int, length: int) -> bool:
    """Return whether numpy takes the same from an axis: not backwards from before it, or to all that is left."""
    return step >= 0 or (start >= -length and end not in LARGEST_ENDS)


def _slice(node: Node, arrays: Sequence[Array]) -> Array | None:
    """Return a slice.

    Raises:
        NotFolded: It goes backwards from before the first element, or as far as it goes, which the evaluator takes for
            nothing.
    """
    if node.version < 10 or "" in node.inputs[:3]:
        return None
    array, starts, ends, *others = arrays
    named = dict(zip(filter(None, node.inputs[3:]), others, strict=True))
    axes, steps = (named.get(name) for name in (*node.inputs[3:], "", "")[:2])
    slices = [slice(None)] * array.ndim
    for axis, start, end, step in zip(
        range(starts.size) if axes is None else axes.tolist(),
        starts.tolist(),
        ends.tolist(),
        [1] * starts.size if steps is None else steps.tolist(),
        strict=True,
    ):
        if not is_numpys_slice(start, end, step, array.shape[axis]):
            raise NotFolded("a slice backwards from before the first element, or to the largest end")
        slices[axis] = slice(start, end, step)
    return array[tuple(slices)]


def _gather(node: Node, arrays: Sequence[Array]) -> Array | None:
    array, indices = arrays
    axis = node.attributes.get("axis", 0)
    if indices.dtype.kind != "i" or indices.size * array.size // array.shape[axis] > _MOST_ELEMENTS:
        return None
    taken: Array = np.take(array, indices, axis)
    return taken


def _gather_elements(node: Node, arrays: Sequence[Array]) -> Array | None:
    """Return what indices name, of an array that may be longer than they are.

    Raises:
        NotNative: They name nothing. The evaluator would count them round and round the axis, one step after the other.
    """
    array, indices = arrays
    axis = range(indices.ndim)[node.attributes.get("axis", 0)]
    ends = [None if place == axis else length for place, length in enumerate(indices.shape)]
    part = array[tuple(slice(end) for end in ends)]
    is_long_enough = all(end in (None, length) for end, length in zip(ends, part.shape, strict=True))
    length = array.shape[axis]
    if not is_long_enough or (indices.size and not -length <= indices.min() <= indices.max() < length):
        raise NotNative("indices out of range")
    return np.take_along_axis(part, indices, axis)


def _gather_nd(node: Node, arrays: Sequence[Array]) -> Array | None:
    array, indices = arrays
    depth = indices.shape[-1]
    shape = (*indices.shape[:-1], *array.shape[depth:])
    if node.attributes.get("batch_dims", 0) or not 1 <= depth <= array.ndim or indices.dtype.kind != "i":
        return None
    return array[tuple(np.moveaxis(indices, -1, 0))] if _is_small(indices.shape) and _is_small(shape) else None


def _scatter_nd(node: Node, arrays: Sequence[Array]) -> Array | None:
    array, indices, updates = arrays
    depth = indices.shape[-1]
    shape = (*indices.shape[:-1], *array.shape[depth:])
    if node.attributes.get("reduction", b"none") != b"none" or updates.shape != shape or indices.dtype.kind != "i":
        return None
    if updates.dtype != array.dtype or not all(map(_is_small, (array.shape, indices.shape, shape))):
        return None
    written: Array = array.copy()
    written[tuple(np.moveaxis(indices, -1, 0))] = updates  # of an index that is there twice the last one counts
    return written


def _range(node: Node, arrays: Sequence[Array]) -> Array | None:
    start, end, step = (array.item() for array in arrays)
    if arrays[0].dtype.kind != "i" or len({array.dtype for array in arrays}) != 1:
        return None
    return np.arange(start, end, step).astype(arrays[0].dtype) if (end - start) // step < _MOST_ELEMENTS else None


def _affine_grid(node: Node, arrays: Sequence[Array]) -> Array:
    """Return onnxruntime's result, which is another than the evaluator's.

    Raises:
        NotFolded: It is of another type or too large, or onnxruntime has to say what is wrong.
    """
    theta, size = arrays[0], arrays[1].reshape(-1).tolist()
    count, lengths, axes = size[:1], size[2:], len(size) - 2
    is_valid = axes in (2, 3) and theta.shape == (*count, axes, axes + 1) and min(size) > 0
    if not is_valid or theta.dtype != np.float32 or not _is_small([*count, *lengths, axes]):
        raise NotFolded("a grid of another type, or too large")
    return affine_grid(theta, tuple(lengths), bool(node.attributes.get("align_corners", 0)))


def _constant_of_shape(node: Node, arrays: Sequence[Array]) -> Array | None:
    value = node.attributes.get("value", np.zeros(1, np.float32))
    shape = tuple(arrays[0].tolist())
    return np.full(shape, value.item(), value.dtype) if _is_small(shape) and value.dtype in _PLAIN else None


def _is_small(shape: Sequence[int]) -> bool:
    return min(shape, default=1) >= 0 and math.prod(shape) <= _MOST_ELEMENTS


def _are_small_together(arrays: Sequence[Array]) -> bool:
    """Return whether arrays that are broadcast to each other have few elements."""
    most = math.prod([array.size for array in arrays])  # in a fraction of the time that the shape takes
    return most <= _MOST_ELEMENTS or _is_small(np.broadcast_shapes(*[array.shape for array in arrays]))


def _expand(node: Node, arrays: Sequence[Array]) -> Array | None:
    shape = np.broadcast_shapes(arrays[0].shape, tuple(arrays[1].tolist()))
    return np.broadcast_to(arrays[0], shape).copy() if _is_small(shape) else None


def _cast(node: Node, arrays: Sequence[Array]) -> Array | None:
    [array] = arrays
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(node.attributes["to"]))
    return array.astype(dtype) if dtype in _PLAIN and array.size <= _MOST_ELEMENTS else None


def _trilu(node: Node, arrays: Sequence[Array]) -> Array | None:
    array, diagonal = arrays[0], arrays[1].item() if len(arrays) > 1 else 0
    if array.size > _MOST_ELEMENTS:
        return None
    if array.size == 0:  # numpy makes a mask of rows and columns even where no array has them
        return array
    return np.triu(array, diagonal) if node.attributes.get("upper", 1) else np.tril(array, diagonal)


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


def _tile(node: Node, arrays: Sequence[Array]) -> Array | None:
    array, repeats = arrays
    counts = repeats.tolist()
    is_small = array.ndim == len(counts) and _is_small(
        [length * n for length, n in zip(array.shape, counts, strict=True)]
    )
    return np.tile(array, counts) if is_small else None


def _cumulative_sums(node: Node, arrays: Sequence[Array]) -> Array | None:
    array, axis = arrays
    is_plain = not node.attributes.get("exclusive", 0) and not node.attributes.get("reverse", 0)
    if not is_plain or axis.ndim or array.dtype.kind not in "iu" or array.size > _MOST_ELEMENTS:
        return None
    return np.cumsum(array, axis.item(), array.dtype)


def _reduced(function: np.ufunc) -> _Function:
    """Return a function that reduces integers along axes; an extreme of nothing is left to the evaluator."""

    def compute(node: Node, arrays: Sequence[Array]) -> Array | None:
        array, axes = arrays[0], _axes(node, arrays)
        is_taken = array.dtype.kind in "iu" and 0 < array.size <= _MOST_ELEMENTS
        if not is_taken or (axes in (None, ()) and node.attributes.get("noop_with_empty_axes", 0)):
            return None
        keeps = bool(node.attributes.get("keepdims", 1))
        result: Array = function.reduce(array, axis=axes or None, dtype=array.dtype, keepdims=keeps)
        return result

    return compute


def _of_two(function: Callable[..., Array], kinds: str) -> _Function:
    """Return a function of two arrays of one type, of one of these kinds, broadcast to each other."""

    def compute(node: Node, arrays: Sequence[Array]) -> Array | None:
        a, b = arrays
        if a.dtype != b.dtype or a.dtype.kind not in kinds or not _are_small_together(arrays):
            return None
        return function(a, b)

    return compute


def _of_one(function: Callable[..., Array], kinds: str = "f") -> _Function:
    """Return a function of floats, or of arrays of other kinds."""

    def compute(node: Node, arrays: Sequence[Array]) -> Array | None:
        [array] = arrays
        is_taken = array.dtype.kind in kinds and (array.dtype.kind != "f" or array.dtype in _FLOATS)
        return function(array) if is_taken and array.size <= _MOST_ELEMENTS else None

    return compute


def _of_floats(function: ElementFunction) -> _Function:
    """Return a function of FLOAT32 elements, and of numbers of any type beside them."""
    most = _MOST_SLOW_ELEMENTS if function.is_slow else _MOST_ELEMENTS

    def compute(node: Node, arrays: Sequence[Array]) -> Array | None:
        attributes = [node.attributes.get(name, default) for name, default in function.defaults.items()]
        are_known = all(map(isinstance, attributes, map(type, function.defaults.values())))
        are_floats = arrays[0].dtype == np.float32 and all([array.size == 1 for array in arrays[1:]])
        if node.version < function.since or arrays[0].size > most or not (are_known and are_floats):
            return None
        return function.compute(*arrays, *attributes).astype(np.float32)

    return compute


_FUNCTIONS: Final[Mapping[str, _Function]] = {
    **{name: _of_floats(function) for name, function in ELEMENT_FUNCTIONS.items()},
    "Constant": _constant,
    "Reshape": _reshape,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Concat": _concat,
    "Slice": _slice,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "ScatterND": _scatter_nd,
    "Range": _range,
    "AffineGrid": _affine_grid,
    "ConstantOfShape": _constant_of_shape,
    "Expand": _expand,
    "Cast": _cast,
    "Trilu": _trilu,
    "Tile": _tile,
    "CumSum": _cumulative_sums,
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
    "Sqrt": _of_one(np.sqrt),
    "Exp": _of_one(np.exp),
    "Log": _of_one(np.log),
    "Floor": _of_one(np.floor),
    "Ceil": _of_one(np.ceil),
    "Sin": _of_one(np.sin),
    "Cos": _of_one(np.cos),
}
