"""Nodes that move elements and compute none: what a value is a function of moves, and the function stays."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from dmlcpu.onnx.lowering import Lowering, NotNative, Rule, quantize
from dmlcpu.onnx.model import Node
from dmlcpu.onnx.rules.operands import CODE_TYPES, constant, integers, parameters_of, present
from dmlcpu.onnx.values import Array, Constant, Deferred, Dequantized, Operand, Parameters, Table, Tensor, Value

__all__ = ["RULES", "Moved", "moved"]

Move = Callable[[Tensor], Tensor]


class Moved(Deferred):
    """The result of an operator, its elements moved."""

    def __init__(self, source: Deferred, shape: tuple[int, ...], move: Move) -> None:
        self._source, self._move = source, move
        self.shape, self.dtype = shape, source.dtype

    def quantized(self, parameters: Parameters) -> Tensor:
        """Move the codes."""
        return self._move(self._source.quantized(parameters))

    def floats(self) -> Tensor:
        """Move the floats."""
        return self._move(self._source.computed())


def moved(value: Value, shape: Sequence[int], move: Move, move_array: Callable[[Array], Array]) -> Value:
    """Return a value with its elements moved, as a tensor is and as an array is."""
    if isinstance(value, Table):
        return replace(value, codes=move(value.codes))
    if isinstance(value, Deferred):
        return Moved(value, tuple(shape), move)
    if isinstance(value, Dequantized):
        if value.scale.size == 1:
            return replace(value, codes=move_array(value.codes))
        return Constant(move_array(value.floats()))
    return Constant(move_array(value.array)) if isinstance(value, Constant) else move(value)


def _reshaped(lowering: Lowering, value: Value, shape: Sequence[int]) -> Value:
    lengths = tuple(shape)
    if int(np.prod(lengths)) != int(np.prod(value.shape)) or 0 in lengths:
        raise NotNative(f"{value.shape} as {lengths}")
    return moved(value, lengths, lambda tensor: lowering.reshaped(tensor, lengths), lambda a: a.reshape(lengths))


def reshape(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Reshape."""
    value = present(inputs[0])
    wanted = list(integers(inputs[1], "the shape"))
    if not node.attributes.get("allowzero", 0):
        wanted = [value.shape[axis] if length == 0 else length for axis, length in enumerate(wanted)]
    if wanted.count(-1) == 1:
        known = int(np.prod([length for length in wanted if length != -1]))
        wanted[wanted.index(-1)] = int(np.prod(value.shape)) // max(known, 1)
    return [_reshaped(lowering, value, wanted)]


