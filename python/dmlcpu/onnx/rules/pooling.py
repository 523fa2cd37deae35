"""Poolings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from dmlcpu.onnx.lowering import Lowering, NotNative, Rule, scalar_parameters
from dmlcpu.onnx.model import Node
from dmlcpu.onnx.rules.convolution import Filter, QuantizedConvolution, Window, window_of
from dmlcpu.onnx.rules.movement import Moved
from dmlcpu.onnx.rules.operands import CODE_TYPES, parameters_of, present
from dmlcpu.onnx.values import Deferred, Operand, Parameters, Table, Tensor, Value

__all__ = ["RULES", "spatial_mean"]


_OTHER_SIGN: Final = np.arange(256, dtype=np.uint8) ^ np.uint8(0x80)


class AveragePooling(Deferred):
    """The average of the dequantized codes of each window."""

    def __init__(self, lowering: Lowering, x: Table, window: Window, include_padding: bool) -> None:
        self._lowering, self._x, self._window, self._include_padding = lowering, x, window, include_padding
        self.shape = (*x.shape[:2], *window.output)

    def quantized(self, parameters: Parameters) -> Tensor:
        """Add the pooling from codes to codes."""
        assert self._x.parameters is not None
        ones = (1,) * len(self.shape)
        # The operator has one data type. INT8 codes are UINT8 ones less 128, the zero point too.
        dtype = self._x.codes.dtype
        zero_point = parameters.zero_point + int(np.iinfo(dtype).min) - int(np.iinfo(parameters.dtype).min)
        given = scalar_parameters(self._x.parameters)
        wanted = scalar_parameters(Parameters(parameters.scale, zero_point, dtype))
        attributes = {
            **self._window.attributes(),
            "window_size": self._window.kernel,
            "include_padding": (int(self._include_padding),),
        }
        operands: list[Operand] = [self._x.codes, *(array.reshape(ones) for array in (*given, *wanted))]
        codes = self._lowering.emit("QUANTIZED_LINEAR_AVERAGE_POOLING", operands, dtype, self.shape, attributes)
        if dtype == parameters.dtype:
            return codes
        return self._lowering.emit("CODE_TABLE", [codes, _OTHER_SIGN], parameters.dtype, self.shape)

    def floats(self) -> Tensor:
        """Add the pooling as a depthwise convolution by ones, its sums scaled."""
        if any(self._window.start_padding) or any(self._window.end_padding):
            raise NotNative("the average of floats beside padding")
        channels = self.shape[1]
        taps = int(np.prod(self._window.kernel))
        scale = np.array([np.float32(1.0) / np.float32(taps)], np.float32)
        ones = np.ones((channels, 1, *self._window.kernel), np.int8)
        weights = Filter(ones, scale, np.zeros(1, np.int8))
        return QuantizedConvolution(self._lowering, self._x, weights, None, self._window, channels).floats()


def _whole(spatial: Sequence[int]) -> Window:
    """Return the window that covers everything."""
    ones, zeros = (1,) * len(spatial), (0,) * len(spatial)
    return Window(tuple(spatial), ones, ones, zeros, zeros, ones)


def _image(value: Table) -> Table:
    if len(value.shape) not in (4, 5):
        raise NotNative(f"a pooling of {len(value.shape)} dimensions")
    return value


def _average_window(node: Node, shape: Sequence[int]) -> Window:
    if node.attributes.get("ceil_mode", 0):
        raise NotNative("ceil_mode")
    return window_of(node, shape[2:], node.attributes["kernel_shape"])


def average_pool(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """AveragePool and GlobalAveragePool of dequantized codes."""
    x = _image(lowering.affine(present(inputs[0])))
    window = _whole(x.shape[2:]) if node.operator == "GlobalAveragePool" else _average_window(node, x.shape)
    return [AveragePooling(lowering, x, window, bool(node.attributes.get("count_include_pad", 0)))]


def spatial_mean(lowering: Lowering, node: Node, x: Table, axes: Sequence[int]) -> Deferred | None:
    """Return the mean over the spatial axes of an image of dequantized codes; None if they are others."""
    rank = len(x.shape)
    is_image = x.parameters is not None and rank in (4, 5)
    if not is_image or sorted(axis % rank for axis in axes) != list(range(2, rank)):
        return None
    return _mean(lowering, node, x, axes)


def _mean(lowering: Lowering, node: Node, x: Table, axes: Sequence[int] | None) -> Deferred:
    rank = len(x.shape)
    if axes is None or sorted(axis % rank for axis in axes) != list(range(2, rank)):
        raise NotNative("a mean over other axes than the spatial ones")
    result = AveragePooling(lowering, x, _whole(x.shape[2:]), False)
    if node.attributes.get("keepdims", 1):
        return result
    shape = x.shape[:2]
    return Moved(result, shape, lambda tensor: lowering.reshaped(tensor, shape))


def qlinear_reduce_mean(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """QLinearReduceMean over the spatial axes."""
    x, x_scale, x_zero_point, y_scale, y_zero_point = (*inputs, None)[:5]
    if not isinstance(x, Tensor):
        raise NotNative("an input that is no tensor of codes")
    table = _image(lowering.table(x, parameters_of(x_scale, x_zero_point, x.dtype)))
    mean = _mean(lowering, node, table, node.attributes.get("axes"))
    return [mean.quantized(parameters_of(y_scale, y_zero_point, x.dtype))]


def qlinear_average_pool(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """QLinearAveragePool and QLinearGlobalAveragePool."""
    x, x_scale, x_zero_point, y_scale, y_zero_point = (*inputs, None)[:5]
    if node.attributes.get("channels_last", 0) or not isinstance(x, Tensor):
        raise NotNative("channels_last")
    table = _image(lowering.table(x, parameters_of(x_scale, x_zero_point, x.dtype)))
    whole = node.operator == "QLinearGlobalAveragePool"
    window = _whole(x.shape[2:]) if whole else _average_window(node, x.shape)
    pooling = AveragePooling(lowering, table, window, bool(node.attributes.get("count_include_pad", 0)))
    return [pooling.quantized(parameters_of(y_scale, y_zero_point, x.dtype))]


def max_pool(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """MaxPool of codes: a positive scale keeps their order."""
    value = present(inputs[0])
    codes = value.codes if isinstance(value, Table) else value
    if not isinstance(codes, Tensor) or codes.dtype not in CODE_TYPES or len(codes.shape) not in (3, 4):
        raise NotNative("floats")
    if isinstance(value, Table) and not np.all(np.diff(_in_order(value)) >= 0):
        raise NotNative("a function of codes that does not keep their order")
    if node.attributes.get("ceil_mode", 0) or node.attributes.get("storage_order", 0) or len(node.outputs) > 1:
        raise NotNative("ceil_mode, or the indices are asked for")
    window = window_of(node, codes.shape[2:], node.attributes["kernel_shape"])
    attributes = {**window.attributes(), "window_size": window.kernel}
    pooled = lowering.emit("MAX_POOLING", [codes], codes.dtype, (*codes.shape[:2], *window.output), attributes)
    return [replace(value, codes=pooled) if isinstance(value, Table) else pooled]


def _in_order(table: Table) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """Return the floats of a table from the lowest code to the highest."""
    return np.roll(table.floats, 128) if table.codes.dtype == np.int8 else table.floats


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("", "AveragePool"): average_pool,
    ("", "GlobalAveragePool"): average_pool,
    ("", "MaxPool"): max_pool,
    ("com.microsoft", "QLinearAveragePool"): qlinear_average_pool,
    ("com.microsoft", "QLinearGlobalAveragePool"): qlinear_average_pool,
    ("com.microsoft", "QLinearReduceMean"): qlinear_reduce_mean,
}
