"""Encoders of text from token numbers to states: one native graph, with and without onnxruntime."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

import dmlcpu
from dmlcpu.cli.application import application
from dmlcpu.errors import BindingError
from text_encoders import FORMS, STYLES, TOKENS, quantized_encoder, token_feeds

SHAPES = ((1, 5), (3, 12), (2, 22))

encoders = pytest.mark.parametrize(("style", "form"), [(style, form) for style in STYLES for form in FORMS])


def results(session: Any, feeds: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    [result] = session.run(None, feeds)
    return np.asarray(result)


@encoders
def test_like_onnxruntime(style: str, form: str) -> None:
    """But for codes that are rounded otherwise: of 256, one is 0.4 % of the range."""
    model = quantized_encoder(style, form)
    session = dmlcpu.InferenceSession(model)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    other = onnxruntime.InferenceSession(model, options)
    for seed, (batch, tokens) in enumerate(SHAPES):
        feeds = token_feeds(seed, batch, tokens)
        [partition] = session.partitions({name: feed.shape for name, feed in feeds.items()})
        assert partition.provider == "dmlcpu"
        assert {"GATHER", "ELEMENT_WISE_LOGICAL"} & {step.type for step in partition.steps}
        expected = results(other, feeds)
        np.testing.assert_allclose(results(session, feeds), expected, rtol=0, atol=0.02 * np.abs(expected).max())


@encoders
def test_the_same_bits_on_every_device(devices: Mapping[str, dmlcpu.Device], style: str, form: str) -> None:
    feeds = token_feeds(1, 3, 12)
    outputs = {
        label: results(dmlcpu.InferenceSession(quantized_encoder(style, form), device=device), feeds)
        for label, device in devices.items()
    }
    first = next(iter(outputs.values()))
    for label, output in outputs.items():
        np.testing.assert_array_equal(output, first, err_msg=label)


@encoders
def test_without_onnxruntime(monkeypatch: pytest.MonkeyPatch, style: str, form: str) -> None:
    model, feeds = quantized_encoder(style, form), token_feeds(2, 2, 7)
    expected = results(dmlcpu.InferenceSession(model), feeds)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    np.testing.assert_array_equal(results(dmlcpu.InferenceSession(model), feeds), expected)


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
