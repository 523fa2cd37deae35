"""Threads of another runtime, beside those of native parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest

import dmlcpu
from onnx_models import Builder, coded


@pytest.mark.parametrize("has_native_part", [False, True])
def test_threads_of_the_other_runtime_watch_only_where_it_is_alone(
    monkeypatch: pytest.MonkeyPatch, has_native_part: bool
) -> None:
    """They would hold the processors that the threads of the native part need."""
    builder = Builder()
    value = builder.input("float32", (2, 3))
    if has_native_part:
        value = coded(builder, builder.node("Relu", [coded(builder, value)]))
    builder.output(builder.node("Tan", [builder.node("Mod", [value, np.float32(0.7)], fmod=1)]), "float32")
    options: list[onnxruntime.SessionOptions] = []
    session = onnxruntime.InferenceSession

    def opened(model: bytes, given: onnxruntime.SessionOptions, **named: Any) -> Any:
        options.append(given)
        return session(model, given, **named)

    monkeypatch.setattr("onnxruntime.InferenceSession", opened)
    ours = dmlcpu.InferenceSession(builder.build())
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    [result] = ours.run(None, {"x": x})
    assert result.shape == x.shape
    assert [part.provider for part in ours.partitions()] == ["dmlcpu"] * has_native_part + ["onnxruntime"]
    [given] = options
    if has_native_part:
        assert given.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    else:
        with pytest.raises(RuntimeError, match="allow_spinning"):  # as onnxruntime does by itself
            given.get_session_config_entry("session.intra_op.allow_spinning")
