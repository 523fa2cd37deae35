"""Rules of images for nodes whose channels may be the last axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import wraps

from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.rules.movement.moved_values import transposed
from dmlcpu.onnx.rules.operands import present
from dmlcpu.onnx.values import Value

__all__ = ["with_channels_last"]


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
