"""Layers on images whose channels lie in blocks: plain ones when a model is read.

Where onnxruntime saves a model that it has optimized for one CPU (its levels LAYOUT and ALL), the channels of some
images are in blocks as long as that CPU's vectors. Between ReorderInput and ReorderOutput are convolutions, poolings
and upsamplings of a domain of its own, beside ONNX's functions of elements and joins. Where layers that read each
other's blocks have no convolution among them, as between codes, they are ONNX's here, which rules know, and a reorder
is nothing, or a transposition where channels are last. Others, whose weights are in blocks too, stay as they are.

Channels that fill up the last block are no part of plain images: how many there are without, which ReorderOutput tells,
is the shape of a Reshape, which refuses others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import onnx

from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.models.rewritten_graph import RewrittenGraph

__all__ = ["without_blocked_channels"]

_DOMAIN: Final = "com.microsoft.nchwc"
# Version of ONNX's operators from which on poolings have all attributes that are written here.
_OLDEST: Final = 10
_RESIZE_WITHOUT_REGION: Final = 13
_DILATED_AVERAGES: Final = 19
_POOLS: Final = frozenset({"MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool"})
_OF_ELEMENTS: Final = frozenset({"Add", "Mul", "Sum", "Relu", "Sigmoid", "Tanh"})
_COORDINATES: Final = frozenset({b"asymmetric", b"align_corners", b"half_pixel"})
_TO_CHANNELS_FIRST: Final = (0, 3, 1, 2)
_TO_CHANNELS_LAST: Final = (0, 2, 3, 1)


def without_blocked_channels(graph: RewrittenGraph) -> RewrittenGraph:
    """Return a graph with plain nodes in place of those that read each other's blocks."""
    if graph.version < _OLDEST or not any(node.domain == _DOMAIN for node in graph.nodes):
        return graph
    plain = _plain(graph)
    if not plain:
        return graph
    of_plain = (_parts(node, graph) if node in plain else (node,) for node in graph.nodes)
    return replace(graph, nodes=tuple(part for parts in of_plain for part in parts))


def _plain(graph: RewrittenGraph) -> set[Node]:
    """Return the nodes that are written as plain ones, those of ONNX between them included."""
    blocked: set[str] = set()
    touching: dict[str, list[Node]] = {}
    plain: set[Node] = set()
    kept = [*graph.outputs]  # values that stay in blocks, as whoever else reads or writes these wants them so
    for node in graph.nodes:
        touched = [name for name in node.reads if name in blocked]
        if not touched and node.domain != _DOMAIN:
            continue
        has_equal = _has_equal(node, graph.version) and _fits(node, touched)
        if _writes_blocks(node):
            touched += filter(None, node.outputs)
            blocked.update(node.outputs)
        for name in touched:
            touching.setdefault(name, []).append(node)
        if has_equal:
            plain.add(node)
        else:
            kept += touched
    while kept:
        for node in touching.pop(kept.pop(), ()):
            if node in plain:
                plain.remove(node)
                kept += (name for name in (*node.inputs, *node.outputs) if name in touching)
    return plain


def _writes_blocks(node: Node) -> bool:
    if node.domain == _DOMAIN:
        return node.operator != "ReorderOutput"
    return node.domain == "" and (node.operator in _OF_ELEMENTS or node.operator == "Concat")


def _fits(node: Node, blocks: Sequence[str]) -> bool:
    """Return whether a node reads nothing but blocks, and ReorderInput none."""
    if node.domain == _DOMAIN and node.operator == "ReorderInput":
        return not blocks
    return {*node.inputs} == {*blocks}


def _has_equal(node: Node, version: int) -> bool:
    """Return whether a node is the same on plain images as on blocks."""
    if node.domain != _DOMAIN:
        is_join = node.operator == "Concat" and node.attributes.get("axis") == 1
        return node.domain == "" and (node.operator in _OF_ELEMENTS or is_join)
    if len(node.inputs) != 1 or len(node.outputs) != 1 or not node.outputs[0]:
        return False
    if node.operator == "ReorderOutput":
        channels = node.attributes.get("channels", 0)
        return isinstance(channels, int) and channels > 0
    if node.operator == "Upsample":
        return version >= _RESIZE_WITHOUT_REGION and _scales_plainly(node)
    if node.operator == "AveragePool":
        # Onnxruntime's own counts what ceil_mode adds behind the padding, ONNX's does not.
        has_all = node.attributes.get("ceil_mode", 0) and node.attributes.get("count_include_pad", 0)
        return not has_all and (version >= _DILATED_AVERAGES or "dilations" not in node.attributes)
    return node.operator == "ReorderInput" or node.operator in _POOLS


def _scales_plainly(node: Node) -> bool:
    scales = node.attributes.get("scales", ())
    if not isinstance(scales, tuple) or len(scales) != 4 or scales[:2] != (1, 1) or min(scales) < 1:
        return False
    mode = node.attributes.get("mode", b"nearest")
    return mode == b"nearest" or (mode == b"linear" and _coordinates(node) in _COORDINATES)


def _coordinates(node: Node) -> Any:
    return node.attributes.get("coordinate_transformation_mode", b"asymmetric")


def _parts(node: Node, graph: RewrittenGraph) -> Iterator[Node]:
    """Yield what a node is on plain images."""
    if node.domain != _DOMAIN:
        yield node
    elif node.operator in _POOLS:
        proto = onnx.helper.make_node(node.operator, [], node.outputs, node.proto.name)
        proto.attribute.extend(node.proto.attribute)
        yield node.with_inputs(node.inputs, proto, domain="", version=graph.version)
    elif node.operator == "Upsample":
        yield from _resize(node, graph)
    elif node.operator == "ReorderOutput":
        yield from _reshape(node, graph)
    elif node.attributes.get("channels_last", 0):
        yield graph.made(node, "Transpose", node.inputs, node.outputs[0], perm=_TO_CHANNELS_FIRST)
    else:
        yield graph.made(node, "Identity", node.inputs, node.outputs[0])


def _resize(node: Node, graph: RewrittenGraph) -> Iterator[Node]:
    [image], [result] = node.inputs, node.outputs
    scales = graph.new_name(f"{result}/scales")
    yield graph.constant(node, scales, np.array(node.attributes["scales"], np.float32))
    mode = node.attributes.get("mode", b"nearest")
    is_nearest = mode == b"nearest"
    # The nearest element is that before, whatever is told of coordinates.
    told = {"coordinate_transformation_mode": b"asymmetric" if is_nearest else _coordinates(node), "mode": mode}
    told |= {"nearest_mode": b"floor"} if is_nearest else {}
    yield graph.made(node, "Resize", [image, "", scales], result, **told)


def _reshape(node: Node, graph: RewrittenGraph) -> Iterator[Node]:
    [image], [result] = node.inputs, node.outputs
    shape = graph.new_name(f"{result}/shape")
    yield graph.constant(node, shape, np.array([0, node.attributes["channels"], 0, 0], np.int64))
    is_last = bool(node.attributes.get("channels_last", 0))
    first = graph.new_name(f"{result}/Reshape") if is_last else result
    yield graph.made(node, "Reshape", [image, shape], first)
    if is_last:
        yield graph.made(node, "Transpose", [first], result, perm=_TO_CHANNELS_LAST)
