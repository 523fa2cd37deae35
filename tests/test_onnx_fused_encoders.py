"""Encoders that an optimizer has fused: one native graph, with and without onnxruntime."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import numpy as np
import onnx
import onnxruntime
import pytest

import dmlcpu
from fused_encoders import FORMS, LAYERS, STYLES, fused_encoder
from test_onnx_text_encoders import SHAPES, results
from text_encoders import token_feeds

encoders = pytest.mark.parametrize(("style", "form"), [(style, form) for style in STYLES for form in FORMS])


@encoders
def test_like_onnxruntime(style: str, form: str) -> None:
    """Floats to their last bits; codes of which one is rounded otherwise are 0.4 % of a range away."""
    model = fused_encoder(style, form)
    session = dmlcpu.InferenceSession(model)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    other = onnxruntime.InferenceSession(model, options)
    most = 1e-5 if form == "floats" else 0.02
    for seed, (batch, tokens) in enumerate((*SHAPES, (1, 1), (2, 1))):
        feeds = token_feeds(seed, batch, tokens)
        [partition] = session.partitions({name: feed.shape for name, feed in feeds.items()})
        assert partition.provider == "dmlcpu"
        expected = results(other, feeds)
        np.testing.assert_allclose(results(session, feeds), expected, rtol=0, atol=most * np.abs(expected).max())


@encoders
def test_the_same_bits_on_every_device(devices: Mapping[str, dmlcpu.Device], style: str, form: str) -> None:
    feeds = token_feeds(1, 3, 12)
    outputs = {
        label: results(dmlcpu.InferenceSession(fused_encoder(style, form), device=device), feeds)
        for label, device in devices.items()
    }
    first = next(iter(outputs.values()))
    for label, output in outputs.items():
        np.testing.assert_array_equal(output, first, err_msg=label)


@encoders
def test_without_onnxruntime(monkeypatch: pytest.MonkeyPatch, style: str, form: str) -> None:
    model, feeds = fused_encoder(style, form), token_feeds(2, 2, 7)
    expected = results(dmlcpu.InferenceSession(model), feeds)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    np.testing.assert_array_equal(results(dmlcpu.InferenceSession(model), feeds), expected)


@pytest.mark.parametrize("form", FORMS[1:])
def test_quantized_nodes_are_fused_ones(form: str) -> None:
    """What the tools make of the nodes that this is a test of."""
    operators = {
        node.op_type for node in onnx.load_model_from_string(fused_encoder("embedded lengths", form)).graph.node
    }
    assert {"QEmbedLayerNormalization", "QAttention", "MatMulInteger", "SkipLayerNormalization"} <= operators


@pytest.mark.parametrize("style", STYLES)
def test_biases_and_scales_are_no_steps(style: str) -> None:
    """They are in the products: what is left are the scales of these, sums of rows, and scores and their mask."""
    session = dmlcpu.InferenceSession(fused_encoder(style, "dynamic"))
    [partition] = session.partitions({"input_ids": (2, 7), "attention_mask": (2, 7)})
    steps = [step.type for step in partition.steps]
    products = 6 if style == "heads" else 4  # of a layer
    assert steps.count("MATRIX_MULTIPLY_INTEGER_TO_FLOAT") == LAYERS * products
    embedding = 0 if style == "generator" else 3
    # Attention by a mask and another one by the order of tokens, or with a scale of queries beside three of products.
    attention = {"generator": 2, "heads": 1 + 1 + 3}.get(style, 1)
    assert steps.count("ELEMENT_WISE_BINARY") == embedding + LAYERS * (attention + 3 + 2)
