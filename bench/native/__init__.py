"""The C++ of the measurements, built when first asked for."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

__all__ = ["build", "load"]

_SOURCE = Path(__file__).parents[2]
_BUILD = _SOURCE / "build" / "bench"


def build(target: str, definitions: Mapping[str, str] | None = None) -> Path:
    """Build a target of ``bench/native`` with CMake and return its file.

    Raises:
        RuntimeError: It does not build; the message is the compiler's.
    """
    defined = [f"-D{name}={value}" for name, value in (definitions or {}).items()]
    switches = ["-DDMLCPU_BENCH=ON", "-DDMLCPU_BINDINGS=OFF", "-DCMAKE_BUILD_TYPE=Release"]
    _run("cmake", "-S", str(_SOURCE), "-B", str(_BUILD), *switches, *defined)
    _run("cmake", "--build", str(_BUILD), "--parallel", "--target", target)
    folder = _BUILD / "bench" / "native"
    return next(path for path in (folder / f"lib{target}.so", folder / target) if path.exists())


@cache
def _loaded(target: str, definitions: tuple[tuple[str, str], ...]) -> ctypes.CDLL:
    return ctypes.CDLL(str(build(target, dict(definitions))))


def load(target: str, definitions: Mapping[str, str] | None = None) -> ctypes.CDLL:
    """Build a shared library of ``bench/native`` and load it, once a process."""
    return _loaded(target, tuple(sorted((definitions or {}).items())))


def _run(*command: str) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{result.stdout}{result.stderr}")
