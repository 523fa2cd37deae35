"""Recurrent layers of models, of a few steps of a few sequences."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from onnx_models import Builder

__all__ = [
    "DIRECTIONS",
    "HIDDEN",
    "INPUTS",
    "OUTPUTS",
    "PARTS",
    "SEQUENCES",
    "SHORTER",
    "STEPS",
    "feeds_of",
    "layer",
    "uniform",
]

Array = NDArray[Any]

STEPS, SEQUENCES, INPUTS, HIDDEN = 5, 3, 12, 20
PARTS: Final = {"RNN": 1, "LSTM": 4, "GRU": 3}
OUTPUTS: Final = {"RNN": 2, "LSTM": 3, "GRU": 2}
DIRECTIONS: Final = ("forward", "reverse", "bidirectional")
SHORTER: Final = np.array([3, STEPS, 1], np.int32)


def uniform(rng: np.random.Generator, *shape: int, bound: float = 0.5) -> Array:
    return rng.uniform(-bound, bound, shape).astype(np.float32)


def layer(
    rng: np.random.Generator,
    operator: str,
    direction: str = "forward",
    *,
    bias: bool = True,
    states: bool = True,
    count: int | None = None,
    **attributes: Any,
) -> Builder:
    """A model of one layer of floats; its first states are inputs."""
    directions, columns = 1 + (direction == "bidirectional"), PARTS[operator] * HIDDEN
    builder = Builder()
    operands: list[Any] = [builder.input("float32", (STEPS, SEQUENCES, INPUTS))]
    operands += [uniform(rng, directions, columns, INPUTS), uniform(rng, directions, columns, HIDDEN)]
    operands += [uniform(rng, directions, 2 * columns) if bias else "", ""]
    if states:
        names = ("hidden", "cell")[: OUTPUTS[operator] - 1]
        operands += [builder.input("float32", (directions, SEQUENCES, HIDDEN), name) for name in names]
    if operator == "GRU":
        attributes = {"linear_before_reset": 1, **attributes}
    outputs = count or OUTPUTS[operator]
    results = builder.node(operator, operands, outputs, direction=direction, hidden_size=HIDDEN, **attributes)
    for name in results if outputs > 1 else [results]:
        builder.output(name, "float32")
    return builder


def feeds_of(rng: np.random.Generator, builder: Builder) -> dict[str, Array]:
    return {
        value.name: uniform(rng, *(entry.dim_value for entry in value.type.tensor_type.shape.dim), bound=2)
        for value in builder.inputs
    }
