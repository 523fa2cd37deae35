"""FLOAT8 between QuantizeLinear and DequantizeLinear: FLOAT32, rounded as this type rounds.

No kernel has elements of the type. What they are dequantized to is a function of the floats that they come from, and
whoever reads anything else of them is left to others, with what has made them.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from dmlcpu.onnx.constant_arrays import Array
from dmlcpu.onnx.lowering import Lowering
from dmlcpu.onnx.parameters import Parameters
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.element_operators import on_each_float
from dmlcpu.onnx.rules.native_functions import FloatUnary
from dmlcpu.onnx.rules.quantization.wide_codes import WideCodes
from dmlcpu.onnx.values import Table, Tensor, Value

__all__ = ["FLOAT8_TYPES", "float8_codes", "rounded_to_float8"]

_LARGEST: Final = {"float8_e4m3fn": np.float32(448), "float8_e5m2": np.float32(57344)}
_FUNCTIONS: Final = {
    "float8_e4m3fn": FloatUnary.QUANTIZED_TO_FLOAT8_E4M3,
    "float8_e5m2": FloatUnary.QUANTIZED_TO_FLOAT8_E5M2,
}

FLOAT8_TYPES: Final = frozenset(_FUNCTIONS)
"""The names of the types that floats are rounded to natively: ml_dtypes', which onnx has them of."""


def float8_codes(lowering: Lowering, value: Value, parameters: Parameters) -> WideCodes:
    """Return floats as FLOAT8, beyond its range its largest number: what they are dequantized to is computed alone.

    Raises:
        NotNative: They are of another type.
    """

    def refused() -> Tensor:
        raise NotNative(f"codes of type {parameters.dtype}")

    if isinstance(value, Table):
        return WideCodes(parameters, Table(value.codes, _dequantized(value.floats, parameters)), refused)
    floats = lowering.floats(value)
    if not isinstance(floats, Tensor) or floats.dtype != np.float32:
        raise NotNative(f"an input of type {floats.dtype}")
    rounded = on_each_float(lowering, _FUNCTIONS[parameters.dtype.name], floats, alpha=parameters.scale)
    return WideCodes(parameters, rounded, refused)


def rounded_to_float8(floats: Array, scales: Array, dtype: np.dtype[Any]) -> Array:
    """Return FLOAT32 as FLOAT8: divided by scales that are broadcast to it, half to even, beyond the range the end."""
    largest = _LARGEST[dtype.name]
    with np.errstate(all="ignore"):  # scales may be 0, infinite or no numbers
        rounded: Array = np.clip(floats / scales, -largest, largest).astype(dtype)
    return rounded


def _dequantized(floats: Array, parameters: Parameters) -> Array:
    with np.errstate(all="ignore"):
        rounded = rounded_to_float8(floats, np.asarray(parameters.scale), parameters.dtype)
        return np.asarray(rounded.astype(np.float32) * parameters.scale)
