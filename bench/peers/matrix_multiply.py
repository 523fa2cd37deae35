"""Other libraries that multiply quantized matrices, each as far as it is installed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.matrix_case import MatrixCase
from bench.operands import PreparedCall
from bench.peers.onnxruntime_session import bound_call, onnxruntime_session

__all__ = ["MATRIX_PEERS", "peer_version"]


def peer_version(name: str) -> str:
    """Return a library's version. Raises PackageNotFoundError where it is not installed."""
    return version(name)


def _onnxruntime(case: MatrixCase, num_threads: int) -> PreparedCall | None:
    """QLinearMatMul, MatMulInteger or MatMulIntegerToFloat, b an initializer where it is a constant."""
    inputs = {"a": case.a} if case.is_constant else {"a": case.a, "b": case.b}
    shape = (*case.batch, case.shape.m, case.shape.n)
    model = _model(case, inputs, shape)
    try:
        session = onnxruntime_session(model, num_threads)
    except Exception as error:  # the types or shapes that it lacks are of several exceptions
        print(f"{case.shape} {case.types}: onnxruntime has none: {str(error).splitlines()[0][:90]}")
        return None
    return bound_call(session, inputs, ("output", shape, case.output_type))


def _model(case: MatrixCase, inputs: Mapping[str, NDArray[Any]], shape: tuple[int, ...]) -> bytes:
    """Return a model of one node that makes an output of this shape."""
    from onnx import helper, numpy_helper

    node, parameters = _node_and_parameters(case)
    if case.is_constant:
        parameters["b"] = case.b
    graph = helper.make_graph(
        [node],
        "product",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in inputs.items()
        ],
        [helper.make_tensor_value_info("output", helper.np_dtype_to_tensor_dtype(case.output_type), shape)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in parameters.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    return model


def _node_and_parameters(case: MatrixCase) -> tuple[Any, dict[str, Any]]:
    """Return the node of a case, and its scales and zero points by the names that it reads."""
    from onnx import helper

    parameters = {"a_zero_point": case.a_zero_point, "b_zero_point": np.full(case.shape.n, case.b_zero_point)}
    if case.result == "codes":
        parameters |= {"a_scale": case.a_scale, "b_scale": case.b_scale, "output_scale": case.output_scale}
        parameters["output_zero_point"] = case.output_zero_point
        if case.batch:  # of a batch it wants them for each matrix
            for name in ("b_scale", "b_zero_point"):
                parameters[name] = np.broadcast_to(parameters[name], (*case.batch, 1, case.shape.n))
        reads = ["a", "a_scale", "a_zero_point", "b", "b_scale", "b_zero_point", "output_scale", "output_zero_point"]
        return helper.make_node("QLinearMatMul", reads, ["output"]), parameters
    if case.result == "sums":
        parameters["b_zero_point"] = case.b_zero_point
        return helper.make_node("MatMulInteger", ["a", "b", "a_zero_point", "b_zero_point"], ["output"]), parameters
    parameters |= {"a_scale": case.a_scale, "b_scale": case.b_scale}
    reads = ["a", "b", "a_scale", "b_scale", "a_zero_point", "b_zero_point"]
    return helper.make_node("MatMulIntegerToFloat", reads, ["output"], domain="com.microsoft"), parameters


def _torch(case: MatrixCase, num_threads: int) -> PreparedCall | None:
    """quantized.linear for constants of INT8 under UINT8, _int_mm for sums of INT8; nothing else."""
    import torch

    torch.set_num_threads(num_threads)
    if case.shape.batch != 1:
        return None
    if case.result == "sums" and case.types == "s8s8":
        a, b = torch.from_numpy(case.a), torch.from_numpy(case.b)
        sums = torch.empty(case.shape.m, case.shape.n, dtype=torch.int32)
        correction = int(case.a_zero_point) * case.b.sum(axis=0, dtype=np.int64)
        torch._int_mm(a, b, out=sums)
        # It has no zero points: what they are worth is added here, once.
        output = (sums.numpy() - correction).astype(np.int32)
        return PreparedCall(lambda: torch._int_mm(a, b, out=sums), output)
    if case.result != "codes" or case.types != "u8s8" or not case.is_constant:
        return None
    scales = torch.from_numpy(case.b_scale.astype(np.float64))
    zeros = torch.zeros(case.shape.n, dtype=torch.int64)
    weights = torch._make_per_channel_quantized_tensor(torch.from_numpy(case.b.T.copy()), scales, zeros, 0)
    packed = torch.ops.quantized.linear_prepack(weights, None)
    x = torch._make_per_tensor_quantized_tensor(torch.from_numpy(case.a), float(case.a_scale), int(case.a_zero_point))

    def run() -> torch.Tensor:
        codes: torch.Tensor = torch.ops.quantized.linear(
            x, packed, float(case.output_scale), int(case.output_zero_point)
        )
        return codes

    return PreparedCall(run, run().int_repr().numpy())


MATRIX_PEERS: dict[str, Callable[[MatrixCase, int], PreparedCall | None]] = {
    "onnxruntime": _onnxruntime,
    "torch": _torch,
}
"""By name, what makes a product ready to run; None where the library has nothing of its kind."""
