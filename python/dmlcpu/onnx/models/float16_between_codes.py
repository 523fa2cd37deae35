"""FLOAT16 values of quantized models, computed in FLOAT32.

Files for other devices often have FLOAT16 between 8-bit operators, as TensorRT's tools write them. CPUs convert such
numbers for almost all that is computed of them: onnxruntime, too, casts them to FLOAT32 before most operators, and
leaves out the casts between one operator and the next, so that nothing is rounded to FLOAT16 there either. Here all
FLOAT16 within a model becomes FLOAT32 when it is read. Then what is between codes are the floats that rules know, and
DequantizeLinear, an operator and QuantizeLinear are one operator on codes, as they are meant to be.

Inputs and outputs of the model keep their type: a Cast follows the ones and makes the others. What a run returns is
closer to the exact result than FLOAT16 between operators would be, and what is beyond FLOAT16's range, 65504, on the
way, is a number and not infinite.

Models without quantized operators stay as they are, and so do those in which a type may be told elsewhere: with
operators of other domains, with functions that hand on attributes, with optional values, sparse tensors, or outputs of
no known type.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

import numpy as np
import onnx

from dmlcpu.onnx.constant_arrays import Array
from dmlcpu.onnx.models.nodes import FreeNames, is_quantized, short_domain
from dmlcpu.onnx.models.subgraphs import graphs_within, names_in, rename
from dmlcpu.onnx.models.tensor_protos import array_of

__all__ = ["with_float32"]

_FLOAT: Final = onnx.TensorProto.FLOAT
_FLOAT16: Final = onnx.TensorProto.FLOAT16
_INT: Final = onnx.AttributeProto.INT
_TENSOR: Final = onnx.AttributeProto.TENSOR
# Attributes that are the number of a type.
_NAMING_TYPES: Final = frozenset(
    ("to", "dtype", "output_dtype", "output_datatype", "precision", "softmax_precision", "stash_type")
)
# Operators whose result may be FLOAT16 without an operand that is, and those that hold graphs with such.
_CONTROL: Final = frozenset(("If", "Loop", "Scan", "SequenceMap"))
_MAKING_BEFORE: Final = _CONTROL | frozenset(
    (
        "BlackmanWindow",
        "Cast",
        "Constant",
        "ConstantOfShape",
        "EyeLike",
        "HammingWindow",
        "HannWindow",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    )
)
_DEQUANTIZES_TO: Final = 23  # the version from which on DequantizeLinear names a type
_MAKING: Final = _MAKING_BEFORE | {"DequantizeLinear"}
_DOMAINS: Final = frozenset(("", "ai.onnx", "ai.onnx.ml", "com.microsoft"))
_WITHOUT_TYPES: Final = frozenset(
    getattr(onnx.AttributeProto, kind)
    for kind in ("FLOAT", "INT", "STRING", "TENSOR", "GRAPH", "FLOATS", "INTS", "STRINGS", "TENSORS", "GRAPHS")
)


def with_float32(proto: onnx.ModelProto, constants: Mapping[str, Array]) -> Mapping[str, Array] | None:
    """Make FLOAT32 of the FLOAT16 values in a model.

    Args:
        proto: Its nodes are changed; its initializers are not looked at.
        constants: The initializers, by name.

    Returns:
        The constants by their names in the changed model. None if the model is left as it is.
    """
    if not (_has_float16(proto, constants) and _is_quantized(proto) and _tells_all_types(proto)):
        return None
    if _has_float16_bias(proto.graph.node, constants):
        return None
    for nodes in (proto.graph.node, *(function.node for function in proto.functions)):
        _change_nodes(nodes)
    _change_types(proto.graph.value_info)
    changed = {name: _as_float32(array) for name, array in constants.items()}
    return _with_casts(proto.graph, changed)


def _has_float16(proto: onnx.ModelProto, constants: Mapping[str, Array]) -> bool:
    making = _MAKING if any(entry.version >= _DEQUANTIZES_TO for entry in proto.opset_import) else _MAKING_BEFORE
    return (
        any(array.dtype == np.float16 for array in constants.values())
        or any(_is_float16(value) for value in proto.graph.input)
        or any(_make_float16(part.node, making) for part in (proto.graph, *proto.functions))
    )


def _make_float16(nodes: Iterable[onnx.NodeProto], making: Collection[str]) -> bool:
    """Return whether nodes tell that a result is FLOAT16; only these operators are looked at."""
    return any(
        any(_tells_float16(attribute) for attribute in node.attribute)
        or any(_make_float16(graph.node, making) for graph in graphs_within(node.attribute))
        for node in nodes
        if node.op_type in making
    )


def _tells_float16(attribute: onnx.AttributeProto) -> bool:
    kind = attribute.type
    if kind == _INT:
        return bool(attribute.i == _FLOAT16) and attribute.name in _NAMING_TYPES
    return bool(kind == _TENSOR and attribute.t.data_type == _FLOAT16)


def _is_quantized(proto: onnx.ModelProto) -> bool:
    return any(is_quantized(node) or node.op_type == "MatMulNBits" for node in _all_nodes(proto))


def _has_float16_bias(nodes: Iterable[onnx.NodeProto], constants: Mapping[str, Array]) -> bool:
    """Return whether a bias of codes is FLOAT16: no valid node has it, and its own type is told then."""
    biases = [constants.get(node.input[8]) for node in nodes if node.op_type == "QLinearConv" and len(node.input) > 8]
    return any(bias is not None and bias.dtype == np.float16 for bias in biases)


def _tells_all_types(proto: onnx.ModelProto) -> bool:
    """Return whether all that names a type is known, and thus changed."""
    if all(short_domain(entry.domain) for entry in proto.opset_import):
        return False  # no Cast
    if any(value.type.WhichOneof("value") != "tensor_type" for value in proto.graph.output):
        return False
    domains = _DOMAINS | {function.domain for function in proto.functions}
    return not any(function.attribute for function in proto.functions) and all(
        node.domain in domains and all(attribute.type in _WITHOUT_TYPES for attribute in node.attribute)
        for node in _all_nodes(proto)
    )


def _all_nodes(proto: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of a model, those within nodes and functions included."""
    yield from _nodes_within(proto.graph.node)
    for function in proto.functions:
        yield from _nodes_within(function.node)


