"""Nothing leaks from a kernel file that is compiled for one instruction set into code that runs on others.

An inline function or template that two files emit is kept once by the linker, perhaps in the version that the CPU at
hand cannot run. Kernel files are compiled here without optimisation, so that whatever could be emitted is.
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
from concurrent.futures import ThreadPoolExecutor
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
def commands(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, list[str]]:
    """The compiler's command line for each file of the library, as the build has it."""
    build = tmp_path_factory.mktemp("build")
    run("cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DDMLCPU_BINDINGS=OFF", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
    entries = json.loads((build / "compile_commands.json").read_text())
    return {Path(entry["file"]): shlex.split(entry["command"]) for entry in entries}


@pytest.fixture(scope="module")
def objects(commands: dict[Path, list[str]], tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Path]:
    """The object of each kernel file, and of the dispatcher, without optimisation: compiled by one of the workers."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "objects"
    folder.mkdir(exist_ok=True)
    sources = {source.relative_to(KERNELS).with_suffix(""): source for source in commands if KERNELS in source.parents}
    targets = {name: folder / f"{'_'.join(name.parts)}.o" for name in sources}

    def compile_object(name: Path) -> None:
        command = commands[sources[name]]
        flags = [flag for flag in command[1:] if flag.startswith(("-I", "-D", "-W", "-f", "-m", "-std="))]
        run(command[0], *flags, "-O0", "-c", sources[name], "-o", targets[name])

    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
                list(pool.map(compile_object, sources))
            (folder / "complete").touch()
    return targets


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


def test_only_kernels_have_flags_of_an_instruction_set(commands: dict[Path, list[str]]) -> None:
    flagged = {source for source, command in commands.items() if any(flag.startswith("-m") for flag in command)}
    assert {source for source in flagged if not source.is_relative_to(KERNELS)} == set()
    assert {source for source in flagged if source.stem in ("dispatch", "scalar")} == set()
