"""What a model is planned as: parts, each a native graph or nodes for another runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import onnx

from dmlcpu.graph.compiled_graph import CompiledGraph
from dmlcpu.graph.native_graph import NativeGraph
from dmlcpu.onnx.extraction import ArrayType
from dmlcpu.onnx.nodes import Node
from dmlcpu.onnx.values import Array, FreeArray, Tensor

__all__ = ["ForeignModel", "ForeignPart", "NativePart", "Part", "Plan", "WholeGraph"]


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


@dataclass(slots=True, eq=False)
class ForeignModel:
    """Some nodes of a model as a model of their own.

    Attributes:
        proto: Of these nodes alone.
        is_shared: Whether it is for all lengths: then what follows from them is fed.
        session: Who runs it, another runtime's session, and the process that opened it; None before.
        is_refused: Whether the other runtime does not take it as it is, for all lengths.
    """

    proto: onnx.ModelProto = field(repr=False)
    is_shared: bool
    session: tuple[str, Any, int] | None = field(default=None, repr=False)
    is_refused: bool = False

    def with_constants(self, constants: Mapping[str, Array]) -> ForeignModel:
        """Return the model for some lengths alone: with constants in place of inputs."""
        proto = onnx.ModelProto()
        proto.CopyFrom(self.proto)
        inputs = [value for value in proto.graph.input if value.name not in constants]
        del proto.graph.input[:]
        proto.graph.input.extend(inputs)
        proto.graph.initializer.extend(onnx.numpy_helper.from_array(*each[::-1]) for each in constants.items())
        return ForeignModel(proto, is_shared=False)


@dataclass(frozen=True, slots=True, eq=False)
class ForeignPart:
    """Nodes for another runtime.

    Attributes:
        nodes: Those nodes.
        by_reference: Whether onnx's reference evaluator runs them, slowly: onnxruntime takes no arrays of their types,
            such as INT4 or FLOAT8, or is not installed while the nodes are quantized operators.
        reasons: Why no kernel computes them, by the node's name; of some only that they go with the others.
        model: A model of these nodes alone.
        inputs: The values that it is fed, by its own names for them.
        constants: What else it is fed, by its own names: what follows from lengths.
        outputs: Names of the values that it writes.
    """

    nodes: tuple[Node, ...]
    by_reference: bool
    reasons: Mapping[str, str]
    model: ForeignModel
    inputs: Mapping[str, str]
    constants: Mapping[str, Array | FreeArray]
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
    """A model that is one native graph, not compiled yet, and perhaps nodes for another runtime behind it.

    Attributes:
        nodes: What the graph computes, in the words of the model.
        graph: The graph.
        inputs: Names of the values that it reads.
        exports: What it writes.
        rest: Those other nodes, with constants that may be known only later.
        outputs: As of a ``Plan``.
    """

    nodes: tuple[Node, ...]
    graph: NativeGraph
    inputs: tuple[str, ...]
    exports: tuple[Tensor, ...]
    rest: ForeignPart | None
    outputs: tuple[str | Array, ...]
