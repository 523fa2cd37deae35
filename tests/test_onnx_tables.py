"""Functions of codes through several tables, each quantized, beside onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

import dmlcpu
from onnx_models import Builder, assert_like_onnxruntime, codes

SHAPE = (2, 9, 24)


def steps_of(builder: Builder) -> list[str]:
    """The operators that a model became, which is one native graph."""
    [partition] = dmlcpu.InferenceSession(builder.build()).partitions()
    return [step.type for step in partition.steps]


@pytest.mark.parametrize("read", [False, True])
def test_chains_of_tables(random_numbers: np.random.Generator, read: bool) -> None:
    """Quantized after every node: still a function of the first codes; a table on the way stays if it is read."""
    builder = Builder()
    x = builder.input("uint8", SHAPE)
    erf = builder.node("Erf", [builder.dequantized(x, 0.03, np.uint8(120))])
    erf_codes = builder.quantized(erf, 0.01, np.uint8(128))
    sum_ = builder.node("Add", [builder.dequantized(erf_codes, 0.01, np.uint8(128)), np.float32(1)])
    sum_codes = builder.quantized(sum_, 0.02, np.uint8(3))
    operands = [builder.dequantized(x, 0.03, np.uint8(120)), builder.dequantized(sum_codes, 0.02, np.uint8(3))]
    builder.output(builder.quantized(builder.node("Mul", operands), 0.02, np.uint8(10)), "uint8")
    if read:
        builder.output(sum_codes, "uint8")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", SHAPE)})
    assert steps_of(builder) == ["CODE_TABLE"] * (3 if read else 1)


def test_what_is_not_read_is_not_computed(random_numbers: np.random.Generator) -> None:
    """Of a function of codes that are quantized on the way, nothing but the last table; inputs remain."""
    builder = Builder()
    x = builder.input("int8", SHAPE)
    builder.input("int8", (3,), "unread")
    unread = builder.node("Sigmoid", [builder.dequantized(x, 0.03, np.int8(1))])
    builder.quantized(unread, 0.01, np.int8(0))
    result = builder.node("Tanh", [builder.dequantized(x, 0.03, np.int8(1))])
    builder.output(builder.quantized(result, 0.01, np.int8(0)), "int8")
    feeds = {"x": codes(random_numbers, "int8", SHAPE), "unread": np.zeros(3, np.int8)}
    assert_like_onnxruntime(builder.build(), feeds, 1)
    assert steps_of(builder) == ["CODE_TABLE"]
