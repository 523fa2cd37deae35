"""BatchNormalization behind a convolution of floats: part of its filter and bias when a model is read.

A factor and an addend for each channel cost two passes over the result of each such convolution, and onnxruntime, whose
optimizer does the same, none. Filters that are codes are no constants of floats, and keep their own way
(``rules/element_wise/channel_affine``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
import onnx

from dmlcpu.onnx.constant_arrays import Array
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.models.rewritten_graph import RewrittenGraph

__all__ = ["with_folded_normalizations"]

# Before, a BatchNormalization says whether it trains, and what its outputs are, by other attributes.
_OLDEST: Final = 9
_EPSILON: Final = 1e-5


def with_folded_normalizations(graph: RewrittenGraph) -> RewrittenGraph:
    """Return a graph with such convolutions in place of both nodes; the same where there are none."""
    normalizing = [node for node in graph.nodes if node.operator == "BatchNormalization" and node.domain == ""]
    if not normalizing:
        return graph
    alone = graph.read_by_one_node()
    convolutions = {
        node.outputs[0]: node
        for node in graph.nodes
        if node.operator == "Conv" and node.domain == "" and node.outputs[0] in alone
    }
    changed: dict[Node, Node | None] = {}
    arrays = dict(graph.constants)
    for node in normalizing:
        convolution = convolutions.get(node.inputs[0])
        if convolution is None or convolution in changed:
            continue
        folded = _folded(convolution, node, graph.constants)
        if folded is not None:
            inputs = [graph.new_name(f"{convolution.name}/{part}") for part in ("filter", "bias")]
            arrays.update(zip(inputs, folded, strict=True))
            changed[convolution] = _writing(convolution, [convolution.inputs[0], *inputs], node.outputs[0])
            changed[node] = None
    made = tuple(node for node in (changed.get(node, node) for node in graph.nodes) if node is not None)
    left = {name for node in changed for name in node.reads} - {name for node in made for name in node.reads}
    # Else a session would keep them beside what is folded; constants that may be fed stay.
    for name in left.difference(graph.outputs, graph.inputs) & arrays.keys():
        del arrays[name]
    return replace(graph, nodes=made, constants=arrays)


def _folded(convolution: Node, node: Node, constants: Mapping[str, Array]) -> tuple[Array, Array] | None:
    """Return the filter and the bias of both nodes; None if they are not known, or no numbers."""
    trains = node.attributes.get("training_mode", 0) or any(node.outputs[1:])
    if trains or node.version < _OLDEST or len(node.inputs) != 5 or len(convolution.inputs) not in (2, 3):
        return None
    given = [constants.get(name) for name in (convolution.inputs[1], *node.inputs[1:])]
    known = [array for array in given if array is not None and array.dtype == np.float32]
    if len(known) < len(given):
        return None
    weights, scale, shift, mean, variance = known
    bias: Any = np.zeros_like(mean)
    if any(convolution.inputs[2:]):
        bias = constants.get(convolution.inputs[2])
    channels = weights.shape[:1]
    of_channels = (bias, scale, shift, mean, variance)
    if weights.ndim < 3 or any(array is None or array.shape != channels for array in of_channels):
        return None
    with np.errstate(all="ignore"):
        deviation = np.sqrt(variance.astype(np.float64) + node.attributes.get("epsilon", _EPSILON))
        factor = scale / deviation
        factors = factor.reshape(-1, *(1,) * (weights.ndim - 1))
        filters = np.multiply(weights, factors, out=np.empty_like(weights), casting="same_kind")
        addends = ((bias.astype(np.float64) - mean) * factor + shift).astype(np.float32)
    return (filters, addends) if np.isfinite(filters).all() and np.isfinite(addends).all() else None


def _writing(node: Node, inputs: list[str], output: str) -> Node:
    """Return a node with other inputs and another output."""
    proto = onnx.NodeProto()
    proto.CopyFrom(node.proto)
    del proto.output[:]
    proto.output.append(output)
    return node.with_inputs(inputs, proto, outputs=(output,))
