"""Nodes that onnxruntime has optimized before it saved them, and optimizes again where it is left them."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import onnxruntime
import pytest

import dmlcpu
from onnx_models import Builder


def test_names_that_onnxruntime_gives_twice(random_numbers: np.random.Generator) -> None:
    """Its fusion of a product and a sum does, in models that it has fused others of before."""
    builder = Builder()
    x = builder.node("Tan", [builder.input("float32", (2, 3, 4))])
    value = builder.node("MatMul", [x, random_numbers.random((4, 5), np.float32)])
    builder.output(builder.node("Add", [value, random_numbers.random(5, np.float32)]), "float32")
    shape = builder.constant(np.int64([-1, 4]), "gemm_output_shape")
    builder.output(builder.node("Reshape", [x, shape]), "float32")
    model, feeds = builder.build(), {"x": random_numbers.random((2, 3, 4), np.float32)}
    providers = ["CPUExecutionProvider"]
    with pytest.raises(Exception, match="replace the existing tensor"):
        onnxruntime.InferenceSession(model, providers=providers)
    unfused = onnxruntime.InferenceSession(model, providers=providers, disabled_optimizers=["MatMulAddFusion"])
    session = dmlcpu.InferenceSession(model)
    for result, expected in zip(session.run(None, feeds), unfused.run(None, feeds), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-5)
    assert [part.provider for part in session.partitions()] == ["onnxruntime"]


def test_what_no_optimizer_is_to_blame_for_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Onnxruntime multiplies no INT8 by MatMul, whatever it optimizes."""
    builder = Builder()
    x = builder.input("int8", (2, 4))
    builder.output(builder.node("MatMul", [x, np.ones((4, 3), np.int8)]), "int8")
    attempts, opened = [], onnxruntime.InferenceSession

    def counted(*arguments: Any, **options: Any) -> Any:
        attempts.append(options)
        return opened(*arguments, **options)

    monkeypatch.setattr(onnxruntime, "InferenceSession", counted)
    with contextlib.suppress(dmlcpu.InvalidModelError):
        dmlcpu.InferenceSession(builder.build())
    assert attempts
    assert not [options for options in attempts if "MatMulAddFusion" in options["disabled_optimizers"]]
