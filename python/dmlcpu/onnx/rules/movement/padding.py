"""Pad and CenterCropPad, of codes and of floats."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from dmlcpu.dtypes import CODE_TYPES
from dmlcpu.onnx.constant_arrays import Array, Constant, ConstantElements, broadcast_to
from dmlcpu.onnx.lowering import Lowering, Rule, quantize
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.parameters import Parameters
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.element_operators import INTEGER_TYPES
from dmlcpu.onnx.rules.movement.gathered_values import gathered
from dmlcpu.onnx.rules.movement.moved_values import join, sliced
from dmlcpu.onnx.rules.operands import axis_within, constant, integers, present
from dmlcpu.onnx.values import CONSTANTS, AffineTable, Computed, Deferred, Elements, Tensor, Value, element_type

__all__ = ["RULES", "Margins", "padded"]


# Elements along an axis that are told one by one.
_MOST_PLACES: Final = 1 << 20
# Of a constant with its padding.
_MOST_ELEMENTS: Final = 1 << 24


class Margins:
    """How many elements are added before and behind those of each axis."""

    def __init__(self, start: Sequence[int], end: Sequence[int]) -> None:
        self.start, self.end = tuple(start), tuple(end)

    def around(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return a shape with its margins."""
        return tuple(length + a + b for length, a, b in zip(shape, self.start, self.end, strict=True))


class Padded(Deferred):
    """Floats, or integers, with others of one value around them."""

    def __init__(self, lowering: Lowering, source: Computed, margins: Margins, fill: Any) -> None:
        self._lowering, self._source, self._margins, self._fill = lowering, source, margins, fill
        self.shape = margins.around(source.shape)
        self.dtype = element_type(source)

    def quantized(self, parameters: Parameters) -> Tensor:
        """Pad the codes with that of the value."""
        codes = self._lowering.quantized(self._source, parameters)
        return _padded(self._lowering, codes, self._margins, quantize(np.array([self._fill]), parameters)[0])

    def floats(self) -> Tensor:
        """Join what is padded with constants."""
        tensor = self._lowering.floats(self._source)
        for axis, (before, behind) in enumerate(zip(self._margins.start, self._margins.end, strict=True)):
            parts: list[Elements] = [tensor]
            if before:
                parts.insert(0, self._margin(tensor, axis, before))
            if behind:
                parts.append(self._margin(tensor, axis, behind))
            tensor = join(self._lowering, parts, axis) if len(parts) > 1 else tensor
        return tensor

    def _margin(self, tensor: Tensor, axis: int, length: int) -> ConstantElements:
        shape = (*tensor.shape[:axis], length, *tensor.shape[axis + 1 :])
        return broadcast_to(np.asarray(self._fill, tensor.dtype), shape)


def _padded(lowering: Lowering, codes: Tensor, margins: Margins, code: Any) -> Tensor:
    value = int(np.asarray(code).view(np.uint8))
    attributes = {"start_padding": margins.start, "end_padding": margins.end, "value": (value,)}
    return lowering.emit("PADDING", [codes], codes.dtype, margins.around(codes.shape), attributes)


def _source_places(mode: bytes, length: int, start: int, end: int) -> Array:
    """Return where the elements of a padded axis come from; binds its length."""
    length = int(length)
    if length + start + end > _MOST_PLACES:
        raise NotNative(f"padding of {start} and {end} elements from others")
    places = np.arange(-start, length + end)
    if mode == b"edge":
        places = places.clip(0, length - 1)
    elif mode == b"wrap":
        places %= length
    elif mode == b"reflect":
        period = max(2 * (length - 1), 1)
        places = np.abs((places + length - 1) % period - (length - 1))
    else:
        raise NotNative(f"padding of the kind {mode.decode(errors='replace')}")
    return places


