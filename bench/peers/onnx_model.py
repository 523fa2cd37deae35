"""A convolution as an ONNX model of quantized nodes: what onnxruntime and OpenVINO fuse into one int8 kernel."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from bench.convolution_case import ConvolutionCase

__all__ = ["INPUT", "OUTPUT", "qdq_model"]

INPUT, OUTPUT = "input", "output"


def qdq_model(case: ConvolutionCase) -> bytes:
    """Return DequantizeLinear of input, filter and bias, Conv, QuantizeLinear; input and output are codes."""
    shape = case.shape
    zero_points = np.full(shape.filters, case.filter_zero_point, case.filter_type)
    constants = {
        "input_scale": case.input_scale,
        "input_zero_point": np.array(case.input_zero_point, case.input_type),
        "filter": case.filter,
        "filter_scale": case.filter_scale,
        "filter_zero_point": zero_points,
        "bias": case.bias,
        "bias_scale": (case.input_scale * case.filter_scale).astype(np.float32),
        "bias_zero_point": np.zeros(shape.filters, np.int32),
        "output_scale": case.output_scale,
        "output_zero_point": np.array(case.output_zero_point, case.input_type),
    }
    nodes = [
        helper.make_node("DequantizeLinear", [INPUT, "input_scale", "input_zero_point"], ["x"]),
        helper.make_node("DequantizeLinear", ["filter", "filter_scale", "filter_zero_point"], ["w"], axis=0),
        helper.make_node("DequantizeLinear", ["bias", "bias_scale", "bias_zero_point"], ["b"], axis=0),
        helper.make_node(
            "Conv",
            ["x", "w", "b"],
            ["y"],
            strides=shape.strides,
            dilations=shape.dilations,
            pads=(*shape.padding, *shape.padding),
            group=shape.groups,
            kernel_shape=shape.kernel,
        ),
        helper.make_node("QuantizeLinear", ["y", "output_scale", "output_zero_point"], [OUTPUT]),
    ]
    codes = helper.np_dtype_to_tensor_dtype(case.input_type)
    assert codes in (TensorProto.UINT8, TensorProto.INT8)
    graph = helper.make_graph(
        nodes,
        "convolution",
        [helper.make_tensor_value_info(INPUT, codes, case.input.shape)],
        [helper.make_tensor_value_info(OUTPUT, codes, (shape.batch, shape.filters, *shape.output_size))],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    serialized: bytes = model.SerializeToString()
    return serialized
