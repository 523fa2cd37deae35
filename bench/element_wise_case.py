"""One element-wise operator with its data, as dmlcpu and its peers are given it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

import dmlcpu
from bench.operands import PreparedCall, in_layout
from dmlcpu import Device, TensorDesc

__all__ = ["LAYOUTS", "OPERATORS", "SIZES", "ElementWiseCase", "Layout", "Operator"]

Operator = Literal["quantize", "dequantize", "dynamic", "add"]
Layout = Literal["contiguous", "per-axis", "0-stride", "NHWC", "7x7", "3 channels", "reordered"]

# Bytes that one element reads and writes.
OPERATORS: dict[Operator, tuple[int, int]] = {
    "quantize": (4, 1),
    "dequantize": (1, 4),
    "dynamic": (4, 1),
    "add": (2, 1),
}

# How tensors lie in memory, in words for a person.
LAYOUTS: dict[Layout, str] = {
    "contiguous": "one run in every tensor, one scale and zero point",
    "per-axis": "packed {N, C, H, W} with a scale and a zero point for each channel",
    "0-stride": "an operand that repeats along H (add: one code for each channel)",
    "NHWC": "channels are neighbours, with a scale and a zero point for each",
    "7x7": "per-axis on images of 7 x 7, the shortest rows of networks",
    "3 channels": "NHWC with three channels",
    "reordered": "packed input, NHWC output",
}
_CHANNEL_PARAMETERS = ("per-axis", "NHWC", "7x7", "3 channels")

# {N, C, H, W} by its elements in units of 1024.
SIZES: dict[int, tuple[int, int, int, int]] = {
    64: (1, 64, 32, 32),
    1024: (1, 64, 128, 128),
    16384: (16, 64, 128, 128),
}


@dataclass(frozen=True)
class ElementWiseCase:
    """An operator on FLOAT32 and UINT8 tensors of about this many Ki elements, and data that follow from a seed."""

    operator: Operator
    layout: Layout
    kibi_elements: int
    seed: int = 1

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """{N, C, H, W}."""
        batch, channels, height, width = SIZES[self.kibi_elements]
        elements = batch * channels * height * width
        if self.layout == "7x7":
            return elements // (256 * 49), 256, 7, 7
        if self.layout == "3 channels":
            return batch, 3, height * 8, elements // (batch * 3 * height * 8)
        return batch, channels, height, width

    @property
    def elements(self) -> int:
        """Elements of the output."""
        return int(np.prod(self.shape))

    @property
    def channels_last(self) -> bool:
        """Whether the input's memory is {N, H, W, C}."""
        return self.layout in ("NHWC", "3 channels")

    @property
    def by_channel(self) -> bool:
        """Whether each channel has parameters of its own; dynamic quantization and addition have none."""
        return self.layout in _CHANNEL_PARAMETERS and self.operator in ("quantize", "dequantize")

    @cached_property
    def floats(self) -> NDArray[np.float32]:
        """The input that is quantized."""
        return self._placed(np.random.default_rng(self.seed).normal(size=self.shape).astype(np.float32))

    @cached_property
    def codes(self) -> NDArray[np.uint8]:
        """The input that is dequantized, or the first one that is added."""
        return self._placed(np.random.default_rng((self.seed, 1)).integers(0, 256, self.shape).astype(np.uint8))

    @cached_property
    def other_codes(self) -> NDArray[np.uint8]:
        """The second input that is added."""
        codes = np.random.default_rng((self.seed, 2)).integers(0, 256, self.shape).astype(np.uint8)
        if self.layout == "0-stride":
            return np.broadcast_to(codes[:1, :, :1, :1], self.shape)
        return self._placed(codes)

    def _placed(self, array: NDArray[Any]) -> NDArray[Any]:
        if self.layout == "0-stride" and self.operator != "add":
            return np.broadcast_to(array[:, :, :1], self.shape)
        return in_layout(array, "NHWC" if self.channels_last else "NCHW")

    @property
    def bytes_read(self) -> int:
        """Bytes of the inputs, each counted once; what repeats in memory counts as often as it is read."""
        return OPERATORS[self.operator][0] * self.elements

    @property
    def bytes_written(self) -> int:
        """Bytes of the output."""
        return OPERATORS[self.operator][1] * self.elements

    @cached_property
    def scale(self) -> NDArray[np.float32]:
        """One, or one for each channel."""
        count = self.shape[1] if self.by_channel else 1
        return np.random.default_rng((self.seed, 3)).uniform(0.015, 0.03, count).astype(np.float32)

    @cached_property
    def zero_point(self) -> NDArray[np.uint8]:
        """One, or one for each channel."""
        count = self.shape[1] if self.by_channel else 1
        return np.random.default_rng((self.seed, 4)).integers(100, 156, count).astype(np.uint8)

    b_scale = np.float32(0.03)
    output_scale = np.float32(0.05)
    b_zero_point = np.uint8(119)
    output_zero_point = np.uint8(131)

    def prepare(self, device: Device) -> PreparedCall:
        """Compile the operator and bind its tensors; the output is the caller's."""
        bindings, output = self._bindings()
        desc_type = {
            "quantize": dmlcpu.ElementWiseQuantizeLinearOperatorDesc,
            "dequantize": dmlcpu.ElementWiseDequantizeLinearOperatorDesc,
            "dynamic": dmlcpu.DynamicQuantizeLinearOperatorDesc,
            "add": dmlcpu.ElementWiseQuantizedLinearAddOperatorDesc,
        }[self.operator]
        desc = desc_type(**{name: TensorDesc.from_array(array) for name, array in bindings.items()})
        compiled = device.compile_operator(device.create_operator(desc))
        return PreparedCall(lambda: compiled.dispatch(**bindings), output)

    def prepare_function(self, device: Device) -> PreparedCall:
        """Bind the arguments of dmlcpu's function; each call makes a new output."""
        call = self._function(device)
        result = call()
        return PreparedCall(call, result[0] if isinstance(result, tuple) else result)

    def _function(self, device: Device) -> Callable[[], Any]:
        scale, zero_point = self.scale, self.zero_point
        if self.operator == "quantize":
            return lambda: dmlcpu.quantize_linear(self.floats, scale, zero_point, device=device)
        if self.operator == "dequantize":
            return lambda: dmlcpu.dequantize_linear(self.codes, scale, zero_point, device=device)
        if self.operator == "dynamic":
            return lambda: dmlcpu.dynamic_quantize_linear(self.floats, device=device)
        b = (self.other_codes, self.b_scale, self.b_zero_point)
        return lambda: dmlcpu.quantized_linear_add(
            self.codes, scale, zero_point, *b, self.output_scale, self.output_zero_point, device=device
        )

    def _bindings(self) -> tuple[dict[str, NDArray[Any]], NDArray[Any]]:
        output_type = np.float32 if self.operator == "dequantize" else np.uint8
        output_last = self.channels_last or self.layout == "reordered"
        output = in_layout(np.empty(self.shape, output_type), "NHWC" if output_last else "NCHW")
        if self.operator in ("quantize", "dequantize"):
            x: NDArray[Any] = self.floats if self.operator == "quantize" else self.codes
            scale, zero_point = (
                np.broadcast_to(values.reshape(1, -1, 1, 1), self.shape) for values in (self.scale, self.zero_point)
            )
            return {
                "input_tensor": x,
                "scale_tensor": scale,
                "zero_point_tensor": zero_point,
                "output_tensor": output,
            }, output
        if self.operator == "dynamic":
            return {
                "input_tensor": self.floats,
                "output_tensor": output,
                "output_scale_tensor": _single(np.float32(0)),
                "output_zero_point_tensor": _single(np.uint8(0)),
            }, output
        return {
            "a_tensor": self.codes,
            "a_scale_tensor": _single(self.scale),
            "a_zero_point_tensor": _single(self.zero_point),
            "b_tensor": self.other_codes,
            "b_scale_tensor": _single(self.b_scale),
            "b_zero_point_tensor": _single(self.b_zero_point),
            "output_scale_tensor": _single(self.output_scale),
            "output_zero_point_tensor": _single(self.output_zero_point),
            "output_tensor": output,
        }, output


def _single(value: Any) -> NDArray[Any]:
    """Return one value as the {1, 1, 1, 1} tensor that parameters of these operators are."""
    return np.array(value).reshape(1, 1, 1, 1)
