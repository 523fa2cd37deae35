"""Packages that may be missing: which are there, and what stands for a session without those that models need."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any

__all__ = ["absent_session", "has_onnxruntime"]


def has_onnxruntime() -> bool:
    """Return whether nodes may be left to onnxruntime."""
    return find_spec("onnxruntime") is not None


@cache
def absent_session(package: str, reason: str) -> type[Any]:
    """Return a class in place of ``InferenceSession`` that says what is missing as soon as it is called.

    Args:
        package: What could not be imported.
        reason: Why, if it is installed; else "".
    """
    told = f"with the package {package!r}: pip install 'dmlcpu[onnx]'"
    if reason:
        told = f"with the package 'onnx', which cannot be imported: {reason}"

    class InferenceSession:
        """A session, which needs the extra ``onnx``: ``pip install 'dmlcpu[onnx]'``."""

        def __new__(cls, *arguments: Any, **options: Any) -> InferenceSession:
            """Raise ImportError."""
            raise ImportError(f"InferenceSession reads models {told}", name=package)

    InferenceSession.__qualname__ = InferenceSession.__name__
    return InferenceSession
