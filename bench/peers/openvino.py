"""OpenVINO on its CPU device, with its default precision hint and input and output bound once."""

from __future__ import annotations

import openvino

from bench.convolution_case import ConvolutionCase
from bench.operands import PreparedCall
from bench.peers.onnx_model import INPUT, OUTPUT, qdq_model

__all__ = ["prepare", "version"]


def version() -> str:
    """Return OpenVINO's version."""
    return str(openvino.__version__).partition("-")[0]


def prepare(case: ConvolutionCase, num_threads: int, isa: str) -> PreparedCall:
    """Compile the model for latency; it chooses the instruction set itself."""
    del isa
    core = openvino.Core()
    options = {"INFERENCE_NUM_THREADS": num_threads, "PERFORMANCE_HINT": "LATENCY"}
    compiled = core.compile_model(core.read_model(qdq_model(case)), "CPU", options)
    request = compiled.create_infer_request()
    output = case.empty_output("NCHW")
    request.set_tensor(INPUT, openvino.Tensor(case.input, shared_memory=True))
    request.set_tensor(OUTPUT, openvino.Tensor(output, shared_memory=True))
    request.infer()
    return PreparedCall(request.infer, output)
