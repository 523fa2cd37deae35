"""onnxruntime on its CPU provider, with input and output bound once."""

from __future__ import annotations

import onnxruntime

from bench.convolution_case import ConvolutionCase
from bench.operands import PreparedCall
from bench.peers.onnx_model import INPUT, OUTPUT, qdq_model
from bench.peers.onnxruntime_session import bound_call, onnxruntime_session

__all__ = ["prepare", "version"]


def version() -> str:
    """Return onnxruntime's version."""
    return str(onnxruntime.__version__)


def prepare(case: ConvolutionCase, num_threads: int, isa: str) -> PreparedCall:
    """Make a session; it chooses the instruction set itself."""
    del isa
    session = onnxruntime_session(qdq_model(case), num_threads)
    output = case.empty_output("NCHW")
    return bound_call(session, {INPUT: case.input}, (OUTPUT, output.shape, output.dtype))
