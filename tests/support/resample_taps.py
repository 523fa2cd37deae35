"""Where resampling takes its values from: random taps, those of ONNX, and how an operator is given them."""

from __future__ import annotations

import numpy as np

from reference.quantized_resample import Taps

__all__ = ["attributes_of", "random_taps", "scaled_taps"]


def attributes_of(rows: Taps, columns: Taps) -> dict[str, list[int]]:
    return {
        "lower_rows": rows.lower.tolist(),
        "upper_rows": rows.upper.tolist(),
        "row_weights": rows.weight.view(np.uint32).tolist(),
        "lower_columns": columns.lower.tolist(),
        "upper_columns": columns.upper.tolist(),
        "column_weights": columns.weight.view(np.uint32).tolist(),
    }


def random_taps(rng: np.random.Generator, input_size: int, output_size: int, nearest: bool) -> Taps:
    lower, upper = rng.integers(0, input_size, (2, output_size))
    weight = rng.choice(np.float32([0, 0.25, 0.5, 1, rng.uniform()]), output_size)
    if rng.integers(2):
        lower.sort()
    return Taps(lower, upper, np.zeros_like(weight) if nearest else weight)


def scaled_taps(input_size: int, output_size: int, nearest: bool) -> Taps:
    """As ONNX places them: floor of the asymmetric coordinate, or half pixels with linear weights."""
    if nearest:
        lower = np.arange(output_size) * input_size // output_size
        return Taps(lower, lower, np.zeros(output_size, np.float32))
    places = np.clip((np.arange(output_size) + 0.5) * input_size / output_size - 0.5, 0, input_size - 1)
    lower = np.floor(places).astype(np.int64)
    return Taps(lower, np.minimum(lower + 1, input_size - 1), (places - lower).astype(np.float32))
