"""What callers give a session, checked: arrays, names of outputs, options."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from dmlcpu.errors import BindingError
from dmlcpu.onnx.model import ValueInfo
from dmlcpu.onnx.values import Array

__all__ = ["checked_feeds", "conflicting_lengths", "is_fixed", "output_indices"]

# What numpy and other makers of arrays raise where they make none of an object.
_NO_ARRAY: Final = (TypeError, ValueError, RuntimeError, BufferError)


def is_fixed(shape: Sequence[int | str | None] | None) -> bool:
    """Return whether a shape leaves nothing free."""
    return shape is not None and all(isinstance(length, int) for length in shape)


def checked_feeds(
    inputs: Sequence[ValueInfo],
    constants: Callable[[], Mapping[str, Array]],
    input_feed: Mapping[str, Any],
    copy: bool = False,
) -> dict[str, Array]:
    """Return the feeds as arrays that lie packed, in the model's order.

    Args:
        inputs: What is to be fed.
        constants: Returns what may be fed besides, as it is. Called only if something is.
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
            known = {*constants(), *(value.name for value in inputs)}
            others = ", ".join(repr(name) for name in input_feed if name not in known)
            but = f" but {others}" if others else ""
            raise BindingError(f"got no input {value.name!r}{but}, expected {_expectation(value)}", value.name)
        feeds[value.name] = _checked_feed(value, input_feed[value.name], copy)
    if len(input_feed) != len(feeds):
        own = constants()
        for name in input_feed:
            if name in own:
                _check_constant(name, own[name], input_feed[name])
            elif name not in feeds:
                raise BindingError(f"got input {name!r}, expected one of {', '.join(feeds)}", str(name))
    return feeds


def conflicting_lengths(inputs: Sequence[ValueInfo], shapes: Mapping[str, Sequence[int]]) -> str | None:
    """Return which inputs differ in a length that the model gives one name, None if all agree.

    Args:
        inputs: What is fed.
        shapes: Of the arrays that are.
    """
    seen: dict[str, tuple[int, str]] = {}
    for value in inputs:
        for length, got in zip(value.shape or (), shapes[value.name], strict=False):
            if isinstance(length, str) and length:
                other, name = seen.setdefault(length, (got, value.name))
                if other != got:
                    return f"{length!r} is {other} in input {name!r} and {got} in input {value.name!r}"
    return None


def _checked_feed(value: ValueInfo, feed: Any, copy: bool) -> Array:
    if type(feed) is np.ndarray and feed.dtype == value.dtype and feed.shape == value.shape and not copy:
        return (
            feed if feed.flags.c_contiguous and feed.flags.aligned else _packed(feed)
        )  # the most common case is quick
    try:
        array = np.asarray(feed)
    except _NO_ARRAY as error:
        message = f"input {value.name!r}: got {_kind(feed)} ({error}), expected {_expectation(value)}"
        raise BindingError(message, value.name) from None
    fits = value.shape is None or (
        len(value.shape) == array.ndim
        and all(not isinstance(want, int) or want == got for want, got in zip(value.shape, array.shape, strict=True))
    )
    if array.dtype != value.dtype or not fits:
        got = f"{array.dtype} of shape {array.shape}"
        raise BindingError(f"input {value.name!r}: got {got}, expected {_expectation(value)}", value.name)
    return np.array(array, order="C") if copy else _packed(array)


def _packed(array: Array) -> Array:
    """Return an array as one that lies packed, at an address that its elements may have."""
    array = np.asarray(array, order="C")
    return array if array.flags.aligned else array.copy()


def _check_constant(name: str, constant: Array, feed: Any) -> None:
    try:
        array = np.asarray(feed)
    except _NO_ARRAY:
        array = np.empty(0, np.void)
    if array.dtype != constant.dtype or not np.array_equal(array, constant, equal_nan=constant.dtype.kind == "f"):
        raise BindingError(f"input {name!r}: got another array than the model's, expected its own: a constant", name)


def _kind(given: Any) -> str:
    return "None" if given is None else f"an object of type {type(given).__name__}"


def _expectation(value: ValueInfo) -> str:
    if value.shape is None:
        return f"{value.dtype} of any shape"
    return f"{value.dtype} of shape ({', '.join('?' if length is None else str(length) for length in value.shape)})"


def output_indices(names: Sequence[str], output_names: Iterable[str] | None) -> Sequence[int]:
    """Return the places of outputs among the names of all; of all if None, or no names, are given.

    Raises:
        BindingError: A name is unknown, or what is given are no names.
    """
    if output_names is None:
        return range(len(names))
    if isinstance(output_names, str) or not isinstance(output_names, Iterable):
        got = repr(output_names) if isinstance(output_names, str) else _kind(output_names)
        raise BindingError(f"output_names: got {got}, expected None or a list of names out of {', '.join(names)}")
    given = list(output_names)
    for name in given:
        if name not in names:
            raise BindingError(f"got output {name!r}, expected one of {', '.join(names)}", str(name))
    return [names.index(name) for name in given] or range(len(names))