def _amounts(node: Node, inputs: Sequence[Value | None], rank: int) -> tuple[list[int], list[int], Any]:
    """Return the padding before and behind each axis, which may be negative, and the value."""
    fill: Any
    if node.version < 11:
        pads, fill = node.attributes["pads"], np.float32(node.attributes.get("value", 0.0))
        axes: Sequence[int] = range(rank)
    else:
        pads = integers(inputs[1], "the padding")
        given, given_axes = (*inputs[2:], None, None)[:2]
        fill = np.float32(0) if given is None else constant(given, "the value").reshape(())[()]
        named = range(rank) if given_axes is None else integers(given_axes, "the axes")
        axes = [axis_within(axis, rank) for axis in named]
    start, end = [0] * rank, [0] * rank
    for index, axis in enumerate(axes):
        start[axis], end[axis] = pads[index], pads[index + len(axes)]
    return start, end, fill


def pad(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Pad; what is taken away is taken away first."""
    value = present(inputs[0])
    start, end, fill = _amounts(node, inputs, len(value.shape))
    if min((*start, *end), default=0) < 0:
        kept = [length + min(a, 0) + min(b, 0) for length, a, b in zip(value.shape, start, end, strict=True)]
        if any(length < 1 for length in kept):
            raise NotNative("nothing is left between negative padding")
        value = sliced(lowering, value, [max(-amount, 0) for amount in start], (1,) * len(kept), kept)
    margins = Margins([max(amount, 0) for amount in start], [max(amount, 0) for amount in end])
    mode = node.attributes.get("mode", b"constant")
    if mode != b"constant":
        amounts = zip(value.shape, margins.start, margins.end, strict=True)
        places = {axis: _source_places(mode, length, a, b) for axis, (length, a, b) in enumerate(amounts) if a or b}
        return [gathered(lowering, value, places) if places else value]
    return [padded(lowering, value, margins, fill)]


def padded(lowering: Lowering, value: Value, margins: Margins, fill: Any) -> Value:
    """Return a value with margins of one number around it.

    Raises:
        NotNative: It is of no type that is padded.
    """
    if not any((*margins.start, *margins.end)):
        return value
    if isinstance(value, CONSTANTS):
        if math.prod(margins.around(value.shape)) > _MOST_ELEMENTS:
            raise NotNative("padding of a constant that would be too large")
        amounts = [*zip(margins.start, margins.end, strict=True)]
        return Constant(np.pad(constant(value, "what is padded"), amounts, constant_values=fill))
    if isinstance(value, AffineTable):
        code = quantize(np.array([fill], np.float32), value.parameters)
        if value.floats[code.view(np.uint8)[0]] == fill:
            return replace(value, codes=_padded(lowering, value.codes, margins, code[0]))
    if isinstance(value, Tensor) and value.dtype in CODE_TYPES:
        return _padded(lowering, value, margins, np.asarray(fill).astype(value.dtype)[()])
    if isinstance(value, Tensor | Deferred) and value.dtype in INTEGER_TYPES:
        return Padded(lowering, value, margins, fill).floats()
    if isinstance(value, Tensor) and value.dtype != np.float32:
        raise NotNative(f"padding of elements of type {value.dtype}")
    return Padded(lowering, value, margins, np.float32(fill))


def center_crop_pad(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """CenterCropPad: half of what is too many, or missing, along each axis is before the rest, rounded down."""
    value, wanted = present(inputs[0]), integers(inputs[1], "the shape")
    rank = len(value.shape)
    named = node.attributes.get("axes", range(rank))
    axes = [axis_within(axis, rank) for axis in named]
    if not len(wanted) == len(named) == len({*axes}) or min(wanted, default=1) < 1:
        raise NotNative(f"lengths {wanted} of the axes {tuple(named)} of {rank}")
    first, kept, start, end = [0] * rank, list(value.shape), [0] * rank, [0] * rank
    for axis, length in zip(axes, wanted, strict=True):
        given = value.shape[axis]
        if length < given:
            first[axis], kept[axis] = (given - length) // 2, length
        else:
            start[axis] = (length - given) // 2
            end[axis] = length - given - start[axis]
    if any(first) or tuple(kept) != value.shape:
        value = sliced(lowering, value, first, (1,) * rank, kept)
    return [padded(lowering, value, Margins(start, end), np.float32(0))]


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("", "Pad"): pad,
    ("", "CenterCropPad"): center_crop_pad,
}
