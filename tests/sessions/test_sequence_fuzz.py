"""Damaged models of what transformers and recurrent networks are made of: an error with a name, or a run."""

from __future__ import annotations

import functools

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import dmlcpu
from conftest import SEED
from model_mutations import MUTATIONS, Mutation, change_declared, grow_constants, survives
from onnx_models import Builder, results_of_onnxruntime


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
def blocks() -> bytes:
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


@functools.cache
def tokens() -> bytes:
    """Token numbers and a mask: look-ups, comparisons, counts, choices."""
    builder = Builder()
    ids, mask = builder.input("int64", (2, 5)), builder.input("int64", (2, 5), "mask")
    table = builder.dequantized(np.ones((9, 8), np.int8), 0.1, np.int8(3))
    counted = builder.node("Cast", [builder.node("Not", [builder.node("Equal", [ids, np.array(1)])])], to=7)
    counted = builder.node("Mul", [builder.node("CumSum", [counted, np.array(1)]), counted])
    rows = builder.node("GatherElements", [np.zeros((2, 6), np.int64), counted], axis=1)
    x = builder.node("Add", [builder.node("Gather", [table, ids]), builder.node("Gather", [table, rows])])
    present = builder.node("Reshape", [builder.node("Cast", [mask], to=9), np.array([-1])])
    grid = np.arange(2)[:, None, None] * 5 + np.arange(5)
    present = builder.node("And", [builder.node("Gather", [present, grid]), np.ones((1, 5, 1), np.bool_)])
    scores = builder.node("MatMul", [x, builder.node("Transpose", [x], perm=[0, 2, 1])])
    shares = builder.node("Softmax", [builder.node("Where", [present, scores, np.float32(-100)])], axis=-1)
    shares = builder.node("Where", [builder.node("IsNaN", [shares]), np.float32(0), shares])
    builder.output(builder.node("MatMul", [shares, x]), "float32")
    builder.output(builder.node("GatherND", [counted, np.array([[1, 4], [0, -5]])]), "int64")
    return builder.build()


@functools.cache
def fused() -> bytes:
    """Nodes that optimizers fuse: embeddings, attention in all forms, norms of sums, GELU, products with scales."""
    builder, random = Builder(), np.random.default_rng((SEED, 1))

    def weights(*shape: int) -> NDArray[np.float32]:
        return random.normal(0, 1, shape).astype(np.float32)

    ids, mask = builder.input("int32", (2, 5)), builder.input("int32", (2, 5), "mask")
    embeddings = [weights(9, 8), weights(6, 8), weights(2, 8), weights(8), weights(8)]
    inputs = [ids, builder.node("Mul", [ids, np.int32(0)]), *embeddings, mask]
    x, lengths = builder.node("com.microsoft.EmbedLayerNormalization", inputs, count=2, epsilon=1e-5)
    codes, scale, point = builder.node("DynamicQuantizeLinear", [x], count=3)
    weight = random.integers(-9, 9, (8, 24), np.int8)
    inputs = [codes, weight, weights(24), scale, np.full(24, 0.02, np.float32), lengths, point, np.int8(0)]
    y = builder.node("com.microsoft.QAttention", inputs, num_heads=2, unidirectional=1)
    x = builder.node("com.microsoft.SkipLayerNormalization", [y, x, *(weights(8) for _ in range(3))])
    order = {"num_heads": 2, "scale": 0.5, "mask_filter_value": -9.0, "qkv_hidden_sizes": [8, 8, 4]}
    inputs = [x, weights(8, 20), weights(20), mask, "", weights(1, 2, 5, 5)]
    y = builder.node("com.microsoft.Attention", inputs, **order)
    y = builder.node("com.microsoft.DynamicQuantizeMatMul", [y, weight[:4, :8], np.float32(0.1)])
    y = builder.node("com.microsoft.BiasGelu", [y, weights(8)])
    y = builder.node("com.microsoft.MultiHeadAttention", [x, y, y, weights(24), mask], num_heads=4)
    y = builder.node("com.microsoft.FusedMatMul", [y, weights(8, 8)], transB=1, alpha=0.3)
    y = builder.node("com.microsoft.FastGelu", [builder.node("com.microsoft.QuickGelu", [y]), weights(8)])
    y = builder.node("com.microsoft.SkipSimplifiedLayerNormalization", [y, x, weights(8)])
    builder.output(builder.node("SimplifiedLayerNormalization", [y, weights(8)], epsilon=1e-3), "float32")
    return builder.build()


