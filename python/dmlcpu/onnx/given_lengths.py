"""Lengths that a model leaves free, and options of a session give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # options are there without the package
    import onnx

__all__ = ["GivenLengths"]


@dataclass(frozen=True, slots=True)
class GivenLengths:
    """Lengths of axes of a model's inputs and outputs.

    Attributes:
        by_name: Of axes that the model has a name for.
        by_denotation: Of axes of inputs that the model says the meaning of, such as ``"DATA_BATCH"``.
    """

    by_name: Mapping[str, int] = field(default_factory=dict)
    by_denotation: Mapping[str, int] = field(default_factory=dict)

    def fix(self, graph: onnx.GraphProto) -> None:
        """Write the lengths to a graph, wherever it leaves them free."""
        by_name = dict(self.by_name)
        for value in graph.input:
            for axis in value.type.tensor_type.shape.dim:
                length = self.by_denotation.get(axis.denotation)
                if length is not None and axis.WhichOneof("value") == "dim_param":
                    by_name.setdefault(axis.dim_param, length)  # the same name is the same length
                elif length is not None and axis.WhichOneof("value") is None:
                    axis.dim_value = length
        for value in (*graph.input, *graph.output, *graph.value_info):
            for axis in value.type.tensor_type.shape.dim:
                if axis.dim_param in by_name:
                    axis.dim_value = by_name[axis.dim_param]
