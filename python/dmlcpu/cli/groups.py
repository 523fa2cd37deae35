"""Nodes of a model that are one quantized operator, to be run alone.

An operator on codes is a group by itself. Dequantize, operate, quantize is one group: a group begins where codes are
and ends where codes are, or where the model ends. Floats that lead far are an end too, so that groups stay small in
models that are quantized in part; sequences, and what else has no array, are none. Floats are codes, as it were, where
codes without an array have been dequantized, such as FLOAT8, and where a node quantizes what it reads: a difference of
a last bit becomes one of a code there, and is not to be seen as the next node's:

    codes --+-- DequantizeLinear -- Conv -- Relu -- QuantizeLinear -- codes       one group
            |
            +-- MaxPool -- codes                                                 another
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from dmlcpu.onnx.models.model import Model
    from dmlcpu.onnx.models.nodes import Node

__all__ = ["Group", "dequantizes_without_array", "find_groups"]

# Floats that several nodes read belong to the group of each, as far as this many nodes make them.
_LARGEST_SHARED: Final = 8
_QUANTIZED_ROWS: Final = 4  # the accuracy_level of MatMulNBits that allows for it


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Nodes that make what one node of them writes.

    Attributes:
        node: The last one.
        nodes: All, in the model's order.
        inputs: What they read from other groups and of the model's inputs.
        settled: What they read besides: results that are no data but lengths, indices and the like.
        outputs: What the last one writes, as far as it is read.
    """

    node: Node
    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    settled: tuple[str, ...]
    outputs: tuple[str, ...]


def find_groups(model: Model, types: Mapping[str, np.dtype[Any]]) -> list[Group]:
    """Return the groups of a model; nodes of constants belong to those of their readers.

    Args:
        model: Any model.
        types: Of the elements of all that nodes write; void of what has no array.
    """
    ends = {output.name for output in model.outputs}
    readers: dict[str, int] = {}
    for name in (name for node in model.nodes for name in node.reads):
        readers[name] = readers.get(name, 0) + 1
    quantized = {node.inputs[0] for node in model.nodes if _quantizes(node)}
    constants: set[str] = set(model.constants)
    settled: set[str] = set()
    given = {value.name for value in model.inputs}  # and then what groups write
    within: dict[str, frozenset[int]] = {}  # the nodes that make what no group ends with, by their places
    groups = []
    for place, node in enumerate(model.nodes):
        outputs = tuple(name for name in node.outputs if name and (name in readers or name in ends))
        if all(name in constants for name in node.reads):
            constants.update(outputs)
            within.update({name: _joined(place, node, within) for name in outputs})
            continue
        if outputs and not ends.intersection(outputs) and all(_is_settled(types[name]) for name in outputs):
            settled.update(outputs)
            continue
        nodes = _joined(place, node, within)
        computing = sum(any(name not in constants for name in model.nodes[other].reads) for other in nodes)
        shared = sum(readers.get(name, 0) for name in outputs) > 1 and computing > _LARGEST_SHARED
        have_arrays = all(types[name].kind != "V" for name in outputs)
        codes = any(types[name].kind != "f" or name in quantized for name in outputs) or dequantizes_without_array(
            node, types
        )
        if ends.intersection(outputs) or (have_arrays and (shared or codes)):
            taken = tuple(model.nodes[other] for other in sorted(nodes))
            groups.append(_group(node, taken, outputs, given, settled))
            given.update(outputs)
        else:
            within.update({name: nodes for name in outputs})
    return groups


def _quantizes(node: Node) -> bool:
    """Return whether a node quantizes floats that it reads."""
    is_of_rows = node.operator == "MatMulNBits" and node.attributes.get("accuracy_level", 0) == _QUANTIZED_ROWS
    return bool(node.inputs) and (is_of_rows or node.operator == "DynamicQuantizeLSTM")


def dequantizes_without_array(node: Node, types: Mapping[str, np.dtype[Any]]) -> bool:
    """Return whether a node dequantizes computed codes of which there is no array."""
    return node.operator == "DequantizeLinear" and node.inputs[0] in types and types[node.inputs[0]].kind == "V"


def _joined(place: int, node: Node, within: Mapping[str, frozenset[int]]) -> frozenset[int]:
    return frozenset({place}).union(*(within[name] for name in node.reads if name in within))


def _is_settled(dtype: np.dtype[Any]) -> bool:
    return dtype.kind not in "iufV" or dtype == np.int64


def _group(
    node: Node, nodes: tuple[Node, ...], outputs: tuple[str, ...], given: Collection[str], settled: Collection[str]
) -> Group:
    reads = dict.fromkeys(name for each in nodes for name in each.reads)
    inputs, indices = (tuple(name for name in reads if name in names) for names in (given, settled))
    return Group(node, nodes, inputs, indices, outputs)