@functools.cache
def layers() -> bytes:
    """Recurrent layers of each kind, one with weights of codes."""
    builder, random = Builder(), np.random.default_rng((SEED, 2))

    def weights(*shape: int) -> NDArray[np.float32]:
        return random.normal(0, 1, shape).astype(np.float32)

    x, state = builder.input("float32", (4, 2, 6)), builder.input("float32", (2, 2, 5), "state")
    operands = [x, weights(2, 20, 6), weights(2, 20, 5), weights(2, 40), "", state, state]
    y = builder.node("LSTM", operands, count=3, hidden_size=5, direction="bidirectional")[0]
    y = builder.node("Reshape", [builder.node("Transpose", [y], perm=[0, 2, 1, 3]), np.array([4, 2, 10])])
    operands = [y, weights(1, 15, 10), weights(1, 15, 5), weights(1, 30), np.full(2, 4, np.int32)]
    y = builder.node("GRU", operands, hidden_size=5, direction="reverse", linear_before_reset=1)
    y = builder.node("Squeeze", [y, np.array([1])])
    y = builder.node("RNN", [y, weights(1, 5, 5), weights(1, 5, 5)], hidden_size=5, activations=["Relu"])
    y = builder.node("Squeeze", [y, np.array([1])])
    codes = [random.integers(0, 256, (1, 5, 20), np.uint8) for _ in range(2)]
    parameters = [np.full(1, 0.004, np.float32), np.full(1, 128, np.uint8)] * 2
    operands = [y, *codes, weights(1, 40), "", "", "", "", *parameters]
    y, last = builder.node("com.microsoft.DynamicQuantizeLSTM", operands, count=2, hidden_size=5)
    builder.output(y, "float32")
    builder.output(last, "float32")
    return builder.build()


MODELS = {"blocks": blocks, "tokens": tokens, "fused": fused, "layers": layers}

# Of inputs that are declared as vectors of 2^40, onnx's own inference of shapes takes gigabytes where they multiply.
# What constants grow to depends on no other node of a model: the models of test_model_fuzz are enough.
OURS = [mutation for mutation in MUTATIONS if mutation not in (change_declared, grow_constants)]


@pytest.mark.parametrize("mutation", OURS, ids=lambda mutation: mutation.__name__)
@pytest.mark.parametrize("name", MODELS)
@given(st.data())
def test_mutated(name: str, mutation: Mutation, data: st.DataObject) -> None:
    model = onnx.load_model_from_string(MODELS[name]())
    mutation(data, model)
    survives(model.SerializeToString())


@pytest.mark.parametrize("name", MODELS)
@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 7)), max_size=4))
def test_flipped_bits(name: str, flips: list[tuple[float, int]]) -> None:
    model = bytearray(MODELS[name]())
    for place, bit in flips:
        model[min(int(len(model) * place), len(model) - 1)] ^= 1 << bit
    survives(bytes(model))


def test_the_blocks_run() -> None:
    session = dmlcpu.InferenceSession(blocks())
    [result] = session.run(None, {"x": np.zeros((2, 5, 8), np.uint8)})
    assert result.shape == (2, 5, 8)
    [partition] = session.partitions()
    steps = [step.type for step in partition.steps]
    assert [steps.count(name) for name in ("FLOAT_PRODUCT", "LAYER_NORMALIZATION", "ELEMENT_WISE_UNARY")] == [2, 2, 1]


def test_the_fused_run() -> None:
    """Like onnxruntime, but for codes that are rounded otherwise."""
    feeds = {
        "x": np.array([[1, 2, 3, 4, 5], [8, 1, 1, 1, 0]], np.int32),
        "mask": np.array([[1] * 5, [0] * 5], np.int32),
    }
    session = dmlcpu.InferenceSession(fused())
    assert [partition.provider for partition in session.partitions()] == ["dmlcpu"]
    [expected], [result] = results_of_onnxruntime(fused(), feeds), session.run(None, feeds)
    np.testing.assert_allclose(result, expected, rtol=0, atol=0.05)


def test_the_layers_run(random_numbers: np.random.Generator) -> None:
    """Like onnxruntime, but for codes that are rounded otherwise."""
    feeds = {
        name: random_numbers.normal(0, 1, shape).astype(np.float32)
        for name, shape in (("x", (4, 2, 6)), ("state", (2, 2, 5)))
    }
    session = dmlcpu.InferenceSession(layers())
    assert [partition.provider for partition in session.partitions()] == ["dmlcpu"]
    for result, expected in zip(session.run(None, feeds), results_of_onnxruntime(layers(), feeds), strict=True):
        np.testing.assert_allclose(result, expected, rtol=0, atol=0.05)


def test_the_tokens_run() -> None:
    session = dmlcpu.InferenceSession(tokens())
    feeds = {"x": np.array([[1, 2, 3, 4, 5], [8, 1, 1, 1, -9]]), "mask": np.array([[1] * 5, [0] * 5])}
    states, counts = session.run(None, feeds)
    assert not np.isnan(states).any()
    assert counts.tolist() == [2, 0]
    [partition] = session.partitions()
    assert partition.provider == "dmlcpu"
