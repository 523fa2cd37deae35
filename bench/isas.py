"""Every operator on every instruction set of this machine, side by side, each checked against the scalar row first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import typer

import dmlcpu
from bench.choices import chosen_device
from bench.timing import alternating_medians
from dmlcpu import Device

__all__ = ["command"]


@dataclass(frozen=True)
class Case:
    """One call of a function on fixed arrays."""

    name: str
    call: Callable[[Device], Any]


def command(
    only: Annotated[str, typer.Option(help="cases whose name contains this")] = "",
    threads: Annotated[int, typer.Option(help="threads of a dispatch")] = 1,
) -> None:
    """Time every operator on every instruction set, each result checked against the scalar row first."""
    devices = {isa: chosen_device(isa, threads) for isa in dmlcpu.available_isas()}
    print(f"{threads} threads; microseconds (ratio over scalar)")
    print(f"{'':36}" + "".join(f"{isa:>20}" for isa in devices))
    for case in _cases():
        if only not in case.name:
            continue
        expected = case.call(devices["scalar"])
        for isa, device in devices.items():
            if not np.array_equal(case.call(device), expected):
                raise SystemExit(f"{case.name}: {isa} differs from scalar")
        seconds = alternating_medians({isa: _bound(case, device) for isa, device in devices.items()}, repeats=5)
        columns = (f"{s * 1e6:11.1f} ({seconds['scalar'] / s:5.1f})" for s in seconds.values())
        print(f"{case.name:36}" + "".join(f"{column:>20}" for column in columns))


def _bound(case: Case, device: Device) -> Callable[[], object]:
    return lambda: case.call(device)


def _cases() -> list[Case]:
    generator = np.random.default_rng(1)
    elements = 1 << 18
    floats = generator.normal(size=elements).astype(np.float32)
    codes = generator.integers(0, 256, elements).astype(np.uint8)
    others = generator.integers(-128, 128, elements).astype(np.int8)
    code_output, float_output = np.empty_like(codes), np.empty_like(floats)
    cases = [
        Case(
            "quantize_linear 256 Ki",
            lambda device: dmlcpu.quantize_linear(floats, 0.02, 3, out=code_output, device=device),
        ),
        Case(
            "dequantize_linear 256 Ki",
            lambda device: dmlcpu.dequantize_linear(codes, 0.02, 3, out=float_output, device=device),
        ),
        Case(
            "dynamic_quantize_linear 256 Ki",
            lambda device: dmlcpu.dynamic_quantize_linear(floats, out=(code_output, None, None), device=device)[0],
        ),
        Case(
            "quantized_linear_add 256 Ki",
            lambda device: dmlcpu.quantized_linear_add(
                codes, 0.02, 3, others, 0.03, 1, 0.04, 7, out=code_output, device=device
            ),
        ),
    ]
    for channels, side, outputs, kernel in ((64, 28, 64, 3), (256, 14, 256, 1), (3, 56, 32, 7)):
        for order in ("NCHW", "NHWC"):
            cases.append(_convolution(generator, channels, side, outputs, kernel, order))
    return cases + _integer_products(generator)


def _integer_products(generator: np.random.Generator) -> list[Case]:
    a = generator.integers(0, 256, (128, 512)).astype(np.uint8)
    b = generator.integers(-128, 128, (512, 256)).astype(np.int8)
    scales = generator.uniform(1e-4, 2e-4, 256).astype(np.float32)
    image = generator.integers(0, 256, (1, 64, 28, 28)).astype(np.uint8)
    filters = generator.integers(-128, 128, (64, 64, 3, 3)).astype(np.int8)
    return [
        Case(
            "matrix_multiply_integer 128x512x256",
            lambda device: dmlcpu.matrix_multiply_integer(a, 128, b, None, device=device),
        ),
        Case(
            "quantized_linear_matrix_multiply",
            lambda device: dmlcpu.quantized_linear_matrix_multiply(
                a, 0.1, 128, b, scales, None, 0.01, 9, device=device
            ),
        ),
        Case(
            "matrix_multiply_integer_to_float",
            lambda device: dmlcpu.matrix_multiply_integer_to_float(a, 0.1, 128, b, scales, None, device=device),
        ),
        Case(
            "convolution_integer 64x28x28 64x3x3",
            lambda device: dmlcpu.convolution_integer(
                image, 128, filters, None, start_padding=1, end_padding=1, device=device
            ),
        ),
    ]


def _convolution(
    generator: np.random.Generator, channels: int, side: int, outputs: int, kernel: int, order: str
) -> Case:
    image = generator.integers(0, 256, (1, channels, side, side)).astype(np.uint8)
    if order == "NHWC":
        image = np.moveaxis(np.ascontiguousarray(np.moveaxis(image, 1, -1)), -1, 1)
    filters = generator.integers(-128, 128, (outputs, channels, kernel, kernel)).astype(np.int8)
    scales = generator.uniform(1e-4, 2e-4, outputs).astype(np.float32)
    pad = kernel // 2
    return Case(
        f"convolution {channels}x{side}x{side} {outputs}x{kernel}x{kernel} {order}",
        lambda device: dmlcpu.quantized_linear_convolution(
            image, 0.02, 128, filters, scales, None, None, 0.1, 120, start_padding=pad, end_padding=pad, device=device
        ),
    )
