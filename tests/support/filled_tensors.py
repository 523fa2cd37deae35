"""Tensors with contents, drawn from one generator in the order in which they are asked for."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fills import Fill
from strided_tensor import NUMPY_TYPES, StridedTensor, buffer_length

__all__ = ["FilledTensors", "filled"]


def filled(
    rng: np.random.Generator,
    data_type: str,
    sizes: tuple[int, ...],
    fill: Fill,
    strides: tuple[int, ...] | None = None,
) -> StridedTensor:
    """A tensor whose elements, and gaps, are what a fill makes of the generator's numbers."""
    buffer = fill(rng, NUMPY_TYPES[data_type], buffer_length(data_type, sizes, strides))
    return StridedTensor(data_type, sizes, strides, buffer)


@dataclass
class FilledTensors:
    """The tensors of a case by field."""

    rng: np.random.Generator
    tensors: dict[str, StridedTensor | None] = field(default_factory=dict)

    def add(
        self, name: str, data_type: str, sizes: tuple[int, ...], fill: Fill, strides: tuple[int, ...] | None = None
    ) -> None:
        self.tensors[f"{name}_tensor"] = filled(self.rng, data_type, sizes, fill, strides)
