"""What a model tells of its outputs, or shape inference where the model does not."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from dmlcpu.onnx.models.extraction import extracted, inferred
from dmlcpu.onnx.models.model import Model, ValueInfo, output_info

__all__ = ["outputs_of"]


def outputs_of(model: Model) -> tuple[ValueInfo, ...]:
    """Return the outputs of a model, with types and shapes that it does not tell where they follow from its nodes."""
    if all(value.shape is not None or value.container for value in model.outputs):
        return model.outputs
    inputs = {value.name: (value.dtype, value.shape) for value in model.inputs}
    names = [value.name for value in model.outputs]
    try:
        proto = inferred(extracted(model.proto, model.nodes, inputs, model.constants, names))
        found = {value.name: output_info(value) for value in proto.graph.output}
    except Exception:  # inference is a help
        return model.outputs
    lengths = {length for _, shape in inputs.values() for length in shape or ()}
    return tuple(_completed(value, found.get(value.name), lengths) for value in model.outputs)


def _completed(told: ValueInfo, found: ValueInfo | None, lengths: Collection[int | str | None]) -> ValueInfo:
    """Return an output with what has been found of it; names that only inference knows are no lengths' names."""
    if told.shape is not None or told.container or found is None:
        return told
    if found.container:
        return found if told.dtype == np.void else told
    shape = found.shape
    if shape is not None:
        shape = tuple(length if isinstance(length, int) or length in lengths else None for length in shape)
    return replace(told, dtype=found.dtype if told.dtype == np.void else told.dtype, shape=shape)
