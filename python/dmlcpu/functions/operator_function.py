"""What makes functions of operators quick: one that was called alike before is dispatched at once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, cast

from dmlcpu import _core
from dmlcpu.compiled_operator import native_operator
from dmlcpu.descs.operator_desc import OperatorDesc
from dmlcpu.device import Device
from dmlcpu.enums import TensorDataType
from dmlcpu.feature_levels import OPERATORS
from dmlcpu.functions.argument_names import argument_of
from dmlcpu.functions.call import FunctionCall
from dmlcpu.graph.placeholders import BASES_OF_VIEWS
from dmlcpu.shown_values import nearest

__all__ = ["operator_function"]

P = ParamSpec("P")
R = TypeVar("R")


def operator_function(
    desc_type: type[OperatorDesc],
) -> Callable[[Callable[Concatenate[FunctionCall, P], R]], Callable[P, R]]:
    """Make a function of the one below it, which is passed its call first, before the caller's arguments.

    What a call does follows from the types, shapes, strides and numbers of its arguments. So one that comes a second
    time is remembered by these, with the operator that it ended in and the arguments that its tensors came from; from
    then on it is dispatched by the native module, which takes a twentieth of the time of checking and arranging the
    arguments.

    Args:
        desc_type: The desc of the function's operator.
    """

    def decorate(function: Callable[Concatenate[FunctionCall, P], R]) -> Callable[P, R]:
        memo = _core.new_call_memo([Device, TensorDataType], BASES_OF_VIEWS)
        own, *parameters = inspect.signature(function).parameters.values()
        signature = inspect.signature(function).replace(parameters=parameters)

        @functools.wraps(function)
        def call_operator(*args: P.args, **kwargs: P.kwargs) -> R:
            known: R | None = memo.recall(args, kwargs)
            if known is not None:
                return known
            call = FunctionCall(function.__name__, desc_type, cast(Any, kwargs.get("device")))
            # Nobody may change a list of numbers between the signature and the call.
            positional = tuple(map(_snapshot, args))
            named: dict[str, Any] = {
                name: value if name == "out" else _snapshot(value) for name, value in kwargs.items()
            }
            signed = memo.sign(positional, named)
            try:
                result = function(call, *positional, **named)
            except TypeError:
                _check_names(call, signature, args, kwargs)
                raise
            if signed is not None and call.dispatched:
                _remember(memo, signed, call, signature, positional, named, result)
            return result

        call_operator.__annotations__ = {
            name: hint for name, hint in function.__annotations__.items() if name != own.name
        }
        call_operator.__signature__ = signature  # type: ignore[attr-defined]  # functions have it, their stub not
        return call_operator

    return decorate


def _snapshot(value: Any) -> Any:
    """Return a list of integers as a tuple, and everything else as it is, even an empty list."""
    if type(value) is not list:
        return value
    entries = tuple(value)
    return entries if entries and all(type(entry) is int for entry in entries) else value


def _check_names(call: FunctionCall, signature: inspect.Signature, args: Any, kwargs: Any) -> None:
    """Raise if the arguments are too many, too few, or of other names."""
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        known, told = signature.parameters, str(error)
        unknown = next((name for name in kwargs if name not in known), None)
        if unknown is not None:  # before arguments that are missing: it may be one of them
            told = f"got an unexpected keyword argument {unknown!r}{_own_name(unknown, known)}"
        raise TypeError(f"{call.function}: {told}") from None


# What ONNX and other libraries call arguments.
_NAMES_OF_OTHERS: Final = {
    "auto_pad": "start_padding",
    "dtype": "output_data_type",
    "group": "group_count",
    "groups": "group_count",
    "kernel_shape": "window_size",
    "kernel_size": "window_size",
    "padding": "start_padding",
    "pads": "start_padding",
}


def _own_name(unknown: str, known: Collection[str]) -> str:
    """Return what a message tells of the argument that one of another name is likely to be."""
    name = _NAMES_OF_OTHERS.get(unknown) or nearest(unknown, known)
    if name not in known:
        return f"; its arguments are {', '.join(known)}"
    if name == "start_padding":
        return "; its arguments are start_padding and end_padding, the halves of ONNX's pads"
    return f"; the nearest is {name!r}"


def _remember(
    memo: _core.CallMemo,
    signed: bytes,
    call: FunctionCall,
    signature: inspect.Signature,
    positional: tuple[Any, ...],
    named: dict[str, Any],
    result: Any,
) -> None:
    """Tell the memo which argument each tensor came from, and what it became."""
    given = (*list(signature.parameters)[: len(positional)], *named)
    numbers = {name: number for number, name in enumerate(given)}
    compiled, arrays = call.dispatched[0]
    operator_type = compiled.desc.operator_type
    fields = [field.name for field in OPERATORS[operator_type].tensors]
    bound = [(numbers.get(argument_of(field, operator_type)), arrays.get(field)) for field in fields]
    results = result if isinstance(result, tuple) else (result,)
    memo.remember(signed, positional, named, native_operator(compiled), bound, results, type(result))
