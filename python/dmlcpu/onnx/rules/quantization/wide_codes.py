"""Codes of 16 bits between QuantizeLinear and DequantizeLinear: floats, rounded as these codes round them.

What they are dequantized to is a function of the floats that they come from. The codes are computed if anything else
reads them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from dmlcpu.onnx.constant_arrays import Array, Constant, constant_by, source_of
from dmlcpu.onnx.lowering import Lowering
from dmlcpu.onnx.parameters import Parameters
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.element_operators import low_bits, on_each_float, on_floats
from dmlcpu.onnx.rules.native_functions import FloatBinary, FloatUnary
from dmlcpu.onnx.rules.operands import constant
from dmlcpu.onnx.values import CONSTANTS, DeferredCodes, Dequantized, Table, Tensor, Value

__all__ = ["WIDE_TYPES", "WideCodes", "wide_codes"]

WIDE_TYPES: Final = (np.dtype(np.uint16), np.dtype(np.int16))


class WideCodes(DeferredCodes):
    """Codes of 16 bits, or FLOAT8, of which a DequantizeLinear by their own parameters reads the floats alone.

    Attributes:
        parameters: By which they are quantized.
        dequantized: Their floats.
    """

    def __init__(self, parameters: Parameters, dequantized: Value, codes: Callable[[], Tensor]) -> None:
        self.parameters, self.dequantized, self._codes = parameters, dequantized, codes
        self.dtype, self.shape = parameters.dtype, dequantized.shape

    def are_by(self, scale: Value | None, zero_point: Value | None) -> bool:
        """Return whether these constants are their own parameters, told by ``Parameters.key``."""
        own = self.parameters
        try:
            scales = constant(scale, "a scale")
            points = np.zeros(1, own.dtype) if zero_point is None else constant(zero_point, "a zero point")
        except NotNative:
            return False
        if (scales.dtype, points.dtype, scales.size, points.size) != (own.scale.dtype, own.dtype, 1, 1):
            return False
        return Parameters(np.float32(scales.item()), points.item(), own.dtype).key == own.key

    def has_parameters_of(self, other: WideCodes) -> bool:
        """Return whether two have the same parameters, in the same sense."""
        return self.parameters.key == other.parameters.key

    def codes(self) -> Tensor:
        """Compute the codes."""
        return self._codes()


def wide_codes(lowering: Lowering, value: Value, parameters: Parameters) -> Value:
    """Return floats as codes of 16 bits: of constants constants.

    Raises:
        NotNative: They are of another type.
    """
    if isinstance(value, CONSTANTS):
        return _constant_codes(value, parameters)
    if isinstance(value, Table):
        shifted = Table(value.codes, _offsets(value.floats, parameters) + _shift(parameters))
        dequantized = Table(value.codes, _dequantized(value.floats, parameters))
        return WideCodes(parameters, dequantized, lambda: _lower_halves(lowering, shifted, parameters))
    floats = lowering.floats(value)
    if not isinstance(floats, Tensor) or floats.dtype != np.float32:
        raise NotNative(f"an input of type {floats.dtype}")
    rounded = _rounded(lowering, floats, parameters.scale, parameters)
    return WideCodes(parameters, rounded, lambda: _computed_codes(lowering, floats, parameters))


def _rounded(lowering: Lowering, floats: Tensor, unit: np.float32, parameters: Parameters) -> Tensor:
    """Return floats as multiples of a unit, of as many as there are codes."""
    lowest = np.float32(np.iinfo(parameters.dtype).min - parameters.zero_point)
    return on_each_float(lowering, FloatUnary.QUANTIZED_TO_16_BITS, floats, alpha=unit, beta=lowest)


def _computed_codes(lowering: Lowering, floats: Tensor, parameters: Parameters) -> Tensor:
    """Return the codes themselves, of the same quotients as the floats."""
    quotients = on_floats(lowering, FloatBinary.DIVIDE, floats, Constant(np.asarray(parameters.scale)))
    offsets = _rounded(lowering, quotients, np.float32(1), parameters)
    shifted = on_floats(lowering, FloatBinary.ADD, offsets, Constant(_shift(parameters)))
    return _lower_halves(lowering, shifted, parameters)


def _shift(parameters: Parameters) -> Array:
    """Return what added to an offset makes its code the lower half of a float: from 2^23 to 2^24 the last bit is 1."""
    return np.asarray(parameters.zero_point + (3 << 22), np.float32)


def _lower_halves(lowering: Lowering, shifted: Tensor | Table, parameters: Parameters) -> Tensor:
    return low_bits(lowering, lowering.floats(shifted), parameters.dtype)


def _constant_codes(value: Constant | Dequantized, parameters: Parameters) -> Constant:
    floats = value.elements()
    if floats.dtype != np.float32:
        raise NotNative(f"an input of type {floats.dtype}")
    return constant_by(_codes, source_of(floats), parameters)


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
