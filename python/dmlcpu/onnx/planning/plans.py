"""What a model is planned as: native graphs, nodes for another runtime, and some that functions of arrays compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from dmlcpu.graph.compiled_graph import CompiledGraph
from dmlcpu.graph.native_graph import NativeGraph
from dmlcpu.onnx.constant_arrays import Array, ArrayType
from dmlcpu.onnx.foreign.array_parts import ArrayPart
from dmlcpu.onnx.foreign.parts import ForeignPart
from dmlcpu.onnx.models.model import Model
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.values import Tensor

__all__ = ["LoweredGraph", "LoweredModel", "NativePart", "OutputViews", "Part", "Plan", "PlanKey", "Rest"]


class OutputViews(NamedTuple):
    """Which arrays of a graph the model has as others.

    Attributes:
        scalars: Places of those without axes, which the graph has as one element.
        conditions: Places of conditions, which it has as bytes.
    """

    scalars: tuple[int, ...]
    conditions: tuple[int, ...]

    @classmethod
    def of(cls, tensors: Sequence[Tensor]) -> OutputViews:
        """Return those among a graph's outputs."""
        scalars = tuple(place for place, tensor in enumerate(tensors) if not tensor.shape)
        return cls(scalars, tuple(place for place, tensor in enumerate(tensors) if tensor.dtype == np.bool_))


@dataclass(frozen=True, slots=True, eq=False)
class NativePart:
    """Nodes that run as one native graph.

    Attributes:
        nodes: What it computes, in the words of the model.
        graph: The compiled graph.
        inputs, outputs: Names of the values that it reads and writes, in the order of the graph's indices.
        views: Of the arrays that it writes those that the model has as others.
        conditions: None: a native part always runs.
    """

    nodes: tuple[Node, ...]
    graph: CompiledGraph
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    views: OutputViews
    conditions: tuple[tuple[str, bool], ...] = ()


Part: TypeAlias = NativePart | ForeignPart | ArrayPart


@dataclass(frozen=True, eq=False)  # without slots, so that it can be referred to weakly
class Rest:
    """What follows values whose shapes only a run tells: a model of its own, which is planned once they are there.

    Attributes:
        model: The model, with the outputs of the whole.
        inputs: The values that it is fed, by its own names for them.
    """

    model: Model
    inputs: Mapping[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """How a model runs, for given shapes of its inputs.

    Attributes:
        parts: To be run one after the other.
        outputs: Of the model, each the name of a value or a constant; none if there is a rest.
        rest: What runs after the parts, and makes the outputs; None if they do.
        told: The types and shapes that the plan takes other runtimes' values to have.
    """

    parts: tuple[Part, ...]
    outputs: tuple[str | Array, ...]
    rest: Rest | None = None
    told: Mapping[str, ArrayType] = field(default_factory=dict)

    @property
    def graphs(self) -> tuple[CompiledGraph, ...]:
        """The graphs of its native parts."""
        return tuple(part.graph for part in self.parts if isinstance(part, NativePart))


PlanKey: TypeAlias = tuple[Any, ...]
"""What a model is among those of a session, and what its inputs have in common where one plan is for all of them."""


@dataclass(frozen=True, slots=True, eq=False)
class LoweredGraph:
    """A native part that is not compiled yet.

    Attributes:
        nodes: What it computes, in the words of the model.
        graph: The graph.
        inputs: Names of the values that it reads.
        exports: What it writes.
    """

    nodes: tuple[Node, ...]
    graph: NativeGraph
    inputs: tuple[str, ...]
    exports: tuple[Tensor, ...]


@dataclass(frozen=True, slots=True, eq=False)
class LoweredModel:
    """A plan of which nothing is compiled yet, and lengths may be known only later.

    Attributes:
        parts: As of a ``Plan``.
        outputs, rest, told: The same.
    """

    parts: tuple[LoweredGraph | ForeignPart | ArrayPart, ...]
    outputs: tuple[str | Array, ...]
    rest: Rest | None
    told: Mapping[str, ArrayType]
