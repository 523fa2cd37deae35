"""Models of some nodes of another model: what another runtime is given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import onnx

from dmlcpu.onnx.constant_arrays import Array
from dmlcpu.onnx.models.nodes import Node, short_domain
from dmlcpu.onnx.models.subgraphs import all_nodes, graphs_within

__all__ = ["described", "extracted", "inferred", "is_supplied", "shape_of"]

# A part is stamped with this version of ONNX's operators where all of its nodes had their present form by then: other
# runtimes follow new versions late.
_USUAL_VERSION: Final = 18
# Constants of more bytes are not copied into a model, where protobuf would copy them several times more. Inference
# reads the elements of small ones alone.
_SUPPLIED_FROM: Final = 1 << 14


def extracted(
    model: onnx.ModelProto,
    nodes: Sequence[Node],
    inputs: Mapping[str, tuple[np.dtype[Any], Sequence[int | str | None] | None]],
    constants: Mapping[str, Array],
    outputs: Sequence[str],
) -> onnx.ModelProto:
    """Return a model of some nodes of another; lengths of its inputs that are no numbers are free, and so are shapes.

    Constants that :func:`is_supplied` tells are declared alone: who opens the model supplies their elements.
    """
    helper = onnx.helper
    declared = {value.name: _without_shape(value) for value in model.graph.output}
    graph = helper.make_graph(
        [_named(node) for node in nodes],
        "part",
        [
            helper.make_tensor_value_info(name, int(helper.np_dtype_to_tensor_dtype(dtype)), shape)
            for name, (dtype, shape) in inputs.items()
        ],
        [declared.get(name) or helper.make_empty_tensor_value_info(name) for name in outputs],
        [_initializer(name, array) for name, array in constants.items()],
    )
    imports = list(model.opset_import)
    if not model.functions:
        imports = [
            helper.make_opsetid(entry.domain, _sufficient_version(entry, (node.proto for node in nodes)))
            for entry in imports
        ]
    ir_version = min(model.ir_version, max(helper.find_min_ir_version_for(imports, ignore_unknown=True), 8))
    part = helper.make_model(graph, opset_imports=imports, ir_version=max(ir_version, 4))
    part.functions.extend(model.functions)
    return part


def _without_shape(value: onnx.ValueInfoProto) -> onnx.ValueInfoProto:
    """Return what is declared of an output but for its shape, which runtimes do not keep to."""
    declared = onnx.ValueInfoProto()
    declared.CopyFrom(value)
    if declared.type.WhichOneof("value") == "tensor_type":
        declared.type.tensor_type.ClearField("shape")
    return declared


def is_supplied(array: Array) -> bool:
    """Return whether a constant is large, and of one of numpy's own numeric types, which onnxruntime takes as it is."""
    return array.nbytes >= _SUPPLIED_FROM and _is_plain(array)


def _is_plain(array: Array) -> bool:
    return array.dtype.kind in "biuf" and array.dtype.type.__module__ == "numpy"


def _initializer(name: str, array: Array) -> onnx.TensorProto:
    if not _is_plain(array):
        return onnx.numpy_helper.from_array(np.asarray(array, order="C"), name)
    # In a quarter of the time that onnx's function takes.
    data_type = int(onnx.helper.np_dtype_to_tensor_dtype(array.dtype))
    tensor = onnx.TensorProto(name=name, data_type=data_type, dims=array.shape)
    if is_supplied(array):
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=name)  # nobody opens it, but there has to be one
    else:
        tensor.raw_data = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    return tensor


def _named(node: Node) -> onnx.NodeProto:
    """Return a node under the name that no other has: onnxruntime refuses two nodes of one name."""
    proto = onnx.NodeProto()
    proto.CopyFrom(node.proto)
    proto.name = node.name
    _complete(proto, "")
    return proto


# Operators that onnxruntime takes all outputs of, or ends the process.
_WRITES_ALL: Final = frozenset({"BatchNormalization", "DecoderMaskedMultiHeadAttention", "If", "Loop", "Scan", "Split"})


def _complete(proto: onnx.NodeProto, path: str) -> None:
    """Leave out last inputs that are told to be none, and name outputs that are: onnxruntime would end the process.

    The first it does on one of LayerNormalization.

    Args:
        proto: A node, with those within it; is changed.
        path: What names that are given begin with, so that no other has them.
    """
    least = 2 if proto.op_type == "Loop" else 0  # its inputs are counted before it is seen that they are optional
    while len(proto.input) > least and not proto.input[-1]:
        proto.input.pop()
    path = f"{path}/{proto.name or proto.op_type}"
    if proto.op_type in _WRITES_ALL:
        for index, name in enumerate(proto.output):
            if not name:
                proto.output[index] = f"{path}/nobody reads output {index}"
    for graph in graphs_within(proto.attribute):
        for index, node in enumerate(graph.node):
            _complete(node, f"{path}/{index}")


def _sufficient_version(entry: onnx.OperatorSetIdProto, nodes: Iterable[onnx.NodeProto]) -> int:
    """Return the lowest version, but no unusually low one, by which nodes had the form that they have now."""
    declared = int(entry.version)
    if short_domain(entry.domain):
        return declared
    version = min(declared, _USUAL_VERSION)
    for node in all_nodes(nodes):
        if short_domain(node.domain) == "":
            try:
                version = max(version, _since_version(node.op_type, declared))
            except (onnx.defs.SchemaError, TypeError):  # in a subgraph a name may not be UTF-8: those are bytes
                return declared
    return version


@lru_cache  # models are extracted for each length, and most nodes are of a few operators
def _since_version(operator: str, declared: int) -> int:
    return int(onnx.defs.get_schema(operator, declared, "").since_version)


def described(model: onnx.ModelProto) -> dict[str, tuple[np.dtype[Any] | None, tuple[int, ...] | None]]:
    """Return what shape inference tells of the types and shapes of a model's values, without computing any of them."""
    try:
        told = inferred(model)
    except Exception:  # inference is a help: a run tells the shapes, and what is wrong
        told = model
    return {value.name: _described(value) for value in (*told.graph.value_info, *told.graph.output)}


def inferred(model: onnx.ModelProto, **options: bool) -> onnx.ModelProto:
    """Return a model with what shape inference tells of it; as it is where that would end the process.

    Args:
        model: A model.
        options: Of onnx's function, whose exceptions are raised.
    """
    given = {value.name for value in (*model.graph.input, *model.graph.initializer)}
    # It reads the type of what an EyeLike is given before it looks whether there is one.
    if any(node.op_type == "EyeLike" and not given.issuperset(node.input) for node in all_nodes(model.graph.node)):
        return model
    return onnx.shape_inference.infer_shapes(model, **options)


def _described(value: onnx.ValueInfoProto) -> tuple[np.dtype[Any] | None, tuple[int, ...] | None]:
    if value.type.WhichOneof("value") != "tensor_type" or not value.type.tensor_type.elem_type:
        return None, None
    tensor = value.type.tensor_type
    try:
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    except (KeyError, ValueError):
        return None, None
    return dtype, shape_of(value)


def shape_of(value: onnx.ValueInfoProto) -> tuple[int, ...] | None:
    """Return the shape that a model declares; None if a length is free."""
    tensor = value.type.tensor_type
    lengths = tensor.shape.dim
    if not tensor.HasField("shape") or any(not d.HasField("dim_value") or d.dim_value < 0 for d in lengths):
        return None
    return tuple(int(length.dim_value) for length in lengths)
