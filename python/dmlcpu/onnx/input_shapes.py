"""Shapes of a model's inputs: those that callers give, checked, and those that are planned for besides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final

from dmlcpu.coercion import coerce_sequence
from dmlcpu.errors import BindingError, InvalidModelError
from dmlcpu.onnx.refusals import RefusedRunError, UnfitLengthsError
from dmlcpu.shown_values import shown

__all__ = ["complete_shapes", "fits", "free_lengths", "shape_told", "with_lengths"]

# More than any memory has, and few enough for 64 bits to count their bytes.
_MOST_ELEMENTS: Final = 1 << 48
# A message tells the shapes of this many inputs.
_MOST_SHAPES_TOLD: Final = 8

# Lengths of axes; a name, or None, where the model leaves a length free.
_Declared = Sequence[int | str | None]


def complete_shapes(
    declared: Mapping[str, _Declared | None], given: Mapping[str, Any], batch: int = 1
) -> dict[str, tuple[int, ...]]:
    """Return a shape for each input.

    Args:
        declared: What the model says of each; None where even the rank is free.
        given: Shapes of some of them.
        batch: A first length that is free in the others. Further ones are 1, but where the model has one name for
            several, all are as long.

    Raises:
        BindingError: A given shape is none, or another than the model says; or one has more elements than any memory.
    """
    shapes = {name: _checked(name, shape, declared[name]) for name, shape in given.items()}
    lengths: dict[str, int] = {}
    for name, shape in shapes.items():
        for length, got in zip(declared[name] or (), shape, strict=False):
            if length and isinstance(length, str):
                lengths.setdefault(length, got)
    for said in declared.values():
        if said and said[0] and isinstance(said[0], str):
            lengths.setdefault(said[0], batch)
    for name, said in declared.items():
        if name not in shapes:
            free = (
                length if isinstance(length, int) else lengths.get(length or "", 1 if axis else batch)
                for axis, length in enumerate(said or ())
            )
            shapes[name] = _checked(name, tuple(free), said)
    return shapes


def _checked(name: str, given: Any, declared: _Declared | None) -> tuple[int, ...]:
    """Return the shape of an input as a tuple."""
    shape = coerce_sequence(given)
    told = "" if declared is None else f", {shape_told(declared)}"
    if not isinstance(shape, tuple):
        expected = f"a sequence of lengths{told}"
    elif any(type(length) is not int or length < 0 for length in shape):
        expected = f"lengths of 0 and more{told}"
    elif prod(max(length, 1) for length in shape) > _MOST_ELEMENTS:
        expected = f"at most 2**48 elements{told}"
    elif declared is not None and not fits(shape, declared):
        expected = shape_told(declared)
    else:
        return shape
    raise BindingError(f"input {name!r}: got shape {shown(shape)}, expected {expected}", name)


def fits(shape: Sequence[int], declared: _Declared | None) -> bool:
    """Return whether a shape is one that a model leaves an input; where even the rank is free, any is.

    >>> fits((2, 3), ("batch", 3)), fits((2, 4), ("batch", 3)), fits((2, 4), None)
    (True, False, True)
    """
    if declared is None or shape == declared:
        return True
    if len(shape) != len(declared):
        return False
    # A list takes less time than what yields one entry after the other.
    return all([length == known or not isinstance(known, int) for length, known in zip(shape, declared, strict=True)])


def shape_told(declared: _Declared) -> str:
    """Return a shape that a model gives an input, for messages.

    >>> shape_told(["batch", 3, None])
    '(batch, 3, ?)'
    """
    told = ", ".join("?" if length is None else str(length) for length in declared)
    return f"({told},)" if len(declared) == 1 else f"({told})"


def free_lengths(declared: Mapping[str, _Declared | None]) -> str | None:
    """Return what a message says of the first input that has free lengths, None if none has.

    >>> free_lengths({"x": (1, 2), "y": ("batch", 3)})
    "input 'y' has free lengths, (batch, 3)"
    """
    for name, said in declared.items():
        if said is None:
            return f"input {name!r} has a free shape"
        if not all(isinstance(length, int) for length in said):
            return f"input {name!r} has free lengths, {shape_told(said)}"
    return None


def _shapes_told(declared: Mapping[str, _Declared | None], shapes: Mapping[str, Sequence[int]]) -> str:
    """Return what a message says of the shapes of inputs that have free lengths.

    >>> _shapes_told({"x": ("batch", 3), "y": (4,), "z": None}, {"x": (2, 3), "y": (4,), "z": (5,)})
    'x (2, 3), z (5,)'
    """
    free = [f"{name} {tuple(shapes[name])}" for name, said in declared.items() if free_lengths({name: said})]
    more = len(free) - _MOST_SHAPES_TOLD
    return ", ".join(free[:_MOST_SHAPES_TOLD]) + (f" and {more} more" if more > 0 else "")


def _unfit_lengths(declared: Mapping[str, _Declared | None], shapes: Mapping[str, Sequence[int]]) -> str | None:
    """Return what nodes may refuse about lengths that a model leaves free, None if nothing.

    That is inputs that differ in a length that the model gives one name, or an input with a length of 0.

    Args:
        declared: What the model says of each input; None where even the rank is free.
        shapes: Of the arrays that are fed.
    """
    seen: dict[str, tuple[int, str]] = {}
    for name, said in declared.items():
        for length, got in zip(said or (), shapes[name], strict=False):
            if length and isinstance(length, str):
                other, first = seen.setdefault(length, (got, name))
                if other != got:
                    return f"{length!r} is {other} in input {first!r} and {got} in input {name!r}"
    for name, said in declared.items():
        if 0 in shapes[name] and 0 not in (said or ()):
            return f"input {name!r} has a length of 0, its shape is {tuple(shapes[name])}"
    return None


def with_lengths(
    error: RefusedRunError | InvalidModelError,
    declared: Mapping[str, _Declared | None],
    shapes: Mapping[str, Sequence[int]],
    given: str,
) -> Exception:
    """Return what is raised of an error of planning or other runtimes, with the shapes that inputs are given."""
    reason = _unfit_lengths(declared, shapes)
    if reason is not None:
        return BindingError(f"{reason}: {error}")
    if isinstance(error, UnfitLengthsError):
        is_free = free_lengths(declared) is not None
        told = f"{error}; {given}: {_shapes_told(declared, shapes)}"
        return BindingError(told) if is_free else InvalidModelError(str(error))
    return BindingError(str(error)) if isinstance(error, RefusedRunError) else error
