"""Whether convolutions of floats run natively, which depends on the model that they are in.

Between operators on codes they do: each that another runtime takes cuts the graph in two. A model that convolves hardly
anything but floats is left to onnxruntime, whose layouts are made for that: there it takes 0.5 to 1.2 times as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dmlcpu.onnx.missing_package import has_onnxruntime
from dmlcpu.onnx.models.nodes import Node

__all__ = ["convolves_floats"]

_OF_CODES: Final = frozenset(
    {
        "ConvInteger",
        "MatMulInteger",
        "MatMulIntegerToFloat",
        "MatMulNBits",
        "DynamicQuantizeMatMul",
        "DynamicQuantizeLSTM",
        "QGemm",
        "QAttention",
    }
)
# Convolutions of floats that an operator on codes makes up for.
_MOST_FOR_EACH: Final = 4


def convolves_floats(nodes: Sequence[Node]) -> bool:
    """Return whether a model of these nodes has operators on codes enough that its float convolutions are native."""
    if not has_onnxruntime():
        return True
    dequantized = {name for node in nodes if node.operator == "DequantizeLinear" for name in node.outputs}
    of_floats = of_codes = 0
    for node in nodes:
        read = [name in dequantized for name in node.inputs[:2]]
        if node.operator in ("Conv", "ConvTranspose"):
            of_codes += all(read)
            of_floats += not all(read)
        elif node.operator in ("MatMul", "Gemm"):
            of_codes += any(read)
        else:
            of_codes += node.operator in _OF_CODES or node.operator.startswith("QLinear")
    return of_floats <= of_codes * _MOST_FOR_EACH
