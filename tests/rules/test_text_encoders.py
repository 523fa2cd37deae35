"""Encoders of text from token numbers to states: one native graph, with and without onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

import dmlcpu
from dmlcpu.cli.application import application
from dmlcpu.errors import BindingError
from encoder_checks import (
    assert_like_onnxruntime,
    assert_same_bits_on_every_device,
    assert_same_without_onnxruntime,
    results,
)
from text_encoders import FORMS, STYLES, TOKENS, quantized_encoder, token_feeds

encoders = pytest.mark.parametrize(("style", "form"), [(style, form) for style in STYLES for form in FORMS])


@encoders
def test_like_onnxruntime(style: str, form: str) -> None:
    """But for codes that are rounded otherwise: of 256, one is 0.4 % of the range."""
    model = quantized_encoder(style, form)
    assert_like_onnxruntime(model, 0.05, some_of=("GATHER", "ELEMENT_WISE_LOGICAL"))


@encoders
def test_the_same_bits_on_every_device(devices: Mapping[str, dmlcpu.Device], style: str, form: str) -> None:
    assert_same_bits_on_every_device(devices, quantized_encoder(style, form))


@encoders
def test_without_onnxruntime(monkeypatch: pytest.MonkeyPatch, style: str, form: str) -> None:
    assert_same_without_onnxruntime(monkeypatch, quantized_encoder(style, form))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("wrong", [TOKENS, -TOKENS - 1, 2**40, -(2**63)])
def test_token_numbers_out_of_range(form: str, wrong: int) -> None:
    session = dmlcpu.InferenceSession(quantized_encoder("added mask", form))
    feeds = token_feeds(3, 2, 7)
    expected = results(session, feeds)
    damaged = {**feeds, "input_ids": feeds["input_ids"].copy()}
    damaged["input_ids"][1, 3] = wrong
    with pytest.raises(BindingError, match=rf"got index {wrong}, expected one from -{TOKENS} to {TOKENS - 1}"):
        session.run(None, damaged)
    np.testing.assert_array_equal(results(session, feeds), expected)


def test_more_tokens_than_positions() -> None:
    """Counted positions are looked up, and one that there is not is told."""
    session = dmlcpu.InferenceSession(quantized_encoder("counted positions", "static"))
    feeds = {"input_ids": np.full((1, 30), 5), "attention_mask": np.ones((1, 30), np.int64)}
    with pytest.raises(BindingError, match=r"got index 24, expected one from -24 to 23"):
        session.run(None, feeds)


def test_an_own_name_for_a_dimension_is_kept() -> None:
    session = dmlcpu.InferenceSession(quantized_encoder("added mask", "static"))
    ids, _ = session.get_inputs()
    assert (ids.shape, ids.type) == (["batch", "tokens"], "tensor(int64)")


@encoders
def test_check(tmp_path: Any, style: str, form: str) -> None:
    """No operator has codes that differ by more than 1, or floats by more than 1e-4."""
    path = tmp_path / "encoder.onnx"
    onnx.save(onnx.load_model_from_string(quantized_encoder(style, form)), path)
    shapes = [word for name in ("input_ids", "attention_mask") for word in ("--shape", f"{name}=2,9")]
    result = CliRunner().invoke(application, ["check", str(path), *shapes])
    assert result.exit_code == 0, result.output
