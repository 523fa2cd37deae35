"""Graphs of nodes and edges: what they compute, and what is wrong with their descs."""

from __future__ import annotations

import gc
import pickle
import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dmlcpu
from dmlcpu import (
    ConstantGraphNodeDesc,
    Device,
    FeatureLevel,
    GraphDesc,
    InputGraphEdgeDesc,
    IntermediateGraphEdgeDesc,
    OperatorGraphNodeDesc,
    OutputGraphEdgeDesc,
    TensorDataType,
    TensorDesc,
    TensorFlags,
)
from sample_graphs import (
    Rng,
    codes,
    operator_node,
    quantize_then_dequantize,
)

SEQUENCES = ("nodes", "input_edges", "output_edges", "intermediate_edges")


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
            nodes=[operator_node(device, one) for one in (quantize, dequantize)],
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
def test_nodes_that_no_output_needs_are_left_out(device: Device, owned: bool) -> None:
    """They are checked all the same, and what they read is bound."""
    flags = TensorFlags.OWNED_BY_DML if owned else TensorFlags.NONE
    f32, u8 = TensorDesc(TensorDataType.FLOAT32, (4,)), TensorDesc(TensorDataType.UINT8, (4,))
    scale = TensorDesc(TensorDataType.FLOAT32, (4,), strides=(0,))
    needed = dmlcpu.ElementWiseDequantizeLinearOperatorDesc(input_tensor=u8, scale_tensor=scale, output_tensor=f32)
    quantize = dmlcpu.ElementWiseQuantizeLinearOperatorDesc(input_tensor=f32, scale_tensor=scale, output_tensor=u8)
    desc = GraphDesc(
        input_count=3,
        output_count=1,
        nodes=[
            operator_node(device, quantize, "not needed"),
            operator_node(device, needed, "needed"),
            operator_node(device, replace(needed, scale_tensor=replace(scale, flags=flags)), "nor this"),
        ],
        input_edges=[
            *(InputGraphEdgeDesc(0, 1, 0), InputGraphEdgeDesc(1, 0, 1), InputGraphEdgeDesc(1, 1, 1)),
            InputGraphEdgeDesc(2, 2, 1),
        ],
        output_edges=[OutputGraphEdgeDesc(1, 0, 0)],
        intermediate_edges=[IntermediateGraphEdgeDesc(1, 0, 0, 0), IntermediateGraphEdgeDesc(0, 0, 2, 0)],
    )
    graph = device.compile_graph(desc)
    assert [step.name for step in graph.steps] == ["needed"]
    bound: dict[str, Any] = {"input_0": np.uint8([1, 2, 3, 255]), "input_1": np.float32([0.5])}
    last = {"input_2": np.float32([2])}
    with pytest.raises(dmlcpu.DmlError, match="initialize" if owned else "input_2: got no binding"):
        graph.dispatch(**bound)
    if owned:
        graph.initialize(**last)
        last = {}
    np.testing.assert_array_equal(graph.dispatch(**bound, **last), np.float32([0.5, 1, 1.5, 127.5]))
    with pytest.raises(dmlcpu.InvalidDescError, match=r"no edge to scale_tensor \(input 1\) of node 2"):
        device.compile_graph(replace(desc, input_count=2, input_edges=desc.input_edges[:3]))


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
        nodes.append(operator_node(device, dequantize))
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


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (TensorDesc(TensorDataType.UINT8, (2, 1), strides=(2, 1)), TensorDesc(TensorDataType.UINT8, (4,))),
        (TensorDesc(TensorDataType.UINT8, (3,)), TensorDesc(TensorDataType.UINT8, (4,))),
        (TensorDesc(TensorDataType.UINT4, (7,)), TensorDesc(TensorDataType.UINT4, (8,))),
        (TensorDesc(TensorDataType.UINT8, (2,), strides=(3,)), TensorDesc(TensorDataType.UINT8, (2,))),
    ],
    ids=["gaps", "last bytes", "half a byte", "a gap alone"],
)
def test_what_nothing_was_written_to_is_zeros(device: Device, written: TensorDesc, read: TensorDesc) -> None:
    """Where a reader sees what its writer leaves out; other codes have been in the same memory."""

    def floats(desc: TensorDesc) -> TensorDesc:
        return TensorDesc(TensorDataType.FLOAT32, desc.sizes)

    def scale(desc: TensorDesc) -> dict[str, Any]:
        tensors = (TensorDesc(TensorDataType.FLOAT32, (1,) * len(desc.sizes)),)
        return {"quantization_type": dmlcpu.QuantizationType.SCALE, "quantization_tensors": tensors}

    def quantize(desc: TensorDesc) -> dmlcpu.OperatorDesc:
        return dmlcpu.QuantizeOperatorDesc(input_tensor=floats(desc), **scale(desc), output_tensor=desc)

    def dequantize(desc: TensorDesc) -> dmlcpu.OperatorDesc:
        return dmlcpu.DequantizeOperatorDesc(input_tensor=desc, **scale(desc), output_tensor=floats(desc))

    others, first = TensorDesc(TensorDataType.UINT8, (4,)), TensorDesc(TensorDataType.UINT8, (1,))
    descs = [quantize(others), dequantize(first), quantize(written), dequantize(read)]
    graph = device.compile_graph(
        GraphDesc(
            input_count=3,
            output_count=1,
            nodes=[operator_node(device, desc) for desc in descs],
            input_edges=[
                *(InputGraphEdgeDesc(index, node, 0) for index, node in ((0, 0), (1, 2))),
                *(InputGraphEdgeDesc(2, node, 1) for node in (0, 1, 3)),
            ],
            output_edges=[OutputGraphEdgeDesc(3, 0, 0)],
            # What the other codes are dequantized to is the scale of those that are written.
            intermediate_edges=[
                IntermediateGraphEdgeDesc(0, 0, 1, 0),
                IntermediateGraphEdgeDesc(1, 0, 2, 1),
                IntermediateGraphEdgeDesc(2, 0, 3, 0),
            ],
        )
    )
    codes_written = np.arange(1, np.prod(written.sizes) + 1, dtype=np.float32).reshape(written.sizes)
    expected = np.full(read.sizes, -8.0 if read.data_type is TensorDataType.UINT4 else -128.0)  # of a code of 0
    places = np.arange(codes_written.size) * written.element_strides[0]
    expected[places[places < expected.size]] = codes_written.ravel()[places < expected.size]
    result = graph.dispatch(input_0=np.full(4, 0x77, np.float32), input_1=codes_written * 0x77, input_2=np.float32([1]))
    np.testing.assert_array_equal(result, expected)


