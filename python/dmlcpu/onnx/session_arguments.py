"""What a session is given: the model and where it runs, checked, and callbacks. Options are checked in ``options``."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from os import PathLike, fspath
from typing import Any, Final

from dmlcpu.device import Device
from dmlcpu.errors import DmlError
from dmlcpu.onnx.constant_arrays import Array
from dmlcpu.onnx.options import SessionOptions

__all__ = ["call_back", "checked_device", "checked_source"]


# Methods of what holds a model's bytes, and how these are had.
_FORMS_OF_BYTES: Final = (
    ("SerializeToString", "its SerializeToString()"),
    ("getvalue", "its getvalue()"),
    ("read", "what its read() returns"),
)


def checked_source(source: Any) -> str | bytes:
    """Return a path, or the bytes of a model.

    Raises:
        TypeError: It is neither.
        ValueError: The path is empty.
    """
    if isinstance(source, bytes):
        return source
    if not isinstance(source, str | PathLike):
        forms = (form for method, form in _FORMS_OF_BYTES if hasattr(source, method))
        form = "bytes(...) of it" if isinstance(source, bytearray | memoryview) else next(forms, "")
        hint = form and f", such as {form}"
        raise TypeError(f"path_or_bytes: got an object of type {type(source).__name__}, expected a path or bytes{hint}")
    path = fspath(source)
    if not path:  # which pathlib takes for the working directory
        raise ValueError("path_or_bytes: the path is empty")
    return path


def checked_device(device: Any, options: SessionOptions) -> Device:
    """Return the device that is given, or one with the threads that the options ask for.

    Raises:
        DmlError: The machine cannot run what the environment asks for.
        TypeError: It is no device.
        ValueError: There are not as many threads.
    """
    if isinstance(device, Device):
        return device
    if device is not None:
        raise TypeError(f"device: got an object of type {type(device).__name__}, expected a dmlcpu.Device or None")
    count = options.intra_op_num_threads
    try:
        return Device(num_threads=count if count > 0 else None)
    except DmlError:
        raise
    except ValueError as error:
        # What the options ask for is told by their name, and else what the environment does.
        raise ValueError(f"intra_op_{error}, or 0 for all processors" if count > 0 else str(error)) from None


def call_back(callback: Callable[[list[Array], Any, str], Any], user_data: Any, future: Future[list[Array]]) -> None:
    """Call what a run was begun with: with its outputs, or why there are none."""
    if future.cancelled():
        callback([], user_data, "the run was cancelled")
    elif (error := future.exception()) is not None:
        callback([], user_data, str(error) or type(error).__name__)
    else:
        callback(future.result(), user_data, "")
