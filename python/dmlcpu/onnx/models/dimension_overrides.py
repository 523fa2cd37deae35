"""Lengths that a model leaves free, and options of a session give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # options are there without the package
    import onnx

__all__ = ["DimensionOverrides"]


@dataclass(frozen=True, slots=True)
class DimensionOverrides:
    """Lengths of axes of a model's inputs and outputs.

    Attributes:
        by_name: Of axes that the model has a name for.
        by_denotation: Of axes of inputs that the model says the meaning of, such as ``"DATA_BATCH"``.
    """

    by_name: Mapping[str, int] = field(default_factory=dict)
    by_denotation: Mapping[str, int] = field(default_factory=dict)

    def fix(self, graph: onnx.GraphProto) -> None:
        """Write the lengths to a graph, wherever it leaves them free.

        Raises:
            ValueError: Two of them are told of one axis, or another one than the model's own.
        """
        by_name = {name: length for name, length in self.by_name.items() if name}
        for value in graph.input:
            for axis in value.type.tensor_type.shape.dim:
                length = self._of_meaning(axis.denotation)
                if length is None:
                    continue
                said = axis.WhichOneof("value")
                if said == "dim_param" and axis.dim_param:
                    known = by_name.setdefault(axis.dim_param, length)  # the same name is the same length
                else:
                    known = axis.dim_value if said == "dim_value" else length
                    axis.dim_value = known
                if known != length:
                    what = axis.dim_param or f"an axis of input {value.name!r}"
                    raise ValueError(f"sess_options: got {length} as {axis.denotation} of {what}, which is {known}")
        for value in (*graph.input, *graph.output, *graph.value_info):
            for axis in value.type.tensor_type.shape.dim:
                if axis.WhichOneof("value") == "dim_param" and axis.dim_param in by_name:
                    axis.dim_value = by_name[axis.dim_param]

    def _of_meaning(self, denotation: str) -> int | None:
        """Return the length of axes of a meaning, in letters of either case, as onnxruntime compares them."""
        if not denotation:
            return None
        meant = denotation.lower()
        return next((length for name, length in self.by_denotation.items() if name.lower() == meant), None)
