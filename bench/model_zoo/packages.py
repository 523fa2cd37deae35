"""Files within installed packages, found without importing the packages."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

__all__ = ["MissingPackageError", "file_of", "require"]


class MissingPackageError(Exception):
    """A package that a network comes from is not installed; the message tells how to install it."""


def require(module: str, distribution: str) -> Path:
    """Return the folder of a package.

    Raises:
        MissingPackageError: It is not installed.
    """
    spec = find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise MissingPackageError(f"pip install {distribution}")
    return Path(next(iter(spec.submodule_search_locations)))


def file_of(module: str, distribution: str, name: str) -> Path:
    """Return a file of a package.

    Raises:
        MissingPackageError: The package is not installed, or this version of it has no such file.
    """
    path = require(module, distribution) / name
    if not path.exists():
        raise MissingPackageError(f"pip install {distribution}, in a version that has {name}")
    return path
