"""What stands for a session where the packages that models need are not installed."""

from __future__ import annotations

from functools import cache
from typing import Any

__all__ = ["absent_session"]


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
