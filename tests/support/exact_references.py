"""Models whose products onnxruntime computes exactly on CPUs without VNNI.

There it multiplies UINT8 by INT8 codes two at a time, and their sums saturate at 16 bits; UINT8 by UINT8 they do not.
Filters of the other sign, with zero points moved along, leave every result as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import onnx
from onnx import numpy_helper

import dmlcpu

__all__ = ["exact_for_onnxruntime"]

# Inputs that hold filters, and their zero points.
_FILTERS: Final[dict[str, Sequence[tuple[int, int]]]] = {
    "ConvInteger": ((1, 3),),
    "DynamicQuantizeLSTM": ((1, 9), (2, 11)),
    "DynamicQuantizeMatMul": ((1, 3),),
    "MatMulInteger": ((1, 3),),
    "MatMulIntegerToFloat": ((1, 5),),
    "QAttention": ((1, 7),),
    "QGemm": ((3, 5),),
    "QLinearConv": ((3, 5),),
    "QLinearMatMul": ((3, 5),),
}
# The inputs with the codes that filters multiply, where they may be INT8.
_ACTIVATIONS: Final = {"ConvInteger": 2, "MatMulInteger": 2, "QGemm": 2, "QLinearConv": 2, "QLinearMatMul": 2}


def exact_for_onnxruntime(model: bytes) -> bytes:
    """The same model where this CPU has VNNI, else one with UINT8 filters in place of INT8 ones."""
    if {"avx_vnni", "avx512_vnni"} & set(dmlcpu.available_isas()):
        return model
    changed = onnx.load_model_from_string(model)
    for graph in _graphs(changed.graph):
        constants = {tensor.name: tensor for tensor in graph.initializer}
        for node in list(graph.node):
            _move_filters(graph, node, constants)
    return changed.SerializeToString()


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _graphs(attribute.g)


def _move_filters(graph: onnx.GraphProto, node: onnx.NodeProto, constants: dict[str, onnx.TensorProto]) -> None:
    for at, zero_point_at in _FILTERS.get(node.op_type, ()):
        name = node.input[at]
        signed = {name for name, tensor in constants.items() if tensor.data_type == onnx.TensorProto.INT8}
        computed = {value.name for value in graph.input if value.type.tensor_type.elem_type == onnx.TensorProto.INT8}
        activations = {node.input[0], _input(node, _ACTIVATIONS.get(node.op_type))}
        if name not in signed | computed or activations & (signed | computed):
            continue
        moved = f"{name}_moved"
        if name in computed:
            _compute(graph, name, moved)
        elif moved not in constants:
            _add(graph, constants, moved, numpy_helper.to_array(constants[name]))
        zero_point = _input(node, zero_point_at)
        if zero_point == "":
            while len(node.input) <= zero_point_at:
                node.input.append("")
            point, array = f"{name}_zero_point_moved", np.int8(0)
        else:
            point, array = f"{zero_point}_moved", numpy_helper.to_array(constants[zero_point])
        if point not in constants:
            _add(graph, constants, point, array)
        node.input[at], node.input[zero_point_at] = moved, point


def _input(node: onnx.NodeProto, at: int | None) -> str:
    return "" if at is None or at >= len(node.input) else node.input[at]


def _compute(graph: onnx.GraphProto, name: str, moved: str) -> None:
    """Add nodes that move codes which are an input of the model."""
    if any(moved in node.output for node in graph.node):
        return
    make, wide = onnx.helper.make_node, onnx.TensorProto.INT32
    graph.initializer.append(numpy_helper.from_array(np.int32(128), f"{moved}_by"))
    nodes = [
        make("Cast", [name], [f"{name}_wide"], to=wide),
        make("Add", [f"{name}_wide", f"{moved}_by"], [f"{moved}_wide"]),
        make("Cast", [f"{moved}_wide"], [moved], to=onnx.TensorProto.UINT8),
    ]
    for at, node in enumerate(nodes):
        graph.node.insert(at, node)


def _add(graph: onnx.GraphProto, constants: dict[str, onnx.TensorProto], name: str, codes: object) -> None:
    unsigned = (np.asarray(codes, np.int16) + 128).astype(np.uint8)
    graph.initializer.append(numpy_helper.from_array(unsigned, name))
    constants[name] = graph.initializer[-1]
