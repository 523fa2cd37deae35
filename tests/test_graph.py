"""Graphs compute what their operators compute one after the other, to the bit, and say what is wrong with a desc."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dmlcpu
from dmlcpu import (
    ConstantGraphNodeDesc,
    Device,
    Expression,
    FeatureLevel,
    GraphBuilder,
    GraphDesc,
    InputGraphEdgeDesc,
    IntermediateGraphEdgeDesc,
    OperatorGraphNodeDesc,
    OutputGraphEdgeDesc,
    TensorDataType,
    TensorDesc,
    TensorFlags,
    input_tensor,
)
from dmlcpu.graph.compiled_graph import CompiledGraph
from dmlcpu.graph.native_graph import NativeGraph

Devices = Mapping[str, Device]
Rng = np.random.Generator


def codes(rng: Rng, shape: tuple[int, ...], dtype: Any = np.uint8) -> Any:
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def block(x: Any, weights: Mapping[str, Any]) -> Any:
    """A bottleneck with a residual connection, from float to float, on arrays or expressions."""
    start = dmlcpu.quantize_linear(x, 0.02, 128)
    y = dmlcpu.quantized_linear_convolution(
        start,
        0.02,
        128,
        weights["first"],
        weights["scales"],
        None,
        weights["bias"],
        0.05,
        3,
        start_padding=1,
        end_padding=1,
    )
    y = dmlcpu.quantized_linear_convolution(
        y, 0.05, 3, weights["depthwise"], 0.01, None, None, 0.04, 100, start_padding=1, end_padding=1, group_count=24
    )
    y = dmlcpu.quantized_linear_convolution(y, 0.04, 100, weights["last"], 0.02, None, None, 0.05, 128)
    total = dmlcpu.quantized_linear_add(start, 0.02, 128, y, 0.05, 128, 0.06, 120)
    return dmlcpu.dequantize_linear(total, 0.06, 120)


@pytest.fixture
def weights(random_numbers: Rng) -> dict[str, Any]:
    return {
        "first": codes(random_numbers, (24, 19, 3, 3), np.int8),
        "scales": random_numbers.uniform(0.001, 0.01, 24).astype(np.float32),
        "bias": random_numbers.integers(-5000, 5000, 24, np.int32),
        "depthwise": codes(random_numbers, (24, 1, 3, 3), np.int8),
        "last": codes(random_numbers, (19, 24, 1, 1), np.int8),
    }


@pytest.mark.parametrize("strides", [None, (19 * 77, 1, 19 * 11, 19)], ids=["NCHW", "NHWC"])
def test_a_residual_block_has_the_bits_of_its_operators(
    devices: Devices, random_numbers: Rng, weights: dict[str, Any], strides: tuple[int, ...] | None
) -> None:
    x = random_numbers.normal(0, 1, (2, 19, 7, 11)).astype(np.float32)
    if strides is not None:
        x = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    expected = block(x, weights)
    for label, device in devices.items():
        builder = GraphBuilder(device)
        desc = TensorDesc(TensorDataType.FLOAT32, x.shape, strides=strides)
        graph = builder.build(dmlcpu.ExecutionFlags.NONE, [block(input_tensor(builder, 0, desc), weights)])
        result = graph.dispatch(input_0=x)
        assert result.strides == expected.strides, label
        np.testing.assert_array_equal(result, expected, label)
        out = np.full(x.shape, np.nan, np.float32)
        assert graph.dispatch(input_0=x, output_0=out if strides is None else None) is not None
        np.testing.assert_array_equal(out if strides is None else expected, expected, label)


def test_values_between_convolutions_have_their_channels_innermost(
    random_numbers: Rng, weights: dict[str, Any]
) -> None:
    builder = GraphBuilder(Device(num_threads=1))
    x = input_tensor(builder, 0, TensorDesc(TensorDataType.FLOAT32, (1, 19, 8, 8)))
    graph = builder.build(dmlcpu.ExecutionFlags.NONE, [block(x, weights)])
    assert "transposed" not in graph.describe()


def test_several_outputs_and_inputs_at_initialize(devices: Devices, random_numbers: Rng) -> None:
    x, w = codes(random_numbers, (1, 8, 5, 5)), codes(random_numbers, (4, 8, 3, 3), np.int8)
    expected = dmlcpu.quantized_linear_convolution(x, 0.1, 7, w, 0.1, None, None, 0.9, 128)
    for label, device in devices.items():
        builder = GraphBuilder(device)
        image = input_tensor(builder, 0, TensorDesc.from_array(x))
        filters = input_tensor(builder, 1, TensorDesc.from_array(w, TensorFlags.OWNED_BY_DML))
        y = dmlcpu.quantized_linear_convolution(image, 0.1, 7, filters, 0.1, None, None, 0.9, 128)
        graph = builder.build(dmlcpu.ExecutionFlags.NONE, [y, dmlcpu.dequantize_linear(y, 0.9, 128), y])
        with pytest.raises(dmlcpu.DmlError, match="before dispatch"):
            graph.dispatch(input_0=x)
        with pytest.raises(dmlcpu.BindingError, match="input_1"):
            graph.initialize()
        graph.initialize(input_1=w)
        with pytest.raises(dmlcpu.DmlError, match="already"):
            graph.initialize(input_1=w)
        outputs = graph.dispatch(input_0=x)
        np.testing.assert_array_equal(outputs.output_0, expected, label)
        np.testing.assert_array_equal(outputs.output_1, dmlcpu.dequantize_linear(expected, 0.9, 128), label)
        np.testing.assert_array_equal(outputs.output_2, expected, label)


def test_operands_broadcast_as_with_arrays(devices: Devices, random_numbers: Rng) -> None:
    a, b = codes(random_numbers, (2, 5, 3, 4)), codes(random_numbers, (5, 1, 1), np.int8)
    expected = dmlcpu.quantized_linear_add(a, 0.5, 3, b, 0.25, None, 0.7, 9)
    for label, device in devices.items():
        builder = GraphBuilder(device)
        left, right = (input_tensor(builder, i, TensorDesc.from_array(array)) for i, array in enumerate((a, b)))
        total = dmlcpu.quantized_linear_add(left, 0.5, 3, right, 0.25, None, 0.7, 9)
        graph = builder.build(dmlcpu.ExecutionFlags.NONE, [total])
        np.testing.assert_array_equal(graph.dispatch(input_0=a, input_1=b), expected, label)


def test_many_threads_dispatch_one_graph(random_numbers: Rng, weights: dict[str, Any]) -> None:
    builder = GraphBuilder()
    x = input_tensor(builder, 0, TensorDesc(TensorDataType.FLOAT32, (1, 19, 9, 9)))
    graph = builder.build(dmlcpu.ExecutionFlags.NONE, [block(x, weights)])
    images = [random_numbers.normal(0, 1, (1, 19, 9, 9)).astype(np.float32) for _ in range(16)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda image: graph.dispatch(input_0=image), images * 4))
    for image, result in zip(images * 4, results, strict=True):
        np.testing.assert_array_equal(result, block(image, weights))


# Native graphs with views: each against numpy.


def convolution(graph: NativeGraph, x: int, filters: Any, channels: int) -> int:
    """Add a 1x1 convolution with all scales 1 and zero points 0, saturating."""
    batch, _, height, width = graph.desc(x).sizes
    one = graph.add_array(np.ones((1, 1, 1, 1), np.float32))
    inputs = [x, one, None, graph.add_array(filters), one, None, None, one, None]
    attributes = {"strides": (1, 1), "dilations": (1, 1), "start_padding": (0, 0), "end_padding": (0, 0)}
    [y] = graph.add_node(
        "QUANTIZED_LINEAR_CONVOLUTION",
        inputs,
        [TensorDesc(TensorDataType.UINT8, (batch, channels, height, width))],
        {**attributes, "group_count": (1,)},
    )
    return y


def permuting_filter(rng: Rng, channels: int) -> Any:
    """A 1x1 filter that moves channels around."""
    filters = np.zeros((channels, channels, 1, 1), np.int8)
    filters[np.arange(channels), rng.permutation(channels)] = 1
    return filters


def applied(x: Any, filters: Any) -> Any:
    return np.einsum("nchw,kc->nkhw", x.astype(np.int32), filters[:, :, 0, 0]).astype(np.uint8)


def test_joined_values_are_written_into_their_places(devices: Devices, random_numbers: Rng) -> None:
    x = codes(random_numbers, (2, 6, 5, 3))
    filters = [permuting_filter(random_numbers, 6) for _ in range(3)]
    last = permuting_filter(random_numbers, 18)
    branches = [applied(x, one) for one in filters]
    expected = applied(np.concatenate(branches, 1), last)
    for label, device in devices.items():
        graph = NativeGraph()
        image = graph.add_input("input_0", TensorDesc.from_array(x))
        parts = [convolution(graph, image, one, 6) for one in filters]
        whole = graph.add_view("JOIN", parts, (2, 18, 5, 3), {"axis": (1,)})
        graph.mark_output(convolution(graph, whole, last, 18), "output_0", TensorDesc.from_array(expected))
        compiled = CompiledGraph(device, graph)
        assert "COPY" not in compiled.describe(), label
        np.testing.assert_array_equal(compiled.dispatch(input_0=x), expected, label)


def test_slices_and_transpositions_are_read_in_place(devices: Devices, random_numbers: Rng) -> None:
    x = codes(random_numbers, (2, 12, 7, 8))
    first, second = permuting_filter(random_numbers, 12), permuting_filter(random_numbers, 6)
    expected = applied(applied(x, first)[:, 3:9, 1::2], second)
    for label, device in devices.items():
        graph = NativeGraph()
        # {N, H, W, C} codes, as many models have them at their beginning.
        image = graph.add_input("input_0", TensorDesc(TensorDataType.UINT8, (2, 7, 8, 12)))
        planes = graph.add_view("TRANSPOSE", [image], (2, 12, 7, 8), {"permutation": (0, 3, 1, 2)})
        y = convolution(graph, planes, first, 12)
        part = graph.add_view("SLICE", [y], (2, 6, 3, 8), {"starts": (0, 3, 1, 0), "steps": (1, 1, 2, 1)})
        graph.mark_output(convolution(graph, part, second, 6), "output_0", TensorDesc.from_array(expected))
        compiled = CompiledGraph(device, graph)
        assert "COPY" not in compiled.describe(), label
        np.testing.assert_array_equal(
            compiled.dispatch(input_0=np.ascontiguousarray(x.transpose(0, 2, 3, 1))), expected
        )


@pytest.mark.parametrize("sizes", [(2, 60), (120,), (4, 3, 10), (2, 6, 1, 10), (1, 2, 2, 1, 3, 10, 1), (5, 24)])
def test_reshapes_keep_the_row_major_order(devices: Devices, random_numbers: Rng, sizes: tuple[int, ...]) -> None:
    x, filters = codes(random_numbers, (2, 6, 2, 5)), permuting_filter(random_numbers, 6)
    expected = applied(x, filters).reshape(sizes)
    for label, device in devices.items():
        graph = NativeGraph()
        y = convolution(graph, graph.add_input("input_0", TensorDesc.from_array(x)), filters, 6)
        reshaped = graph.add_view("RESHAPE", [y], sizes)
        graph.mark_output(reshaped, "output_0", TensorDesc.from_array(expected))
        np.testing.assert_array_equal(CompiledGraph(device, graph).dispatch(input_0=x), expected, label)


# Graphs as descs.


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
        OperatorGraphNodeDesc(device.create_operator(dequantize), "second"),
        ConstantGraphNodeDesc(np.float32([0.25])),
        OperatorGraphNodeDesc(device.create_operator(quantize), "first"),
    ]
    return GraphDesc(
        input_count=2,
        output_count=1,
        nodes=nodes,
        input_edges=[InputGraphEdgeDesc(0, 2, 0), InputGraphEdgeDesc(1, 2, 1)],
        output_edges=[OutputGraphEdgeDesc(0, 0, 0)],
        intermediate_edges=[IntermediateGraphEdgeDesc(2, 0, 0, 0), IntermediateGraphEdgeDesc(1, 0, 0, 1)],
    )


def test_a_compiled_graph_keeps_nothing_that_it_was_made_of(device: Device) -> None:
    desc = quantize_then_dequantize(device)
    constant = desc.nodes[1]
    assert isinstance(constant, ConstantGraphNodeDesc)
    array = weakref.ref(np.asarray(constant.data))
    graph = device.compile_graph(desc)
    del desc, constant
    gc.collect()
    assert array() is None
    assert graph.desc is None


def test_a_graph_of_nodes_and_edges(device: Device) -> None:
    desc = quantize_then_dequantize(device)
    graph = device.compile_graph(desc)
    assert graph.desc is None  # and no reference to operators
    assert isinstance(graph, dmlcpu.CompiledOperator)
    graph.initialize()
    x = np.float32([[0, 1, 2], [3, 4, 300]])
    result = graph.dispatch(input_0=x, input_1=np.float32([0.5]))
    assert result.tolist() == [[0, 0.5, 1], [1.5, 2, 63.75]]
    assert "first" in graph.describe()
    assert "second" in graph.describe()


def test_edges_may_reinterpret_memory(device: Device, random_numbers: Rng) -> None:
    """From {2, 3, 4} to {4, 6} by strides that transpose."""
    x = random_numbers.normal(0, 9, (2, 3, 4)).astype(np.float32)
    scale = TensorDesc(TensorDataType.FLOAT32, (2, 3, 4), strides=(0, 0, 0))
    quantize = dmlcpu.ElementWiseQuantizeLinearOperatorDesc(
        input_tensor=TensorDesc(TensorDataType.FLOAT32, (2, 3, 4)),
        scale_tensor=scale,
        output_tensor=TensorDesc(TensorDataType.INT8, (2, 3, 4)),
    )
    dequantize = dmlcpu.ElementWiseDequantizeLinearOperatorDesc(
        input_tensor=TensorDesc(TensorDataType.INT8, (4, 6), strides=(1, 4)),
        scale_tensor=TensorDesc(TensorDataType.FLOAT32, (4, 6), strides=(0, 0)),
        output_tensor=TensorDesc(TensorDataType.FLOAT32, (4, 6)),
    )
    graph = device.compile_graph(
        GraphDesc(
            input_count=2,
            output_count=2,
            nodes=[OperatorGraphNodeDesc(device.create_operator(one)) for one in (quantize, dequantize)],
            input_edges=[InputGraphEdgeDesc(0, 0, 0), InputGraphEdgeDesc(1, 0, 1), InputGraphEdgeDesc(1, 1, 1)],
            output_edges=[OutputGraphEdgeDesc(1, 0, 0), OutputGraphEdgeDesc(0, 0, 1)],
            intermediate_edges=[IntermediateGraphEdgeDesc(0, 0, 1, 0)],
        )
    )
    outputs = graph.dispatch(input_0=x, input_1=np.float32([0.5]))
    quantized = dmlcpu.quantize_linear(x, 0.5, output_data_type=TensorDataType.INT8)
    np.testing.assert_array_equal(outputs.output_1, quantized)
    np.testing.assert_array_equal(outputs.output_0, dmlcpu.dequantize_linear(quantized.reshape(6, 4).T, 0.5))


@pytest.mark.parametrize("owned", [False, True])
def test_memory_that_is_reinterpreted_is_aligned(device: Device, random_numbers: Rng, owned: bool) -> None:
    """An input may be bytes to one operator and wider integers to another, at any address."""
    flags = TensorFlags.OWNED_BY_DML if owned else TensorFlags.NONE
    sizes: dict[TensorDataType, tuple[int, ...]] = {TensorDataType.UINT8: (64,), TensorDataType.INT32: (4, 4)}
    nodes = []
    for data_type, length in sizes.items():
        dequantize = dmlcpu.ElementWiseDequantizeLinearOperatorDesc(
            input_tensor=TensorDesc(data_type, length, flags=flags),
            scale_tensor=TensorDesc(TensorDataType.FLOAT32, length, strides=(0,) * len(length)),
            output_tensor=TensorDesc(TensorDataType.FLOAT32, length),
        )
        nodes.append(OperatorGraphNodeDesc(device.create_operator(dequantize)))
    edges = [InputGraphEdgeDesc(index, node, index) for index in (0, 1) for node in (0, 1)]
    outputs = [OutputGraphEdgeDesc(node, 0, node) for node in (0, 1)]
    graph = device.compile_graph(
        GraphDesc(input_count=2, output_count=2, nodes=nodes, input_edges=edges, output_edges=outputs)
    )
    memory = codes(random_numbers, (65,))
    x = memory[1 if memory.ctypes.data % 4 == 0 else 0 :][:64]
    assert x.ctypes.data % 4 != 0
    bound = {"input_0": x}
    if owned:
        graph.initialize(**bound)
        bound = {}
    narrow, wide = graph.dispatch(**bound, input_1=np.float32([0.5]))
    assert [step.type for step in graph.steps].count("COPY") == 1
    np.testing.assert_array_equal(narrow, dmlcpu.dequantize_linear(x, 0.5))
    np.testing.assert_array_equal(wide, dmlcpu.dequantize_linear(x.copy().view(np.int32).reshape(4, 4), 0.5))


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "no nodes": ({"nodes": []}, "nodes"),
    "a node of another type": ({"nodes": ["node"]}, r"nodes\[0\]"),
    "an index beyond the nodes": ({"input_edges": [InputGraphEdgeDesc(0, 7, 0)]}, r"input_edges\[0\]"),
    "an index beyond a node's inputs": ({"input_edges": [InputGraphEdgeDesc(0, 2, 3)]}, r"input_edges\[0\]"),
    "an absent tensor": ({"input_edges": [InputGraphEdgeDesc(0, 2, 2)]}, "zero_point_tensor"),
    "no edge to an input": ({"input_edges": [InputGraphEdgeDesc(0, 2, 0)]}, "scale_tensor"),
    "a constant as target": ({"input_edges": [InputGraphEdgeDesc(0, 1, 0)]}, r"input_edges\[0\]"),
    "an unknown graph input": ({"input_edges": [InputGraphEdgeDesc(2, 2, 0)]}, r"input_edges\[0\]"),
    "two edges to an input": ({"input_edges": [InputGraphEdgeDesc(0, 2, 0)] * 2}, "second edge"),
    "an input that is not used": ({"input_count": 3}, "graph input 2"),
    "an output that is not fed": ({"output_count": 2}, "output_edges"),
    "an output fed twice": ({"output_edges": [OutputGraphEdgeDesc(0, 0, 0)] * 2}, r"output_edges\[1\]"),
    "an output of a constant": ({"output_edges": [OutputGraphEdgeDesc(1, 0, 0)]}, r"output_edges\[0\]"),
    "a cycle": (
        {"intermediate_edges": [IntermediateGraphEdgeDesc(0, 0, 0, 0), IntermediateGraphEdgeDesc(1, 0, 0, 1)]},
        "bytes",
    ),
    "an edge of another type": ({"output_edges": [(0, 0, 0)]}, r"output_edges\[0\]"),
    "a count that is no number": ({"input_count": "2"}, "input_count"),
    "edges that are no sequence": ({"input_edges": None}, "input_edges"),
}


@pytest.mark.parametrize(("changes", "field"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes_in_descs(changes: dict[str, Any], field: str) -> None:
    device = Device()
    with pytest.raises(dmlcpu.InvalidDescError, match=field):
        device.compile_graph(replace(quantize_then_dequantize(device), **changes))


def test_a_cycle_is_named() -> None:
    device = Device()
    u8 = TensorDesc(TensorDataType.UINT8, (4,))
    one = TensorDesc(TensorDataType.FLOAT32, (1,))
    add = device.create_operator(
        dmlcpu.ElementWiseQuantizedLinearAddOperatorDesc(
            a_tensor=u8, a_scale_tensor=one, b_tensor=u8, b_scale_tensor=one, output_scale_tensor=one, output_tensor=u8
        )
    )
    desc = GraphDesc(
        input_count=2,
        output_count=1,
        nodes=[OperatorGraphNodeDesc(add), OperatorGraphNodeDesc(add)],
        input_edges=[InputGraphEdgeDesc(0, node, index) for node in (0, 1) for index in (1, 4, 6)]
        + [InputGraphEdgeDesc(1, node, 0) for node in (0, 1)],
        output_edges=[OutputGraphEdgeDesc(0, 0, 0)],
        intermediate_edges=[IntermediateGraphEdgeDesc(0, 0, 1, 3), IntermediateGraphEdgeDesc(1, 0, 0, 3)],
    )
    with pytest.raises(dmlcpu.InvalidDescError, match=r"a cycle among the nodes \[0, 1\]"):
        device.compile_graph(desc)


def test_levels_of_graphs_and_constant_nodes() -> None:
    for level, required in (
        (FeatureLevel.LEVEL_2_0, FeatureLevel.LEVEL_2_1),
        (FeatureLevel.LEVEL_6_0, FeatureLevel.LEVEL_6_2),
    ):
        device = Device(feature_level=level)
        desc = GraphDesc(input_count=0, output_count=1, nodes=[ConstantGraphNodeDesc(b"")])
        with pytest.raises(dmlcpu.UnsupportedFeatureLevelError) as caught:
            device.compile_graph(desc)
        assert caught.value.required_level is required


def test_mistakes_with_expressions() -> None:
    builder = GraphBuilder()
    desc = TensorDesc(TensorDataType.UINT8, (1, 2, 3, 3))
    x = input_tensor(builder, 0, desc)
    assert isinstance(x, Expression)
    assert x.reshape((1, 2, 3, 3)) is x
    with pytest.raises(ValueError, match="index"):
        input_tensor(builder, 0, desc)
    with pytest.raises(dmlcpu.InvalidDescError):
        input_tensor(builder, 1, TensorDesc(TensorDataType.UINT8, (0,)))
    with pytest.raises(dmlcpu.InvalidDescError):
        dmlcpu.dequantize_linear(x, 0.5, output_data_type=TensorDataType.INT8)
    with pytest.raises(dmlcpu.BindingError, match="out"):
        dmlcpu.dequantize_linear(x, 0.5, out=np.empty((1, 2, 3, 3), np.float32))
    with pytest.raises(dmlcpu.BindingError, match="device"):
        dmlcpu.dequantize_linear(x, 0.5, device=Device(isa="scalar", num_threads=3))
    with pytest.raises(dmlcpu.BindingError, match="another GraphBuilder"):
        dmlcpu.quantized_linear_add(x, 1.0, None, input_tensor(GraphBuilder(), 0, desc), 1.0, None, 1.0, None)
    with pytest.raises(ValueError, match="elements"):
        x.reshape((5,))
    with pytest.raises(ValueError, match="outputs"):
        builder.build(dmlcpu.ExecutionFlags.NONE, [])
    with pytest.raises(TypeError, match=r"outputs\[0\]"):
        builder.build(dmlcpu.ExecutionFlags.NONE, [np.zeros(3)])


def test_what_no_output_needs_is_not_compiled() -> None:
    builder = dmlcpu.GraphBuilder(dmlcpu.Device())
    desc = dmlcpu.TensorDesc(dmlcpu.TensorDataType.UINT8, (4,))
    x, unused = (dmlcpu.input_tensor(builder, index, desc) for index in (0, 1))
    weights = dmlcpu.input_tensor(builder, 2, replace(desc, flags=dmlcpu.TensorFlags.OWNED_BY_DML))
    dead = dmlcpu.quantized_linear_add(x, 1.0, 0, np.uint8([1, 2, 3, 4]), 1.0, 0, 2.0, 0)
    total = dmlcpu.quantized_linear_add(x, 1.0, 0, weights, 1.0, 0, 1.0, 0)
    codes = np.uint8([1, 2, 3, 250])
    expected = np.float32([2, 4, 6, 255])
    for _ in range(2):  # what was built before is not in the next graph
        graph = builder.build(dmlcpu.ExecutionFlags.NONE, [dmlcpu.dequantize_linear(total, 1.0), total])
        assert [step.type for step in graph.steps] == [  # type: ignore[attr-defined]
            "ELEMENT_WISE_QUANTIZED_LINEAR_ADD",
            "ELEMENT_WISE_DEQUANTIZE_LINEAR",
        ]
        graph.initialize(input_2=codes)
        floats, sums = graph.dispatch(input_0=codes, input_1=codes)
        np.testing.assert_array_equal(floats, expected)
        np.testing.assert_array_equal(sums, expected.astype(np.uint8))
    other = builder.build(dmlcpu.ExecutionFlags.NONE, [dead, unused])
    other.initialize(input_2=codes)
    halves, same = other.dispatch(input_0=codes, input_1=codes)
    np.testing.assert_array_equal(halves, np.uint8([1, 2, 3, 127]))
    np.testing.assert_array_equal(same, codes)
    with pytest.raises(dmlcpu.BindingError, match="input_1"):
        graph.dispatch(input_0=codes)
