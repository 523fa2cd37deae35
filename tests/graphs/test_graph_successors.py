"""Graphs for other lengths: what they have of the one before, such as packed weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import dmlcpu
from dmlcpu import TensorDataType, TensorDesc, _core
from dmlcpu.graph.compiled_graph import CompiledGraph
from dmlcpu.graph.free_graph import FreeGraph
from dmlcpu.graph.lengths import FreeDesc, derived
from dmlcpu.graph.native_graph import NativeGraph
from dmlcpu.graph.record import Record
from sample_graphs import Devices, Rng, bound_graph

FLOAT32 = TensorDataType.FLOAT32
ADD = {"function": (0,)}


def columns(rows: int) -> Any:
    return np.arange(rows, dtype=np.float32).reshape(rows, 1) * np.float32(0.25)


def free_graph(record: Record, weights: Any) -> NativeGraph:
    """A product of rows, to which a column as long as they are many is added, and a product of one row."""
    rows = record.free(3)
    graph = NativeGraph()
    x = graph.add_input("x", FreeDesc(FLOAT32, (rows, 8)))
    row = graph.add_input("row", TensorDesc(FLOAT32, (1, 8)))
    constant = graph.add_array(weights)
    [product] = graph.add_node("FLOAT_PRODUCT", [x, constant], [FreeDesc(FLOAT32, (rows, 16))], name="rows")
    column = graph.add_derived(derived(columns, rows))
    [wide] = graph.add_node("EXPAND", [column], [FreeDesc(FLOAT32, (rows, 16))], name="wide")
    [total] = graph.add_node("ELEMENT_WISE_BINARY", [product, wide], [FreeDesc(FLOAT32, (rows, 16))], ADD, "sum")
    [alone] = graph.add_node("FLOAT_PRODUCT", [row, constant], [TensorDesc(FLOAT32, (1, 16))], name="row")
    graph.mark_output(total, "output_0", FreeDesc(FLOAT32, (rows, 16)))
    graph.mark_output(alone, "output_1", TensorDesc(FLOAT32, (1, 16)))
    return graph


def test_successors_compute_what_graphs_by_themselves_do(devices: Devices, random_numbers: Rng) -> None:
    weights = random_numbers.normal(size=(8, 16)).astype(np.float32)
    for label, device in devices.items():
        record = Record()
        graph = FreeGraph(free_graph(record, weights))
        for rows in (3, 3, 5, 1, 40, 5):
            replay = record.again([rows])
            assert replay is not None
            latest = graph.compiled(replay, device)
            alone = CompiledGraph(device, graph.at(replay))
            x, row = (random_numbers.normal(size=(count, 8)).astype(np.float32) for count in (rows, 1))
            for ours, expected in zip(latest.dispatch(x=x, row=row), alone.dispatch(x=x, row=row), strict=True):
                np.testing.assert_array_equal(ours, expected, label)
            assert latest.describe() == alone.describe()
            assert latest.binding_properties == alone.binding_properties


def test_successors_tell_the_bytes_of_constants_of_their_own(device: dmlcpu.Device) -> None:
    """Of a column of FLOAT32 each, unless it has as many rows as before; the weights are those of the graph before."""
    record = Record()
    graph = FreeGraph(free_graph(record, np.ones((8, 16), np.float32)))
    sizes = []
    for rows in (3, 3, 5, 40):
        replay = record.again([rows])
        assert replay is not None
        sizes.append(graph.compiled(replay, device).changed_constants_size)
    assert sizes == [0, 0, 20, 160]


U8, ONE, NONE = TensorDataType.UINT8, np.ones(1, np.float32), np.zeros(1, np.uint8)
WINDOW = {
    "strides": (1, 1),
    "dilations": (1, 1),
    "start_padding": (1, 1),
    "end_padding": (1, 1),
    "output_padding": (0, 0),
    "group_count": (1,),
}


def operator_graph(operator: str, record: Record, weights: Any) -> NativeGraph:
    """An operator of weights, its other input as long as is known later."""
    length = record.free(3)
    graph = NativeGraph()
    scale, point, small = graph.add_array(ONE), graph.add_array(NONE), graph.add_array(ONE * np.float32(0.01))
    floats = operator.startswith("FLOAT")
    constant = graph.add_constant(TensorDesc(FLOAT32 if floats else U8, weights.shape), weights)
    inputs: list[int | None]
    if operator == "FLOAT_CONVOLUTION":
        inputs = [graph.add_input("x", FreeDesc(FLOAT32, (1, 8, length, 5))), constant, None]
        desc = FreeDesc(FLOAT32, (1, 40, length, 5))
    elif floats:
        inputs = [graph.add_input("x", FreeDesc(FLOAT32, (length, 8))), constant]
        desc = FreeDesc(FLOAT32, (length, 40))
    elif operator == "QUANTIZED_LINEAR_MATRIX_MULTIPLY":
        x = graph.add_input("x", FreeDesc(U8, (1, 1, length, 8)))
        inputs, desc = [x, scale, point, constant, small, point, scale, point], FreeDesc(U8, (1, 1, length, 40))
    else:
        x = graph.add_input("x", FreeDesc(U8, (1, 8, length, 5)))
        inputs = [x, scale, point, constant, small, point, None, scale, point]
        desc = FreeDesc(U8, (1, 40, length, 5))
    [y] = graph.add_node(operator, inputs, [desc], WINDOW if operator.endswith("CONVOLUTION") else {}, "product")
    graph.mark_output(y, "output_0", desc)
    return graph


SHAPES = {
    "FLOAT_PRODUCT": (8, 40),
    "FLOAT_CONVOLUTION": (40, 8, 3, 3),
    "QUANTIZED_LINEAR_MATRIX_MULTIPLY": (1, 1, 8, 40),
    "QUANTIZED_LINEAR_CONVOLUTION": (40, 8, 3, 3),
}


@pytest.mark.parametrize("operator", SHAPES)
def test_packed_weights_are_taken_from_other_lengths(operator: str, devices: Devices, random_numbers: Rng) -> None:
    """Those given with another length are others here, which shows whose are read."""
    dtype = np.float32 if operator.startswith("FLOAT") else np.uint8
    weights, others = (random_numbers.integers(0, 256, SHAPES[operator]).astype(dtype) for _ in range(2))
    lengths = [[length] for length in (3, 7, 1, 33)]
    for label, device in devices.items():
        record = Record()
        graph = FreeGraph(operator_graph(operator, record, weights))
        assert_first_weights_are_read(graph, record, lengths, (weights, others), random_numbers, device, label)


def assert_first_weights_are_read(
    graph: FreeGraph,
    record: Record,
    all_lengths: Sequence[Sequence[int]],
    weights: tuple[Any, Any],
    random_numbers: Rng,
    device: dmlcpu.Device,
    label: str,
) -> None:
    """Each length's graph is initialized with other weights than the first one's, which are those of the graph."""
    first, others = weights
    latest: _core.BoundGraph | None = None
    for lengths in all_lengths:
        replay = record.again(lengths)
        assert replay is not None
        known = graph.at(replay)
        x = random_numbers.integers(0, 256, known.desc(known.names.index("x")).sizes).astype(first.dtype)
        mine = bound_graph(graph.native(replay), latest, device.isa)
        mine.initialize({value: first if latest is None else others for value in known.arrays()})
        expected = CompiledGraph(device, known).dispatch(x=x)
        np.testing.assert_array_equal(mine.dispatch({"x": x}), expected, label)
        latest = mine


def batched_product(operator: str, record: Record, weights: Any) -> NativeGraph:
    """Three products with matrices of their own or one for all, how many times is known later, as their rows are."""
    count, rows = record.free(2), record.free(3)
    batch = (3, count) if weights.ndim == 4 else (count, 3)
    graph = NativeGraph()
    types = FLOAT32 if operator == "FLOAT_PRODUCT" else U8
    desc = FreeDesc(types, (*batch, rows, 40))
    x = graph.add_input("x", FreeDesc(types, (*batch, rows, 8)))
    matrices = graph.add_constant(TensorDesc(types, weights.shape), weights)
    inputs: list[int | None] = [x, matrices]
    if operator != "FLOAT_PRODUCT":
        scale, point, small = graph.add_array(ONE), graph.add_array(NONE), graph.add_array(ONE * np.float32(0.01))
        inputs = [x, scale, point, matrices, small, point, scale, point]
    [y] = graph.add_node(operator, inputs, [desc], {}, "product")
    graph.mark_output(y, "output_0", desc)
    return graph


@pytest.mark.parametrize("operator", ["FLOAT_PRODUCT", "QUANTIZED_LINEAR_MATRIX_MULTIPLY"])
@pytest.mark.parametrize("shape", [(8, 40), (1, 8, 40), (3, 8, 40), (3, 1, 8, 40)], ids=str)
def test_packed_weights_are_taken_from_other_batches(
    operator: str, shape: tuple[int, ...], devices: Devices, random_numbers: Rng
) -> None:
    """As of lengths: those that are given with another batch are others."""
    dtype = np.float32 if operator == "FLOAT_PRODUCT" else np.uint8
    weights, others = (random_numbers.integers(0, 256, shape).astype(dtype) for _ in range(2))
    lengths = ((4, 3), (4, 7), (1, 7), (1, 1), (9, 1))
    for label, device in devices.items():
        record = Record()
        graph = FreeGraph(batched_product(operator, record, weights))
        assert_first_weights_are_read(graph, record, lengths, (weights, others), random_numbers, device, label)
