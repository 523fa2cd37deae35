"""The instruction sets that this machine can run, and what info tells of a device on it."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

import dmlcpu
from instruction_sets import CPU_FLAGS, ISAS

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
KERNELS = Path(__file__).parents[2] / "cpp" / "kernels"

pytestmark = pytest.mark.usefixtures("no_environment")


def test_available_isas_go_from_worst_to_best() -> None:
    available = dmlcpu.available_isas()
    assert isinstance(available, tuple)
    assert available == tuple(isa for isa in ISAS if isa in available)
    assert available[0] == "scalar"


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="the flags of the CPU are read from Linux")
def test_available_isas_are_what_the_cpu_has() -> None:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    flags = {flag for line in lines if line.startswith("flags") for flag in line.partition(":")[2].split()}
    able = {isa for isa, needed in CPU_FLAGS.items() if needed <= flags}
    available = set(dmlcpu.available_isas())
    assert available <= able
    # Linux may refuse the permission for tiles to a process.
    assert able - available <= {"amx_int8"}


@pytest.mark.skipif(not any(CACHES.glob("index*")), reason="this system does not list the caches")
def test_cache_sizes_are_what_linux_lists() -> None:
    listed = {}
    for cache in CACHES.glob("index*"):
        if (cache / "type").read_text().strip() != "Instruction":
            kibibytes = int((cache / "size").read_text().strip().removesuffix("K"))
            listed[int((cache / "level").read_text())] = kibibytes * 1024
    assert {level: size for level, size in enumerate(dmlcpu.info().cache_sizes, 1) if level in listed} == {
        level: size for level, size in listed.items() if level <= 3
    }


def test_info(isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    best = dmlcpu.info()
    assert (best.version, best.isa) == (dmlcpu.__version__, dmlcpu.available_isas()[-1])
    assert best.num_threads == dmlcpu.Device().num_threads
    assert {*dmlcpu.available_isas(), *best.unavailable_isas} == set(ISAS)
    assert all(best.unavailable_isas.values())
    with pytest.raises(FrozenInstanceError):
        best.isa = isa  # type: ignore[misc]
    monkeypatch.setenv("DMLCPU_ISA", isa)
    monkeypatch.setenv("DMLCPU_NUM_THREADS", "3")
    forced = dmlcpu.info()
    assert (forced.isa, forced.isa_reason, forced.num_threads) == (isa, "DMLCPU_ISA", 3)
    assert best.isa_reason != "DMLCPU_ISA"
    # A kernel may be borrowed from a lower row of the table, never from a higher one.
    by_vbmi = {family for family, row in forced.kernels.items() if row == "avx512_vbmi"}
    assert by_vbmi in (set(), {"depthwise_planes", "softmax_rows", "table"})
    origins = ["avx512_vnni" if family in by_vbmi else row for family, row in forced.kernels.items()]
    assert all(ISAS.index(row) <= ISAS.index(isa) for row in origins)
    families = {kernel.parent.name for kernel in KERNELS.glob("*/scalar.cpp")} | (by_vbmi & {"softmax_rows"})
    without = set() if by_vbmi or isa == "scalar" else {"depthwise_planes"}
    without |= {"few_channels"} if isa == "amx_int8" else set()  # whose products are faster
    assert {*forced.kernels} == families - without


def test_the_kernel_of_tables_is_the_one_that_runs(isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DMLCPU_ISA", isa)
    flags = Path("/proc/cpuinfo")
    if not flags.exists():
        pytest.skip("this system does not tell what the CPU has")
    by_vbmi = isa in ("avx512_vnni", "amx_int8") and "avx512vbmi" in flags.read_text().split()
    expected = "avx512_vbmi" if by_vbmi else {"avx_vnni": "avx2", "amx_int8": "avx512_vnni"}.get(isa, isa)
    assert dmlcpu.info().kernels["table"] == expected


def test_printed_info(isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DMLCPU_ISA", isa)
    information = dmlcpu.info()
    lines = str(information).splitlines()
    words = {line.split()[0]: line for line in lines}
    assert words["isa"].endswith(f"{isa} (DMLCPU_ISA)")
    assert words["dmlcpu"].split()[1] == dmlcpu.__version__
    assert words["num_threads"].split()[1] == str(information.num_threads)
    assert all(f"{family} {row}" in words["kernels"] for family, row in information.kernels.items())
    assert sum(line.startswith("unavailable") for line in lines) == len(information.unavailable_isas)
