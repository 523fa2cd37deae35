"""Tensors of 4-bit elements as inputs, outputs, constants and intermediates of graphs, against the operators alone."""

from __future__ import annotations

import re
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dmlcpu
from dmlcpu import (
    ConstantGraphNodeDesc,
    Device,
    ExecutionFlags,
    GraphBuilder,
    GraphDesc,
    InputGraphEdgeDesc,
    IntermediateGraphEdgeDesc,
    OutputGraphEdgeDesc,
    TensorDataType,
    TensorDesc,
    input_tensor,
)
from dmlcpu.graph.compiled_graph import CompiledGraph
from dmlcpu.graph.native_graph import NativeGraph
from dmlcpu.nibbles import packed, packed_length
from sample_graphs import Devices, Rng, operator_node
from strided_tensor import StridedTensor, buffer_length

TYPES = [TensorDataType.UINT4, TensorDataType.INT4]
SIZES = [(4,), (5,), (3, 7), (2, 3, 32), (4, 1500)]
EXPRESSION = input_tensor(GraphBuilder(), 0, TensorDesc(TensorDataType.FLOAT32, (1,)))


def random_codes(rng: Rng, data_type: TensorDataType, shape: tuple[int, ...]) -> Any:
    lowest = -8 if data_type is TensorDataType.INT4 else 0
    return rng.integers(lowest, lowest + 16, shape).astype(np.int8).astype(getattr(ml_dtypes, data_type.name.lower()))


def packed_bytes(codes: Any) -> Any:
    return packed(np.ascontiguousarray(codes).reshape(-1).view(np.uint8))


def quantize_desc(codes: TensorDesc) -> dmlcpu.QuantizeOperatorDesc:
    shape, ones = tuple(codes.sizes), (1,) * len(codes.sizes)
    return dmlcpu.QuantizeOperatorDesc(
        input_tensor=TensorDesc(TensorDataType.FLOAT32, shape),
        quantization_type=dmlcpu.QuantizationType.SCALE_ZERO_POINT,
        quantization_tensors=(TensorDesc(TensorDataType.FLOAT32, ones), TensorDesc(codes.data_type, ones)),
        output_tensor=codes,
    )


def dequantize_desc(codes: TensorDesc) -> dmlcpu.DequantizeOperatorDesc:
    shape, ones = tuple(codes.sizes), (1,) * len(codes.sizes)
    return dmlcpu.DequantizeOperatorDesc(
        input_tensor=codes,
        quantization_type=dmlcpu.QuantizationType.SCALE_ZERO_POINT,
        quantization_tensors=(TensorDesc(TensorDataType.FLOAT32, ones), TensorDesc(codes.data_type, ones)),
        output_tensor=TensorDesc(TensorDataType.FLOAT32, shape),
    )


def there_and_back(device: Device, codes: TensorDesc, zero_point: Any) -> GraphDesc:
    """Input 0 quantized (output 0) and dequantized (output 1): a constant zero point, the scale input 1."""
    return GraphDesc(
        input_count=2,
        output_count=2,
        nodes=[
            operator_node(device, quantize_desc(codes)),
            operator_node(device, dequantize_desc(codes)),
            ConstantGraphNodeDesc(zero_point),
        ],
        input_edges=[InputGraphEdgeDesc(0, 0, 0), InputGraphEdgeDesc(1, 0, 1), InputGraphEdgeDesc(1, 1, 1)],
        intermediate_edges=[
            IntermediateGraphEdgeDesc(0, 0, 1, 0),
            IntermediateGraphEdgeDesc(2, 0, 0, 2),
            IntermediateGraphEdgeDesc(2, 0, 1, 2),
        ],
        output_edges=[OutputGraphEdgeDesc(0, 0, 0), OutputGraphEdgeDesc(1, 0, 1)],
    )


