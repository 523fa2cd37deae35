"""Graphs, and parts of graphs, that several tests of graphs are about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import dmlcpu
from dmlcpu import (
    ConstantGraphNodeDesc,
    Device,
    GraphDesc,
    InputGraphEdgeDesc,
    IntermediateGraphEdgeDesc,
    OperatorGraphNodeDesc,
    OutputGraphEdgeDesc,
    TensorDataType,
    TensorDesc,
    TensorFlags,
    _core,
)
from dmlcpu.graph.native_graph import NativeGraph

__all__ = [
    "Devices",
    "Rng",
    "add_point_convolution",
    "bound_graph",
    "codes",
    "dequantize_desc",
    "dequantize_graph",
    "operator_node",
    "permuting_filter",
    "quantize_then_dequantize",
]

Devices = Mapping[str, Device]
Rng = np.random.Generator


def codes(rng: Rng, sizes: Sequence[int], dtype: Any = np.uint8) -> Any:
    """Codes of the whole range."""
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, tuple(sizes), dtype, endpoint=True)


def permuting_filter(rng: Rng, channels: int) -> Any:
    """A 1x1 filter that moves channels around."""
    filters = np.zeros((channels, channels, 1, 1), np.int8)
    filters[np.arange(channels), rng.permutation(channels)] = 1
    return filters


def add_point_convolution(graph: NativeGraph, x: int, filters: Any, sizes: Sequence[int]) -> int:
    """Add a 1x1 convolution to an output of these sizes, with all scales 1 and zero points 0, saturating."""
    one = graph.add_array(np.ones((1, 1, 1, 1), np.float32))
    inputs = [x, one, None, graph.add_array(filters), one, None, None, one, None]
    attributes = {"strides": (1, 1), "dilations": (1, 1), "start_padding": (0, 0), "end_padding": (0, 0)}
    [y] = graph.add_node(
        "QUANTIZED_LINEAR_CONVOLUTION",
        inputs,
        [TensorDesc(TensorDataType.UINT8, sizes)],
        {**attributes, "group_count": (1,)},
    )
    return y


def operator_node(device: Device, desc: dmlcpu.OperatorDesc, name: str = "") -> OperatorGraphNodeDesc:
    return OperatorGraphNodeDesc(device.create_operator(desc), name)


def quantize_then_dequantize(device: Device) -> GraphDesc:
    """A float tensor quantized by a bound scale and dequantized by a constant one."""
    f32, u8 = TensorDesc(TensorDataType.FLOAT32, (2, 3)), TensorDesc(TensorDataType.UINT8, (2, 3))
    scale = TensorDesc(TensorDataType.FLOAT32, (2, 3), strides=(0, 0))
    quantize = dmlcpu.ElementWiseQuantizeLinearOperatorDesc(
        input_tensor=f32, scale_tensor=scale, zero_point_tensor=None, output_tensor=u8
    )
    dequantize = dmlcpu.ElementWiseDequantizeLinearOperatorDesc(
        input_tensor=u8,
        scale_tensor=replace(scale, flags=TensorFlags.OWNED_BY_DML),
        zero_point_tensor=None,
        output_tensor=f32,
    )
    nodes = [
        operator_node(device, dequantize, "second"),
        ConstantGraphNodeDesc(np.float32([0.25])),
        operator_node(device, quantize, "first"),
    ]
    return GraphDesc(
        input_count=2,
        output_count=1,
        nodes=nodes,
        input_edges=[InputGraphEdgeDesc(0, 2, 0), InputGraphEdgeDesc(1, 2, 1)],
        output_edges=[OutputGraphEdgeDesc(0, 0, 0)],
        intermediate_edges=[IntermediateGraphEdgeDesc(2, 0, 0, 0), IntermediateGraphEdgeDesc(1, 0, 0, 1)],
    )


def dequantize_graph(device: Device, constant: Any = b"\x00\x00\x00\x3f", **changes: Any) -> GraphDesc:
    """Four codes times a constant scale."""
    dequantize = dmlcpu.ElementWiseDequantizeLinearOperatorDesc(
        input_tensor=TensorDesc(TensorDataType.UINT8, (4,)),
        scale_tensor=TensorDesc(TensorDataType.FLOAT32, (4,), strides=(0,)),
        output_tensor=TensorDesc(TensorDataType.FLOAT32, (4,)),
    )
    desc = GraphDesc(
        input_count=1,
        output_count=1,
        nodes=[operator_node(device, dequantize, "dequantize"), ConstantGraphNodeDesc(constant, "scale")],
        input_edges=[InputGraphEdgeDesc(0, 0, 0)],
        output_edges=[OutputGraphEdgeDesc(0, 0, 0)],
        intermediate_edges=[IntermediateGraphEdgeDesc(1, 0, 0, 1)],
    )
    return replace(desc, **changes)


def dequantize_desc(**changes: Any) -> dmlcpu.ElementWiseDequantizeLinearOperatorDesc:
    """Of four codes, with a scale for all."""
    tensors: dict[str, Any] = {
        "input_tensor": TensorDesc(TensorDataType.UINT8, (4,)),
        "scale_tensor": TensorDesc(TensorDataType.FLOAT32, (4,), strides=(0,)),
        "output_tensor": TensorDesc(TensorDataType.FLOAT32, (4,)),
    }
    return dmlcpu.ElementWiseDequantizeLinearOperatorDesc(**tensors | changes)


def bound_graph(
    graph: _core.GivenGraph, predecessor: _core.BoundGraph | None = None, isa: str = "scalar"
) -> _core.BoundGraph:
    """A graph as the native module binds it, whose bindings Python does not resolve."""

    def not_called(*_: Any) -> Any:
        raise AssertionError

    return _core.bind_graph(graph, isa, 1, not_called, lambda *results: results, None, predecessor)
