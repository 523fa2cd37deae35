"""Packages that models need and that are not installed: what stands for them, what is raised."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from dmlcpu.errors import DmlError

if TYPE_CHECKING:
    from dmlcpu.onnx.planning import Plan

__all__ = ["MissingRuntimeError", "absent_session"]


class MissingRuntimeError(DmlError):
    """A model has nodes that no kernel computes, and onnxruntime is not installed.

    Attributes:
        plan: Who would run what; None where it is not known.
    """

    plan: Plan | None = None


@cache
def absent_session(package: str | None) -> type[Any]:
    """Return a class in place of ``InferenceSession`` that says which package is missing as soon as it is called."""

    class InferenceSession:
        """A session, which needs the extra ``onnx``: ``pip install 'dmlcpu[onnx]'``."""

        def __new__(cls, *arguments: Any, **options: Any) -> InferenceSession:
            """Raise ImportError."""
            raise ImportError(
                f"InferenceSession reads models with the package {package!r}: pip install 'dmlcpu[onnx]'", name=package
            )

    InferenceSession.__qualname__ = InferenceSession.__name__
    return InferenceSession