def flatten(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Flatten."""
    value = present(inputs[0])
    axis = int(node.attributes.get("axis", 1))
    axis += len(value.shape) if axis < 0 else 0
    return [_reshaped(lowering, value, (int(np.prod(value.shape[:axis])), int(np.prod(value.shape[axis:]))))]


def _axes(node: Node, inputs: Sequence[Value | None], rank: int) -> tuple[int, ...] | None:
    """Return the axes of an attribute, or since version 13 of the second input; None if they are not given."""
    given = node.attributes.get("axes")
    if given is None and len(inputs) > 1 and inputs[1] is not None:
        given = integers(inputs[1], "the axes")
    if given is None:
        return None
    if any(not -rank <= axis < rank for axis in given):
        raise NotNative(f"axes {given} of {rank}")
    return tuple(sorted(axis % rank for axis in given))


def squeeze(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Squeeze."""
    value = present(inputs[0])
    axes = _axes(node, inputs, len(value.shape))
    kept = [length for axis, length in enumerate(value.shape) if not (length == 1 if axes is None else axis in axes)]
    return [_reshaped(lowering, value, kept)]


def unsqueeze(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Unsqueeze."""
    value = present(inputs[0])
    given = node.attributes.get("axes") or integers(inputs[1], "the axes")
    rank = len(value.shape) + len(given)
    axes = {axis % rank for axis in given}
    lengths = iter(value.shape)
    return [_reshaped(lowering, value, [1 if axis in axes else next(lengths) for axis in range(rank)])]


def transpose(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Transpose."""
    value = present(inputs[0])
    permutation = tuple(node.attributes.get("perm", tuple(reversed(range(len(value.shape))))))
    shape = tuple(value.shape[axis] for axis in permutation)
    if isinstance(value, Dequantized):
        return [replace(value, codes=value.codes.transpose(permutation), axis=permutation.index(value.axis))]

    def move(tensor: Tensor) -> Tensor:
        return lowering.emit("TRANSPOSE", [tensor], tensor.dtype, shape, {"permutation": permutation})

    return [moved(value, shape, move, lambda array: array.transpose(permutation))]


def _sliced(
    lowering: Lowering, value: Value, starts: Sequence[int], steps: Sequence[int], shape: Sequence[int]
) -> Value:
    if 0 in shape:
        raise NotNative("an empty slice")
    attributes = {"starts": tuple(starts), "steps": tuple(steps)}
    places = tuple(
        slice(start, start + (length - 1) * step + 1, step)
        for start, step, length in zip(starts, steps, shape, strict=True)
    )

    def move(tensor: Tensor) -> Tensor:
        return lowering.emit("SLICE", [tensor], tensor.dtype, shape, attributes)

    return moved(value, shape, move, lambda array: array[places])


def slice_(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Slice, forwards."""
    value = present(inputs[0])
    rank = len(value.shape)
    if node.version < 10:
        starts, ends = node.attributes["starts"], node.attributes["ends"]
        axes, steps = node.attributes.get("axes", range(len(starts))), (1,) * len(starts)
    else:
        starts, ends = integers(inputs[1], "the starts"), integers(inputs[2], "the ends")
        given_axes, given_steps = (*inputs[3:], None, None)[:2]
        axes = range(len(starts)) if given_axes is None else integers(given_axes, "the axes")
        steps = (1,) * len(starts) if given_steps is None else integers(given_steps, "the steps")
    begin, stride, shape = [0] * rank, [1] * rank, list(value.shape)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if step < 1:
            raise NotNative("a slice backwards")
        places = range(*slice(start, end, step).indices(value.shape[axis]))
        begin[axis], stride[axis], shape[axis] = places.start, step, len(places)
    return [_sliced(lowering, value, begin, stride, shape)]


def gather(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Gather by one constant index, or by constant indices at equal distances: a slice."""
    value, indices = present(inputs[0]), constant(inputs[1], "the indices")
    if isinstance(value, Constant | Dequantized) or not value.shape or indices.ndim > 1 or indices.size == 0:
        raise NotNative("indices that are no vector")
    axis = int(node.attributes.get("axis", 0)) % len(value.shape)
    length = value.shape[axis]
    places = [int(place) + (length if place < 0 else 0) for place in indices.reshape(-1)]
    step = places[1] - places[0] if len(places) > 1 else 1
    if min(places) < 0 or max(places) >= length or step < 1:
        raise NotNative("indices out of range, or backwards")
    if places != list(range(places[0], places[-1] + 1, step)):
        raise NotNative("indices at several distances")
    starts, steps, shape = [0] * len(value.shape), [1] * len(value.shape), list(value.shape)
    starts[axis], steps[axis], shape[axis] = places[0], step, len(places)
    part = _sliced(lowering, value, starts, steps, shape)
    return [part if indices.ndim == 1 else _reshaped(lowering, part, (*shape[:axis], *shape[axis + 1 :]))]


def shape_(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Shape and Size: constants, as all shapes are known here."""
    shape = present(inputs[0]).shape
    if node.operator == "Size":
        return [Constant(np.array(math.prod(shape), np.int64))]
    part = slice(node.attributes.get("start"), node.attributes.get("end"))
    return [Constant(np.array(shape[part], np.int64))]


def split(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Split."""
    value = present(inputs[0])
    axis = int(node.attributes.get("axis", 0)) % len(value.shape)
    lengths = node.attributes.get("split")
    if lengths is None and len(inputs) > 1 and inputs[1] is not None:
        lengths = integers(inputs[1], "the lengths")
    if lengths is None:
        size = -(-value.shape[axis] // len(node.outputs))
        lengths = [min(size, value.shape[axis] - size * index) for index in range(len(node.outputs))]
    if sum(lengths) != value.shape[axis] or len(lengths) != len(node.outputs):
        raise NotNative(f"parts of {lengths} along an axis of {value.shape[axis]}")
    parts = []
    for index, length in enumerate(lengths):
        starts, shape = [0] * len(value.shape), list(value.shape)
        starts[axis], shape[axis] = sum(lengths[:index]), length
        parts.append(_sliced(lowering, value, starts, (1,) * len(shape), shape))
    return [part for part, name in zip(parts, node.outputs, strict=True) if name]


def expand(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Expand."""
    value = present(inputs[0])
    shape = np.broadcast_shapes(value.shape, integers(inputs[1], "the shape"))
    return [moved(value, shape, lambda tensor: lowering.expanded(tensor, shape), lambda a: np.broadcast_to(a, shape))]


class Joined(Deferred):
    """Values side by side."""

    def __init__(self, lowering: Lowering, parts: Sequence[Value], axis: int, shape: tuple[int, ...]) -> None:
        self._lowering, self._parts, self._axis = lowering, parts, axis
        self.shape = shape

    def quantized(self, parameters: Parameters) -> Tensor:
        """Bring all parts to the same parameters, and join their codes."""
        return join(self._lowering, [self._lowering.quantized(part, parameters) for part in self._parts], self._axis)

    def floats(self) -> Tensor:
        """Join the floats."""
        return join(self._lowering, [self._lowering.floats(part) for part in self._parts], self._axis)


def join(lowering: Lowering, parts: Sequence[Tensor | Array], axis: int) -> Tensor:
    """Return tensors of one type side by side."""
    shape = list(parts[0].shape)
    shape[axis] = sum(part.shape[axis] for part in parts)
    operands: list[Operand] = list(parts)
    return lowering.emit("JOIN", operands, parts[0].dtype, shape, {"axis": (axis,)})


def concat(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Concat: of the same codes joined codes, of others what is requantized when it is quantized."""
    values = [present(value) for value in inputs]
    axis = int(node.attributes["axis"]) % len(values[0].shape)
    shape = list(values[0].shape)
    shape[axis] = sum(value.shape[axis] for value in values)
    if any(
        (*value.shape[:axis], 0, *value.shape[axis + 1 :]) != (*shape[:axis], 0, *shape[axis + 1 :]) for value in values
    ):
        raise NotNative("shapes that differ along other axes")
    tables = [value for value in values if isinstance(value, Table)]
    first = tables[0] if len(tables) == len(values) else None
    if first is not None and all(
        table.codes.dtype == first.codes.dtype and np.array_equal(table.floats, first.floats) for table in tables
    ):
        return [replace(first, codes=join(lowering, [table.codes for table in tables], axis))]
    if all(isinstance(value, Tensor | Constant) for value in values):
        parts = [lowering.floats(value) for value in values]
        if len({part.dtype for part in parts}) != 1:
            raise NotNative("parts of several types")
        return [join(lowering, parts, axis)]
    return [Joined(lowering, values, axis, tuple(shape))]


def qlinear_concat(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """QLinearConcat: an output's parameters, then codes, scale and zero point of each part."""
    parameters = parameters_of(inputs[0], inputs[1])
    parts = []
    for index in range(2, len(inputs), 3):
        codes, scale, zero_point = inputs[index : index + 3]
        if isinstance(codes, Constant):
            own = parameters_of(scale, zero_point, codes.array.dtype)
            floats = (codes.array.astype(np.float32) - np.float32(own.zero_point)) * own.scale
            parts.append(lowering.quantized(Constant(floats), parameters))
            continue
        if not isinstance(codes, Tensor):
            raise NotNative("parts that are no codes")
        parts.append(lowering.recoded(lowering.table(codes, parameters_of(scale, zero_point, codes.dtype)), parameters))
    return [join(lowering, parts, int(node.attributes["axis"]) % len(parts[0].shape))]


def pad(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Pad with a constant."""
    value = present(inputs[0])
    rank = len(value.shape)
    if node.attributes.get("mode", b"constant") != b"constant":
        raise NotNative("padding that is no constant")
    if node.version < 11:
        pads, fill = node.attributes["pads"], np.float32(node.attributes.get("value", 0.0))
        axes: Sequence[int] = range(rank)
    else:
        pads = integers(inputs[1], "the padding")
        given, given_axes = (*inputs[2:], None, None)[:2]
        fill = np.float32(0) if given is None else constant(given, "the value").reshape(())[()]
        axes = range(rank) if given_axes is None else [axis % rank for axis in integers(given_axes, "the axes")]
    start, end = [0] * rank, [0] * rank
    for index, axis in enumerate(axes):
        start[axis], end[axis] = pads[index], pads[index + len(axes)]
    if min((*start, *end)) < 0:
        raise NotNative("negative padding")
    shape = tuple(length + a + b for length, a, b in zip(value.shape, start, end, strict=True))
    if isinstance(value, Table):
        if value.parameters is None:
            raise NotNative("padding of a function of codes")
        code = quantize(np.array([fill], np.float32), value.parameters)
        if value.floats[code.view(np.uint8)[0]] != fill:
            raise NotNative("padding with a value that no code stands for")
        return [replace(value, codes=_padded(lowering, value.codes, shape, start, end, code[0]))]
    if isinstance(value, Tensor) and value.dtype in CODE_TYPES:
        return [_padded(lowering, value, shape, start, end, np.asarray(fill).astype(value.dtype)[()])]
    raise NotNative("padding of floats")


def _padded(
    lowering: Lowering, codes: Tensor, shape: Sequence[int], start: Sequence[int], end: Sequence[int], code: Any
) -> Tensor:
    if tuple(shape) == codes.shape:
        return codes
    attributes = {"start_padding": start, "end_padding": end, "value": (int(np.asarray(code).view(np.uint8)),)}
    return lowering.emit("PADDING", [codes], codes.dtype, shape, attributes)


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("", "Reshape"): reshape,
    ("", "Flatten"): flatten,
    ("", "Squeeze"): squeeze,
    ("", "Unsqueeze"): unsqueeze,
    ("", "Transpose"): transpose,
    ("", "Gather"): gather,
    ("", "Shape"): shape_,
    ("", "Size"): shape_,
    ("", "Slice"): slice_,
    ("", "Split"): split,
    ("", "Expand"): expand,
    ("", "Concat"): concat,
    ("", "Pad"): pad,
    ("com.microsoft", "QLinearConcat"): qlinear_concat,
}
