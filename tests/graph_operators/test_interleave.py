"""INTERLEAVE: the inputs' indices in turn along an axis, each input written in its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dmlcpu import Device, TensorDataType, TensorDesc
from dmlcpu.graph.compiled_graph import CompiledGraph
from dmlcpu.graph.native_graph import NativeGraph
from sample_graphs import Devices, Rng, codes

Array = NDArray[Any]


def interleaved(parts: Sequence[Array], axis: int) -> Array:
    shape = list(parts[0].shape)
    shape[axis] = sum(part.shape[axis] for part in parts)
    whole = np.empty(shape, parts[0].dtype)
    for number, part in enumerate(parts):
        whole[(slice(None),) * axis + (slice(number, None, len(parts)),)] = part
    return whole


def table(graph: NativeGraph, value: int, entries: Array) -> int:
    desc = TensorDesc(graph.desc(value).data_type, graph.desc(value).sizes)
    [result] = graph.add_node("CODE_TABLE", [value, graph.add_array(entries)], [desc])
    return result


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
@pytest.mark.parametrize("lengths", [(3, 3), (3, 2), (2, 1, 1), (1, 1, 1), (4,)], ids=str)
def test_of_inputs_and_of_computed_values(
    devices: Devices, random_numbers: Rng, axis: int, lengths: tuple[int, ...]
) -> None:
    shape = [2, 3, 4, 5]
    parts = [codes(random_numbers, [*shape[:axis], length, *shape[axis + 1 :]]) for length in lengths]
    entries = random_numbers.permutation(256).astype(np.uint8)
    for are_computed in (False, True):
        expected = interleaved([entries[part] for part in parts] if are_computed else parts, axis)
        for label, device in devices.items():
            graph = NativeGraph()
            values = [graph.add_input(f"input_{i}", TensorDesc.from_array(part)) for i, part in enumerate(parts)]
            if are_computed:
                values = [table(graph, value, entries) for value in values]
            whole = graph.add_view("INTERLEAVE", values, expected.shape, {"axis": (axis,)})
            graph.mark_output(whole, "output_0", TensorDesc.from_array(expected))
            compiled = CompiledGraph(device, graph)
            assert ("COPY" in compiled.describe()) is not are_computed
            result = compiled.dispatch(**{f"input_{i}": part for i, part in enumerate(parts)})
            np.testing.assert_array_equal(result, expected, label)


def test_of_wholes_within_a_join(devices: Devices, random_numbers: Rng) -> None:
    """Pixels of four values, then channels beside others: everything is written where it ends up."""
    parts = [codes(random_numbers, (1, 5, 3, 2)) for _ in range(4)]
    other = codes(random_numbers, (1, 2, 6, 4))
    entries = random_numbers.permutation(256).astype(np.uint8)
    computed = [entries[part] for part in parts]
    rows = [interleaved(computed[:2], 3), interleaved(computed[2:], 3)]
    expected = np.concatenate([interleaved(rows, 2), entries[other]], 1)
    for label, device in devices.items():
        graph = NativeGraph()
        inputs = [graph.add_input(f"input_{i}", TensorDesc.from_array(part)) for i, part in enumerate([*parts, other])]
        *values, beside = (table(graph, value, entries) for value in inputs)
        lines = [graph.add_view("INTERLEAVE", values[i : i + 2], (1, 5, 3, 4), {"axis": (3,)}) for i in (0, 2)]
        image = graph.add_view("INTERLEAVE", lines, (1, 5, 6, 4), {"axis": (2,)})
        whole = graph.add_view("JOIN", [image, beside], expected.shape, {"axis": (1,)})
        graph.mark_output(whole, "output_0", TensorDesc.from_array(expected))
        compiled = CompiledGraph(device, graph)
        assert "COPY" not in compiled.describe()
        result = compiled.dispatch(**{f"input_{i}": part for i, part in enumerate([*parts, other])})
        np.testing.assert_array_equal(result, expected, label)


@pytest.mark.parametrize(
    ("lengths", "axis", "whole", "why"),
    [
        ((2, 3), 1, 5, "every so many"),
        ((3, 1), 1, 4, "every so many"),
        ((2, 2), 1, 5, "add up"),
        ((2, 2), 1, 3, "add up"),
        ((2, 2), 2, 4, "sizes differ|add up"),
        ((2, 2), 4, 4, "no such axis"),
        ((2, 2), -1, 4, "no such axis"),
    ],
)
def test_parts_that_do_not_fit(lengths: Sequence[int], axis: int, whole: int, why: str) -> None:
    graph = NativeGraph()
    values = [
        graph.add_input(f"input_{i}", TensorDesc(TensorDataType.UINT8, (1, length, 3, 3)))
        for i, length in enumerate(lengths)
    ]
    value = graph.add_view("INTERLEAVE", values, (1, whole, 3, 3), {"axis": (axis,)}, name="pixels")
    graph.mark_output(value, "output_0", TensorDesc(TensorDataType.UINT8, (1, whole, 3, 3)))
    with pytest.raises(ValueError, match=rf"node pixels: INTERLEAVE: .*({why})"):
        CompiledGraph(Device(), graph)
