"""Nodes that move elements and compute none: what a value is a function of moves, and the function stays."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, Final

import numpy as np

from dmlcpu.dtypes import INT64
from dmlcpu.graph.lengths import broadcast_shapes
from dmlcpu.onnx.coded_weights import ConstantOfBlocks
from dmlcpu.onnx.constants.empty_arrays import nothing
from dmlcpu.onnx.constants.shape_arithmetic import numbers
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.parameters import Parameters
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.operands import integers, parameters_of, present, written
from dmlcpu.onnx.rules.quantization.wide_codes import WideCodes
from dmlcpu.onnx.values import (
    Array,
    Constant,
    Deferred,
    Dequantized,
    Elements,
    Operand,
    Table,
    Tensor,
    Value,
    array_broadcast,
    array_in_shape,
    as_value,
    constant_by,
    element_type,
    source_of,
)

__all__ = [
    "RULES",
    "Moved",
    "axes_of",
    "expanded",
    "join",
    "joined",
    "moved",
    "reshaped",
    "sliced",
    "transposed",
    "with_channels_last",
]

Move = Callable[[Tensor], Tensor]
MoveArray = Callable[..., Array]


class Moved(Deferred):
    """A computed value, its elements moved."""

    def __init__(self, lowering: Lowering, source: Deferred | Table, shape: tuple[int, ...], move: Move) -> None:
        self._lowering, self._source, self._move = lowering, source, move
        self.shape, self.dtype = shape, element_type(source)

    def quantized(self, parameters: Parameters) -> Tensor:
        """Move the codes."""
        codes = self._lowering.quantized(self._source, parameters)
        assert isinstance(codes, Tensor)
        return self._move(codes)

    def floats(self) -> Tensor:
        """Move the floats."""
        floats = self._lowering.floats(self._source)
        assert isinstance(floats, Tensor)
        return self._move(floats)


def moved(
    lowering: Lowering, value: Value, shape: Sequence[int], move: Move, move_array: MoveArray, *lengths: Any
) -> Value:
    """Return a value with its elements moved.

    Args:
        lowering: Where operators are added.
        value: Any.
        shape: Of the result.
        move: Moves the elements of a tensor.
        move_array: Moves those of an array; it is given the lengths that it depends on.
        lengths: All of those, or other arguments, that may be known only later.
    """
    if isinstance(value, Table):
        return replace(value, codes=move(value.codes))
    if isinstance(value, WideCodes):
        dequantized = moved(lowering, value.dequantized, shape, move, move_array, *lengths)
        return WideCodes(value.parameters, dequantized, lambda: move(value.computed()))
    if isinstance(value, Deferred):
        return Moved(lowering, value, tuple(shape), move)
    if isinstance(value, Dequantized) and value.scale.size == 1:
        return replace(value, held=constant_by(move_array, source_of(value.held), *lengths).elements())
    if isinstance(value, Constant | Dequantized):
        return constant_by(move_array, source_of(value.elements()), *lengths)
    return move(value)


def _every(array: Array, *limits: int) -> Array:
    """Return every step-th element of each axis from a start on: limits are all starts, all steps, and the shape."""
    rank = array.ndim
    starts, steps, shape = limits[:rank], limits[rank : 2 * rank], limits[2 * rank :]
    return array[
        tuple(
            slice(start, start + (length - 1) * step + 1, step)
            for start, step, length in zip(starts, steps, shape, strict=True)
        )
    ]


def reshaped(lowering: Lowering, value: Value, shape: Sequence[int]) -> Value:
    """Return a value with its elements, in row-major order, under another shape.

    Raises:
        NotNative: The shape has not as many, or none.
    """
    lengths = tuple(shape)
    if math.prod(lengths) != math.prod(value.shape) or 0 in lengths:
        raise NotNative(f"{value.shape} as {lengths}")
    if isinstance(value, Dequantized) and value.scale.size > 1:
        axis = _axis_after_reshape(value.shape, value.axis, lengths)
        if axis is not None:
            return replace(value, held=value.codes.reshape(lengths), axis=axis)
    return moved(lowering, value, lengths, lambda tensor: lowering.reshaped(tensor, lengths), array_in_shape, *lengths)


def _axis_after_reshape(before: Sequence[int], axis: int, after: Sequence[int]) -> int | None:
    """Return the axis that has the elements of an axis in their old order, if there is one."""
    for place, length in enumerate(after):
        if length == before[axis] and math.prod(after[:place]) == math.prod(before[:axis]):
            return place
    return None


def reshape(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Reshape."""
    value = present(inputs[0])
    wanted = list(integers(inputs[1], "the shape"))
    if not node.attributes.get("allowzero", 0):
        wanted = [value.shape[axis] if length == 0 else length for axis, length in enumerate(wanted)]
    if wanted.count(-1) == 1:
        known = math.prod(length for length in wanted if length != -1)
        wanted[wanted.index(-1)] = math.prod(value.shape) // max(known, 1)
    return [reshaped(lowering, value, wanted)]


