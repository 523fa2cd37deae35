"""Constants that are repeated along axes of which lengths are known only later."""

from __future__ import annotations

import numpy as np
import pytest

from dmlcpu import TensorDataType, _core
from dmlcpu.graph.compiled_graph import CompiledGraph
from dmlcpu.graph.free_graph import FreeGraph
from dmlcpu.graph.lengths import FreeDesc
from dmlcpu.graph.native_graph import NativeGraph
from dmlcpu.graph.record import Record
from sample_graphs import Devices, Rng

ENTRIES = np.arange(256, dtype=np.uint8)


def test_one_element_that_is_repeated(devices: Devices) -> None:
    """By as many as there are, whatever length came first; where all lengths are 1 numpy says that it is packed."""
    for label, device in devices.items():
        record = Record()
        count = record.free(1)
        graph, codes, floats = NativeGraph(), FreeDesc(TensorDataType.UINT8, (1, count)), TensorDataType.FLOAT32
        x = graph.add_input("x", codes)
        scale = graph.add_repeated(np.array(0.5, np.float32), FreeDesc(floats, (1, count)))
        point = graph.add_repeated(np.array(3, np.uint8), codes)
        output = FreeDesc(floats, (1, count))
        [y] = graph.add_node("ELEMENT_WISE_DEQUANTIZE_LINEAR", [x, scale, point], [output], {}, "floats")
        graph.mark_output(y, "output_0", output)
        free = FreeGraph(graph)
        for length in (1, 5, 256, 2, 1):
            replay = record.again([length])
            assert replay is not None
            expected = (ENTRIES[:length].astype(np.float32) - 3) * np.float32(0.5)
            for compiled in (free.compiled(replay, device), CompiledGraph(device, free.at(replay))):
                np.testing.assert_array_equal(compiled.dispatch(x=ENTRIES[None, :length]), expected[None], label)


@pytest.mark.parametrize("shape", [(5,), (1, 5), (1, 3, 5), (3, 1), (3, 5), (1,)], ids=str)
def test_arrays_that_are_repeated(shape: tuple[int, ...], devices: Devices, random_numbers: Rng) -> None:
    """As numpy broadcasts them, along the first axis of three; where that has one index numpy says otherwise."""
    array = random_numbers.normal(size=shape).astype(np.float32)
    for label, device in devices.items():
        record = Record()
        rows = record.free(1)
        graph, desc = NativeGraph(), FreeDesc(TensorDataType.FLOAT32, (rows, 3, 5))
        x, row = graph.add_input("x", desc), graph.add_repeated(array, desc)
        [y] = graph.add_node("ELEMENT_WISE_BINARY", [x, row], [desc], {"function": (0,)}, "sum")
        graph.mark_output(y, "output_0", desc)
        free = FreeGraph(graph)
        for length in (1, 5, 64, 2, 1):
            replay = record.again([length])
            assert replay is not None
            given = random_numbers.normal(size=(length, 3, 5)).astype(np.float32)
            for compiled in (free.compiled(replay, device), CompiledGraph(device, free.at(replay))):
                np.testing.assert_array_equal(compiled.dispatch(x=given), given + array, label)


def test_arrays_have_no_more_indices_than_they_were_given_with() -> None:
    """Along an axis of several elements no other length is free: what lies behind them is none of theirs."""
    graph = NativeGraph()
    graph.add_array(np.broadcast_to(ENTRIES[:4], (2, 4)))
    _core.new_graph(*graph.rows(), [(0, 0, 0)])
    with pytest.raises(ValueError, match="several elements"):
        _core.new_graph(*graph.rows(), [(0, 1, 0)])
