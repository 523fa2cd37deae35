"""Element-wise operators of onnxruntime on its CPU provider: a model of one node, input and output bound once."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from bench.element_wise_case import ElementWiseCase
from bench.operands import PreparedCall
from bench.peers.onnxruntime_session import bound_call, onnxruntime_session

__all__ = ["prepare"]


def prepare(case: ElementWiseCase, num_threads: int) -> PreparedCall:
    """Make a session. It sees NHWC tensors as {N, H, W, C} with the channel axis last, which is the same memory."""
    inputs = _inputs(case)
    session = onnxruntime_session(_model(case, inputs), num_threads)
    dtype = np.dtype(np.float32 if case.operator == "dequantize" else np.uint8)
    others = ("scale_out", "zero_point_out") if case.operator == "dynamic" else ()
    call = bound_call(session, inputs, ("y", inputs["x"].shape, dtype), others)
    return PreparedCall(call.run, call.output.transpose(0, 3, 1, 2) if case.channels_last else call.output)


def _inputs(case: ElementWiseCase) -> dict[str, NDArray[Any]]:
    x: NDArray[Any] = case.floats if case.operator in ("quantize", "dynamic") else case.codes
    arrays = {"x": x}
    if case.operator == "add":
        b = case.other_codes
        arrays["b"] = np.ascontiguousarray(b[:1, :, :1, :1]) if case.layout == "0-stride" else b
    return {name: array.transpose(0, 2, 3, 1) if case.channels_last else array for name, array in arrays.items()}


def _model(case: ElementWiseCase, inputs: dict[str, NDArray[Any]]) -> bytes:
    scale: NDArray[Any] = case.scale if case.by_channel else case.scale.reshape(())
    zero_point: NDArray[Any] = case.zero_point if case.by_channel else case.zero_point.reshape(())
    constants = {"scale": scale, "zero_point": zero_point}
    axis: dict[str, Any] = {"axis": 3 if case.channels_last else 1} if case.by_channel else {}
    outputs = ["y"]
    if case.operator == "quantize":
        node = helper.make_node("QuantizeLinear", ["x", "scale", "zero_point"], outputs, **axis)
    elif case.operator == "dequantize":
        node = helper.make_node("DequantizeLinear", ["x", "scale", "zero_point"], outputs, **axis)
    elif case.operator == "dynamic":
        constants = {}
        outputs = ["y", "scale_out", "zero_point_out"]
        node = helper.make_node("DynamicQuantizeLinear", ["x"], outputs)
    else:
        names = ("b_scale", "b_zero_point", "output_scale", "output_zero_point")
        constants.update({name: np.asarray(getattr(case, name)) for name in names})
        arguments = ["x", "scale", "zero_point", "b", *names]
        node = helper.make_node("QLinearAdd", arguments, outputs, domain="com.microsoft")
    types = {"y": np.float32 if case.operator == "dequantize" else np.uint8}
    types |= {"scale_out": np.float32, "zero_point_out": np.uint8}
    shapes: dict[str, tuple[int, ...]] = {"y": inputs["x"].shape}
    graph = helper.make_graph(
        [node],
        "element_wise",
        [_value_info(name, array.dtype, array.shape) for name, array in inputs.items()],
        [_value_info(name, np.dtype(types[name]), shapes.get(name, ())) for name in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    serialized: bytes = model.SerializeToString()
    return serialized


def _value_info(name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), shape)
