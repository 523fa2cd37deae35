"""A model, and what it is where inputs that decide on branches have certain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np
import onnx

from dmlcpu.device import Device
from dmlcpu.onnx.constant_arrays import Array
from dmlcpu.onnx.models.branches import Branches
from dmlcpu.onnx.models.inlined_graphs import Inliner
from dmlcpu.onnx.models.loops import Loops
from dmlcpu.onnx.models.model import Model
from dmlcpu.onnx.planning.deciding_inputs import deciding_inputs
from dmlcpu.onnx.planning.planned_model import PlannedModel

__all__ = ["Variants"]

# Combinations of values that are met first; for others, such as a counter's, onnxruntime chooses the branches.
_MAX_VARIANTS: Final = 8


class Variants:
    """What a model is, by what the inputs that decide on branches are: a model in which these are constants.

    Attributes:
        whole: The model, with all of its inputs.
        deciding: Those inputs.
        is_released: Whether nothing but the inputs is kept of the model.
    """

    def __init__(self, model: Model, device: Device) -> None:
        self.whole = PlannedModel((), model, device)
        self.deciding = deciding_inputs(model)
        self.is_released = False
        self._device = device
        self._variants: dict[tuple[bytes, ...], PlannedModel] = {}

    def of(self, feeds: Mapping[str, Array], keep: bool = True) -> PlannedModel:
        """Return the variant for what is fed, or of many other values the model as it is.

        Args:
            feeds: The inputs that decide, at least.
            keep: Whether it is kept for the next run.
        """
        values = tuple(feeds[name].tobytes() for name in self.deciding)
        if values in self._variants:
            return self._variants[values]
        if len(self._variants) == _MAX_VARIANTS:
            return self.whole
        made = self._made(values, feeds)
        if keep:
            self._variants[values] = made
        return made

    def release(self) -> None:
        """Keep nothing but the inputs: the plan that was made has what it needs, and there will be no other."""
        model, none = self.whole.model, Inliner({}, (), ())
        bare = replace(
            model,
            proto=onnx.ModelProto(),
            nodes=(),
            constants={},
            branches=Branches(none),
            loops=Loops(none),
            following={},
        )
        self.whole, self.is_released = PlannedModel((), bare, self._device), True

    def _made(self, values: tuple[bytes, ...], feeds: Mapping[str, Array]) -> PlannedModel:
        constants = {name: np.array(feeds[name]) for name in self.deciding}
        inputs = tuple(value for value in self.whole.model.inputs if value.name not in constants)
        model = replace(self.whole.model, inputs=inputs, constants={**self.whole.model.constants, **constants})
        return PlannedModel(values, model, self._device)
