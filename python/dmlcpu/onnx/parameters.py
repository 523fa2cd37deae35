"""How codes stand for floats: the scale and zero point of a tensor, and the type of its codes."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

__all__ = ["ParameterKey", "Parameters"]

_bytes_of = struct.Struct("=f").pack  # numpy's own method takes several times as long

ParameterKey: TypeAlias = tuple[bytes, int, np.dtype[Any]]
"""What tells parameters apart."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """Scale, zero point and type of codes, the same for all elements of a tensor."""

    scale: np.float32
    zero_point: int
    dtype: np.dtype[Any]

    @property
    def key(self) -> ParameterKey:
        """What parameters that make the same codes have in common.

        Scales count by their bits: 0 and -0 are equal but make other codes, and NaN equals nothing, not even itself.
        """
        return _bytes_of(self.scale), self.zero_point, self.dtype

    @property
    def keeps_order(self) -> bool:
        """Whether the codes of floats have the floats' order: not of a scale below 0, of 0 or without an end."""
        return bool(0 < self.scale < np.inf)

    @property
    def keeps_codes(self) -> bool:
        """Whether quantization makes codes of their own floats again; of some other scales it may, too.

        A product with the scale and the quotient by it, each rounded, are at most 256 * 2**-22 from the integer between
        -255 and 255 that they began with, if neither overflows or becomes denormal.
        """
        return 2.0**-100 < abs(float(self.scale)) < 2.0**100

    @property
    def of_other_sign(self) -> Parameters:
        """What makes UINT8 codes in place of INT8 ones, 128 more each, or the other way round."""
        dtype, offset = (np.uint8, 128) if self.dtype == np.int8 else (np.int8, -128)
        return Parameters(self.scale, self.zero_point + offset, np.dtype(dtype))

    def floats(self) -> np.ndarray[Any, Any]:
        """Return the floats of all 256 codes, by the byte of a code."""
        codes = np.arange(256, dtype=np.uint8).view(self.dtype)
        with np.errstate(all="ignore"):  # scales may be infinite or no numbers
            return np.asarray((codes.astype(np.float32) - np.float32(self.zero_point)) * self.scale)
