"""Sessions of onnxruntime on its CPU provider, and runs of them whose inputs and outputs are bound once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.operands import PreparedCall

__all__ = ["bound_call", "onnxruntime_session"]


def onnxruntime_session(model: bytes, num_threads: int, *, is_optimized: bool = True) -> Any:
    """Return a session of onnxruntime on its CPU provider."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = num_threads, 1
    options.log_severity_level = 3
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if is_optimized else levels.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def bound_call(
    session: Any,
    inputs: Mapping[str, NDArray[Any]],
    output: tuple[str, tuple[int, ...], np.dtype[Any]],
    others: Iterable[str] = (),
) -> PreparedCall:
    """Return a call that runs a session, which has run once, with its inputs and outputs bound.

    Args:
        session: Of one operator.
        inputs: By name.
        output: Name, shape and type of the one that is compared.
        others: Names of outputs besides.
    """
    import onnxruntime

    name, shape, dtype = output
    binding = session.io_binding()
    for key, array in inputs.items():
        binding.bind_ortvalue_input(key, onnxruntime.OrtValue.ortvalue_from_numpy(array))
    value = onnxruntime.OrtValue.ortvalue_from_shape_and_type(shape, dtype)
    binding.bind_ortvalue_output(name, value)
    for other in others:
        binding.bind_output(other)
    session.run_with_iobinding(binding)
    return PreparedCall(lambda: session.run_with_iobinding(binding), value.numpy())
