"""Operators that no runtime has: those of domains that are neither ONNX's nor onnxruntime's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import onnx

from dmlcpu.onnx.models.nodes import Node, short_domain
from dmlcpu.onnx.models.subgraphs import all_nodes

__all__ = ["custom_operators", "why_not_run"]

# The domains of ONNX, and those that onnxruntime itself registers operators of.
_DOMAINS: Final = frozenset(
    {
        "",
        "ai.onnx.ml",
        "ai.onnx.preview",
        "ai.onnx.preview.training",
        "ai.onnx.training",
        "com.microsoft",
        "com.microsoft.experimental",
        "com.microsoft.nchwc",
        "com.ms.internal.nhwc",
        "org.pytorch.aten",
    }
)


def custom_operators(nodes: Iterable[Node], model: onnx.ModelProto) -> Sequence[str]:
    """Return the operators of other domains that nodes are of, or graphs within them, such as my.company.MyRelu.

    Args:
        nodes: Of the model.
        model: Whose functions are no custom operators.
    """
    functions = {(function.domain, function.name) for function in model.functions}
    protos = all_nodes(node.proto for node in nodes)
    return [
        f"{node.domain}.{node.op_type}"
        for node in protos
        if short_domain(node.domain) not in _DOMAINS and (node.domain, node.op_type) not in functions
    ]


def why_not_run(custom: Sequence[str]) -> str:
    """Return what there is to tell of such operators, each once."""
    names = dict.fromkeys(custom)
    it, operators = ("them", "operators") if len(names) > 1 else ("it", "operator")
    return (
        f"no runtime has the {operators} {', '.join(names)}; custom operators are not supported: express {it} by "
        "ONNX's operators, or as functions of the model"
    )
