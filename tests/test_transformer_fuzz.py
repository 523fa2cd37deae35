"""Damaged models of what transformers are made of: an error of this package with a name, or a run."""

from __future__ import annotations

import functools

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dmlcpu
from onnx_models import Builder
from test_model_fuzz import MUTATIONS, Mutation, change_declared, survives


def norm(builder: Builder, x: str) -> str:
    distances = builder.node("Sub", [x, builder.node("ReduceMean", [x], axes=[-1])])
    variance = builder.node("ReduceMean", [builder.node("Pow", [distances, np.float32(2)])], axes=[-1])
    deviation = builder.node("Sqrt", [builder.node("Add", [variance, np.float32(1e-5)])])
    scaled = builder.node("Mul", [builder.node("Div", [distances, deviation]), np.ones(8, np.float32)])
    result: str = builder.node("Add", [scaled, np.ones(8, np.float32)])
    return result


def product(builder: Builder, x: str) -> str:
    codes, scale, point = builder.node("DynamicQuantizeLinear", [x], count=3)
    sums = builder.node("MatMulInteger", [codes, np.ones((8, 8), np.int8), point, np.int8(1)])
    scales = builder.node("Mul", [scale, np.float32(0.1)])
    scaled = builder.node("Mul", [builder.node("Cast", [sums], to=1), scales])
    result: str = builder.node("Add", [scaled, np.ones(8, np.float32)])
    return result


@functools.cache
def serialized() -> bytes:
    """A norm of codes, a dynamically quantized layer, attention, GELU, and a norm spelled out."""
    builder = Builder()
    codes = builder.dequantized(builder.input("uint8", (2, 5, 8)), 0.1, np.uint8(3))
    parameters = [np.ones(8, np.float32), np.zeros(8, np.float32)]
    x = builder.node("LayerNormalization", [codes, *parameters], axis=-1, epsilon=1e-5)
    x = builder.dequantized(builder.quantized(x, 0.02, np.uint8(99)), 0.02, np.uint8(99))
    y = product(builder, builder.node("LayerNormalization", [x, *parameters], axis=-1))
    scores = builder.node("MatMul", [y, builder.node("Transpose", [y], perm=[0, 2, 1])])
    shares = builder.node("Softmax", [builder.node("Div", [scores, np.float32(2)])], axis=-1)
    y = norm(builder, builder.node("Add", [x, builder.node("MatMul", [shares, y])]))
    erf = builder.node("Erf", [builder.node("Div", [y, np.float32(1.4142135)])])
    y = builder.node("Mul", [y, builder.node("Add", [erf, np.float32(1)])])
    builder.output(builder.node("Mul", [y, np.float32(0.5)]), "float32")
    return builder.build()


# Of inputs that are declared as vectors of 2^40, onnx's own inference of shapes takes gigabytes where they multiply.
OURS = [mutation for mutation in MUTATIONS if mutation is not change_declared]


@pytest.mark.parametrize("mutation", OURS, ids=lambda mutation: mutation.__name__)
@given(st.data())
def test_mutated(mutation: Mutation, data: st.DataObject) -> None:
    model = onnx.load_model_from_string(serialized())
    mutation(data, model)
    survives(model.SerializeToString())


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 7)), max_size=4))
def test_flipped_bits(flips: list[tuple[float, int]]) -> None:
    model = bytearray(serialized())
    for place, bit in flips:
        model[min(int(len(model) * place), len(model) - 1)] ^= 1 << bit
    survives(bytes(model))


def test_the_model_itself_runs() -> None:
    session = dmlcpu.InferenceSession(serialized())
    [result] = session.run(None, {"x": np.zeros((2, 5, 8), np.uint8)})
    assert result.shape == (2, 5, 8)
    [partition] = session.partitions()
    steps = [step.type for step in partition.steps]
    assert [steps.count(name) for name in ("FLOAT_PRODUCT", "LAYER_NORMALIZATION", "ELEMENT_WISE_UNARY")] == [2, 2, 1]
