"""The floating-point modes that Python's part computes in."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from dmlcpu import _core

__all__ = ["in_default_float_environment"]

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def in_default_float_environment(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Let a function compute in the default rounding mode, without flush-to-zero, whatever its caller has set.

    numpy and Python compute in the modes of the thread: what is kept for later calls must not depend on them. They are
    the caller's again when the function returns or raises.
    """

    @wraps(function)
    def computed(*arguments: _Arguments.args, **named_arguments: _Arguments.kwargs) -> _Result:
        return _core.call_in_default_float_environment(function, *arguments, **named_arguments)

    return computed
