"""Data types of numpy's that many files compare with; those of descs are of ``TensorDataType``."""

from __future__ import annotations

from typing import Final

import numpy as np

__all__ = ["CODE_TYPES", "FLOAT32", "INT32", "INT64"]

FLOAT32: Final = np.dtype(np.float32)
INT32: Final = np.dtype(np.int32)
INT64: Final = np.dtype(np.int64)

CODE_TYPES: Final = (np.dtype(np.uint8), np.dtype(np.int8))
"""Of the codes that operators compute with."""
