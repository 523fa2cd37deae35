"""Codes of 16 bits between QuantizeLinear and DequantizeLinear: floats, rounded as these codes round them.

No kernel reads such codes. What they are dequantized to is a function of the floats that they come from.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from dmlcpu.graph.lengths import derived
from dmlcpu.onnx.lowering import Lowering, NotNative
from dmlcpu.onnx.rules.native_functions import FloatUnary
from dmlcpu.onnx.rules.operands import constant, on_each_float, present
from dmlcpu.onnx.values import Array, Constant, Deferred, Dequantized, FreeArray, Parameters, Table, Tensor, Value

__all__ = ["WIDE_TYPES", "WideCodes", "wide_codes", "wide_parameters"]

WIDE_TYPES: Final = (np.dtype(np.uint16), np.dtype(np.int16))


class WideCodes(Deferred):
    """Codes of 16 bits that are not computed, only what they are dequantized to by their own scale and zero point.

    Attributes:
        parameters: By which they are quantized.
        dequantized: Their floats.
    """

    def __init__(self, parameters: Parameters, dequantized: Value) -> None:
        self.parameters, self.dequantized = parameters, dequantized
        self.dtype, self.shape = parameters.dtype, dequantized.shape

    def are_by(self, parameters: Parameters) -> bool:
        """Return whether they are dequantized by these parameters; 0 and -0 are not the same, NaN is."""
        own = self.parameters
        of_one_scale = own.scale.tobytes() == parameters.scale.tobytes()
        return of_one_scale and (own.zero_point, own.dtype) == (parameters.zero_point, parameters.dtype)

    def floats(self) -> Tensor:  # no floats, but the codes: what computed() is of this value
        """Refuse: codes are not computed."""
        raise NotNative(f"codes of type {self.dtype}")

    def quantized(self, parameters: Parameters) -> Tensor:
        """Refuse: codes are not quantized."""
        raise NotNative(f"an input of type {self.dtype}")


def wide_parameters(scale: Value | None, zero_point: Value | None) -> Parameters:
    """Return the parameters of a whole tensor of codes of 16 bits.

    Raises:
        NotNative: They are computed, there are several, or the codes have not 16 bits.
    """
    scales, points = constant(scale, "a scale"), constant(present(zero_point), "a zero point")
    if scales.size != 1 or points.size != 1:
        raise NotNative("scales along an axis")
    if scales.dtype != np.float32 or points.dtype not in WIDE_TYPES:
        raise NotNative(f"codes of type {points.dtype} with scales of type {scales.dtype}")
    return Parameters(np.float32(scales.item()), int(points.item()), points.dtype)


def wide_codes(lowering: Lowering, value: Value, parameters: Parameters) -> Value:
    """Return floats as codes of 16 bits: of constants constants.

    Raises:
        NotNative: They are of another type.
    """
    if isinstance(value, Constant | Dequantized):
        return _constant_codes(lowering, value, parameters)
    if isinstance(value, Table):
        return WideCodes(parameters, Table(value.codes, _dequantized(value.floats, parameters)))
    floats = lowering.floats(value)
    if not isinstance(floats, Tensor) or floats.dtype != np.float32:
        raise NotNative(f"an input of type {floats.dtype}")
    scale, lowest = parameters.scale, np.float32(np.iinfo(parameters.dtype).min - parameters.zero_point)
    rounded = on_each_float(lowering, FloatUnary.QUANTIZED_TO_16_BITS, floats, alpha=scale, beta=lowest)
    return WideCodes(parameters, rounded)


def _constant_codes(lowering: Lowering, value: Constant | Dequantized, parameters: Parameters) -> Constant:
    floats = lowering.elements(value)
    if floats.dtype != np.float32:
        raise NotNative(f"an input of type {floats.dtype}")
    if isinstance(floats, FreeArray):
        return FreeArray.of(derived(_codes, floats.derived, parameters))
    assert isinstance(floats, np.ndarray)
    return Constant(_codes(floats, parameters))


def _codes(floats: Array, parameters: Parameters) -> Array:
    return np.asarray(_offsets(floats, parameters) + np.float32(parameters.zero_point)).astype(parameters.dtype)


def _dequantized(floats: Array, parameters: Parameters) -> Array:
    with np.errstate(all="ignore"):  # scales may be infinite or no numbers
        return np.asarray(_offsets(floats, parameters) * parameters.scale)


def _offsets(floats: Array, parameters: Parameters) -> Array:
    """Return codes less their zero point, as floats: of a quotient that is no number the least; never a -0."""
    limits = np.iinfo(parameters.dtype)
    with np.errstate(all="ignore"):  # scales may be 0, infinite or no numbers
        bounded = np.fmax(floats / parameters.scale, np.float32(limits.min - parameters.zero_point))
    return np.asarray(np.rint(np.minimum(bounded, np.float32(limits.max - parameters.zero_point))) + np.float32(0))
