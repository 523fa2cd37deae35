"""From a network in floats to its quantized forms, with onnxruntime's tools."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

__all__ = ["DYNAMIC", "FORMS", "REDUCED", "prepared", "quantized"]

# Activations are quantized as they come, tensor by tensor.
DYNAMIC = "dynamic_u8s8"
# With filters of 7 bits: products of them with UINT8 do not saturate where two are added in 16 bits.
REDUCED = "qdq_u8s7"
# Format, activations, filters; all per channel. There is no qop_u8u8: per channel, the tools make the filters of
# operators on codes INT8.
FORMS = {
    "qdq_u8s8": ("QDQ", "QUInt8", "QInt8"),
    "qop_u8s8": ("QOperator", "QUInt8", "QInt8"),
    REDUCED: ("QDQ", "QUInt8", "QInt8"),
    "qdq_s8s8": ("QDQ", "QInt8", "QInt8"),
    "qop_s8s8": ("QOperator", "QInt8", "QInt8"),
    "qdq_u8u8": ("QDQ", "QUInt8", "QUInt8"),
    DYNAMIC: ("dynamic", "QUInt8", "QInt8"),
}
_OPSET, _IR_VERSION = 17, 9


def prepared(model: onnx.ModelProto, shape: Sequence[int]) -> onnx.ModelProto:
    """Return a network for one shape of its input, with opset 17, its constants folded and its layers merged."""
    from onnxruntime.quantization.shape_inference import quant_pre_process

    constants = {tensor.name for tensor in model.graph.initializer}
    for value in [value for value in model.graph.input if value.name in constants]:
        model.graph.input.remove(value)
    if next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")) < _OPSET:
        model = onnx.version_converter.convert_version(model, _OPSET)
    model.ir_version = _IR_VERSION
    [value] = model.graph.input
    for dimension, length in zip(value.type.tensor_type.shape.dim, shape, strict=True):
        dimension.dim_value = length
    for output in model.graph.output:
        for dimension in output.type.tensor_type.shape.dim:
            dimension.Clear()
    del model.graph.value_info[:]
    with TemporaryDirectory() as folder, _quiet():
        given, path = Path(folder) / "floats.onnx", Path(folder) / "prepared.onnx"
        onnx.save(model, given)
        quant_pre_process(given, path, skip_symbolic_shape=True)
        return onnx.load(path)


def quantized(model: onnx.ModelProto, form: str, batches: Sequence[NDArray[np.float32]]) -> onnx.ModelProto:
    """Return a prepared network in a quantized form.

    Args:
        model: In floats; of one input, unless its activations are quantized as they come.
        form: A name of ``FORMS``.
        batches: Inputs whose ranges the quantized form has; of no use where activations are quantized as they come.
    """
    from onnxruntime.quantization import (
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_dynamic,
        quantize_static,
    )

    name = model.graph.input[0].name

    class Reader(CalibrationDataReader):  # type: ignore[misc] # the package has no types
        def __init__(self) -> None:
            self._batches = iter(batches)

        def get_next(self) -> dict[str, Any] | None:
            batch = next(self._batches, None)
            return None if batch is None else {name: batch}

    format, activations, filters = FORMS[form]
    with TemporaryDirectory() as folder, _quiet():
        path = Path(folder) / "quantized.onnx"
        if form == DYNAMIC:
            quantize_dynamic(model, path, weight_type=QuantType[filters])
            return onnx.load(path)
        quantize_static(
            model,
            path,
            Reader(),
            quant_format=QuantFormat[format],
            per_channel=True,
            reduce_range=form == REDUCED,
            activation_type=QuantType[activations],
            weight_type=QuantType[filters],
        )
        return onnx.load(path)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence advice that does not concern the caller."""
    import onnxruntime

    logging.disable(logging.WARNING)
    onnxruntime.set_default_logger_severity(3)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
        onnxruntime.set_default_logger_severity(2)
