"""What a compiled graph tells of its own inputs and outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlcpu
from dmlcpu import (
    Device,
    ExecutionFlags,
    GraphBuilder,
    GraphDesc,
    InputGraphEdgeDesc,
    OutputGraphEdgeDesc,
    TensorDataType,
    TensorDesc,
    TensorFlags,
    input_tensor,
)
from sample_graphs import Rng, codes, dequantize_graph, operator_node, quantize_then_dequantize

U8, F32 = TensorDataType.UINT8, TensorDataType.FLOAT32


def test_inputs_and_outputs_of_a_graph_of_expressions(random_numbers: Rng) -> None:
    """They are told as they were described, and suffice for what a dispatch binds."""
    builder = GraphBuilder()
    channels_last = TensorDesc(U8, (2, 3, 4, 5), strides=(60, 1, 15, 3))
    image = input_tensor(builder, 10, channels_last)
    scale = TensorDesc(F32, (1,), flags=TensorFlags.OWNED_BY_DML)
    scales = [input_tensor(builder, index, scale) for index in (2, 0)]
    unused = input_tensor(builder, 3, TensorDesc(U8, (4,)))
    moved = dmlcpu.quantized_linear_add(image, scales[0], None, image, scales[0], None, scales[1], None)
    wide = [moved.reshape((120,))] * 8
    graph = builder.build(ExecutionFlags.NONE, [moved, dmlcpu.dequantize_linear(moved, 0.5), *wide, scales[0]])
    descs = {"input_0": scale, "input_2": scale, "input_3": unused.desc, "input_10": channels_last}
    assert graph.inputs == descs
    assert list(graph.inputs) == [*descs]
    strides = channels_last.strides
    assert graph.outputs == {
        "output_0": channels_last,
        "output_1": TensorDesc(F32, channels_last.sizes, strides=strides),
        **{f"output_{index}": TensorDesc(U8, (120,)) for index in range(2, 10)},
        "output_10": TensorDesc(F32, (1,)),
    }
    assert list(graph.outputs) == [f"output_{index}" for index in range(11)]

    owned = [name for name, desc in graph.inputs.items() if desc.flags & TensorFlags.OWNED_BY_DML]
    graph.initialize(**dict.fromkeys(owned, np.float32([0.5])))
    x = codes(random_numbers, (2, 4, 5, 3)).transpose(0, 3, 1, 2)
    bound: dict[str, Any] = {"input_10": x, "input_3": np.zeros(4, np.uint8)}
    for name, result in zip(graph.outputs, graph.dispatch(**bound), strict=True):
        assert result.shape == graph.outputs[name].sizes
        assert result.strides == tuple(step * result.itemsize for step in graph.outputs[name].element_strides)
    expected = dmlcpu.quantized_linear_add(x, 0.5, None, x, 0.5, None, 0.5, None)
    y = np.zeros((2, 4, 5, 3), np.uint8).transpose(0, 3, 1, 2)
    graph.dispatch(**bound, output_0=y)
    np.testing.assert_array_equal(y, expected)


def test_inputs_and_outputs_of_a_graph_of_nodes() -> None:
    graph = Device().compile_graph(quantize_then_dequantize(Device()))
    assert graph.inputs == {"input_0": TensorDesc(F32, (2, 3)), "input_1": TensorDesc(F32, (2, 3), strides=(0, 0))}
    assert graph.outputs == {"output_0": TensorDesc(F32, (2, 3))}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("gaps", [False, True])
def test_the_widest_of_the_tensors_that_read_an_input_describes_it(order: tuple[int, int], gaps: bool) -> None:
    """Else the one of the first edge, whatever the order of the nodes."""
    device = Device()
    tensors = [
        TensorDesc(U8, (4,), strides=(2 if gaps else 1,), total_tensor_size_in_bytes=8),
        TensorDesc(TensorDataType.INT8, (2, 2), total_tensor_size_in_bytes=8),
    ]
    nodes = []
    for tensor in tensors:
        repeated = TensorDesc(F32, tensor.sizes, strides=(0,) * len(tensor.sizes))
        dequantize = dmlcpu.ElementWiseDequantizeLinearOperatorDesc(
            input_tensor=tensor, scale_tensor=repeated, output_tensor=TensorDesc(F32, tensor.sizes)
        )
        nodes.append(operator_node(device, dequantize))
    desc = GraphDesc(
        input_count=2,
        output_count=2,
        nodes=nodes,
        input_edges=[InputGraphEdgeDesc(index, node, index) for index in (0, 1) for node in order],
        output_edges=[OutputGraphEdgeDesc(node, 0, node) for node in (0, 1)],
    )
    graph = device.compile_graph(desc)
    assert graph.inputs["input_0"] == tensors[0 if gaps else order[0]]
    x = np.uint8([1, 254, 3, 252, 5, 250, 7, 248])
    bound = x if graph.inputs["input_0"].data_type == U8 else x.view(np.int8)
    codes, signed = graph.dispatch(input_0=bound, input_1=np.float32([1]))
    np.testing.assert_array_equal(codes, [1, 3, 5, 7] if gaps else [1, 254, 3, 252])
    np.testing.assert_array_equal(signed, [[1, -2], [3, -4]])


@pytest.mark.parametrize("name", ["inputs", "outputs"])
def test_inputs_and_outputs_are_read_only(name: str) -> None:
    graph = Device().compile_graph(quantize_then_dequantize(Device()))
    with pytest.raises(AttributeError):
        setattr(graph, name, {})
    before = dict(getattr(graph, name))
    assert before
    getattr(graph, name).clear()
    assert getattr(graph, name) == before


def test_packed_inputs_are_a_dict() -> None:
    device = Device()
    graph = device.compile_graph(dequantize_graph(device, np.float32([0.5])))
    for inputs in (None, [np.uint8([1, 2, 3, 4])], 5):
        got = rf"^graph: inputs: got an object of type {type(inputs).__name__}, expected a dict of arrays by name$"
        with pytest.raises(TypeError, match=got):
            graph.run_packed(inputs)  # type: ignore[arg-type]


class Incomparable(str):
    """A key that raises where it is compared with another one."""

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        raise TypeError("not compared")


def test_errors_within_a_dict_of_packed_inputs_are_its_own() -> None:
    device = Device()
    graph = device.compile_graph(dequantize_graph(device, np.float32([0.5])))
    (name,) = graph.inputs
    with pytest.raises(TypeError, match=r"^not compared$"):
        graph.run_packed({Incomparable(name): np.uint8([1, 2, 3, 4])})
