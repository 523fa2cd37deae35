"""Whole models on dmlcpu and on other runtimes, each with its input bound as its users would."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.peers.onnxruntime_session import onnxruntime_session

__all__ = ["MODEL_PEERS", "ModelPeer", "OpenModel"]

Array = NDArray[Any]


@dataclass(frozen=True)
class OpenModel:
    """A model that has been read, planned and run once.

    Attributes:
        run: Runs it again on the same input.
        outputs: Of the latest run.
        note: What the runtime chose that a reader should know.
    """

    run: Callable[[], object]
    outputs: Callable[[], Sequence[Array]]
    note: str = ""


@dataclass(frozen=True)
class ModelPeer:
    """A runtime by the name that ``--peers`` takes.

    Attributes:
        name: Its name.
        version: Returns its version; raises ImportError where it is not installed.
        open: From a model, its input and a number of threads; raises whatever the runtime does.
        form: ``"tflite"`` or ``"float"`` if it is given that in place of the quantized ONNX model.
    """

    name: str
    version: Callable[[], str]
    open: Callable[[bytes, Array, int], OpenModel]
    form: str = ""


def _onnxruntime_version() -> str:
    import onnxruntime

    return str(onnxruntime.__version__)


def _onnxruntime(model: bytes, x: Array, num_threads: int) -> OpenModel:
    session = onnxruntime_session(model, num_threads)
    feeds = {session.get_inputs()[0].name: x}
    outputs = session.run(None, feeds)
    return OpenModel(lambda: session.run(None, feeds), lambda: outputs)


def _openvino_version() -> str:
    import openvino

    return str(openvino.__version__).partition("-")[0]


def _openvino(options: Mapping[str, str]) -> Callable[[bytes, Array, int], OpenModel]:
    def open(model: bytes, x: Array, num_threads: int) -> OpenModel:
        import openvino

        core = openvino.Core()
        try:
            network = core.read_model(model)
        except RuntimeError as error:
            raise RuntimeError(_summary(str(error))) from None
        all_options = {"INFERENCE_NUM_THREADS": num_threads, "PERFORMANCE_HINT": "LATENCY", **options}
        compiled = core.compile_model(network, "CPU", all_options)
        request = compiled.create_infer_request()
        request.set_input_tensor(0, openvino.Tensor(x, shared_memory=True))
        request.infer()
        hint = compiled.get_property("INFERENCE_PRECISION_HINT").to_string()
        outputs = range(len(compiled.outputs))
        return OpenModel(
            request.infer,
            lambda: [np.array(request.get_output_tensor(index).data) for index in outputs],
            f"precision hint {hint}",
        )

    return open


def _summary(report: str) -> str:
    """Return the end of a report on a model that cannot be read, where there is one: the operators in the way."""
    _, found, summary = report.partition("Summary:")
    lines = [line.removeprefix("-- ") for line in summary.splitlines() if line.startswith("-- ")]
    return "; ".join(lines) if found and lines else report


def _litert_version() -> str:
    from importlib.metadata import version

    return version("ai-edge-litert")


def _litert(model: bytes, x: Array, num_threads: int) -> OpenModel:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=model, num_threads=num_threads)
    interpreter.allocate_tensors()
    [description] = interpreter.get_input_details()
    interpreter.set_tensor(description["index"], x.reshape(description["shape"]))
    interpreter.invoke()
    indices = [output["index"] for output in interpreter.get_output_details()]
    return OpenModel(interpreter.invoke, lambda: [interpreter.get_tensor(index) for index in indices])


MODEL_PEERS = {
    peer.name: peer
    for peer in (
        ModelPeer("onnxruntime", _onnxruntime_version, _onnxruntime),
        ModelPeer("openvino", _openvino_version, _openvino({})),
        ModelPeer("openvino_f32", _openvino_version, _openvino({"INFERENCE_PRECISION_HINT": "f32"})),
        ModelPeer("litert", _litert_version, _litert, "tflite"),
        ModelPeer("onnxruntime_float", _onnxruntime_version, _onnxruntime, "float"),
    )
}
