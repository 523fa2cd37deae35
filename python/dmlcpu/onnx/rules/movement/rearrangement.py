"""Nodes that cut axes into blocks, and blocks into axes: DepthToSpace, SpaceToDepth, Tile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from dmlcpu.onnx.constant_arrays import Array
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.movement.moved_values import moved
from dmlcpu.onnx.rules.operands import integers, present
from dmlcpu.onnx.values import Tensor, Value

__all__ = ["RULES"]


def _rearranged(
    lowering: Lowering, value: Value, split: Sequence[int], permutation: Sequence[int], shape: Sequence[int]
) -> Value:
    """Return a value reshaped, transposed, and reshaped again."""
    order, lengths = tuple(permutation), tuple(shape)
    between = tuple(split[axis] for axis in order)

    def move(tensor: Tensor) -> Tensor:
        parts = lowering.reshaped(tensor, split)
        turned = lowering.emit("TRANSPOSE", [parts], tensor.dtype, between, {"permutation": order})
        return lowering.reshaped(turned, lengths)

    def move_array(array: Array, *given: int) -> Array:
        turned: Array = array.reshape(given[: len(order)]).transpose(order).reshape(given[len(order) :])
        return turned

    return moved(lowering, value, lengths, move, move_array, *split, *lengths)


def _image(node: Node, value: Value) -> tuple[int, int, int, int, int]:
    """Return the shape of an image, and the length of a block."""
    if len(value.shape) != 4:
        raise NotNative(f"blocks of {len(value.shape)} dimensions")
    batch, channels, height, width = value.shape
    block = int(node.attributes["blocksize"])
    if block < 1:
        raise NotNative("blocks without elements")
    return batch, channels, height, width, block


def depth_to_space(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """DepthToSpace."""
    value = present(inputs[0])
    batch, channels, height, width, block = _image(node, value)
    if channels % (block * block):
        raise NotNative(f"{channels} channels in blocks of {block}")
    depth = channels // (block * block)
    shape = (batch, depth, height * block, width * block)
    if node.attributes.get("mode", b"DCR") == b"CRD":
        return [_rearranged(lowering, value, (batch, depth, block, block, height, width), (0, 1, 4, 2, 5, 3), shape)]
    return [_rearranged(lowering, value, (batch, block, block, depth, height, width), (0, 3, 4, 1, 5, 2), shape)]


def space_to_depth(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """SpaceToDepth."""
    value = present(inputs[0])
    batch, channels, height, width, block = _image(node, value)
    if height % block or width % block:
        raise NotNative(f"an image of {height} x {width} in blocks of {block}")
    rows, columns = height // block, width // block
    shape = (batch, channels * block * block, rows, columns)
    split = (batch, channels, rows, block, columns, block)
    order = (0, 1, 3, 5, 2, 4) if node.attributes.get("mode", b"DCR") == b"CRD" else (0, 3, 5, 1, 2, 4)
    return [_rearranged(lowering, value, split, order, shape)]


def tile(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Tile: each axis that repeats gets one beside it that is broadcast."""
    value, repeats = present(inputs[0]), integers(inputs[1], "the repeats")
    if len(repeats) != len(value.shape) or min(repeats, default=1) < 1:
        raise NotNative(f"repeats {repeats} of {value.shape}")
    pairs = list(zip(repeats, value.shape, strict=True))
    shape = tuple(count * length for count, length in pairs)
    ones = tuple(each for count, length in pairs for each in ((1, length) if count > 1 else (length,)))
    blocks = tuple(each for count, length in pairs for each in ((count, length) if count > 1 else (length,)))

    def move(tensor: Tensor) -> Tensor:
        return lowering.reshaped(lowering.expanded(lowering.reshaped(tensor, ones), blocks), shape)

    return [moved(lowering, value, shape, move, lambda array, *counts: np.tile(array, counts), *repeats)]


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("", "DepthToSpace"): depth_to_space,
    ("", "SpaceToDepth"): space_to_depth,
    ("", "Tile"): tile,
}
