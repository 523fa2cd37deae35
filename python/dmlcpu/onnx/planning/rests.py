"""What follows values whose shapes only a run tells, such as the boxes that a detector finds, as a model of its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from dmlcpu.graph.lengths import is_free
from dmlcpu.onnx.constant_arrays import Constant, FreeArray
from dmlcpu.onnx.constants.following import Axis, following
from dmlcpu.onnx.models.model import Model, ValueInfo
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.planning.plans import Rest
from dmlcpu.onnx.values import Deferred, Elements, Tensor, Value

__all__ = ["pending_nodes", "rest_of", "values_read"]


def pending_nodes(
    before: Sequence[Node], taken: Sequence[Node], rest: Sequence[Node], values: Mapping[str, Value]
) -> list[Node]:
    """Return the nodes whose results a rest reads, and that have not been computed: they go with it.

    So codes reach it as codes, with the nodes that dequantize them, and what quantizes a result is still one with the
    node that makes it.

    Args:
        before: The nodes that have been lowered, in order.
        taken: What another runtime runs.
        rest: The nodes of the rest.
        values: What is there.
    """
    wanted = {name for node in rest for name in node.reads}
    elsewhere = {name for node in taken for name in node.reads}
    pending: list[Node] = []
    for node in reversed(before):
        if any(_is_pending(values[name], name in elsewhere) for name in node.outputs if name in wanted):
            pending.append(node)
            wanted.update(node.reads)
        else:
            elsewhere.update(node.reads)
    return pending[::-1]


def _is_pending(value: Value, is_read_elsewhere: bool) -> bool:
    """Return whether nothing is lost by computing a value later."""
    if isinstance(value, Deferred):
        return not is_read_elsewhere  # else it would be computed twice
    return not isinstance(value, Tensor | Constant)


def values_read(nodes: Sequence[Node], outputs: Collection[str]) -> list[str]:
    """Return the values that nodes read of others, and the outputs that they do not write."""
    made = {name for node in nodes for name in node.outputs}
    read = (*(name for node in nodes for name in node.reads), *outputs)
    return [*dict.fromkeys(name for name in read if name not in made)]


def rest_of(
    model: Model,
    nodes: Sequence[Node],
    reads: Mapping[str, Elements | None],
    axes: Mapping[int, Axis],
) -> Rest:
    """Return a rest. Of inputs that constants follow from it is given the lengths, by the inputs themselves.

    Args:
        model: That it is of.
        nodes: In order.
        reads: What they read of others, and outputs that are there; None where only a run tells the shape.
        axes: For each free length of the inputs one that is as long.
    """
    constants = {name: value for name, value in reads.items() if isinstance(value, np.ndarray)}
    inputs = {name: value for name, value in reads.items() if value is None or isinstance(value, Tensor)}
    infos = tuple(_info(name, value) for name, value in inputs.items())
    names = {name: name if value is None else value.name for name, value in inputs.items()}
    followed = {name: following(value, axes) for name, value in reads.items() if isinstance(value, FreeArray)}
    measured = {name for constant in followed.values() for name in constant.inputs} - inputs.keys()
    added = tuple(value for value in model.inputs if value.name in measured)
    infos, names = (*infos, *added), {**names, **{value.name: value.name for value in added}}
    return Rest(replace(model, inputs=infos, nodes=tuple(nodes), constants=constants, following=followed), names)


def _info(name: str, value: Tensor | None) -> ValueInfo:
    if value is None:
        return ValueInfo(name, np.dtype(np.void), None)
    return ValueInfo(name, value.dtype, tuple(None if is_free([length]) else length for length in value.shape))
