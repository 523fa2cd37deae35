"""What there is to tell of a plan's parts."""

from __future__ import annotations

from dmlcpu.descriptions import Partition
from dmlcpu.onnx.foreign.array_parts import ArrayPart
from dmlcpu.onnx.foreign.custom_operators import custom_operators
from dmlcpu.onnx.foreign.parts import ForeignPart
from dmlcpu.onnx.planning.plans import Part

__all__ = ["partition_of", "planned_partition"]


def partition_of(provider: str, part: Part) -> Partition:
    """Return what there is to tell of a part that a provider runs."""
    nodes = tuple(node.name for node in part.nodes)
    if isinstance(part, ForeignPart):
        return Partition(provider, nodes, part.reasons, "")
    if isinstance(part, ArrayPart):
        return Partition(provider, nodes, {}, "")
    graph = part.graph
    return Partition(provider, nodes, {}, graph.describe(), graph.steps, graph.binding_properties)


def planned_partition(part: Part) -> Partition:
    """Return the same of a part that is not opened yet, with the provider that is meant to run it, or "nobody"."""
    if not isinstance(part, ForeignPart):
        return partition_of("dmlcpu", part)
    if custom_operators(part.nodes, part.model.proto):
        return partition_of("nobody", part)
    return partition_of("onnx.reference" if part.by_reference else "onnxruntime", part)
