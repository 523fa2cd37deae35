"""Several outputs come in the order of their indices, whichever was computed first."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import dmlcpu
from dmlcpu import ExecutionFlags, GraphBuilder, TensorDataType, TensorDesc


def test_outputs_of_a_graph_unpack_by_index() -> None:
    builder = GraphBuilder(dmlcpu.Device())
    codes = dmlcpu.input_tensor(builder, 0, TensorDesc(TensorDataType.UINT8, (4,)))
    first = dmlcpu.dequantize_linear(codes, 0.5, 3)
    second = dmlcpu.quantized_linear_add(codes, 0.5, 0, codes, 0.5, None, 0.5, 0)
    graph = builder.build(ExecutionFlags.NONE, [second, first])
    sums, floats = graph.dispatch(input_0=np.array([1, 2, 3, 4], np.uint8))
    np.testing.assert_array_equal(sums, np.array([2, 4, 6, 8], np.uint8))
    np.testing.assert_array_equal(floats, np.array([-1, -0.5, 0, 0.5], np.float32))


def test_outputs_of_a_session_are_those_of_their_names() -> None:
    graph = helper.make_graph(
        [
            helper.make_node("QuantizeLinear", ["x", "scale", "zero_point"], ["codes"]),
            helper.make_node("DequantizeLinear", ["codes", "scale", "zero_point"], ["floats"]),
        ],
        "two outputs",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [
            helper.make_tensor_value_info("floats", TensorProto.FLOAT, [4]),
            helper.make_tensor_value_info("codes", TensorProto.UINT8, [4]),
        ],
        [
            numpy_helper.from_array(np.array(0.5, np.float32), "scale"),
            numpy_helper.from_array(np.array(3, np.uint8), "zero_point"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    session = dmlcpu.InferenceSession(model.SerializeToString())
    floats, codes = session.run(["floats", "codes"], {"x": np.array([0, 1, 2, 3], np.float32)})
    np.testing.assert_array_equal(codes, np.array([3, 5, 7, 9], np.uint8))
    np.testing.assert_array_equal(floats, np.array([0, 1, 2, 3], np.float32))
