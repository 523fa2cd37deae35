"""Other runtimes that a model is measured beside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from numpy.typing import NDArray

from dmlcpu.cli.failures import needed_module

__all__ = ["PEERS", "Runtime"]


@dataclass(frozen=True, slots=True)
class Runtime:
    """A model, ready to run on the same arrays again and again.

    Attributes:
        name: Of the runtime.
        version: Its version.
        run: Runs the model once and returns its outputs.
    """

    name: str
    version: str
    run: Callable[[], list[NDArray[Any]]]


def _onnxruntime(model: Path, feeds: Mapping[str, NDArray[Any]], num_threads: int) -> Runtime:
    onnxruntime = needed_module("onnxruntime", "onnxruntime", "--peers onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = num_threads, 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return Runtime("onnxruntime", str(onnxruntime.__version__), lambda: session.run(None, dict(feeds)))


def _openvino(model: Path, feeds: Mapping[str, NDArray[Any]], num_threads: int) -> Runtime:
    openvino = needed_module("openvino", "openvino", "--peers openvino")
    core = openvino.Core()
    network = core.read_model(str(model))
    network.reshape({name: list(array.shape) for name, array in feeds.items()})
    hints = {"INFERENCE_NUM_THREADS": num_threads, "PERFORMANCE_HINT": "LATENCY"}
    compiled = core.compile_model(network, "CPU", hints)
    request = compiled.create_infer_request()

    def run() -> list[NDArray[Any]]:
        results = request.infer(dict(feeds), share_inputs=True, share_outputs=True)
        return [results[output] for output in compiled.outputs]

    return Runtime("openvino", str(openvino.__version__).partition("-")[0], run)


PEERS: Final[Mapping[str, Callable[[Path, Mapping[str, NDArray[Any]], int], Runtime]]] = MappingProxyType(
    {"onnxruntime": _onnxruntime, "openvino": _openvino}
)
"""By name, a function of the model, its inputs and the number of threads that prepares it."""
