"""Products of floats alone, which others are compared with."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

import dmlcpu
from onnx_models import Builder, steps_of

Array = NDArray[Any]


def product_with(weights: Array, x: Array) -> Array:
    """The product with the floats, by a model that has nothing else."""
    builder = Builder()
    name = builder.input("float32", x.shape)
    builder.output(builder.node("MatMul", [name, weights]), "float32")
    model = builder.build()
    assert steps_of(model) == ["FLOAT_PRODUCT"]
    [result] = dmlcpu.InferenceSession(model).run(None, {"x": x})
    return result