def flatten(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Flatten."""
    value = present(inputs[0])
    axis = int(node.attributes.get("axis", 1))
    axis += len(value.shape) if axis < 0 else 0
    return [reshaped(lowering, value, (math.prod(value.shape[:axis]), math.prod(value.shape[axis:])))]


def axes_of(node: Node, inputs: Sequence[Value | None], rank: int) -> tuple[int, ...] | None:
    """Return the axes of an attribute or the second input, each once, in ascending order; None if none are given."""
    given = node.attributes.get("axes")
    if given is None and len(inputs) > 1 and inputs[1] is not None:
        given = integers(inputs[1], "the axes")
    if given is None:
        return None
    if any(not -rank <= axis < rank for axis in given):
        raise NotNative(f"axes {given} of {rank}")
    return tuple(sorted({axis % rank for axis in given}))


def squeeze(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Squeeze."""
    value = present(inputs[0])
    axes = axes_of(node, inputs, len(value.shape))  # none are all of length 1
    kept = [length for axis, length in enumerate(value.shape) if not (axis in axes if axes else length == 1)]
    return [reshaped(lowering, value, kept)]


def unsqueeze(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Unsqueeze."""
    value = present(inputs[0])
    given = node.attributes.get("axes") or integers(inputs[1], "the axes")
    rank = len(value.shape) + len(given)
    axes = {axis % rank for axis in given}
    if len(axes) != len(given):
        raise NotNative(f"axes {given} of {rank}")
    lengths = iter(value.shape)
    return [reshaped(lowering, value, [1 if axis in axes else next(lengths) for axis in range(rank)])]


def transpose(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Transpose."""
    value = present(inputs[0])
    return [transposed(lowering, value, node.attributes.get("perm", tuple(reversed(range(len(value.shape))))))]


def transposed(lowering: Lowering, value: Value, permutation: Sequence[int]) -> Value:
    """Return a value with its axes in another order."""
    order = tuple(permutation)
    shape = tuple(value.shape[axis] for axis in order)
    if order == tuple(range(len(value.shape))):
        return value
    if isinstance(value, ConstantOfBlocks):
        return value.transpose(order)
    if isinstance(value, Dequantized):
        codes = constant_by(np.transpose, source_of(value.held), order)
        return replace(value, held=codes.elements(), axis=order.index(value.axis))

    def move(tensor: Tensor) -> Tensor:
        return lowering.emit("TRANSPOSE", [tensor], tensor.dtype, shape, {"permutation": order})

    return moved(lowering, value, shape, move, lambda array: array.transpose(order))


def with_channels_last(rule: Rule) -> Rule:
    """Return a rule of images for nodes whose channels may be the last axis: transpositions are views."""

    @wraps(rule)
    def lower(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
        if not node.attributes.get("channels_last", node.operator.startswith("Nhwc")):
            return rule(lowering, node, inputs)
        image = present(inputs[0])
        first, last = (0, len(image.shape) - 1), tuple(range(1, len(image.shape) - 1))
        attributes = {name: value for name, value in node.attributes.items() if name != "channels_last"}
        plain = replace(node, operator=node.operator.removeprefix("Nhwc"), attributes=attributes)
        results = rule(lowering, plain, [transposed(lowering, image, (*first, *last)), *inputs[1:]])
        return [transposed(lowering, result, (0, *(axis + 1 for axis in last), 1)) for result in results]

    return lower


def sliced(
    lowering: Lowering, value: Value, starts: Sequence[int], steps: Sequence[int], shape: Sequence[int]
) -> Value:
    """Return every step-th element of each axis from a start on, as many as the shape says; of none a constant."""
    if 0 in shape:
        return nothing(value, shape)
    attributes = {"starts": tuple(starts), "steps": tuple(steps)}

    def move(tensor: Tensor) -> Tensor:
        return lowering.emit("SLICE", [tensor], tensor.dtype, shape, attributes)

    return moved(lowering, value, shape, move, _every, *starts, *steps, *shape)


def shape_(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Shape and Size: constants, as far as shapes are known here."""
    shape = present(inputs[0]).shape
    if node.operator == "Size":
        return [numbers([math.prod(shape)], INT64, ())]
    part = slice(node.attributes.get("start"), node.attributes.get("end"))
    return [numbers(shape[part], INT64)]


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
        parts.append(sliced(lowering, value, starts, (1,) * len(shape), shape))
    return written(node, parts)


def expand(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Expand."""
    value = present(inputs[0])
    return [expanded(lowering, value, broadcast_shapes(value.shape, integers(inputs[1], "the shape")))]


def expanded(lowering: Lowering, value: Value, shape: tuple[int, ...]) -> Value:
    """Return a value with its axes of length 1, and those before the first, repeated."""
    return moved(lowering, value, shape, lambda tensor: lowering.expanded(tensor, shape), array_broadcast, *shape)


class Joined(Deferred):
    """Values side by side."""

    def __init__(self, lowering: Lowering, parts: Sequence[Value], axis: int, shape: tuple[int, ...]) -> None:
        self._lowering, self._parts, self._axis = lowering, parts, axis
        self.shape, self.dtype = shape, element_type(parts[0])

    def quantized(self, parameters: Parameters) -> Tensor:
        """Bring all parts to the same parameters, and join their codes."""
        return join(self._lowering, [self._lowering.quantized(part, parameters) for part in self._parts], self._axis)

    def floats(self) -> Tensor:
        """Join the floats."""
        return join(self._lowering, [self._lowering.elements(part) for part in self._parts], self._axis)


def join(lowering: Lowering, parts: Sequence[Elements], axis: int) -> Tensor:
    """Return tensors of one type side by side."""
    shape = list(parts[0].shape)
    shape[axis] = sum(part.shape[axis] for part in parts)
    operands: list[Operand] = list(parts)
    return lowering.emit("JOIN", operands, parts[0].dtype, shape, {"axis": (axis,)})


def concat(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Concat: of the same codes joined codes, of others what is requantized when it is quantized."""
    values = [present(value) for value in inputs]
    return [joined(lowering, values, int(node.attributes["axis"]) % len(values[0].shape))]


def joined(lowering: Lowering, values: Sequence[Value], axis: int) -> Value:
    """Return values of one type side by side.

    Raises:
        NotNative: Their shapes differ along other axes, or their types do.
    """
    shape = list(values[0].shape)
    shape[axis] = sum(value.shape[axis] for value in values)
    if any(
        (*value.shape[:axis], 0, *value.shape[axis + 1 :]) != (*shape[:axis], 0, *shape[axis + 1 :]) for value in values
    ):
        raise NotNative("shapes that differ along other axes")
    given = values
    values = [value for value in given if value.shape[axis] != 0]  # such as what a decoder knows of the past at first
    if len(values) == 1:
        return values[0]
    if not values:
        return nothing(given[0], shape)
    tables = [value for value in values if isinstance(value, Table)]
    first = tables[0] if len(tables) == len(values) else None
    if first is not None and all(
        table.codes.dtype == first.codes.dtype and np.array_equal(table.floats, first.floats) for table in tables
    ):
        return replace(first, codes=join(lowering, [table.codes for table in tables], axis))
    wide = [value for value in values if isinstance(value, WideCodes)]
    if len(wide) == len(values) and all(value.has_parameters_of(wide[0]) for value in wide):
        dequantized = joined(lowering, [value.dequantized for value in wide], axis)
        return WideCodes(
            wide[0].parameters, dequantized, lambda: join(lowering, [value.computed() for value in wide], axis)
        )
    if all(isinstance(value, Tensor | Constant) for value in values):
        parts = [lowering.elements(value) for value in values]
        if len({part.dtype for part in parts}) != 1:
            raise NotNative("parts of several types")
        return join(lowering, parts, axis)
    return Joined(lowering, values, axis, tuple(shape))


def qlinear_concat(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """QLinearConcat: an output's parameters, then codes, scale and zero point of each part."""
    parameters = parameters_of(inputs[0], inputs[1])
    parts = []
    for index in range(2, len(inputs), 3):
        codes, scale, zero_point = inputs[index : index + 3]
        if isinstance(codes, Constant):
            floats = Dequantized(codes.elements(), *lowering.pair(parameters_of(scale, zero_point, codes.dtype)), 0)
            parts.append(lowering.quantized(floats, parameters))
            continue
        if not isinstance(codes, Tensor):
            raise NotNative("parts that are no codes")
        parts.append(lowering.recoded(Table(codes, parameters_of(scale, zero_point, codes.dtype)), parameters))
    axis = int(node.attributes["axis"]) % len(parts[0].shape)
    parts = [part for part in parts if part.shape[axis] != 0] or parts[:1]
    if len(parts) > 1:
        return [join(lowering, parts, axis)]
    return [*map(as_value, parts)]


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("", "Reshape"): reshape,
    ("", "Flatten"): flatten,
    ("", "Squeeze"): squeeze,
    ("", "Unsqueeze"): unsqueeze,
    ("", "Transpose"): transpose,
    ("", "Shape"): shape_,
    ("", "Size"): shape_,
    ("", "Split"): split,
    ("", "Expand"): expand,
    ("", "Concat"): concat,
    ("com.microsoft", "QLinearConcat"): qlinear_concat,
}
