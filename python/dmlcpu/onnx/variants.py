"""A model, and what it is where inputs that decide on branches have certain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from dmlcpu.device import Device
from dmlcpu.onnx.deciding_inputs import deciding_inputs
from dmlcpu.onnx.model import Model
from dmlcpu.onnx.templates import Templates
from dmlcpu.onnx.values import Array

__all__ = ["Variant", "Variants"]

# For more values of the inputs than these, such as a counter's, other runtimes choose the branches.
_MOST: Final = 8


@dataclass(frozen=True, slots=True, eq=False)
class Variant:
    """A model with inputs that are constants.

    Attributes:
        values: What these are.
        model: The model, whose inputs the others are.
        templates: Of its plans.
    """

    values: tuple[bytes, ...]
    model: Model
    templates: Templates


class Variants:
    """The variants of a model, by what the inputs that decide on branches are.

    Attributes:
        whole: The model, with all of its inputs.
        deciding: Those inputs.
    """

    def __init__(self, model: Model, device: Device) -> None:
        self.whole = Variant((), model, Templates(model, device))
        self.deciding = deciding_inputs(model)
        self._device = device
        self._variants: dict[tuple[bytes, ...], Variant] = {}

    def of(self, feeds: Mapping[str, Array]) -> Variant:
        """Return the variant for what is fed; after many others the model as it is."""
        values = tuple(feeds[name].tobytes() for name in self.deciding)
        if values not in self._variants:
            if len(self._variants) == _MOST:
                return self.whole
            self._variants[values] = self._made(values, feeds)
        return self._variants[values]

    def _made(self, values: tuple[bytes, ...], feeds: Mapping[str, Array]) -> Variant:
        constants = {name: np.array(feeds[name]) for name in self.deciding}
        inputs = tuple(value for value in self.whole.model.inputs if value.name not in constants)
        model = replace(self.whole.model, inputs=inputs, constants={**self.whole.model.constants, **constants})
        return Variant(values, model, Templates(model, self._device))
