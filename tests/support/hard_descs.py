"""Descs at the limits of 32 bits that cost neither time nor memory, and how to see that they do not."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dmlcpu
from operator_samples import (
    BLOCK_DEQUANTIZE,
    BLOCK_QUANTIZE,
    CONVOLUTION,
    QUANTIZE,
    changed,
    tensor,
)
from process_memory import address_space_bytes

__all__ = [
    "CAN_LIMIT_MEMORY",
    "LARGEST",
    "at_once",
    "dequantization_of_4_bits",
    "point_convolution",
    "quantization",
    "quantization_to_4_bits",
]

LARGEST = 2**32 - 1
# The address sanitizer needs terabytes of address space.
CAN_LIMIT_MEMORY = sys.platform == "linux" and "asan" not in os.environ.get("LD_PRELOAD", "")


@contextmanager
def at_once() -> Iterator[None]:
    """Neither time nor memory in proportion to the sizes: what takes half a second or 1 GiB has gone wrong."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if CAN_LIMIT_MEMORY:
        resource.setrlimit(resource.RLIMIT_AS, (address_space_bytes() + (1 << 30), hard))
    begin = time.process_time()
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    assert time.process_time() - begin < 0.5


def quantization(
    sizes: tuple[int, ...], *, input_strides: Any = None, output_strides: Any = None
) -> dmlcpu.OperatorDesc:
    return changed(
        QUANTIZE,
        input_tensor=tensor("FLOAT32", *sizes, strides=input_strides),
        scale_tensor=tensor("FLOAT32", *sizes, strides=(0,) * len(sizes)),
        zero_point_tensor=tensor("UINT8", *sizes, strides=(0,) * len(sizes)),
        output_tensor=tensor("UINT8", *sizes, strides=output_strides),
    )


def dequantization_of_4_bits(
    sizes: tuple[int, ...], blocks: tuple[int, ...], *, input_strides: Any = None, output_strides: Any = None
) -> dmlcpu.OperatorDesc:
    zeros = (0,) * len(sizes)
    return changed(
        BLOCK_DEQUANTIZE,
        input_tensor=tensor("INT4", *sizes, strides=input_strides),
        quantization_tensors=(tensor("FLOAT32", *blocks, strides=zeros), tensor("INT4", *blocks, strides=zeros)),
        output_tensor=tensor("FLOAT32", *sizes, strides=output_strides),
    )


def quantization_to_4_bits(sizes: tuple[int, ...], blocks: tuple[int, ...], output_strides: Any) -> dmlcpu.OperatorDesc:
    zeros = (0,) * len(sizes)
    return changed(
        BLOCK_QUANTIZE,
        input_tensor=tensor("FLOAT32", *sizes, strides=zeros),
        quantization_tensors=(tensor("FLOAT32", *blocks, strides=zeros), tensor("UINT4", *blocks, strides=zeros)),
        output_tensor=tensor("UINT4", *sizes, strides=output_strides),
    )


def point_convolution(
    input_sizes: tuple[int, ...], filter_size: int, output_size: int, *, step: int = 0, **changes: Any
) -> Any:
    """One channel and one row; the input one code, repeated or ``step`` apart; the filter two codes at most."""
    return changed(
        CONVOLUTION,
        **dict.fromkeys(("filter_zero_point_tensor", "bias_tensor", "output_zero_point_tensor")),
        input_tensor=tensor("UINT8", *input_sizes, strides=(*(0,) * (len(input_sizes) - 1), step)),
        filter_tensor=tensor("INT8", 1, 1, filter_size),
        filter_scale_tensor=tensor("FLOAT32", 1),
        input_scale_tensor=tensor("FLOAT32", 1),
        input_zero_point_tensor=tensor("UINT8", 1),
        output_scale_tensor=tensor("FLOAT32", 1),
        output_tensor=tensor("UINT8", 1, 1, output_size),
        **{"strides": (1,), "dilations": (1,), "start_padding": (0,), "end_padding": (0,), "group_count": 1, **changes},
    )
