"""Images made of two places of another along each axis, by the weight of the upper one: QUANTIZED_RESAMPLE's taps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np

from dmlcpu.graph.lengths import derived
from dmlcpu.graph.native_graph import Attributes
from dmlcpu.graph.record import Derived
from dmlcpu.onnx.constant_arrays import Array
from dmlcpu.onnx.lowering import Lowering
from dmlcpu.onnx.parameters import Parameters
from dmlcpu.onnx.values import Operand, Tensor

__all__ = ["FreeTaps", "Taps", "as_image", "attributes_of", "resampled"]


@dataclass(frozen=True, slots=True, eq=False)
class Taps:
    """Of one axis, for every output index: two source indices, and the weight of the upper one."""

    lower: Array
    upper: Array
    weight: Array


FreeTaps: TypeAlias = Taps | Derived
"""Taps; derived, if they follow from lengths that are known only later."""


def as_image(lowering: Lowering, tensor: Tensor) -> Tensor:
    """Return a tensor as 4-D: 3-D ones are images of one row."""
    shape = tensor.shape
    return lowering.reshaped(tensor, (*shape[:2], *((1,) if len(shape) == 3 else ()), *shape[2:]))


def attributes_of(taps: tuple[FreeTaps, FreeTaps]) -> Attributes:
    """Return the taps of rows and columns as attributes of an operator."""
    return {
        key: derived(integers, of)
        for axis, of in zip(("rows", "columns"), taps, strict=True)
        for key, integers in (
            (f"lower_{axis}", _lower),
            (f"upper_{axis}", _upper),
            (f"{axis.removesuffix('s')}_weights", _weight_bits),
        )
    }


def _lower(taps: Taps) -> list[int]:
    return cast(list[int], taps.lower.tolist())


def _upper(taps: Taps) -> list[int]:
    return cast(list[int], taps.upper.tolist())


def _weight_bits(taps: Taps) -> list[int]:
    return cast(list[int], taps.weight.view(np.uint32).tolist())


def resampled(
    lowering: Lowering,
    codes: Tensor,
    shape: Sequence[int],
    taps: tuple[FreeTaps, FreeTaps],
    parameters: tuple[Parameters, Parameters] | None = None,
) -> Tensor:
    """Add the operator, on codes as they are or from parameters to others; an image of one row for 3-D tensors."""
    own = Parameters(np.float32(1), 0, codes.dtype)
    given, wanted = parameters or (own, own)
    rows = (shape[2],) if len(shape) == 4 else (1,)
    image = as_image(lowering, codes)
    operands: list[Operand] = [image, *lowering.pair(given), *lowering.pair(wanted)]
    resampled = lowering.emit(
        "QUANTIZED_RESAMPLE", operands, wanted.dtype, (*shape[:2], *rows, shape[-1]), attributes_of(taps)
    )
    return lowering.reshaped(resampled, shape)
