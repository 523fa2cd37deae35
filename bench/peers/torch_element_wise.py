"""Element-wise operators of torch on its quantized tensors. Each call makes a new output, as torch's users have it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch

from bench.element_wise_case import ElementWiseCase
from bench.operands import PreparedCall

__all__ = ["prepare"]


def prepare(case: ElementWiseCase, num_threads: int) -> PreparedCall:
    """Make tensors; NHWC ones are channels_last."""
    torch.set_num_threads(num_threads)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch announces the end of its quantized tensors
        call = _call(case)
        result = call()
    return PreparedCall(call, (result if case.operator == "dequantize" else result.int_repr()).numpy())


def _call(case: ElementWiseCase) -> Callable[[], Any]:
    scale, zero_point = case.scale, case.zero_point
    if case.operator == "quantize":
        x = torch.from_numpy(case.floats)
        if case.by_channel:
            scales, zero_points = (
                torch.from_numpy(values.astype(kind)) for values, kind in ((scale, "float64"), (zero_point, "int64"))
            )
            return lambda: torch.quantize_per_channel(x, scales, zero_points, 1, torch.quint8)
        return lambda: torch.quantize_per_tensor(x, float(scale[0]), int(zero_point[0]), torch.quint8)
    a = _quantized(case, case.codes, scale, zero_point)
    if case.operator == "dequantize":
        return lambda: a.dequantize()
    b = _quantized(case, case.other_codes, case.b_scale.reshape(1), case.b_zero_point.reshape(1))
    output_scale, output_zero_point = float(case.output_scale), int(case.output_zero_point)
    return lambda: torch.ops.quantized.add(a, b, output_scale, output_zero_point)


def _quantized(case: ElementWiseCase, codes: Any, scale: Any, zero_point: Any) -> Any:
    tensor = torch.from_numpy(codes)
    if case.by_channel:
        scales, zero_points = torch.from_numpy(scale.astype("float64")), torch.from_numpy(zero_point.astype("int64"))
        return torch._make_per_channel_quantized_tensor(tensor, scales, zero_points, 1)
    return torch._make_per_tensor_quantized_tensor(tensor, float(scale[0]), int(zero_point[0]))
