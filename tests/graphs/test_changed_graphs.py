"""Graphs for other lengths as the native module binds them: what has changed, and changes that do not fit."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import dmlcpu
from dmlcpu import TensorDataType, TensorDesc, _core
from dmlcpu.graph.compiled_graph import CompiledGraph
from dmlcpu.graph.free_graph import FreeGraph
from dmlcpu.graph.lengths import FreeDesc
from dmlcpu.graph.native_graph import NativeGraph
from dmlcpu.graph.record import Record
from process_memory import measures_memory, resident_bytes
from sample_graphs import Devices, bound_graph

ENTRIES = np.arange(256, dtype=np.uint8)
PLUS, TIMES, OTHER = ENTRIES + np.uint8(1), ENTRIES * np.uint8(2), ENTRIES ^ np.uint8(255)
X = np.array([0, 7, 100, 255], np.uint8)
CODES = TensorDesc(TensorDataType.UINT8, (4,))


def tables() -> _core.GivenGraph:
    """Two tables of codes, one after the other: value 0 is the first, given later, and 1 the other; 2 is the input.

    The sizes of all codes are free, and are length 0.
    """
    graph = NativeGraph()
    first, second = graph.add_constant(TensorDesc(TensorDataType.UINT8, (256,)), None, "first"), graph.add_array(TIMES)
    x = graph.add_input("x", CODES)
    [once] = graph.add_node("CODE_TABLE", [x, first], [CODES], name="once")
    [twice] = graph.add_node("CODE_TABLE", [once, second], [CODES], name="twice")
    graph.mark_output(twice, "output_0", CODES)
    return _core.new_graph(*graph.rows(), [(value, 0, 0) for value in (x, once, twice)])


def initialized(graph: _core.BoundGraph, first: Any) -> _core.BoundGraph:
    graph.initialize({0: first})
    return graph


def result(graph: _core.BoundGraph, x: Any = X) -> Any:
    return graph.dispatch({"x": x})


def test_operators_whose_constants_have_not_changed_are_not_initialized_again() -> None:
    """What is given for them then is what it was: here it is not, which shows that nobody reads it."""
    first = tables()
    before = initialized(bound_graph(first), PLUS)
    np.testing.assert_array_equal(result(before), TIMES[PLUS[X]])
    after = initialized(bound_graph(first.changed([4], {1: OTHER}, {}), before), OTHER)
    np.testing.assert_array_equal(result(after), OTHER[PLUS[X]])
    last = initialized(
        bound_graph(first.changed([4], {}, {}), after), OTHER
    )  # of which the second constant is another again
    np.testing.assert_array_equal(result(last), TIMES[PLUS[X]])
    longer = initialized(bound_graph(first.changed([256], {}, {}), after), OTHER)  # is what it is packed as
    np.testing.assert_array_equal(result(longer, ENTRIES), TIMES[PLUS])


def test_constants_that_are_told_again_have_not_changed() -> None:
    """A graph made of another one may be told the array that it has already; of the first one it has another."""
    first, other = tables(), ENTRIES ^ np.uint8(255)
    changed = first.changed([4], {1: other}, {})
    before = initialized(bound_graph(changed), PLUS)
    told_again = changed.changed([4], {1: other}, {})
    other[:] = TIMES  # which nobody reads any more
    np.testing.assert_array_equal(result(initialized(bound_graph(told_again, before), OTHER)), OTHER[PLUS[X]])
    anew = told_again.changed([4], {1: other.copy()}, {})
    np.testing.assert_array_equal(result(initialized(bound_graph(anew, before), OTHER)), TIMES[PLUS[X]])
    np.testing.assert_array_equal(result(initialized(bound_graph(first, before), OTHER)), TIMES[PLUS[X]])


def matrix_that_is_a_view_of_some_lengths(record: Record) -> NativeGraph:
    """A product by columns of a constant with half as many rows: where they are all of it, they are where they lie."""
    columns, graph, codes = record.free(8), NativeGraph(), TensorDataType.UINT8
    scale, point = graph.add_array(np.float32([1])), graph.add_array(np.uint8([0]))
    whole = graph.add_array(np.arange(64, dtype=np.uint8).reshape(1, 1, 8, 8))
    attributes = {"starts": (0, 0, 0, 0), "steps": (1, 1, 1, 1)}
    [part] = graph.add_node("SLICE", [whole], [FreeDesc(codes, (1, 1, 8, columns))], attributes, "slice")
    [matrix] = graph.add_node("RESHAPE", [part], [FreeDesc(codes, (1, 1, 4, columns * 2))], {}, "reshape")
    x, small = graph.add_input("x", TensorDesc(codes, (1, 1, 3, 4))), graph.add_array(np.float32([0.01]))
    operands = [x, scale, point, matrix, small, point, scale, point]
    output = FreeDesc(codes, (1, 1, 3, columns * 2))
    [product] = graph.add_node("QUANTIZED_LINEAR_MATRIX_MULTIPLY", operands, [output], {}, "product")
    graph.mark_output(product, "output_0", output)
    return graph


def test_parameters_that_a_predecessor_has_prepared_once(devices: Devices) -> None:
    """It keeps none of what they are made of; a successor whose matrix is no constant needs them at each dispatch."""
    x = np.arange(12, dtype=np.uint8).reshape(1, 1, 3, 4)
    for label, device in devices.items():
        record = Record()
        graph = FreeGraph(matrix_that_is_a_view_of_some_lengths(record))
        for columns in (8, 5, 6, 8):
            replay = record.again([columns])
            assert replay is not None
            latest = graph.compiled(replay, device)
            alone = CompiledGraph(device, graph.at(replay))
            np.testing.assert_array_equal(latest.dispatch(x=x), alone.dispatch(x=x), label)


def test_what_cannot_be_a_predecessor_is_none() -> None:
    """Another graph, one that is not initialized, and one for another instruction set."""
    first = tables()
    elsewhere = [initialized(bound_graph(first, isa=isa), OTHER) for isa in dmlcpu.available_isas() if isa != "scalar"]
    for predecessor in (initialized(bound_graph(tables()), OTHER), bound_graph(first), *elsewhere):
        graph = initialized(bound_graph(first.changed([4], {}, {}), predecessor), PLUS)
        np.testing.assert_array_equal(result(graph), TIMES[PLUS[X]])


def test_graphs_of_one_memory() -> None:
    """One after the other takes the same block, whichever is larger; each by itself has the same results."""
    first, shared = tables(), _core.new_session_memory()

    def not_called(*_: Any) -> Any:
        raise AssertionError

    graphs = [
        _core.bind_graph(first.changed([size], {}, {}), "scalar", 1, not_called, tuple, shared)
        for size in (1, 4096, 70, 100_000, 3)
    ]
    for graph in graphs:
        graph.initialize({0: PLUS})
    for graph, size in 3 * [*zip(graphs, (1, 4096, 70, 100_000, 3), strict=True)]:
        x = np.resize(ENTRIES, size)
        np.testing.assert_array_equal(result(graph, x), TIMES[PLUS[x]])


def test_changes_of_what_is_not_there() -> None:
    graph = tables()
    with pytest.raises(IndexError):
        graph.changed([4], {99: PLUS}, {})
    with pytest.raises(IndexError):
        graph.changed([4], {}, {99: {}})
    for value in (0, 2):
        with pytest.raises(ValueError, match="given by none"):
            graph.changed([4], {value: PLUS}, {})
    with pytest.raises(ValueError, match="too few lengths"):
        graph.changed([], {}, {})
    with pytest.raises(ValueError, match="overflow"):
        bound_graph(graph.changed([1 << 62], {}, {}))
    for length in (0, -4):
        with pytest.raises(ValueError, match="size below 1"):
            bound_graph(graph.changed([length], {}, {}))


@pytest.mark.parametrize("free", [(9, 0, 0), (2, 1, 0), (1, 0, 0), (2, 0, 1), (2, 0, (1 << 64) - 1)])
def test_free_sizes_of_no_axes(free: tuple[int, int, int]) -> None:
    """Of no value, of no axis of one, of an array of several elements; and of more lengths than there can be."""
    graph = NativeGraph()
    graph.add_array(PLUS), graph.add_array(TIMES), graph.add_input("x", CODES)
    with pytest.raises(ValueError, match=r"no axis|several elements|more lengths"):
        _core.new_graph(*graph.rows(), [free])


def test_changes_that_do_not_fit() -> None:
    """They are found when the graph is bound, as those of any graph."""
    first = tables()
    before = initialized(bound_graph(first), PLUS)
    with pytest.raises(ValueError, match="twice"):
        bound_graph(first.changed([4], {1: ENTRIES[:5]}, {}), before)  # a table of five


def part_of_codes() -> _core.GivenGraph:
    """Four codes of eight, from the third on: the number of all is length 0, that of the part length 1."""
    graph = NativeGraph()
    x = graph.add_input("x", TensorDesc(TensorDataType.UINT8, (8,)))
    [part] = graph.add_node("SLICE", [x], [CODES], {"starts": (2,), "steps": (1,)}, "part")
    graph.mark_output(part, "output_0", CODES)
    return _core.new_graph(*graph.rows(), [(x, 0, 0), (part, 0, 1)])


def test_views_are_checked_where_something_has_changed() -> None:
    """The input's length, the output's, or attributes alone."""
    whole = part_of_codes()
    fitting = bound_graph(whole.changed([5, 2], {}, {0: {"starts": (1,), "steps": (3,)}}))
    fitting.initialize({})
    np.testing.assert_array_equal(result(fitting, ENTRIES[:5]), [1, 4])
    for lengths in ([5, 4], [8, 7]):
        with pytest.raises(ValueError, match="node part: SLICE: a slice beyond its input"):
            whole.changed(lengths, {}, {})
    with pytest.raises(ValueError, match="node part: SLICE: a slice beyond its input"):
        whole.changed([8, 4], {}, {0: {"starts": (5,), "steps": (1,)}})
    with pytest.raises(ValueError, match="node part: SLICE: steps needs 1 entries"):
        whole.changed([8, 4], {}, {0: {"starts": (2,)}})


def test_a_constant_that_is_missing() -> None:
    with pytest.raises(ValueError, match="an array for each constant"):
        bound_graph(tables()).initialize({})


def test_graphs_are_initialized_once() -> None:
    graph = initialized(bound_graph(tables()), PLUS)
    with pytest.raises(RuntimeError, match="already"):
        graph.initialize({0: PLUS})


def test_graphs_that_are_not_initialized_run_nothing() -> None:
    """Whatever resolves their bindings."""

    def resolve(bindings: Any, sizes: Any) -> Any:
        return (bindings["x"], None), None

    graph = _core.bind_graph(tables(), "scalar", 1, resolve, tuple)
    assert graph.run_packed({"x": X}) is None
    for run in (graph.dispatch, graph.profile):
        with pytest.raises(RuntimeError, match="not initialized"):
            run({"x": X})
    np.testing.assert_array_equal(result(initialized(graph, PLUS)), TIMES[PLUS[X]])


def test_threads_that_initialize_a_graph() -> None:
    """One of them does, the others are told."""

    def attempt(graph: _core.BoundGraph) -> bool:
        try:
            graph.initialize({0: PLUS})
        except RuntimeError:
            return False
        return True

    with ThreadPoolExecutor(4) as threads:
        for _ in range(50):
            graph = bound_graph(tables())
            assert sum(threads.map(attempt, [graph] * 4)) == 1
            np.testing.assert_array_equal(result(graph), TIMES[PLUS[X]])


@measures_memory
def test_memory_that_is_much_too_large_is_freed() -> None:
    """That of one large graph, when small ones have run for a while; the large one takes it anew."""
    large_size, small_size = 100 << 20, 1000
    first, shared = tables(), _core.new_session_memory()

    def not_called(*_: Any) -> Any:
        raise AssertionError

    large, small = (
        initialized(_core.bind_graph(first.changed([size], {}, {}), "scalar", 1, not_called, tuple, shared), PLUS)
        for size in (large_size, small_size)
    )
    x, few = np.resize(ENTRIES, large_size), np.resize(ENTRIES, small_size)
    for _ in range(2):
        assert large.run_packed({"x": x})[0][255] == TIMES[PLUS[255]]  # type: ignore[index]
        before = resident_bytes()
        for _ in range(140):
            np.testing.assert_array_equal(result(small, few), TIMES[PLUS[few]])
        assert before - resident_bytes() > large_size // 2
