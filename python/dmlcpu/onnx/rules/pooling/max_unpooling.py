"""MaxUnpool: elements go back to where indices say, and zeros are everywhere else."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from dmlcpu.graph.lengths import decided_by, told_unfit
from dmlcpu.onnx.lowering import Lowering, Rule, quantize
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.parameters import Parameters
from dmlcpu.onnx.refusals import NotFitting, NotNative
from dmlcpu.onnx.rules.operands import integers, present
from dmlcpu.onnx.rules.windows import spatial_attributes
from dmlcpu.onnx.values import AffineTable, Deferred, Elements, Tensor, Value, element_type

__all__ = ["RULES"]


class Unpooled(Deferred):
    """Floats among zeros."""

    def __init__(self, lowering: Lowering, source: Value, indices: Elements, shape: tuple[int, ...]) -> None:
        self._lowering, self._source, self._indices = lowering, source, indices
        self.shape, self.dtype = shape, element_type(source)

    def quantized(self, parameters: Parameters) -> Tensor:
        """Put the codes among that of 0."""
        return self.unpooled(self._lowering.quantized(self._source, parameters), _code_of_zero(parameters))

    def floats(self) -> Tensor:
        """Put the floats among zeros."""
        return self.unpooled(self._lowering.elements(self._source), 0)

    def unpooled(self, elements: Elements, value: int) -> Tensor:
        """Add the operator: what no element is written to has the value in each byte."""
        operands = [elements, self._indices]
        return self._lowering.emit("MAX_UNPOOLING", operands, elements.dtype, self.shape, {"value": (value,)})


def _code_of_zero(parameters: Parameters) -> int:
    return int(quantize(np.zeros(1, np.float32), parameters).view(np.uint8)[0])


def max_unpool(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """MaxUnpool."""
    value, indices = present(inputs[0]), lowering.elements(present(inputs[1]))
    if len(value.shape) < 3 or element_type(value) not in (np.float16, np.float32) or indices.dtype != np.int64:
        raise NotNative(f"{element_type(value)} of shape {value.shape} by indices of type {indices.dtype}")
    if indices.shape != value.shape:
        raise NotFitting(told_unfit(value.shape, indices.shape))
    shape = _output_shape(node, value.shape, inputs[2] if len(inputs) > 2 else None)
    unpooled = Unpooled(lowering, value, indices, shape)
    if isinstance(value, AffineTable):
        code = _code_of_zero(value.parameters)
        zero = value.floats[code]
        if zero == 0 and not np.signbit(zero):
            return [replace(value, codes=unpooled.unpooled(value.codes, code))]
    return [unpooled if unpooled.dtype == np.float32 else unpooled.floats()]


def _output_shape(node: Node, shape: Sequence[int], given: Value | None) -> tuple[int, ...]:
    """Return the shape that is asked for; else the least one of which a pooling makes the input's.

    Raises:
        NotFitting: It has fewer elements than that, or other images or channels, which onnxruntime refuses.
    """
    rank = len(shape) - 2
    kernel = node.attributes["kernel_shape"]
    strides, _, padding = spatial_attributes(node, kernel, rank)
    around = [start + end for start, end in zip(padding[:rank], padding[rank:], strict=True)]
    windows = zip(shape[2:], kernel, strides, around, strict=True)
    least = (*shape[:2], *((length - 1) * stride + taps - pads for length, taps, stride, pads in windows))
    wanted = least if given is None else integers(given, "the output's shape")
    if len(wanted) != len(shape) or any(a != b for a, b in zip(wanted[:2], shape[:2], strict=True)):
        raise NotFitting(f"an output of shape {wanted} for an input of shape {tuple(shape)}")
    if not decided_by(_are_enough, len(shape), *wanted, *least):
        raise NotFitting(f"an output of shape {wanted}, which has fewer elements than {least} or none")
    return wanted


def _are_enough(rank: int, *lengths: int) -> bool:
    """Return whether the first of two shapes of this rank has elements, and no fewer than the other."""
    return min(lengths) > 0 and math.prod(lengths[:rank]) >= math.prod(lengths[rank:])


RULES: Final[Mapping[tuple[str, str], Rule]] = {("", "MaxUnpool"): max_unpool}
