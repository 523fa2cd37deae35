"""The processor's floating-point modes, set as a caller might have set them."""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

__all__ = ["REGISTER", "Environment", "each_mode", "mode", "needs_modes"]


@dataclass(frozen=True)
class Register:
    """The modes of a processor: where glibc's fenv_t has them, in words, and their bits."""

    word: int
    toward_minus_infinity: int
    toward_plus_infinity: int
    flush_to_zero: int

    @property
    def toward_zero(self) -> int:
        return self.toward_minus_infinity | self.toward_plus_infinity


REGISTERS = {
    # MXCSR, after 28 bytes of the x87 unit; with flush-to-zero goes denormals-are-zero.
    "x86_64": Register(7, 0x2000, 0x4000, 0x8040),
    # FPCR
    "aarch64": Register(0, 1 << 23, 1 << 22, 1 << 24),
}

needs_modes = pytest.mark.skipif(
    platform.machine() not in REGISTERS or sys.platform != "linux", reason="the modes are set as glibc does"
)

REGISTER = REGISTERS.get(platform.machine(), REGISTERS["x86_64"])
MODES = {
    "toward minus infinity": REGISTER.toward_minus_infinity,
    "toward plus infinity": REGISTER.toward_plus_infinity,
    "toward zero": REGISTER.toward_zero,
    "flush to zero": REGISTER.flush_to_zero,
    "all at once": REGISTER.toward_zero | REGISTER.flush_to_zero,
}
MODE_BITS = MODES["all at once"]


class Environment:
    """What glibc's fegetenv and fesetenv read and write, of which one word has the modes."""

    def __init__(self) -> None:
        self.libc = ctypes.CDLL(None)
        self.content = (ctypes.c_uint32 * 8)()

    def read(self) -> int:
        assert self.libc.fegetenv(self.content) == 0
        return self.content[REGISTER.word]

    def write(self, modes: int) -> None:
        self.content[REGISTER.word] = modes
        assert self.libc.fesetenv(self.content) == 0


@contextmanager
def mode(bits: int) -> Iterator[None]:
    """The caller's modes inside, which what runs inside must leave alone."""
    environment = Environment()
    before = environment.read()
    environment.write(before & ~MODE_BITS | bits)
    try:
        yield
        after = environment.read()
    finally:
        environment.write(before)
    assert after & MODE_BITS == bits


each_mode = pytest.mark.parametrize("bits", MODES.values(), ids=list(MODES))
