"""Sessions of onnxruntime that a model is compared with, and what one computes between its nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import dmlcpu
from dmlcpu.cli.groups import Group

if TYPE_CHECKING:
    from dmlcpu.onnx.models.model import Model

__all__ = ["Recorder", "reference_session"]


def reference_session(onnxruntime: ModuleType, model: Any, *, is_optimized: bool = True) -> Any:
    """Open a session whose integer sums are exact, where that can be had.

    Without VNNI, onnxruntime's products of UINT8 and INT8 saturate on the way, unless it is told to be precise, which
    not every model survives.

    Args:
        onnxruntime: The package.
        model: A proto.
        is_optimized: Whether its graph may be optimized, or is run as it is written.
    """
    if not any("vnni" in isa for isa in dmlcpu.available_isas()):
        try:
            return _opened(onnxruntime, model, is_optimized, is_precise=True)
        except Exception:  # of any kind: the other way may do
            pass
    return _opened(onnxruntime, model, is_optimized, is_precise=False)


def _opened(onnxruntime: ModuleType, model: Any, is_optimized: bool, is_precise: bool) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    # On several threads a DynamicQuantizeLSTM quantizes the states of a batch in several parts, each by its own range.
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.x64quantprecision", str(int(is_precise)))
    if not is_optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


class Recorder:
    """onnxruntime on a model all of whose tensors are outputs.

    Attributes:
        types: Of the elements of the values; of kind ``V`` where onnxruntime makes no arrays of them.
    """

    def __init__(self, onnxruntime: ModuleType, model: Model) -> None:
        import onnx

        from dmlcpu.onnx.type_names import tensor_dtype

        proto = onnx.ModelProto()
        proto.CopyFrom(model.proto)
        inferred = onnx.shape_inference.infer_shapes(proto).graph.value_info
        no_tensors = {value.name for value in inferred if value.type.WhichOneof("value") != "tensor_type"}
        known = {output.name for output in model.outputs} | no_tensors
        written = [name for node in model.nodes for name in node.outputs if name and name not in known]
        proto.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in written)
        self._session = reference_session(onnxruntime, proto)
        self.types: dict[str, np.dtype[Any]] = dict.fromkeys(no_tensors, np.dtype(np.void))
        for value in self._session.get_outputs():
            dtype = tensor_dtype(value.type)
            self.types[value.name] = np.dtype(np.void) if dtype is None else dtype

    def run(self, groups: Sequence[Group], feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return what groups read."""
        reads = dict.fromkeys(name for group in groups for name in (*group.inputs, *group.settled))
        names = [name for name in reads if name not in feeds]
        arrays = self._session.run(names, dict(feeds)) if names else []
        return {**feeds, **dict(zip(names, arrays, strict=True))}
