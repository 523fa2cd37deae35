"""Models of nodes that another runtime takes: one for all lengths of a model's inputs, so that it is opened once."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx

from dmlcpu.onnx.extraction import extracted
from dmlcpu.onnx.nodes import Node
from dmlcpu.onnx.plans import ForeignModel, ForeignPart
from dmlcpu.onnx.values import Array, FreeArray, Tensor

__all__ = ["ForeignModels", "Reads", "extracted_for", "part_of_lengths"]

Reads: TypeAlias = Mapping[str, Tensor | Array | FreeArray]
"""What nodes read of others: values of native graphs or other runtimes, and constants."""


class ForeignModels:
    """What other runtimes take of a model, for all lengths of its inputs."""

    def __init__(self) -> None:
        self._models: dict[tuple[Any, ...], ForeignModel] = {}

    def part(
        self,
        model: onnx.ModelProto,
        nodes: Sequence[Node],
        reasons: Mapping[str, str],
        reads: Reads,
        lasting: Collection[str],
        outputs: Sequence[str],
    ) -> ForeignPart:
        """Return a part of onnxruntime's whose model is that of other lengths as well.

        Args:
            model: That the nodes are of.
            nodes: In order.
            reasons: As of the part.
            reads: What they read.
            lasting: Names of those of it that do not depend on the inputs.
            outputs: What others read of them.
        """
        arrays = {name: value for name, value in reads.items() if isinstance(value, np.ndarray) and name in lasting}
        fed = {name: value for name, value in reads.items() if name not in arrays}
        types = {name: (value.dtype, (None,) * len(value.shape)) for name, value in fed.items()}
        key = (tuple(node.name for node in nodes), tuple(types.items()), tuple(outputs))
        if key not in self._models:
            self._models[key] = ForeignModel(extracted(model, nodes, types, arrays, outputs), is_shared=True)
        tensors = {name: value.name for name, value in fed.items() if isinstance(value, Tensor)}
        constants = {name: value for name, value in fed.items() if not isinstance(value, Tensor)}
        return ForeignPart(tuple(nodes), False, reasons, self._models[key], tensors, constants, tuple(outputs))


def part_of_lengths(
    model: onnx.ModelProto,
    nodes: Sequence[Node],
    by_reference: bool,
    reasons: Mapping[str, str],
    reads: Reads,
    outputs: Sequence[str],
) -> ForeignPart:
    """Return a part whose model is for the lengths at hand alone."""
    of_lengths = ForeignModel(extracted_for(model, nodes, reads, outputs), is_shared=False)
    tensors = {name: value.name for name, value in reads.items() if isinstance(value, Tensor)}
    return ForeignPart(tuple(nodes), by_reference, reasons, of_lengths, tensors, {}, tuple(outputs))


def extracted_for(
    model: onnx.ModelProto, nodes: Sequence[Node], reads: Reads, outputs: Sequence[str], longest: float = math.inf
) -> onnx.ModelProto:
    """Return a model of some nodes of another for the lengths at hand; constants of more elements are inputs."""
    arrays = {name: value.array if isinstance(value, FreeArray) else value for name, value in reads.items()}
    constants = {name: v for name, v in arrays.items() if not isinstance(v, Tensor) and v.size <= longest}
    inputs = {name: (value.dtype, value.shape) for name, value in arrays.items() if name not in constants}
    return extracted(model, nodes, inputs, constants, outputs)
