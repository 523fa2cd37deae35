"""Tensors cut into blocks, and the cases of QUANTIZE and DEQUANTIZE that tests make of them."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from filled_tensors import filled
from fills import INTEGERS, SCALES, input_fills
from operator_case import OperatorCase
from strategies import input_tensors, output_tensors
from strided_tensor import NUMPY_TYPES, blank_tensor

__all__ = ["CODE_TYPES", "blocked_case", "blocked_cases"]

CODE_TYPES = ("UINT8", "INT8", "UINT4", "INT4")
FLOAT_TYPES = ("FLOAT32", "FLOAT16")


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


@st.composite
def blocked_sizes(draw: st.DrawFn, max_elements: int = 4000) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Sizes of a tensor and of its parameters."""
    lengths, blocks = [], []
    for _ in range(draw(st.integers(1, 8))):
        room = max_elements // math.prod(lengths)
        length = min(draw(st.integers(1, 5) | st.sampled_from((6, 7, 8, 16, 24, 31, 32, 33, 64, 65, 96, 130))), room)
        divisors = [count for count in range(1, length + 1) if length % count == 0]
        lengths.append(length)
        blocks.append(draw(st.sampled_from((1, length, *divisors))))
    order = draw(st.permutations(range(len(lengths))))
    return tuple(lengths[axis] for axis in order), tuple(blocks[axis] for axis in order)


@st.composite
def blocked_cases(draw: st.DrawFn) -> OperatorCase:
    sizes, blocks = draw(blocked_sizes())
    codes, floats = draw(st.sampled_from(CODE_TYPES)), draw(st.sampled_from(FLOAT_TYPES))
    operator = draw(st.sampled_from(("QUANTIZE", "DEQUANTIZE")))
    given_type, made_type = (floats, codes) if operator == "QUANTIZE" else (codes, floats)
    fills = input_fills(NUMPY_TYPES[given_type])
    parameters = {"quantization_tensors[0]": draw(input_tensors(floats, blocks, SCALES))}
    if draw(st.booleans()):
        parameters["quantization_tensors[1]"] = draw(input_tensors(codes, blocks, INTEGERS))
    every = {
        "input_tensor": draw(input_tensors(given_type, sizes, fills)),
        **parameters,
        "output_tensor": draw(output_tensors(made_type, sizes)),
    }
    return OperatorCase(operator, every, {"quantization_type": len(parameters)})
