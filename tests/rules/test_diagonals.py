"""EyeLike of what is computed, beside onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest

import dmlcpu
from onnx_models import Builder, assert_like_onnxruntime, results_of_onnxruntime
from template_checks import assert_templates_follow_the_rules


def model_of(shape: Sequence[int | str], attributes: dict[str, Any]) -> bytes:
    builder = Builder()
    x = builder.input("float32", shape)
    eye = builder.node("EyeLike", [builder.node("Exp", [x])], **attributes)
    if attributes.get("dtype", 1) == onnx.TensorProto.FLOAT:
        eye = builder.node("Add", [eye, x])
    builder.output(eye, onnx.helper.tensor_dtype_to_np_dtype(attributes.get("dtype", 1)))
    return builder.build()


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (6, 2)], ids=str)
@pytest.mark.parametrize("k", [0, 1, -2, 9, -9])
@pytest.mark.parametrize(
    "dtype", [None, onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.INT32, onnx.TensorProto.DOUBLE]
)
def test_diagonals(random_numbers: np.random.Generator, shape: tuple[int, int], k: int, dtype: int | None) -> None:
    attributes = {"k": k} if dtype is None else {"k": k, "dtype": dtype}
    feeds = {"x": random_numbers.standard_normal(shape, np.float32)}
    assert_like_onnxruntime(model_of(shape, attributes), feeds, equal=True)


def test_free_lengths(random_numbers: np.random.Generator) -> None:
    model = model_of(("N", "M"), {"k": 1})
    shapes = [(3, 4), (5, 9), (8, 2)]
    assert_templates_follow_the_rules(model, [{"x": shape} for shape in shapes], 1)
    session = dmlcpu.InferenceSession(model)
    for shape in shapes:
        feeds = {"x": random_numbers.standard_normal(shape, np.float32)}
        np.testing.assert_array_equal(session.run(None, feeds)[0], results_of_onnxruntime(model, feeds)[0])
        assert {part.provider for part in session.partitions({"x": shape})} == {"dmlcpu"}
