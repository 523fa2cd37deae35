"""Encoders that an optimizer has fused: one native graph, with and without onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
import pytest

import dmlcpu
from encoder_checks import (
    SHAPES,
    assert_like_onnxruntime,
    assert_same_bits_on_every_device,
    assert_same_without_onnxruntime,
)
from fused_encoders import FORMS, LAYERS, STYLES, fused_encoder

encoders = pytest.mark.parametrize(("style", "form"), [(style, form) for style in STYLES for form in FORMS])


@encoders
def test_like_onnxruntime(style: str, form: str) -> None:
    """Floats to their last bits; codes of which one is rounded otherwise are 0.4 % of a range away."""
    assert_like_onnxruntime(fused_encoder(style, form), 1e-5 if form == "floats" else 0.05, (*SHAPES, (1, 1), (2, 1)))


@encoders
def test_the_same_bits_on_every_device(devices: Mapping[str, dmlcpu.Device], style: str, form: str) -> None:
    assert_same_bits_on_every_device(devices, fused_encoder(style, form))


@encoders
def test_without_onnxruntime(monkeypatch: pytest.MonkeyPatch, style: str, form: str) -> None:
    assert_same_without_onnxruntime(monkeypatch, fused_encoder(style, form))


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
