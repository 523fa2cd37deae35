"""What makes functions of operators quick: one that was called alike before is dispatched at once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar

from dmlcpu import _core
from dmlcpu.compiled_operator import native_operator
from dmlcpu.descs.operator_desc import OperatorDesc
from dmlcpu.device import Device
from dmlcpu.enums import TensorDataType
from dmlcpu.feature_levels import OPERATORS
from dmlcpu.functions.arguments import argument_of
from dmlcpu.functions.call import FunctionCall

__all__ = ["operator_function"]

P = ParamSpec("P")
R = TypeVar("R")


def operator_function(
    desc_type: type[OperatorDesc],
) -> Callable[[Callable[Concatenate[FunctionCall, P], R]], Callable[P, R]]:
    """Make a function of the one below it, which is passed its call first, before the caller's arguments.

    What a call does follows from the types, shapes, strides and numbers of its arguments. So a call is remembered by
    these, with the operator that it ended in and the arguments that its tensors came from; the next one like it is
    dispatched by the native module, which takes a twentieth of the time of checking and arranging the arguments again.

    Args:
        desc_type: The desc of the function's operator.
    """

    def decorate(function: Callable[Concatenate[FunctionCall, P], R]) -> Callable[P, R]:
        memo = _core.new_call_memo([Device, TensorDataType])
        signature = inspect.signature(function)
        signature = signature.replace(parameters=list(signature.parameters.values())[1:])

        @functools.wraps(function)
        def call_operator(*args: P.args, **kwargs: P.kwargs) -> R:
            known: R | None = memo.recall(args, kwargs)
            if known is not None:
                return known
            try:
                arguments: Mapping[str, Any] = signature.bind(*args, **kwargs).arguments
            except TypeError as error:
                raise TypeError(f"{function.__name__}: {error}") from None
            call = FunctionCall(function.__name__, desc_type, arguments.get("device"))
            result = function(call, *args, **kwargs)
            if call.dispatched:
                _remember(memo, call, signature, args, kwargs, result)
            return result

        call_operator.__signature__ = signature  # type: ignore[attr-defined]  # functions have it, their stub not
        return call_operator

    return decorate


def _remember(
    memo: _core.CallMemo,
    call: FunctionCall,
    signature: inspect.Signature,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    result: Any,
) -> None:
    """Tell the memo which argument each tensor came from, and what it became."""
    numbers = dict(
        zip((*list(signature.parameters)[: len(args)], *kwargs), range(len(args) + len(kwargs)), strict=True)
    )
    compiled, arrays = call.dispatched[0]
    fields = OPERATORS[compiled.desc.operator_type].tensors
    bound = [(numbers.get(argument_of(field.name)), arrays.get(field.name)) for field in fields]
    results = result if isinstance(result, tuple) else (result,)
    memo.remember(args, kwargs, native_operator(compiled), bound, results, type(result))
