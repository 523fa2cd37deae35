"""ROTARY_EMBEDDING: pairs of elements turned by angles (arXiv 2104.09864), each operation rounded to float32."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def rotary_embedding(x: Floats, cosines: Floats, sines: Floats, axis: int) -> Floats:
    """Return the pairs along an axis of length 2 turned."""
    (a, b), (cosine_a, cosine_b), (sine_a, sine_b) = (np.moveaxis(array, axis, 0) for array in (x, cosines, sines))
    return np.stack([a * cosine_a - b * sine_a, b * cosine_b + a * sine_b], axis)
