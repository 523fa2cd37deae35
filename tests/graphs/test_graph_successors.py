"""Graphs for other lengths: what they have of the one before, and what is their own."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
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
from process_memory import measures_memory, resident_bytes
from sample_graphs import Devices, Rng

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
        mine = bound(graph.native(replay), latest, device.isa)
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


def bound(
    graph: _core.GivenGraph, predecessor: _core.BoundGraph | None = None, isa: str = "scalar"
) -> _core.BoundGraph:
    def not_called(*_: Any) -> Any:
        raise AssertionError

    return _core.bind_graph(graph, isa, 1, not_called, lambda *results: results, None, predecessor)


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
    before = initialized(bound(first), PLUS)
    np.testing.assert_array_equal(result(before), TIMES[PLUS[X]])
    after = initialized(bound(first.changed([4], {1: OTHER}, {}), before), OTHER)
    np.testing.assert_array_equal(result(after), OTHER[PLUS[X]])
    last = initialized(bound(first.changed([4], {}, {}), after), OTHER)  # of which the second constant is another again
    np.testing.assert_array_equal(result(last), TIMES[PLUS[X]])
    longer = initialized(bound(first.changed([256], {}, {}), after), OTHER)  # is what it is packed as
    np.testing.assert_array_equal(result(longer, ENTRIES), TIMES[PLUS])


def test_constants_that_are_told_again_have_not_changed() -> None:
    """A graph made of another one may be told the array that it has already; of the first one it has another."""
    first, other = tables(), ENTRIES ^ np.uint8(255)
    changed = first.changed([4], {1: other}, {})
    before = initialized(bound(changed), PLUS)
    told_again = changed.changed([4], {1: other}, {})
    other[:] = TIMES  # which nobody reads any more
    np.testing.assert_array_equal(result(initialized(bound(told_again, before), OTHER)), OTHER[PLUS[X]])
    anew = told_again.changed([4], {1: other.copy()}, {})
    np.testing.assert_array_equal(result(initialized(bound(anew, before), OTHER)), TIMES[PLUS[X]])
    np.testing.assert_array_equal(result(initialized(bound(first, before), OTHER)), TIMES[PLUS[X]])


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
    elsewhere = [initialized(bound(first, isa=isa), OTHER) for isa in dmlcpu.available_isas() if isa != "scalar"]
    for predecessor in (initialized(bound(tables()), OTHER), bound(first), *elsewhere):
        graph = initialized(bound(first.changed([4], {}, {}), predecessor), PLUS)
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
        bound(graph.changed([1 << 62], {}, {}))
    for length in (0, -4):
        with pytest.raises(ValueError, match="size below 1"):
            bound(graph.changed([length], {}, {}))


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
    before = initialized(bound(first), PLUS)
    with pytest.raises(ValueError, match="twice"):
        bound(first.changed([4], {1: ENTRIES[:5]}, {}), before)  # a table of five


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
    fitting = bound(whole.changed([5, 2], {}, {0: {"starts": (1,), "steps": (3,)}}))
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
        bound(tables()).initialize({})


def test_graphs_are_initialized_once() -> None:
    graph = initialized(bound(tables()), PLUS)
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
            graph = bound(tables())
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