def two_dequantizations(device: Device, inputs: tuple[TensorDesc, TensorDesc]) -> GraphDesc:
    """Graph input 0 as two operators see it, times graph input 1."""
    descs = [
        dmlcpu.ElementWiseDequantizeLinearOperatorDesc(
            input_tensor=tensor,
            scale_tensor=TensorDesc(TensorDataType.FLOAT32, (4,), strides=(0,)),
            output_tensor=TensorDesc(TensorDataType.FLOAT32, (4,)),
        )
        for tensor in inputs
    ]
    return GraphDesc(
        input_count=2,
        output_count=2,
        nodes=[operator_node(device, desc) for desc in descs],
        input_edges=[InputGraphEdgeDesc(index, node, index) for index in (0, 1) for node in (0, 1)],
        output_edges=[OutputGraphEdgeDesc(node, 0, node) for node in (0, 1)],
    )


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_uses_of_an_input_that_span_different_parts(device: Device, order: tuple[int, int]) -> None:
    """What is bound has the bytes of the larger one."""
    first, second = (
        TensorDesc(TensorDataType.UINT8, (4,), strides=(step,), total_tensor_size_in_bytes=8) for step in order
    )
    graph = device.compile_graph(two_dequantizations(device, (first, second)))
    x, scale = np.arange(8, dtype=np.uint8), np.float32([1])
    for result, step in zip(graph.dispatch(input_0=x, input_1=scale), order, strict=True):
        np.testing.assert_array_equal(result, x[::step][:4])
    with pytest.raises(dmlcpu.BindingError):
        graph.dispatch(input_0=x[:4], input_1=scale)


def test_uses_of_an_input_with_and_without_a_flag(device: Device) -> None:
    first, second = (
        TensorDesc(TensorDataType.UINT8, (4,), flags=flags) for flags in (TensorFlags.NONE, TensorFlags.OWNED_BY_DML)
    )
    with pytest.raises(dmlcpu.InvalidDescError, match="graph input 0 with and without OWNED_BY_DML"):
        device.compile_graph(two_dequantizations(device, (first, second)))