def _nodes_within(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        if node.op_type in _CONTROL:
            for graph in graphs_within(node.attribute):
                yield from _nodes_within(graph.node)


def _is_float16(value: onnx.ValueInfoProto) -> bool:
    return bool(value.type.tensor_type.elem_type == _FLOAT16)


def _as_float32(array: Array) -> Array:
    return array.astype(np.float32) if array.dtype == np.float16 else array


def _change_nodes(nodes: Iterable[onnx.NodeProto]) -> None:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.type == _INT and _tells_float16(attribute):
                attribute.i = _FLOAT
            _change_tensors((attribute.t,) if attribute.type == _TENSOR else attribute.tensors)
        for graph in graphs_within(node.attribute):
            _change_nodes(graph.node)
            _change_tensors(graph.initializer)
            for values in (graph.input, graph.output, graph.value_info):
                _change_types(values)


def _change_tensors(tensors: Iterable[onnx.TensorProto]) -> None:
    for tensor in tensors:
        if tensor.data_type == _FLOAT16:
            tensor.CopyFrom(onnx.numpy_helper.from_array(_as_float32(array_of(tensor)), tensor.name))


def _change_types(values: Iterable[onnx.ValueInfoProto]) -> None:
    for value in values:
        if _is_float16(value):
            value.type.tensor_type.elem_type = _FLOAT


def _with_casts(graph: onnx.GraphProto, constants: Mapping[str, Array]) -> Mapping[str, Array]:
    """Cast inputs and outputs of FLOAT16; return the constants by their new names."""
    inputs = {value.name for value in graph.input if value.name not in constants}
    fed = [value.name for value in graph.input if value.name in inputs and _is_float16(value)]
    made = dict.fromkeys(value.name for value in graph.output if value.name not in inputs and _is_float16(value))
    if not fed and not made:
        return constants
    values = FreeNames((*constants, *names_in(graph)))
    names = {name: values.like(f"{name}/float32") for name in (*fed, *made)}
    for node in graph.node:
        rename(node, names)
    nodes = [onnx.helper.make_node("Cast", [name], [names[name]], names[name], to=_FLOAT) for name in fed]
    nodes += graph.node
    nodes += [onnx.helper.make_node("Cast", [names[name]], [name], f"{name}/float16", to=_FLOAT16) for name in made]
    del graph.node[:]
    graph.node.extend(nodes)
    return {names.get(name, name): array for name, array in constants.items()}
