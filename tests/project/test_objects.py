"""Nothing leaks from a kernel file that is compiled for one instruction set into code that runs on others.

An inline function or template that two files emit is kept once by the linker, perhaps in the version that the CPU at
hand cannot run. Kernel files are compiled here without optimization, so that whatever could be emitted is.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KERNELS = ROOT / "cpp" / "kernels"
KERNEL_FILES = sorted(path.relative_to(KERNELS).with_suffix("") for path in KERNELS.glob("*/*.cpp"))

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the tools of GNU binutils")

# Registers that code for an instruction set must not touch; {k1} masks and registers 16 to 31 are AVX-512's as well.
AVX512 = re.compile(r"%zmm|%k[0-7]\b|%[xy]mm(1[6-9]|2\d|3[01])\b")
AVX = re.compile(rf"%ymm|{AVX512.pattern}")
FORBIDDEN = {"scalar": AVX, "avx2": AVX512, "avx_vnni": AVX512}


def run(*command: str | Path) -> str:
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"{shlex.join(map(str, command))}\n{result.stdout}{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    """What the build says of each file of the library; kernels and dispatcher compiled, once for all workers."""
    base = tmp_path_factory.getbasetemp()
    build = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "objects"
    build.mkdir(exist_ok=True)
    with (build / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (build / "complete").exists():
            options = ("DMLCPU_BINDINGS=OFF", "CMAKE_EXPORT_COMPILE_COMMANDS=ON", "CMAKE_CXX_FLAGS_RELEASE=-O0")
            run("cmake", "-S", ROOT, "-B", build, "-G", "Ninja", *(f"-D{option}" for option in options))
            kernels = (entry["output"] for entry in compiled(build) if KERNELS in Path(entry["file"]).parents)
            run("cmake", "--build", build, "--target", *(os.path.relpath(output, build) for output in kernels))
            (build / "complete").touch()
    return compiled(build)


def compiled(build: Path) -> list[dict[str, str]]:
    entries: list[dict[str, str]] = json.loads((build / "compile_commands.json").read_text())
    return [entry for entry in entries if ROOT in Path(entry["file"]).parents]  # without precompiled headers


@pytest.fixture(scope="module")
def objects(entries: list[dict[str, str]]) -> dict[Path, Path]:
    """The object of each kernel file, and of the dispatcher, without optimization."""
    files = {Path(entry["file"]): Path(entry["output"]) for entry in entries}
    return {
        file.relative_to(KERNELS).with_suffix(""): output for file, output in files.items() if KERNELS in file.parents
    }


def object_of(objects: dict[Path, Path], name: Path) -> Path:
    if name not in objects and platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("this build has only the scalar kernels")
    return objects[name]


def symbols(target: Path, *options: str) -> list[tuple[str, str]]:
    """Name and nm's type letter of each symbol that the object defines."""
    lines = run("nm", "--portability", "--defined-only", *options, target).splitlines()
    return [(match[1], match[2]) for line in lines if (match := re.match(r"(.+) (\w) [0-9a-f]+ [0-9a-f]*$", line))]


@pytest.mark.parametrize("name", KERNEL_FILES, ids=str)
def test_exports_its_kernels_and_nothing_else(objects: dict[Path, Path], name: Path) -> None:
    exported = symbols(object_of(objects, name), "--demangle", "--extern-only")
    assert [symbol for symbol, _ in exported] == [f"dmlcpu::{name.name}::{name.parent}"]


@pytest.mark.parametrize("name", KERNEL_FILES, ids=str)
def test_has_no_symbol_that_a_linker_merges(objects: dict[Path, Path], name: Path) -> None:
    assert [symbol for symbol, kind in symbols(object_of(objects, name)) if kind in "WVu"] == []


@pytest.mark.parametrize("name", KERNEL_FILES, ids=str)
def test_runs_nothing_before_main(objects: dict[Path, Path], name: Path) -> None:
    sections = run("objdump", "--section-headers", object_of(objects, name))
    assert not re.search(r"\.(init_array|ctors)\b", sections)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the registers of x86")
@pytest.mark.parametrize(
    "name", [Path("dispatch"), *(name for name in KERNEL_FILES if name.name in FORBIDDEN)], ids=str
)
def test_touches_no_registers_of_better_cpus(objects: dict[Path, Path], name: Path) -> None:
    code = run("objdump", "--disassemble", "--no-show-raw-insn", object_of(objects, name))
    forbidden = FORBIDDEN.get(name.name, AVX)
    assert [line for line in code.splitlines() if forbidden.search(line)] == []


def test_only_kernels_have_flags_of_an_instruction_set(entries: list[dict[str, str]]) -> None:
    commands = {Path(entry["file"]): shlex.split(entry["command"]) for entry in entries}
    flagged = {file for file, command in commands.items() if any(flag.startswith("-m") for flag in command)}
    assert {file for file in flagged if not file.is_relative_to(KERNELS)} == set()
    assert {file for file in flagged if file.stem in ("dispatch", "scalar")} == set()
