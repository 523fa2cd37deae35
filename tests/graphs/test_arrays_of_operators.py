"""What is bound to the inputs of an operator when it is added to a graph."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import dmlcpu
from dmlcpu import (
    ExecutionFlags,
    GraphBuilder,
    TensorDataType,
    TensorDesc,
    input_tensor,
)
from sample_graphs import dequantize_desc

U8, F32 = TensorDataType.UINT8, TensorDataType.FLOAT32

NO_ARRAYS: dict[str, tuple[str, Any, str]] = {
    "an expression": ("input_tensor", "expression", "got an expression, expected its placeholder()"),
    "a placeholder of another type": ("input_tensor", "floats", "got float32 of shape (4,), expected uint8 of shape"),
    "an expression of another builder": ("input_tensor", "foreign", "got an expression of another GraphBuilder"),
    "another type": ("scale_tensor", np.float64([0.5]), "got float64 of shape (1,), expected float32 of shape (4,)"),
    "too few elements": ("input_tensor", np.uint8([1, 2, 3]), "got uint8 of shape (3,) and strides (1,) in bytes"),
    "masked elements": (
        "scale_tensor",
        np.ma.masked_array(np.float32([0.5]), True),
        "got an array with masked elements",
    ),
    "a scalar of another type": ("scale_tensor", np.float64(0.5), "got float64 of shape (), expected float32 of shape"),
    "a list": ("scale_tensor", [0.5], "got an object of type list"),
    "none": ("scale_tensor", None, "got no binding, expected float32 of shape (4,)"),
    "one for an absent tensor": ("zero_point_tensor", np.uint8([1]), "got a binding, expected none: the operator was"),
    "one for an output": ("output_tensor", np.zeros(4, np.float32), "got an array, though this is an output, expected"),
    "an unknown field": (
        "scales",
        np.float32([0.5]),
        "got an array, though no input has this name, expected one of input_tensor, scale_tensor",
    ),
}


@pytest.mark.parametrize(("field", "value", "message"), NO_ARRAYS.values(), ids=NO_ARRAYS.keys())
def test_arrays_of_an_operator_are_checked_when_it_is_added(field: str, value: Any, message: str) -> None:
    builder = GraphBuilder()
    x = input_tensor(builder, 0, TensorDesc(U8, (4,)))
    values = {
        "expression": x,
        "floats": input_tensor(builder, 1, TensorDesc(F32, (4,))).placeholder(),
        "foreign": input_tensor(GraphBuilder(), 0, TensorDesc(U8, (4,))).placeholder(),
    }
    given = values[value] if isinstance(value, str) else value
    arrays = {"input_tensor": x.placeholder(), "scale_tensor": np.float32([0.5]), field: given}
    expected = re.escape(f"ELEMENT_WISE_DEQUANTIZE_LINEAR: {field}: {message}")
    with pytest.raises(dmlcpu.BindingError, match=f"^{expected}") as caught:
        builder.add_operator(dequantize_desc(), arrays)
    assert caught.value.field == field
    if field in ("input_tensor", "scale_tensor"):
        with pytest.raises(dmlcpu.BindingError, match=f"^ELEMENT_WISE_DEQUANTIZE_LINEAR: {field}: got no binding"):
            builder.add_operator(dequantize_desc(), {name: arrays[name] for name in arrays if name != field})


def test_arrays_of_an_operator_are_a_mapping() -> None:
    builder = GraphBuilder()
    for arrays in (None, [np.float32([0.5])]):
        with pytest.raises(TypeError, match=r"^arrays: got an object of type .*, expected a mapping of fields"):
            builder.add_operator(dequantize_desc(), arrays)  # type: ignore[arg-type]


def test_constants_of_an_operator_are_what_a_dispatch_would_bind() -> None:
    builder = GraphBuilder()
    codes, code = (input_tensor(builder, index, TensorDesc(U8, (size,))) for index, size in enumerate((4, 1)))
    one = dequantize_desc(
        **{f"{name}_tensor": TensorDesc(F32, (1,)) for name in ("scale", "output")}, input_tensor=code.desc
    )
    outputs = [
        builder.add_operator(desc, {"input_tensor": x.placeholder(), "scale_tensor": scale})[0]
        for desc, x, scale in (
            (dequantize_desc(), codes, np.float32([0.5, 9])),
            (dequantize_desc(), codes, memoryview(np.float32([0.5]))),
            (one, code, np.float32(0.5)),
            (one, code, np.array(0.5, np.float32)),
        )
    ]
    results = builder.build(ExecutionFlags.NONE, outputs).dispatch(
        input_0=np.uint8([0, 1, 2, 255]), input_1=np.uint8([3])
    )
    for result, expected in zip(results, [[0, 0.5, 1, 127.5]] * 2 + [[1.5]] * 2, strict=True):
        np.testing.assert_array_equal(result, np.float32(expected))
