"""Data types of numpy's that many files compare with; those of descs are of ``TensorDataType``."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

__all__ = ["CODE_TYPES", "FLOAT32", "INT32", "INT64", "is_of_ml_dtypes"]

FLOAT32: Final = np.dtype(np.float32)
INT32: Final = np.dtype(np.int32)
INT64: Final = np.dtype(np.int64)

CODE_TYPES: Final = (np.dtype(np.uint8), np.dtype(np.int8))
"""Of the codes that operators compute with."""

_ADDED: Final = 2  # what numpy's isbuiltin is of types that a package has added to it


def is_of_ml_dtypes(dtype: np.dtype[Any]) -> bool:
    """Return whether a type is one that numpy lacks; its kind does not tell: of float8_e5m2 it is "f".

    >>> is_of_ml_dtypes(np.dtype(np.float16)), is_of_ml_dtypes(np.dtype(np.void))
    (False, False)
    """
    return dtype.isbuiltin == _ADDED
