"""The cost of one dispatch from Python: operators on tensors so small that their kernels take no time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import typer

import dmlcpu
from bench.choices import chosen_device
from bench.timing import alternating_medians
from dmlcpu import TensorDataType, TensorDesc

__all__ = ["command"]


def command(
    isa: Annotated[str | None, typer.Option(help="instruction set; by default the best")] = None,
    threads: Annotated[int, typer.Option(help="threads of a dispatch")] = 1,
) -> None:
    """Time one dispatch from Python on tensors of one element, with the output passed and with the output allocated."""
    device = chosen_device(isa, threads)
    calls: dict[str, Callable[[], object]] = {}
    for desc in _descs():
        compiled = device.compile_operator(device.create_operator(desc))
        bindings = {
            name: np.ones(tensor.sizes, tensor.data_type.name.lower()) for name, tensor in _tensors(desc).items()
        }
        inputs = {name: array for name, array in bindings.items() if name not in _outputs(compiled, bindings)}
        name = desc.operator_type.name
        calls[name] = lambda compiled=compiled, bindings=bindings: compiled.dispatch(**bindings)  # type: ignore[misc]
        calls[f"{name}, allocating"] = lambda compiled=compiled, inputs=inputs: compiled.dispatch(**inputs)  # type: ignore[misc]
    seconds = alternating_medians(calls)
    print(f"isa {device.isa}, {device.num_threads} threads, microseconds a dispatch (median)")
    for name, value in seconds.items():
        print(f"{value * 1e6:8.2f}  {name}")


def _tensors(desc: dmlcpu.OperatorDesc) -> dict[str, TensorDesc]:
    values = {name: getattr(desc, name) for name in desc.__dataclass_fields__}
    return {name: value for name, value in values.items() if isinstance(value, TensorDesc)}


def _outputs(compiled: dmlcpu.CompiledOperator, bindings: dict[str, Any]) -> set[str]:
    result = compiled.dispatch(**bindings)
    results = result if isinstance(result, tuple) else (result,)
    return {name for name, array in bindings.items() if any(array is output for output in results)}


def _descs() -> list[dmlcpu.OperatorDesc]:
    one = (1, 1, 1, 1)
    f32 = TensorDesc(TensorDataType.FLOAT32, one)
    u8 = TensorDesc(TensorDataType.UINT8, one)
    i32 = TensorDesc(TensorDataType.INT32, one)
    window = {"strides": (1, 1), "dilations": (1, 1), "start_padding": (0, 0), "end_padding": (0, 0)}
    return [
        dmlcpu.ElementWiseQuantizeLinearOperatorDesc(
            input_tensor=f32, scale_tensor=f32, zero_point_tensor=u8, output_tensor=u8
        ),
        dmlcpu.ElementWiseDequantizeLinearOperatorDesc(
            input_tensor=u8, scale_tensor=f32, zero_point_tensor=u8, output_tensor=f32
        ),
        dmlcpu.DynamicQuantizeLinearOperatorDesc(
            input_tensor=f32, output_tensor=u8, output_scale_tensor=f32, output_zero_point_tensor=u8
        ),
        dmlcpu.ElementWiseQuantizedLinearAddOperatorDesc(
            a_tensor=u8,
            a_scale_tensor=f32,
            a_zero_point_tensor=u8,
            b_tensor=u8,
            b_scale_tensor=f32,
            b_zero_point_tensor=u8,
            output_scale_tensor=f32,
            output_zero_point_tensor=u8,
            output_tensor=u8,
        ),
        dmlcpu.QuantizedLinearConvolutionOperatorDesc(
            input_tensor=u8,
            input_scale_tensor=f32,
            input_zero_point_tensor=u8,
            filter_tensor=u8,
            filter_scale_tensor=f32,
            filter_zero_point_tensor=u8,
            bias_tensor=i32,
            output_scale_tensor=f32,
            output_zero_point_tensor=u8,
            output_tensor=u8,
            group_count=1,
            **window,
        ),
    ]