@pytest.mark.parametrize("data_type", TYPES)
@pytest.mark.parametrize("sizes", SIZES)
def test_a_graph_has_the_bits_of_its_operators(
    devices: Devices, random_numbers: Rng, data_type: TensorDataType, sizes: tuple[int, ...]
) -> None:
    x = random_numbers.normal(0, 3, sizes).astype(np.float32)
    zero_point = random_codes(random_numbers, data_type, (1,))
    expected = dmlcpu.quantize(x, 0.5, packed_bytes(zero_point), output_data_type=data_type)
    back = dmlcpu.dequantize(expected, 0.5, packed_bytes(zero_point), input_data_type=data_type, sizes=sizes)
    scale = np.float32([0.5])
    for label, device in devices.items():
        for constant in (packed_bytes(zero_point), packed_bytes(zero_point).tobytes(), zero_point):
            graph = device.compile_graph(there_and_back(device, TensorDesc(data_type, sizes), constant))
            outputs = graph.dispatch(input_0=x, input_1=scale)
            assert outputs.output_0.dtype == np.uint8, label
            np.testing.assert_array_equal(outputs.output_0, expected, label)
            np.testing.assert_array_equal(outputs.output_1, back, label)
        elements = np.full(sizes, 1, zero_point.dtype)
        assert graph.dispatch(input_0=x, input_1=scale, output_0=elements).output_0 is elements
        np.testing.assert_array_equal(packed_bytes(elements), expected, label)
        flat = np.full(packed_length(elements.size), 0xFF, np.uint8)
        assert graph.dispatch(input_0=x, input_1=scale, output_0=flat).output_0 is flat
        if elements.size % 2:
            assert flat[-1] >> 4 == 0xF  # the other half stays
            flat[-1] &= 0xF
        np.testing.assert_array_equal(flat, expected, label)


@pytest.mark.parametrize("data_type", TYPES)
@pytest.mark.parametrize("sizes", SIZES)
def test_expressions_of_4_bits(
    devices: Devices, random_numbers: Rng, data_type: TensorDataType, sizes: tuple[int, ...]
) -> None:
    """As inputs bound packed and not, at dispatch and at initialize; as constants; quantized and read on."""
    codes = random_codes(random_numbers, data_type, sizes)
    scale = random_numbers.uniform(0.1, 2, (*sizes[:-1], 1)).astype(np.float32)
    zero_points = random_codes(random_numbers, data_type, scale.shape)
    expected = dmlcpu.dequantize(codes, scale, zero_points)
    again = dmlcpu.quantize(expected, 0.7, 3, output_data_type=data_type)
    twice = dmlcpu.dequantize(again, 0.3, 2, input_data_type=data_type, sizes=sizes)
    for label, device in devices.items():
        for flags in (dmlcpu.TensorFlags.NONE, dmlcpu.TensorFlags.OWNED_BY_DML):
            builder = GraphBuilder(device)
            x = input_tensor(builder, 0, TensorDesc(data_type, sizes, flags=flags))
            values = dmlcpu.dequantize(x, scale, zero_points)
            small = dmlcpu.quantize(values, 0.7, 3, output_data_type=data_type)
            outputs = [values, small, small, dmlcpu.dequantize(small, 0.3, 2)]
            for bound in (codes, packed_bytes(codes)):
                graph = builder.build(ExecutionFlags.NONE, outputs)
                if flags:
                    graph.initialize(input_0=bound)
                result = graph.dispatch() if flags else graph.dispatch(input_0=bound)
                np.testing.assert_array_equal(result.output_0, expected, label)
                np.testing.assert_array_equal(result.output_1, again, label)
                np.testing.assert_array_equal(result.output_2, again, label)
                np.testing.assert_array_equal(result.output_3, twice, label)


def test_packed_bytes_are_seen_as_the_elements_in_them(devices: Devices, random_numbers: Rng) -> None:
    pairs = random_numbers.integers(0, 256, (6, 16), np.uint8)
    expected = dmlcpu.dequantize(pairs, 0.5, 3, input_data_type=TensorDataType.INT4)
    for label, device in devices.items():
        builder = GraphBuilder(device)
        x = input_tensor(builder, 0, TensorDesc.from_array(pairs))
        graph = builder.build(ExecutionFlags.NONE, [dmlcpu.dequantize(x, 0.5, 3, input_data_type=TensorDataType.INT4)])
        np.testing.assert_array_equal(graph.dispatch(input_0=pairs), expected, label)
    spread = input_tensor(builder, 1, TensorDesc(TensorDataType.UINT8, (6, 16), strides=(32, 1)))
    with pytest.raises(dmlcpu.BindingError, match=r"dequantize: input: got strides of \(32, 1\) bytes"):
        dmlcpu.dequantize(spread, 0.5, 3, input_data_type=TensorDataType.INT4)


