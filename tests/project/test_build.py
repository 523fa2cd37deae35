"""The build refuses what the library is not written for, before it compiles anything."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def configured(folder: Path, found: str) -> subprocess.CompletedProcess[str]:
    """The build configured as if CMake had found something else about compiler and processor."""
    finding = folder / "finding.cmake"
    finding.write_text(found)
    return subprocess.run(
        ["cmake", "-S", ROOT, "-B", folder / "build", "-G", "Ninja", "-DDMLCPU_BINDINGS=OFF",
         f"-DCMAKE_PROJECT_dmlcpu_INCLUDE={finding}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        ("set(CMAKE_SIZEOF_VOID_P 4)", "dmlcpu needs a 64-bit processor; this compiler's pointers have 4 bytes"),
        (
            "set(CMAKE_CXX_BYTE_ORDER BIG_ENDIAN)",
            "dmlcpu needs a little-endian processor; this compiler's is big-endian",
        ),
        ("set(CMAKE_CXX_COMPILER_ID MSVC)", "dmlcpu is written for GCC and Clang; this compiler is MSVC"),
    ],
)
def test_refuses_what_it_is_not_written_for(tmp_path: Path, found: str, reason: str) -> None:
    result = configured(tmp_path, found)
    assert result.returncode != 0
    assert reason in " ".join(result.stderr.split())


@pytest.mark.parametrize("compiler", ["GNU", "Clang", "AppleClang"])
def test_accepts_what_it_is_written_for(tmp_path: Path, compiler: str) -> None:
    result = configured(tmp_path, f"set(CMAKE_CXX_COMPILER_ID {compiler})")
    assert result.returncode == 0, result.stderr
