"""onnxruntime on its CPU provider, with input and output bound once."""

from __future__ import annotations

import onnxruntime

from bench.convolution_case import ConvolutionCase
from bench.operands import PreparedCall
from bench.peers.onnx_model import INPUT, OUTPUT, qdq_model

__all__ = ["prepare", "version"]


def version() -> str:
    """Return onnxruntime's version."""
    return str(onnxruntime.__version__)


def prepare(case: ConvolutionCase, num_threads: int, isa: str) -> PreparedCall:
    """Make a session; it chooses the instruction set itself."""
    del isa
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(qdq_model(case), options, providers=["CPUExecutionProvider"])
    output = case.empty_output("NCHW")
    input_value = onnxruntime.OrtValue.ortvalue_from_numpy(case.input)
    output_value = onnxruntime.OrtValue.ortvalue_from_shape_and_type(output.shape, output.dtype)
    binding = session.io_binding()
    binding.bind_ortvalue_input(INPUT, input_value)
    binding.bind_ortvalue_output(OUTPUT, output_value)
    session.run_with_iobinding(binding)
    output[...] = output_value.numpy()
    return PreparedCall(lambda: session.run_with_iobinding(binding), output)
