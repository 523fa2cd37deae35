"""What a model's file tells of it, as onnxruntime puts it."""

from __future__ import annotations

from typing import Final

from dmlcpu.descriptions import ModelMetadata, NodeArg
from dmlcpu.onnx.models.model import Model, ValueInfo
from dmlcpu.onnx.type_names import tensor_name

__all__ = ["metadata_of", "node_arg"]

_NO_VERSION: Final = 2**63 - 1


def metadata_of(model: Model) -> ModelMetadata:
    """Return what a model says of itself."""
    proto = model.proto
    return ModelMetadata(
        _text(proto.producer_name),
        _text(proto.graph.name),
        _text(proto.domain),
        _text(proto.doc_string),
        _text(proto.graph.doc_string),
        proto.model_version if proto.HasField("model_version") else _NO_VERSION,
        {_text(entry.key): _text(entry.value) for entry in proto.metadata_props},
    )


def _text(told: str | bytes) -> str:
    """Return a text; protobuf returns bytes in place of what is no UTF-8, and nobody runs what a comment says."""
    return told.decode(errors="backslashreplace") if isinstance(told, bytes) else told


def node_arg(value: ValueInfo) -> NodeArg:
    """Return a value of a model as onnxruntime describes it."""
    return NodeArg(value.name, list(value.shape or ()), value.container or tensor_name(value.dtype))
