"""The caller's floating-point modes change no result, and are as they were afterwards."""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pytest

import dmlcpu
from bound_arrays import Arrays, compiled, dispatched, input_names, owning, random_inputs, same_bits
from conftest import SEED
from operator_samples import LARGE_DESCS


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

pytestmark = pytest.mark.skipif(
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


def inputs_of(desc: dmlcpu.OperatorDesc, factor: float) -> Arrays:
    """A factor that makes subnormal numbers of scales, or of what is divided by them."""
    inputs = random_inputs(desc, np.random.default_rng(SEED))
    for name, content in inputs.items():
        if content.dtype == np.float32 and name != "filter_scale_tensor":
            content *= np.float32(factor)
    return inputs


each_mode = pytest.mark.parametrize("bits", MODES.values(), ids=list(MODES))


@each_mode
def test_the_modes_are_in_force(bits: int) -> None:
    """Otherwise the tests below would say nothing."""
    thirds = np.float32([1, -1, 2, -2])
    tiny = np.float32([1e-30])
    usual = (thirds / np.float32(3), tiny * np.float32(1e-12))
    with mode(bits):
        changed = (thirds / np.float32(3), tiny * np.float32(1e-12))
    if bits & REGISTER.toward_zero:
        assert (usual[0] != changed[0]).any()
    if bits & REGISTER.flush_to_zero:
        assert usual[1] != 0
        assert changed[1] == 0


@pytest.mark.parametrize("desc", LARGE_DESCS.values(), ids=lambda desc: desc.operator_type.name)
@each_mode
def test_results_do_not_follow_the_caller(desc: dmlcpu.OperatorDesc, bits: int, isa: str) -> None:
    """Neither those of the thread that calls, nor those of the thread that helps it."""
    device = dmlcpu.Device(isa=isa, num_threads=2)
    owned = input_names(desc)[1:]
    for factor in (1.0, 1e-39) if bits & REGISTER.flush_to_zero else (1.0,):
        inputs = inputs_of(desc, factor)
        expected = dispatched(compiled(device, desc), **inputs)
        with mode(bits):
            operator = compiled(device, owning(desc, owned))
            if owned:
                operator.initialize(**{name: inputs[name] for name in owned})
            result = dispatched(operator, **{name: inputs[name] for name in inputs.keys() - set(owned)})
        assert same_bits(result, expected)


@each_mode
def test_numbers_given_to_functions_are_converted_as_usual(bits: int) -> None:
    codes = np.arange(256, dtype=np.uint8)
    scales = (0.1, -0.1, 1 / 3, 1e-40, 1e-7, 65519.9)
    for data_type, given in (("FLOAT32", (*scales, 16777217, -16777219)), ("FLOAT16", scales)):
        output_type = dmlcpu.TensorDataType[data_type]
        for scale in given:
            expected = dmlcpu.dequantize_linear(codes, scale, 3, output_data_type=output_type)
            with mode(bits):
                result = dmlcpu.dequantize_linear(codes, scale, 3, output_data_type=output_type)
            assert same_bits({"": result}, {"": expected}), scale


@pytest.mark.skipif(platform.machine() != "x86_64", reason="few other processors can raise them")
def test_exceptions_that_the_caller_unmasked_are_not_raised() -> None:
    """Nor are their flags: what a dispatch divides by zero is no business of the caller."""
    desc = LARGE_DESCS[dmlcpu.OperatorType.ELEMENT_WISE_QUANTIZE_LINEAR]
    operator = compiled(dmlcpu.Device(num_threads=2), desc)
    inputs = inputs_of(desc, 1.0)
    inputs["scale_tensor"][...] = [0.0, 1e-45, np.inf]
    expected = dispatched(operator, **inputs)
    environment = Environment()
    before = environment.read()
    # Inexact, invalid, division by zero, overflow, underflow and denormal operand, unmasked and with no flag up.
    environment.write(before & ~0x1FBF)
    try:
        result = dispatched(operator, **inputs)
        after = environment.read()
    finally:
        environment.write(before)
    assert after == before & ~0x1FBF
    assert same_bits(result, expected)