def test_an_edge_to_an_owned_tensor(device: Device) -> None:
    desc = quantize_then_dequantize(device)
    second = dmlcpu.ElementWiseDequantizeLinearOperatorDesc(
        input_tensor=TensorDesc(TensorDataType.UINT8, (2, 3), flags=TensorFlags.OWNED_BY_DML),
        scale_tensor=TensorDesc(TensorDataType.FLOAT32, (2, 3), strides=(0, 0)),
        output_tensor=TensorDesc(TensorDataType.FLOAT32, (2, 3)),
    )
    with pytest.raises(dmlcpu.InvalidDescError, match="flagged OWNED_BY_DML"):
        device.compile_graph(replace(desc, nodes=[operator_node(device, second), *desc.nodes[1:]]))


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
    "another output of a constant": (
        {"intermediate_edges": [IntermediateGraphEdgeDesc(2, 0, 0, 0), IntermediateGraphEdgeDesc(1, 1, 0, 1)]},
        "got 1 as output of a constant",
    ),
    **{
        f"{index} as source": ({"intermediate_edges": [IntermediateGraphEdgeDesc(index, 0, 0, 1)]}, "as node")
        for index in (1.0, -2, 7)
    },
    "a float as graph input": (
        {"input_edges": [InputGraphEdgeDesc(0, 2, 0), InputGraphEdgeDesc(1.0, 2, 1)]},  # type: ignore[arg-type]
        r"input_edges\[1\]: got 1.0 as graph input",
    ),
    "a float as node": ({"input_edges": [InputGraphEdgeDesc(0, 2.0, 0)]}, "got 2.0 as node"),  # type: ignore[arg-type]
    "a float as a node's input": ({"input_edges": [InputGraphEdgeDesc(0, 2, 0.0)]}, "got 0.0 among the inputs"),  # type: ignore[arg-type]
    "a float as graph output": ({"output_edges": [OutputGraphEdgeDesc(0, 0, 0.0)]}, "got 0.0 as graph output"),  # type: ignore[arg-type]
    "an edge of another type": ({"output_edges": [(0, 0, 0)]}, r"output_edges\[0\]"),
    "a count that is no number": ({"input_count": "2"}, "input_count"),
    "edges that are no sequence": ({"input_edges": None}, "input_edges"),
}


@pytest.mark.parametrize(("changes", "field"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes_in_descs(changes: dict[str, Any], field: str) -> None:
    device = Device()
    with pytest.raises(dmlcpu.InvalidDescError, match=field):
        device.compile_graph(replace(quantize_then_dequantize(device), **changes))


def test_operators_of_another_device(device: Device) -> None:
    other = Device(num_threads=device.num_threads + 1)
    with pytest.raises(dmlcpu.DmlError, match=r"nodes\[0\]: the operator was created by another device"):
        other.compile_graph(quantize_then_dequantize(device))


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
    device = Device(feature_level=FeatureLevel.LEVEL_6_2)
    device.compile_graph(quantize_then_dequantize(device))


def test_descs_of_graphs_are_frozen_and_equal_by_value(device: Device) -> None:
    desc, other = quantize_then_dequantize(device), quantize_then_dequantize(device)
    assert desc == other == pickle.loads(pickle.dumps(desc))
    assert hash(desc) == hash(other)
    assert len({desc, other}) == 1
    assert all(type(getattr(desc, name)) is tuple for name in SEQUENCES)
    assert desc == replace(desc, **{name: list(getattr(desc, name)) for name in SEQUENCES})
    changed = [replace(desc, **{name: getattr(desc, name)[1:]}) for name in SEQUENCES]
    assert len({desc, replace(desc, input_count=3), *changed}) == 6
    nodes = [*desc.nodes]
    given = replace(desc, nodes=nodes)
    nodes.clear()
    assert given == desc
    assert eval(repr(desc), {**vars(dmlcpu), "array": np.array, "float32": np.float32}) == desc


@pytest.mark.parametrize("value", [None, 5, "nodes", b"nodes", range(2**40), np.zeros(3)], ids=repr)
def test_what_is_no_sequence_of_nodes_or_edges_stays_as_it_is(value: Any) -> None:
    for name in SEQUENCES:
        desc = GraphDesc(**{"input_count": 0, "output_count": 1, "nodes": (), name: value})
        assert getattr(desc, name) is value
