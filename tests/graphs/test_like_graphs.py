"""Graphs of one model that differ in more than lengths, as before and after a decoder's first token."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dmlcpu import TensorDataType, TensorDesc, _core
from dmlcpu.graph.compiled_graph import CompiledGraph
from dmlcpu.graph.free_graph import FreeGraph
from dmlcpu.graph.lengths import FreeDesc
from dmlcpu.graph.native_graph import NativeGraph
from dmlcpu.graph.record import Record
from sample_graphs import Devices, Rng

FLOAT32 = TensorDataType.FLOAT32
ADD = {"function": (0,)}


def chain(record: Record, matrices: list[Any], shifted: bool = False) -> FreeGraph:
    """Products of rows and one matrix after another; if asked, behind a sum, which brings other numbers to all."""
    rows = record.free(3)
    desc = FreeDesc(FLOAT32, (rows, 16))
    graph = NativeGraph()
    value = graph.add_input("x", desc)
    if shifted:
        ones = graph.add_repeated(np.float32([1]), desc)
        [value] = graph.add_node("ELEMENT_WISE_BINARY", [value, ones], [desc], ADD, "sum")
    for place, matrix in enumerate(matrices):
        [value] = graph.add_node("FLOAT_PRODUCT", [value, graph.add_array(matrix)], [desc], name=f"product {place}")
    graph.mark_output(value, "output_0", desc)
    return FreeGraph(graph)


def compiled(graph: FreeGraph, record: Record, rows: int, device: Any) -> CompiledGraph:
    replay = record.again([rows])
    assert replay is not None
    return graph.compiled(replay, device)


def assert_chain(graph: CompiledGraph, x: Any, matrices: list[Any], label: str) -> None:
    """Numbers are small integers: sums are exact, in whichever order they are taken."""
    expected = x
    for matrix in matrices:
        expected = expected @ matrix
    np.testing.assert_array_equal(graph.dispatch(x=x), expected, label)


def small_integers(random_numbers: Rng, shape: tuple[int, ...]) -> Any:
    return random_numbers.integers(-3, 4, shape).astype(np.float32)


def test_graphs_that_follow_another_one_take_what_it_has_packed(devices: Devices, random_numbers: Rng) -> None:
    """Views of one memory are the same matrix; of what is not the same each has its own, for later lengths, too."""
    matrices = [small_integers(random_numbers, (16, 16)) for _ in range(3)]
    other = small_integers(random_numbers, (16, 16))
    for label, device in devices.items():
        before, after = Record(), Record()
        older = chain(before, matrices)
        compiled(older, before, 3, device)
        own = [matrices[0].reshape(16, 16), other, matrices[2]]
        newer = chain(after, own, shifted=True)
        newer.follow(older)
        for rows in (3, 5, 1):
            graph = compiled(newer, after, rows, device)
            # Besides the one matrix, a single FLOAT32 that is repeated.
            assert graph.changed_constants_size == (other.nbytes + 4 if rows == 3 else 0)
            x = small_integers(random_numbers, (rows, 16))
            np.testing.assert_array_equal(graph.dispatch(x=x), (x + 1) @ own[0] @ own[1] @ own[2], label)
        x = small_integers(random_numbers, (7, 16))
        assert_chain(compiled(older, before, 7, device), x, matrices, label)


def test_arrays_of_the_same_memory_are_taken_one_by_one(devices: Devices, random_numbers: Rng) -> None:
    matrix, other = small_integers(random_numbers, (16, 16)), small_integers(random_numbers, (16, 16))
    for label, device in devices.items():
        before, after = Record(), Record()
        older = chain(before, [matrix, other, matrix])
        compiled(older, before, 3, device)
        own = [matrix.reshape(16, 16), other, matrix.reshape(16, 16)]
        newer = chain(after, own)
        newer.follow(older)
        graph = compiled(newer, after, 3, device)
        assert graph.changed_constants_size == 0
        assert_chain(graph, small_integers(random_numbers, (3, 16)), own, label)


@pytest.mark.parametrize("where", ["behind", "turned"])
def test_other_views_of_the_same_memory_are_others(where: str, devices: Devices, random_numbers: Rng) -> None:
    """One that begins where the matrix does not, and one that lies there in another order."""
    memory = small_integers(random_numbers, (17, 16))
    matrix, view = memory[:16], memory[1:] if where == "behind" else memory[:16].T
    for label, device in devices.items():
        before, after = Record(), Record()
        older, newer = chain(before, [matrix]), chain(after, [view])
        compiled(older, before, 3, device)
        newer.follow(older)
        graph = compiled(newer, after, 3, device)
        assert graph.changed_constants_size == matrix.nbytes
        assert_chain(graph, small_integers(random_numbers, (3, 16)), [view], label)


def test_constants_that_are_given_later_are_never_the_same(random_numbers: Rng) -> None:
    """What a graph is initialized with another one does not know."""
    graph = NativeGraph()
    x = graph.add_input("x", TensorDesc(FLOAT32, (2, 8)))
    constant = graph.add_constant(TensorDesc(FLOAT32, (8, 4)), None, "matrix")
    [y] = graph.add_node("FLOAT_PRODUCT", [x, constant], [TensorDesc(FLOAT32, (2, 4))], name="product")
    graph.mark_output(y, "output_0", TensorDesc(FLOAT32, (2, 4)))
    rows = small_integers(random_numbers, (2, 8))
    given, latest = None, None
    for _ in range(2):
        given = _core.new_graph(*graph.rows(), (), given)
        latest = _core.bind_graph(given, "scalar", 1, print, tuple, None, latest)
        matrix = small_integers(random_numbers, (8, 4))
        latest.initialize({constant: matrix})
        np.testing.assert_array_equal(latest.dispatch({"x": rows}), rows @ matrix)
