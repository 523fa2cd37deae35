"""Failures that a user can mend end a command with one line and an exit code, without a traceback."""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Callable
from types import ModuleType
from typing import ParamSpec

import typer

from dmlcpu.errors import DmlError

__all__ = ["needed_module", "one_line", "reported"]

_LONGEST_MESSAGE = 2000
_Parameters = ParamSpec("_Parameters")


def reported(command: Callable[_Parameters, None], exit_code: int = 1) -> Callable[_Parameters, None]:
    """Return a command that reports errors of models, arrays, files, packages and of onnxruntime in one line.

    Args:
        command: Raises them.
        exit_code: What the process then ends with.
    """

    @functools.wraps(command)
    def wrapper(*arguments: _Parameters.args, **options: _Parameters.kwargs) -> None:
        try:
            command(*arguments, **options)
        except BrokenPipeError:  # whoever reads the output has enough of it: typer ends the process without a word
            raise
        except Exception as error:
            if not (isinstance(error, DmlError | OSError | ImportError | MemoryError) or _is_foreign(error)):
                raise
            typer.echo(f"dmlcpu: {one_line(error)}", err=True)
            raise typer.Exit(exit_code) from None

    return wrapper


def one_line(error: Exception) -> str:
    """Return the message of an error in one line, cut where it is a report rather than a message."""
    return textwrap.shorten(str(error), _LONGEST_MESSAGE, placeholder=" ...") or type(error).__name__


def _is_foreign(error: Exception) -> bool:
    """Tell whether onnxruntime raised an error: its classes have no base of their own."""
    return type(error).__module__.startswith("onnxruntime")


def needed_module(name: str, install: str, purpose: str) -> ModuleType:
    """Import a module of a package that not every command needs.

    Args:
        name: Of the module.
        install: What pip is to install.
        purpose: What needs it, such as "check compares with onnxruntime".

    Raises:
        ImportError: It is missing; the message says how to get it.
    """
    from importlib import import_module

    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise ImportError(f"{purpose}, which needs the package {error.name!r}: pip install '{install}'") from None