@pytest.mark.parametrize("data_type", TYPES)
def test_constants_are_what_arrays_held_when_they_were_passed(random_numbers: Rng, data_type: TensorDataType) -> None:
    """Zero points, packed and one to a byte, written to before the graph is built."""
    x = random_numbers.normal(0, 3, (4, 6)).astype(np.float32)
    scale = np.ones((4, 1), np.float32)
    zero_points = random_codes(random_numbers, data_type, (4, 1))
    builder = GraphBuilder()
    floats = input_tensor(builder, 0, TensorDesc.from_array(x))
    outputs, expected = [], []
    for given in (packed_bytes(zero_points), zero_points):
        expected.append(dmlcpu.quantize(x, scale, given.copy(), output_data_type=data_type))
        outputs.append(dmlcpu.quantize(floats, scale, given, output_data_type=data_type))
        given[...] = 0
    for result, wanted in zip(builder.build(ExecutionFlags.NONE, outputs).dispatch(input_0=x), expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("data_type", TYPES)
@pytest.mark.parametrize(("sizes", "strides"), [((3, 5), None), ((3, 5), (1, 3)), ((3, 5), (9, 2)), ((4, 1300), None)])
def test_copies_move_nibbles(
    devices: Devices,
    random_numbers: Rng,
    data_type: TensorDataType,
    sizes: tuple[int, int],
    strides: tuple[int, int] | None,
) -> None:
    """From an input to outputs of any layout, and across a transposition; the halves between elements stay."""
    codes = random_codes(random_numbers, data_type, sizes)
    desc = TensorDesc(data_type, sizes, strides=strides)
    for label, device in devices.items():
        graph = NativeGraph()
        x = graph.add_input("input_0", TensorDesc(data_type, sizes))
        graph.mark_output(x, "output_0", desc)
        across = graph.add_view("TRANSPOSE", [x], sizes[::-1], {"permutation": (1, 0)})
        graph.mark_output(graph.add_view("RESHAPE", [across], sizes), "output_1", TensorDesc(data_type, sizes))
        compiled = CompiledGraph(device, graph)
        before = random_numbers.integers(0, 256, buffer_length(data_type.name, sizes, strides), np.uint8)
        out = before.copy()
        result = compiled.dispatch(input_0=codes, output_0=out)
        content = StridedTensor(data_type.name, sizes, strides, before)
        np.testing.assert_array_equal(out, content.holding(codes.astype(np.int8)), label)
        np.testing.assert_array_equal(result.output_1, packed_bytes(codes.T), label)


def test_an_edge_may_see_packed_bytes_as_elements(devices: Devices, random_numbers: Rng) -> None:
    """Eight elements quantized to UINT4, their four bytes dequantized as UINT8."""
    x = random_numbers.normal(0, 3, 8).astype(np.float32)
    u8, f32, one = (
        TensorDesc(TensorDataType.UINT8, (4,)),
        TensorDesc(TensorDataType.FLOAT32, (4,)),
        TensorDesc(TensorDataType.FLOAT32, (1,)),
    )
    pairs = dmlcpu.quantize(x, 0.5, output_data_type=TensorDataType.UINT4)
    for label, device in devices.items():
        quantize = dmlcpu.QuantizeOperatorDesc(
            input_tensor=TensorDesc(TensorDataType.FLOAT32, (8,)),
            quantization_type=dmlcpu.QuantizationType.SCALE,
            quantization_tensors=(one,),
            output_tensor=TensorDesc(TensorDataType.UINT4, (8,)),
        )
        dequantize = dmlcpu.DequantizeOperatorDesc(
            input_tensor=u8,
            quantization_type=dmlcpu.QuantizationType.SCALE,
            quantization_tensors=(one,),
            output_tensor=f32,
        )
        desc = GraphDesc(
            input_count=2,
            output_count=2,
            nodes=[operator_node(device, quantize), operator_node(device, dequantize)],
            input_edges=[InputGraphEdgeDesc(0, 0, 0), InputGraphEdgeDesc(1, 0, 1), InputGraphEdgeDesc(1, 1, 1)],
            intermediate_edges=[IntermediateGraphEdgeDesc(0, 0, 1, 0)],
            output_edges=[OutputGraphEdgeDesc(1, 0, 0), OutputGraphEdgeDesc(0, 0, 1)],
        )
        outputs = device.compile_graph(desc).dispatch(input_0=x, input_1=np.float32([0.5]))
        np.testing.assert_array_equal(outputs.output_0, dmlcpu.dequantize(pairs, 0.5), label)
        np.testing.assert_array_equal(outputs.output_1, pairs, label)


def test_an_array_of_tensors_is_given_as_dispatch_takes_it(random_numbers: Rng) -> None:
    x = random_numbers.normal(0, 3, 8).astype(np.float32)
    scale, zero_point = np.float32([0.5]), np.uint8([3])
    desc = quantize_desc(TensorDesc(TensorDataType.UINT4, (8,)))
    expected = dmlcpu.quantize(x, 0.5, 3, output_data_type=TensorDataType.UINT4)
    for given in (
        {"quantization_tensors": [scale, zero_point]},
        {"quantization_tensors": (scale, zero_point), "quantization_tensors[1]": None},
        {"quantization_tensors[0]": scale, "quantization_tensors[1]": zero_point, "quantization_tensors": None},
    ):
        builder = GraphBuilder()
        value = input_tensor(builder, 0, desc.input_tensor)
        outputs = builder.add_operator(desc, {"input_tensor": value.placeholder(), **given})
        np.testing.assert_array_equal(builder.build(ExecutionFlags.NONE, outputs).dispatch(input_0=x), expected)


@pytest.mark.parametrize(
    ("given", "field", "message"),
    [
        ({"quantization_tensors": [np.float32([1])]}, "quantization_tensors", r"got 1 entry, expected .* of 2$"),
        ({"quantization_tensors": np.float32([1, 2])}, "quantization_tensors", r"type ndarray, expected .* of 2$"),
        ({"quantization_tensors": [np.float32([1]), 3]}, "quantization_tensors[1]", "got an object of type int"),
        ({"quantization_tensors": [np.float32([1]), None]}, "quantization_tensors[1]", "got no binding"),
        ({"quantization_tensors": [EXPRESSION, np.uint8([1])]}, "quantization_tensors[0]", "got an expression"),
        (
            {"quantization_tensors": [np.float32([1]), np.uint8([1])], "quantization_tensors[1]": np.uint8([1])},
            "quantization_tensors[1]",
            "got an array, and one in quantization_tensors, expected one of them",
        ),
    ],
)
def test_arrays_of_tensors_are_checked_by_entry(given: dict[str, Any], field: str, message: str) -> None:
    builder = GraphBuilder()
    desc = quantize_desc(TensorDesc(TensorDataType.UINT4, (8,)))
    value = input_tensor(builder, 0, desc.input_tensor)
    with pytest.raises(dmlcpu.BindingError, match=f"^QUANTIZE: {re.escape(field)}: .*{message}") as caught:
        builder.add_operator(desc, {"input_tensor": value.placeholder(), **given})
    assert caught.value.field == field


def test_constants_that_are_too_short() -> None:
    device = Device()
    for short in (b"", np.empty(0, np.uint8), np.empty(0, ml_dtypes.uint4)):
        desc = there_and_back(device, TensorDesc(TensorDataType.UINT4, (4,)), short)
        with pytest.raises(dmlcpu.InvalidDescError, match="got 0 bytes of data, expected at least 1") as caught:
            device.compile_graph(desc)
        assert caught.value.field == "intermediate_edges[1]"


def test_4_bit_elements_have_no_slices() -> None:
    graph = NativeGraph()
    x = graph.add_input("input_0", TensorDesc(TensorDataType.UINT4, (8,)))
    part = graph.add_view("SLICE", [x], (4,), {"starts": (2,), "steps": (1,)}, "the slice")
    graph.mark_output(part, "output_0", TensorDesc(TensorDataType.UINT4, (4,)))
    with pytest.raises(dmlcpu.InvalidDescError, match="graph: node the slice: SLICE: "):
        CompiledGraph(Device(), graph)


def test_graphs_of_packed_bytes_need_no_ml_dtypes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    device = Device()
    graph = device.compile_graph(there_and_back(device, TensorDesc(TensorDataType.UINT4, (4,)), b"\x03"))
    outputs = graph.dispatch(input_0=np.float32([-1, 0, 1, 99]), input_1=np.float32([0.5]))
    assert outputs.output_0.tolist() == [0x31, 0xF5]
    assert outputs.output_1.tolist() == [-1, 0, 1, 6]


@pytest.mark.parametrize("data_type", TYPES)
def test_expressions_need_no_ml_dtypes(
    monkeypatch: pytest.MonkeyPatch, random_numbers: Rng, data_type: TensorDataType
) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    pairs = random_numbers.integers(0, 256, 12, np.uint8)
    values = dmlcpu.dequantize(pairs, 0.5, 3, input_data_type=data_type, sizes=(4, 6))
    again = dmlcpu.quantize(values, 0.7, 3, output_data_type=data_type)
    builder = GraphBuilder()
    x = input_tensor(builder, 0, TensorDesc(data_type, (4, 6)))
    y = dmlcpu.dequantize(x, 0.5, 3)
    z = dmlcpu.quantize(y, 0.7, 3, output_data_type=data_type)
    result = builder.build(ExecutionFlags.NONE, [y, z, dmlcpu.dequantize(z, 0.7, 3)]).dispatch(input_0=pairs)
    np.testing.assert_array_equal(result.output_0, values)
    np.testing.assert_array_equal(result.output_1, again)
    np.testing.assert_array_equal(
        result.output_2, dmlcpu.dequantize(again, 0.7, 3, input_data_type=data_type, sizes=(4, 6))
    )
    with pytest.raises(dmlcpu.InvalidDescError, match=f"^dequantize_linear: input: got data type {data_type.name}"):
        dmlcpu.dequantize_linear(x, 0.5, 3)
