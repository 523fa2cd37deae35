"""A tensor cut into blocks, and the cases of QUANTIZE and DEQUANTIZE that tests make of it."""

from __future__ import annotations

import numpy as np

from filled_tensors import filled
from fills import INTEGERS, SCALES, input_fills
from operator_case import OperatorCase
from strided_tensor import NUMPY_TYPES, blank_tensor

__all__ = ["CODE_TYPES", "blocked_case"]

CODE_TYPES = ("UINT8", "INT8", "UINT4", "INT4")


def blocked_case(
    rng: np.random.Generator, operator: str, types: tuple[str, str], sizes: tuple[int, ...], blocks: tuple[int, ...]
) -> OperatorCase:
    codes, floats = types
    given_type, made_type = (floats, codes) if operator == "QUANTIZE" else (codes, floats)
    every = {
        "input_tensor": filled(rng, given_type, sizes, input_fills(NUMPY_TYPES[given_type])[0]),
        "quantization_tensors[0]": filled(rng, floats, blocks, SCALES[0]),
        "quantization_tensors[1]": filled(rng, codes, blocks, INTEGERS[0]),
        "output_tensor": blank_tensor(made_type, sizes, None),
    }
    return OperatorCase(operator, every, {"quantization_type": 2})
