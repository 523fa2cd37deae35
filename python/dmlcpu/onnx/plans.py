"""What a model is planned as: parts, each a native graph or nodes for another runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx

from dmlcpu.graph.compiled_graph import CompiledGraph
from dmlcpu.graph.native_graph import NativeGraph
from dmlcpu.onnx.extraction import ArrayType
from dmlcpu.onnx.nodes import Node
from dmlcpu.onnx.values import Array, Tensor

__all__ = ["ForeignPart", "NativePart", "Part", "Plan", "WholeGraph"]


@dataclass(frozen=True, slots=True, eq=False)
class NativePart:
    """Nodes that run as one native graph.

    Attributes:
        nodes: What it computes, in the words of the model.
        graph: The compiled graph.
        inputs, outputs: Names of the values that it reads and writes, in the order of the graph's indices.
        types: Of the arrays that it writes, as the model has them.
    """

    nodes: tuple[Node, ...]
    graph: CompiledGraph
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    types: tuple[ArrayType, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ForeignPart:
    """Nodes for another runtime.

    Attributes:
        nodes: Those nodes.
        by_reference: Whether onnx's reference evaluator runs them, slowly: onnxruntime takes no arrays of their types,
            such as INT4 or FLOAT8, or is not installed while the nodes are quantized operators.
        reasons: Why no kernel computes them, by the node's name; of some only that they go with the others.
        model: A model of these nodes alone.
        inputs, outputs: Names of the values that it reads and writes.
    """

    nodes: tuple[Node, ...]
    by_reference: bool
    reasons: Mapping[str, str]
    model: onnx.ModelProto = field(repr=False)
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


Part = NativePart | ForeignPart


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """How a model runs, for given shapes of its inputs.

    Attributes:
        parts: To be run one after the other.
        outputs: Of the model, each the name of a value or a constant.
        unknown: Values of the last part whose shapes only a run tells; what follows it is planned then.
    """

    parts: tuple[Part, ...]
    outputs: tuple[str | Array, ...]
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class WholeGraph:
    """A model that is one native graph, not compiled yet.

    Attributes:
        nodes: What it computes, in the words of the model.
        graph: The graph.
        inputs: Names of the values that it reads.
        exports: What it writes.
        outputs: As of a ``Plan``.
    """

    nodes: tuple[Node, ...]
    graph: NativeGraph
    inputs: tuple[str, ...]
    exports: tuple[Tensor, ...]
    outputs: tuple[str | Array, ...]
