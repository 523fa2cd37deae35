"""Constants of one element that is repeated along axes of which lengths are known only later."""

from __future__ import annotations

import numpy as np

from dmlcpu import TensorDataType
from dmlcpu.graph.compiled_graph import CompiledGraph
from dmlcpu.graph.free_graph import FreeGraph
from dmlcpu.graph.lengths import FreeDesc
from dmlcpu.graph.native_graph import NativeGraph
from dmlcpu.graph.record import Record
from sample_graphs import Devices

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
