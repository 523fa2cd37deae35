"""The rules by which nodes are lowered: one table, by domain and operator.

Most folders are named after those of the native operators. Each imports those before it in ``table`` alone, and the
modules beside them, which several need: what is asked of a node's operands (``operands``), native operators that are
added to a graph (``element_operators``, with the numbers in ``native_functions``, ``quantized_convolution``,
``quantized_resampling``), and ``windows``, of convolutions and poolings.
"""

from __future__ import annotations

from dmlcpu.onnx.rules.table import RULES

__all__ = ["RULES"]
