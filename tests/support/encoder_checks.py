"""What every encoder of text is held to, quantized or fused by whichever tool."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray

import dmlcpu
from exact_references import exact_for_onnxruntime
from text_encoders import token_feeds

__all__ = [
    "SHAPES",
    "assert_like_onnxruntime",
    "assert_same_bits_on_every_device",
    "assert_same_without_onnxruntime",
    "results",
]

SHAPES = ((1, 5), (3, 12), (2, 22))
LAST_BITS = 1e-5
DRAWS = 5


def results(session: Any, feeds: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    [result] = session.run(None, feeds)
    return np.asarray(result)


def assert_like_onnxruntime(
    model: bytes, most: float, shapes: Iterable[tuple[int, int]] = SHAPES, some_of: Iterable[str] = ()
) -> None:
    """One native graph whose results are onnxruntime's but for last bits; it has some of these steps.

    A code that is rounded otherwise moves those of the layers behind it. The results then differ by a part of the
    largest at most, and those of other tokens do not.
    """
    session = dmlcpu.InferenceSession(model)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    other = onnxruntime.InferenceSession(exact_for_onnxruntime(model), options)
    steps = set(some_of)
    for batch, tokens in shapes:
        for draw in range(DRAWS):
            feeds = token_feeds(draw, batch, tokens)
            [partition] = session.partitions({name: feed.shape for name, feed in feeds.items()})
            assert partition.provider == "dmlcpu"
            assert not steps or steps & {step.type for step in partition.steps}
            ours, expected = results(session, feeds), results(other, feeds)
            largest = np.abs(expected).max()
            np.testing.assert_allclose(ours, expected, rtol=0, atol=most * largest)
            if np.abs(ours - expected).max() <= LAST_BITS * largest:
                break
        else:
            pytest.fail(f"{batch} x {tokens} tokens: none of {DRAWS} draws has onnxruntime's results")


def assert_same_bits_on_every_device(devices: Mapping[str, dmlcpu.Device], model: bytes) -> None:
    feeds = token_feeds(1, 3, 12)
    outputs = {
        label: results(dmlcpu.InferenceSession(model, device=device), feeds) for label, device in devices.items()
    }
    first = next(iter(outputs.values()))
    for label, output in outputs.items():
        np.testing.assert_array_equal(output, first, err_msg=label)


def assert_same_without_onnxruntime(monkeypatch: pytest.MonkeyPatch, model: bytes) -> None:
    feeds = token_feeds(2, 2, 7)
    expected = results(dmlcpu.InferenceSession(model), feeds)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    np.testing.assert_array_equal(results(dmlcpu.InferenceSession(model), feeds), expected)
