"""Convolutions and products that onnxruntime has joined with what follows them: taken apart when a model is read.

Onnxruntime writes FusedConv and FusedGemm of its own domain, both of floats, where it saves a model that it has
optimized. Here they are the Conv or Gemm that they were made of, the sum with a fourth operand of FusedConv, and the
activation, which rules know. What onnxruntime would refuse, such as parameters that are missing, stays as it is: it
says what is wrong; but a fourth operand of another shape, which no node tells, is broadcast. Weights of a FusedConv
between codes stay floats, as they do there: those of a Conv it would have made codes of before
(``weights_between_codes``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import onnx

from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.models.operator_forms import unknown_part
from dmlcpu.onnx.models.rewritten_graph import RewrittenGraph

__all__ = ["without_fused_activations"]

_PLAIN: Final = {"FusedConv": "Conv", "FusedGemm": "Gemm"}
# The least version of ONNX's operators by which sums, products and activations have a form that is written here.
_OLDEST: Final = 7
_GEMM_WITHOUT_ADDEND: Final = 11
_CLIP_BY_OPERANDS: Final = 11
# What an activation takes, in the order of a FusedConv's attribute for all of them.
_OF_CONV: Final[Mapping[str, Sequence[str]]] = {
    "Relu": (),
    "Tanh": (),
    "Sigmoid": (),
    "LeakyRelu": ("alpha",),
    "Clip": ("min", "max"),
    "HardSigmoid": ("alpha", "beta"),
}
# A FusedGemm has an attribute for each, all of which onnxruntime wants, and the activation takes by the same name.
_OF_GEMM: Final[Mapping[str, Sequence[str]]] = {
    "Celu": ("alpha",),
    "Elu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "LeakyRelu": ("alpha",),
    "Relu": (),
    "Selu": ("alpha", "gamma"),
    "Sigmoid": (),
    "Softplus": (),
    "Softsign": (),
    "Tanh": (),
    "ThresholdedRelu": ("alpha",),
}
_SINCE: Final = {"Celu": 12, "ThresholdedRelu": 10}


def without_fused_activations(graph: RewrittenGraph) -> RewrittenGraph:
    """Return a graph with the nodes that were fused in place of each FusedConv and FusedGemm."""
    if not any(node.domain == "com.microsoft" and node.operator in _PLAIN for node in graph.nodes):
        return graph
    return replace(graph, nodes=tuple(part for node in graph.nodes for part in _parts(node, graph)))


def _parts(node: Node, graph: RewrittenGraph) -> Iterator[Node]:
    activation = _activation(node) if node.domain == "com.microsoft" and node.operator in _PLAIN else None
    if activation is None or unknown_part(node) or not _is_written_alike(node, activation[0], graph.version):
        yield node
        return
    function, parameters = activation
    addend = node.inputs[3] if node.operator == "FusedConv" and len(node.inputs) > 3 else ""
    steps = [step for step in ("Add" if addend else "", function) if step]
    result = node.outputs[0]
    value = graph.new_name(f"{result}/{_PLAIN[node.operator]}") if steps else result
    yield _plain(node, graph.version, value)
    for step in steps:
        output = result if step is steps[-1] else graph.new_name(f"{result}/{step}")
        if step == "Add":
            yield graph.made(node, "Add", [value, addend], output)
        elif step == "Clip" and graph.version >= _CLIP_BY_OPERANDS:
            bounds = {name: graph.new_name(f"{result}/{name}") for name in parameters}
            for name, bound in bounds.items():
                yield graph.constant(node, bound, np.array(parameters[name], np.float32))
            yield graph.made(node, "Clip", [value, *bounds.values()], output)
        else:
            yield graph.made(node, step, [value], output, **parameters)
        value = output


def _activation(node: Node) -> tuple[str, Mapping[str, float]] | None:
    """Return the activation of a fused node, "" if it has none, and its parameters; None if these do not fit."""
    named = node.attributes.get("activation", b"")
    function = named.decode(errors="replace") if isinstance(named, bytes) else ""
    if node.operator == "FusedConv":
        if "activation" not in node.attributes:
            return "", {}
        given = node.attributes.get("activation_params", ())
        wanted = _OF_CONV.get(function)
        if wanted is None or (wanted and (not isinstance(given, tuple) or len(given) != len(wanted))):
            return None
        return function, dict(zip(wanted, given, strict=False))
    wanted = _OF_GEMM.get(function)
    if wanted is None:
        return None
    parameters = {name: node.attributes.get(f"activation_{name}") for name in wanted}
    numbers = {name: number for name, number in parameters.items() if isinstance(number, float)}
    return (function, numbers) if len(numbers) == len(wanted) else None


def _is_written_alike(node: Node, function: str, version: int) -> bool:
    """Return whether a version of ONNX's operators has what a node was made of, in the form that is written here."""
    if version < max(_OLDEST, _SINCE.get(function, 0)) or len(node.outputs) != 1 or not node.outputs[0]:
        return False
    if node.operator == "FusedConv":
        return 2 <= len(node.inputs) <= 4
    return len(node.inputs) == 3 or (len(node.inputs) == 2 and version >= _GEMM_WITHOUT_ADDEND)


def _plain(node: Node, version: int, result: str) -> Node:
    """Return the Conv or Gemm of a fused node."""
    operator = _PLAIN[node.operator]
    proto = onnx.helper.make_node(operator, [], [result], node.proto.name)
    proto.attribute.extend(each for each in node.proto.attribute if not each.name.startswith("activation"))
    attributes = {name: value for name, value in node.attributes.items() if not name.startswith("activation")}
    changed = {"domain": "", "operator": operator, "version": version, "outputs": (result,), "attributes": attributes}
    return node.with_inputs(node.inputs[:3], proto, **changed)
