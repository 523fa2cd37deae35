"""What callers give a session, checked: arrays, and names of outputs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final

import numpy as np

from dmlcpu.bindings import WITHOUT_MASK, as_array, has_masked_elements
from dmlcpu.dtypes import is_of_ml_dtypes
from dmlcpu.errors import BindingError
from dmlcpu.onnx.constant_arrays import Array
from dmlcpu.onnx.input_shapes import fits, shape_told
from dmlcpu.onnx.models.model import ValueInfo
from dmlcpu.shown_values import message_of, shown

__all__ = [
    "check_names",
    "checked_feeds",
    "given_value",
    "output_indices",
    "zero_feeds",
]

# What has no element type of its own; what numpy makes of its own numbers has.
_NUMBERS: Final = frozenset((list, tuple, bool, int, float))


def checked_feeds(
    inputs: Sequence[ValueInfo],
    constant_names: Collection[str],
    constants: Callable[[], Mapping[str, Array]],
    input_feed: Mapping[str, Any],
    copy: bool = False,
) -> dict[str, Array]:
    """Return the feeds as arrays that lie packed, in the model's order.

    Args:
        inputs: What is to be fed.
        constant_names: What may be fed besides, as it is.
        constants: Returns these. Called only if one of them is fed.
        input_feed: What is.
        copy: Whether the arrays are to be the session's own.

    Raises:
        BindingError: A name is unknown or missing, or an array has another type or shape than the model says,
            or a constant other elements.
    """
    if type(input_feed) is not dict and not isinstance(input_feed, Mapping):
        names = ", ".join(value.name for value in inputs)
        raise BindingError(f"input_feed: got {_kind(input_feed)}, expected a mapping from names to arrays: {names}")
    feeds = {}
    for value in inputs:
        if value.name not in input_feed:
            known = {*constant_names, *(value.name for value in inputs)}
            others = ", ".join(repr(name) for name in input_feed if name not in known)
            but = f" but {others}" if others else ""
            raise BindingError(f"got no input {value.name!r}{but}, expected {_expectation(value)}", value.name)
        feeds[value.name] = _checked_feed(value, input_feed[value.name], copy)
    if len(input_feed) != len(feeds):
        own = constants() if any(name in constant_names for name in input_feed) else {}
        for name in input_feed:
            if name in own:
                _check_constant(name, own[name], input_feed[name])
            elif name not in feeds:
                expected = f"one of {', '.join(feeds)}" if feeds else "none: the model has no inputs"
                raise BindingError(f"got input {name!r}, expected {expected}", str(name))
    return feeds


def zero_feeds(inputs: Sequence[ValueInfo], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    """Return arrays of zeros, and of empty words, for inputs of these shapes."""
    return {
        value.name: np.full(shapes[value.name], "" if value.dtype.kind == "O" else 0, value.dtype) for value in inputs
    }


def _checked_feed(value: ValueInfo, feed: Any, copy: bool) -> Array:
    if type(feed) is np.ndarray and feed.dtype == value.dtype and not copy and fits(feed.shape, value.shape):
        return (
            feed if feed.flags.c_contiguous and feed.flags.aligned else _packed(feed)
        )  # the most common case is quick
    if has_masked_elements(feed):
        message = f"input {value.name!r}: got an array with masked elements, expected {WITHOUT_MASK}"
        raise BindingError(message, value.name)
    try:
        array = as_array(feed)
    except MemoryError:
        raise
    except Exception as error:  # a foreign object may raise anything
        of = f", as numpy's arrays have it by {_named(value.dtype)}" if is_of_ml_dtypes(value.dtype) else ""
        message = f"input {value.name!r}: got {_kind(feed)} ({message_of(error)}), expected {_expectation(value)}{of}"
        raise BindingError(message, value.name) from error
    if array.dtype != value.dtype:
        array = _converted(array, value.dtype, type(feed) in _NUMBERS)
    if array.dtype != value.dtype or not fits(array.shape, value.shape):
        got = shown(feed) if feed is None or isinstance(feed, str) else f"{array.dtype} of shape {array.shape}"
        if type(feed) in _NUMBERS and array.dtype != value.dtype and array.dtype.kind in "iuf":
            told = array[~np.isnan(array)]
            got += f", from {told.min()} to {told.max()}" if told.size else ", of NaN alone"
        hint = _hint(array, value) if type(feed) not in _NUMBERS else ""
        raise BindingError(f"input {value.name!r}: got {got}, expected {_expectation(value)}{hint}", value.name)
    return np.array(array, order="C") if copy else _packed(array)


def _hint(array: Array, value: ValueInfo) -> str:
    """Return how an array becomes one that fits, where its numbers are of another type, or its axes others."""
    if array.dtype == value.dtype:
        return "" if value.shape is None else _axes_hint(array.shape, value.shape)
    given, wanted = ("f" if is_of_ml_dtypes(dtype) else dtype.kind for dtype in (array.dtype, value.dtype))
    are_numbers = given in "biufO" and wanted in "biuf"
    if not are_numbers or not fits(array.shape, value.shape):
        return ""
    return f"; nothing is cast: np.asarray(x, {_named(value.dtype)})"


def _named(dtype: np.dtype[Any]) -> str:
    """Return a type as it is written."""
    return f"{'ml_dtypes' if is_of_ml_dtypes(dtype) else 'np'}.{dtype.type.__name__}"


# Of images the orders of axes that frameworks have, as numpy's transpose takes them from the one to the other.
_ORDERS: Final = ((0, 3, 1, 2), (0, 2, 3, 1))


def _axes_hint(given: Sequence[int], declared: Sequence[int | str | None]) -> str:
    """Return how an array of other axes becomes one that fits, if the first is missing, or the channels are elsewhere.

    >>> _axes_hint((16, 16, 3), ("batch", 3, 16, 16))
    '; x[np.newaxis].transpose(0, 3, 1, 2) has the axes that are expected'
    """
    is_missing = len(given) == len(declared) - 1
    shape = (1, *given) if is_missing else tuple(given)
    made = "x[np.newaxis]" if is_missing else "x"
    if is_missing and fits(shape, declared):
        return f"; {made} adds the first axis"
    if len(shape) == 4:
        for order in _ORDERS:
            if fits([shape[axis] for axis in order], declared):
                return f"; {made}.transpose{order} has the axes that are expected"
    return ""


def _converted(array: Array, dtype: np.dtype[Any], are_numbers: bool) -> Array:
    """Return an array as one of an input's type: of the same elements in another form, or of Python's numbers.

    Those of a list count as if they had no type of their own. They become floats, or integers if they are integers that
    the type has. What has another type is returned as it is.
    """
    kind, given = dtype.kind, array.dtype.kind
    if given in "UT":  # numpy's strings, of which those of kind T have no byte order
        return array.astype(dtype) if kind == "O" else array  # they are objects to onnx
    if array.dtype.newbyteorder("=") == dtype:
        return array.astype(dtype)
    if not are_numbers:
        return array
    if not array.size:  # an empty list is one of FLOAT64 to numpy
        return array.astype(dtype)
    if is_of_ml_dtypes(dtype):
        return _of_ml_dtypes(array, dtype) if given in "biuf" else array
    if kind == "f" and given in "biuf":
        with np.errstate(over="ignore"):
            floats = array.astype(dtype)
        return floats if np.array_equal(np.isinf(floats), np.isinf(array)) else array
    if kind in "biu" and given in "biu":
        least, most = (0, 1) if kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        return array.astype(dtype) if least <= int(array.min()) <= int(array.max()) <= most else array
    return array


def _of_ml_dtypes(array: Array, dtype: np.dtype[Any]) -> Array:
    """Return numbers as those of a type that numpy lacks; as they are if one is no integer, or too large, for it."""
    ml_dtypes = import_module("ml_dtypes")
    is_integer = "int" in dtype.name
    if is_integer and array.dtype.kind == "f":
        return array
    with np.errstate(over="ignore", invalid="ignore"):
        numbers = array.astype(dtype)
        has_infinities = not is_integer and bool(np.isinf(np.array(np.inf).astype(dtype).astype(np.float64)))
    made, is_finite = numbers.astype(np.float64), np.isfinite(array)
    if has_infinities:
        is_kept = bool(np.isfinite(made[is_finite]).all())
    else:  # what is too large becomes the largest of some types
        limits = (ml_dtypes.iinfo if is_integer else ml_dtypes.finfo)(dtype)
        finite = array[is_finite]
        is_kept = not finite.size or bool(
            float(limits.min) <= float(finite.min()) <= float(finite.max()) <= float(limits.max)
        )
    is_kept = is_kept and np.array_equal(made[~is_finite], array[~is_finite], equal_nan=True)
    return numbers if is_kept else array  # not every type has infinities and NaN


def _packed(array: Array) -> Array:
    """Return an array as one that lies packed, at an address that its elements may have."""
    array = np.asarray(array, order="C")
    return array if array.flags.aligned else array.copy()


def _check_constant(name: str, constant: Array, feed: Any) -> None:
    try:
        array = np.empty(0, np.void) if has_masked_elements(feed) else as_array(feed)
    except MemoryError:
        raise
    except Exception as error:
        message = f"input {name!r}: got {_kind(feed)} ({message_of(error)}), expected the model's own array: a constant"
        raise BindingError(message, name) from error
    if array.dtype != constant.dtype or not np.array_equal(array, constant, equal_nan=constant.dtype.kind == "f"):
        raise BindingError(f"input {name!r}: got another array than the model's, expected its own: a constant", name)


def _kind(given: Any) -> str:
    return "None" if given is None else f"an object of type {type(given).__name__}"


def _expectation(value: ValueInfo) -> str:
    elements = "strings" if value.dtype.kind == "O" else str(value.dtype)
    if value.shape is None:
        return f"{elements} of any shape"
    return f"{elements} of shape {shape_told(value.shape)}"


def output_indices(names: Sequence[str], output_names: Iterable[str] | None) -> Sequence[int]:
    """Return the places of outputs among the names of all; of all if None, 0 or no name is given.

    Raises:
        BindingError: A name is unknown, or what is given are no names.
    """
    if output_names is None or (isinstance(output_names, int) and output_names == 0):
        return range(len(names))
    if isinstance(output_names, str) or not isinstance(output_names, Iterable):
        got = repr(output_names) if isinstance(output_names, str) else _kind(output_names)
        raise BindingError(f"output_names: got {got}, expected None or a list of names out of {', '.join(names)}")
    given = list(output_names)
    for name in given:
        if name not in names:
            raise BindingError(f"got output {name!r}, expected one of {', '.join(names)}", str(name))
    return [names.index(name) for name in given] or range(len(names))


def check_names(argument: str, given: Mapping[str, Any], expected: Collection[str]) -> None:
    """Check that an argument is a mapping from names, and these are those of inputs.

    Raises:
        BindingError: It is none, or one is not.
    """
    if not isinstance(given, Mapping):
        names = ", ".join(expected) or "none"
        raise BindingError(f"{argument}: got {_kind(given)}, expected a mapping from names of inputs: {names}")
    for name in given:
        if name not in expected:
            told = f"one of {', '.join(expected)}" if expected else "none at all"
            raise BindingError(f"{argument}: got input {name!r}, expected {told}", name)


def given_value(value: ValueInfo, values: Mapping[str, Any]) -> Array:
    """Return an input of one element with its value, by default 0.

    Raises:
        BindingError: It is not one number of the input's type.
    """
    given = values.get(value.name, 0)
    try:
        number = np.asarray(given).reshape(()).item()
        if isinstance(number, bool | int):
            array: Array = np.full([1] * len(value.shape or ()), number, value.dtype)
            if array.item() == number:
                return array
    except MemoryError:
        raise
    except Exception:  # not one number, or one that the type has not; a foreign object may raise anything
        pass
    raise BindingError(f"values: got {given!r} for input {value.name!r}, expected one {value.dtype}", value.name)
