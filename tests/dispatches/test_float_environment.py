"""The caller's floating-point modes change no result, and are as they were afterwards."""

from __future__ import annotations

import itertools
import platform

import numpy as np
import pytest

import dmlcpu
from bound_arrays import Arrays, compiled, dispatched, input_names, owning, random_inputs, same_bits
from conftest import SEED
from dmlcpu import _core
from dmlcpu.float_environment import in_default_float_environment
from float_modes import REGISTER, Environment, each_mode, mode, needs_modes
from operator_samples import LARGE_DESCS

pytestmark = needs_modes


def inputs_of(desc: dmlcpu.OperatorDesc, factor: float) -> Arrays:
    """A factor that makes subnormal numbers of scales, or of what is divided by them."""
    inputs = random_inputs(desc, np.random.default_rng(SEED))
    for name, content in inputs.items():
        if content.dtype == np.float32 and name != "filter_scale_tensor":
            content *= np.float32(factor)
    return inputs


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
    scales = (0.1, -0.1, 1 / 3, 1e-7, 65519.9)
    for data_type, given in (("FLOAT32", (*scales, 1e-40, 16777217, -16777219)), ("FLOAT16", (*scales, 6e-8, 0.0))):
        output_type = dmlcpu.TensorDataType[data_type]
        for scale in given:
            expected = dmlcpu.dequantize_linear(codes, scale, 3, output_data_type=output_type)
            with mode(bits):
                result = dmlcpu.dequantize_linear(codes, scale, 3, output_data_type=output_type)
            assert same_bits({"": result}, {"": expected}), scale
        smallest = float(np.finfo(data_type.lower()).smallest_subnormal)
        with mode(bits):
            dmlcpu.dequantize_linear(codes, [smallest], output_data_type=output_type)
            with pytest.raises(
                dmlcpu.BindingError, match=f"^dequantize_linear: scale: got {smallest / 2}, expected a n"
            ):
                dmlcpu.dequantize_linear(codes, [smallest / 2], output_data_type=output_type)


@pytest.mark.parametrize("num_threads", [1, 2])
@each_mode
def test_boxes_do_not_follow_the_caller(bits: int, isa: str, num_threads: int) -> None:
    """Which boxes overlap enough, of the usual sizes and of such as have subnormal areas."""
    rng = np.random.default_rng(SEED)
    corners = rng.integers(0, 8, (1, 400, 4)).astype(np.float32) / np.float32(7)
    corners[..., 2:] += corners[..., :2] + np.float32(1 / 7)
    scores = rng.random((1, 1, 400), dtype=np.float32)
    for factor in (1, 1e-21):
        arguments = (corners * np.float32(factor), scores, 400, 0.5, None, False, isa, num_threads)
        expected = _core.non_max_suppression(*arguments)
        with mode(bits):
            result = _core.non_max_suppression(*arguments)
        assert same_bits({"": result}, {"": expected})


@pytest.mark.parametrize("num_threads", [1, 2])
@each_mode
def test_regions_do_not_follow_the_caller(bits: int, isa: str, num_threads: int) -> None:
    rng = np.random.default_rng(SEED)
    images = rng.normal(size=(1, 4, 20, 20)).astype(np.float32)
    regions = np.sort(rng.random((50, 4), dtype=np.float32) * np.float32(50), axis=1)
    of_images = np.zeros(50, np.int64)
    for factor, largest in itertools.product((1, 1e-39), (False, True)):
        arguments = (images * np.float32(factor), regions, of_images, 3, 3, 2, 0.375, False, largest, isa, num_threads)
        expected = _core.roi_align(*arguments)
        with mode(bits):
            result = _core.roi_align(*arguments)
        assert same_bits({"": result}, {"": expected})


@each_mode
def test_python_computes_as_usual_in_the_default_environment(bits: int) -> None:
    """What is raised there comes out as it is, and finds the caller's modes."""

    @in_default_float_environment
    def quotient(a: float, *, by: float) -> np.ndarray:
        return np.float32([a]) / np.float32(by)

    thirds, tiny = quotient(1, by=3), quotient(1e-38, by=1e5)
    with mode(bits):
        assert quotient(1, by=3) == thirds
        assert same_bits({"": quotient(1e-38, by=1e5)}, {"": tiny})
        with pytest.raises(ZeroDivisionError) as caught:
            in_default_float_environment(divmod)(1, 0)
    assert caught.value.__context__ is None


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
