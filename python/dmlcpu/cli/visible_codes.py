"""Nodes that quantize what they read, spelled out: codes that nobody sees cannot be compared.

DirectML's range and rounding of dynamic codes are not quite onnxruntime's, so that now and then one differs by 1. What
a DynamicQuantizeMatMul makes of that is no rounding of floats any more, nor a code of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from dmlcpu.onnx.models.model import Model
    from dmlcpu.onnx.models.nodes import FreeNames, Node

__all__ = ["with_visible_codes"]

_QUANTIZING: Final = "DynamicQuantizeMatMul"


def with_visible_codes(model: Model) -> Model:
    """Return a model whose products quantize nothing themselves: DynamicQuantizeLinear does it before them."""
    import onnx

    from dmlcpu.onnx.models.nodes import free_names, node_of, short_domain

    if not any(node.operator == _QUANTIZING for node in model.nodes):
        return model
    versions = {short_domain(entry.domain): entry.version for entry in model.proto.opset_import}
    values = free_names(model.nodes, (*model.constants, *(value.name for value in model.inputs)))
    codes: dict[str, list[str]] = {}
    names = {node.name for node in model.nodes if node.operator != _QUANTIZING}
    nodes: list[Node] = []
    for node in model.nodes:
        if node.operator != _QUANTIZING:
            nodes.append(node)
            continue
        nodes += (node_of(len(nodes), proto, versions, names) for proto in _spelled_out(node, codes, values))
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    del proto.graph.node[:]
    proto.graph.node.extend(node.proto for node in nodes)
    return replace(model, proto=proto, nodes=tuple(nodes))


def _spelled_out(node: Node, codes: dict[str, list[str]], values: FreeNames) -> Iterator[Any]:
    """Yield what a node is: a quantization, unless what it reads has been quantized, and a product of codes."""
    import onnx

    floats, weights, scale, zero_point, bias = (*node.inputs, "", "")[:5]
    if floats not in codes:
        codes[floats] = [values.like(f"{floats}/{part}") for part in ("codes", "scale", "zero_point")]
        yield onnx.helper.make_node("DynamicQuantizeLinear", [floats], codes[floats], f"{node.name}/quantize")
    own, own_scale, own_zero_point = codes[floats]
    inputs = [own, weights, own_scale, scale, own_zero_point, zero_point, bias]
    domain = "com.microsoft"
    yield onnx.helper.make_node("MatMulIntegerToFloat", inputs, node.outputs, node.name, domain=domain)
