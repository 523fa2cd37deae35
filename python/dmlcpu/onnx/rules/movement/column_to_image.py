"""Col2Im of blocks that do not overlap: each element has one place in the image."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.movement.moved_values import reshaped, transposed
from dmlcpu.onnx.rules.operands import integers, present
from dmlcpu.onnx.values import Value

__all__ = ["RULES"]


def col2im(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Col2Im, as patches become an image again."""
    value = present(inputs[0])
    image, block = integers(inputs[1], "the image's shape"), integers(inputs[2], "the block's shape")
    axes, given = len(block), node.attributes
    strides, dilations = tuple(given.get("strides", (1,) * axes)), tuple(given.get("dilations", (1,) * axes))
    if strides != block or any(given.get("pads", ())) or any(d != 1 for d in dilations):
        raise NotNative(f"blocks {block}, strides {strides}, dilations {dilations}, which overlap or are padded")
    if len(image) != axes or min(block) < 1 or any(n % b for n, b in zip(image, block, strict=True)):
        raise NotNative(f"an image {image} of blocks {block}")
    counts = [length // taps for length, taps in zip(image, block, strict=True)]
    if len(value.shape) != 3 or value.shape[1] % math.prod(block) or value.shape[2] != math.prod(counts):
        raise NotNative(f"columns {value.shape} of an image {image} in blocks {block}")
    batch, channels = value.shape[0], value.shape[1] // math.prod(block)
    apart = reshaped(lowering, value, (batch, channels, *block, *counts))
    order = [0, 1]
    for axis in range(axes):
        order += [2 + axes + axis, 2 + axis]
    return [reshaped(lowering, transposed(lowering, apart, order), (batch, channels, *image))]


RULES: Final[Mapping[tuple[str, str], Rule]] = {("", "Col2Im"): col2im}
