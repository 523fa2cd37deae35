"""Where the kernel gives no permission for AMX tiles, the next lower row runs, and info() tells why."""

from __future__ import annotations

import errno
import platform
import subprocess
import sys
from pathlib import Path

import pytest

CPUINFO = Path("/proc/cpuinfo")
pytestmark = pytest.mark.skipif(
    not CPUINFO.exists() or platform.machine() != "x86_64", reason="AMX is asked for on Linux for x86-64"
)

# A signal stack that is too small for the tiles.
SMALL_STACK = """
import ctypes
class Stack(ctypes.Structure):
    _fields_ = [("pointer", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]
memory = ctypes.create_string_buffer(4096)
stack = Stack(ctypes.addressof(memory), 0, 4096)
assert ctypes.CDLL(None).sigaltstack(ctypes.byref(stack), None) == 0
"""

# A filter of system calls under which arch_prctl(ARCH_REQ_XCOMP_PERM) fails with an error of our choice.
FILTER = """
import ctypes
class Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_ushort), ("yes", ctypes.c_ubyte), ("no", ctypes.c_ubyte), ("k", ctypes.c_uint)]
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.POINTER(Instruction))]
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, FAIL = 0x7FFF0000, 0x00050000 | {error}
filter = (Instruction * 6)(
    (LOAD, 0, 0, 0), (JUMP_IF_EQUAL, 0, 2, 158),
    (LOAD, 0, 0, 16), (JUMP_IF_EQUAL, 1, 0, 0x1023),
    (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, FAIL))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(Program(6, filter)), 0, 0) == 0
assert libc.syscall(158, 0x1023, 18) == -1
"""

REPORT = """
import numpy
import dmlcpu
reason = dmlcpu.info().unavailable_isas["amx_int8"]
assert dmlcpu.Device().isa == dmlcpu.available_isas()[-1] != "amx_int8"
assert dmlcpu.dequantize_linear(numpy.uint8([1]), 2.0).tolist() == [2.0]
print(reason)
"""

REFUSALS = {
    "a small signal stack": (SMALL_STACK, "sigaltstack"),
    "a sandbox": (FILTER.format(error=errno.EPERM), "seccomp"),
    "an old kernel": (FILTER.format(error=errno.EINVAL), "Linux 5.16"),
}


@pytest.mark.parametrize(("prepare", "reason"), REFUSALS.values(), ids=REFUSALS.keys())
def test_a_refusal_is_told_and_the_next_row_runs(prepare: str, reason: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", prepare + REPORT], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 0, run.stderr
    # A CPU without AMX is never asked about, in a sandbox or not.
    has_amx = "amx_int8" in CPUINFO.read_text()
    assert (reason if has_amx else "the CPU has no") in run.stdout
