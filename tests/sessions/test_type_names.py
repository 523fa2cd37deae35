"""Types of a model's values have the names that onnxruntime tells."""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx
import onnxruntime
import pytest

import dmlcpu
from dmlcpu.onnx.type_names import tensor_dtype

TYPES: Final = (
    *("FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16", "BOOL", "STRING"),
    *("INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64"),
    *("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ"),
)


@pytest.mark.parametrize("name", TYPES)
def test_types_have_the_names_of_onnxruntime(name: str) -> None:
    element = onnx.TensorProto.DataType.Value(name)
    x, y = (onnx.helper.make_tensor_value_info(value, element, (2, 3)) for value in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Identity", ["x"], ["y"])], "model", [x], [y])
    opsets = [onnx.helper.make_opsetid("", 19)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    theirs = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    ours = dmlcpu.InferenceSession(model)
    [told] = {value.type for value in (*theirs.get_inputs(), *theirs.get_outputs())}
    assert [value.type for value in (*ours.get_inputs(), *ours.get_outputs())] == [told, told]
    assert tensor_dtype(told) == np.dtype(onnx.helper.tensor_dtype_to_np_dtype(element))


@pytest.mark.parametrize("name", ["seq(tensor(float))", "map(int64,tensor(float))", "tensor(nothing)", ""])
def test_what_is_no_tensor_has_no_elements_of_a_type(name: str) -> None:
    assert tensor_dtype(name) is None
