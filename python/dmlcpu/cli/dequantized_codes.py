"""The codes behind floats, where no array has their type: FLOAT8 and 4 bits, which a model dequantizes again."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["codes_behind"]


def codes_behind(floats: NDArray[Any], scale: np.float32, dtype: np.dtype[Any]) -> NDArray[np.int64] | None:
    """Return the codes that floats have been dequantized from, numbered in their order: neighbours differ by 1.

    Args:
        floats: FLOAT32.
        scale: Of all of them.
        dtype: Of the codes; zero points of FLOAT8 are 0, others do not count.

    Returns:
        None if it is another type, or some floats are no finite numbers.

    >>> import ml_dtypes
    >>> codes_behind(np.float32([0, -0.5, 1, 1.125]), np.float32(0.125), np.dtype(ml_dtypes.float8_e4m3fn)).tolist()
    [0, -72, 80, 81]
    """
    if floats.dtype != np.float32 or not np.isfinite(floats).all() or not 0 < scale < np.inf:
        return None
    codes: NDArray[np.int64]
    if dtype.name in ("int4", "uint4"):
        codes = np.rint(floats / scale).astype(np.int64)
    elif dtype.name.startswith("float8"):
        code_bytes = (floats / scale).astype(dtype).view(np.uint8).astype(np.int64)
        codes = np.where(code_bytes < 128, code_bytes, 128 - code_bytes)  # a sign and a magnitude
    else:
        return None
    return codes
