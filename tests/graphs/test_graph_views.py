"""Views of native graphs (joins, slices, transpositions, reshapes), each against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dmlcpu import (
    TensorDataType,
    TensorDesc,
)
from dmlcpu.graph.compiled_graph import CompiledGraph
from dmlcpu.graph.native_graph import NativeGraph
from float_windows import ATTRIBUTES
from sample_graphs import (
    Devices,
    Rng,
    add_point_convolution,
    codes,
    permuting_filter,
)

NEGATE = {"function": (11,)}


def applied(x: Any, filters: Any) -> Any:
    return np.einsum("nchw,kc->nkhw", x.astype(np.int32), filters[:, :, 0, 0]).astype(np.uint8)


def test_joined_values_are_written_into_their_places(devices: Devices, random_numbers: Rng) -> None:
    x = codes(random_numbers, (2, 6, 5, 3))
    filters = [permuting_filter(random_numbers, 6) for _ in range(3)]
    last = permuting_filter(random_numbers, 18)
    branches = [applied(x, one) for one in filters]
    expected = applied(np.concatenate(branches, 1), last)
    for label, device in devices.items():
        graph = NativeGraph()
        image = graph.add_input("input_0", TensorDesc.from_array(x))
        parts = [add_point_convolution(graph, image, one, x.shape) for one in filters]
        whole = graph.add_view("JOIN", parts, (2, 18, 5, 3), {"axis": (1,)})
        graph.mark_output(
            add_point_convolution(graph, whole, last, expected.shape), "output_0", TensorDesc.from_array(expected)
        )
        compiled = CompiledGraph(device, graph)
        assert "COPY" not in compiled.describe(), label
        np.testing.assert_array_equal(compiled.dispatch(input_0=x), expected, label)


def test_a_value_is_each_part_of_a_join_that_it_is(devices: Devices, random_numbers: Rng) -> None:
    """Written into one of its places, and copied to the others."""
    x = random_numbers.normal(0, 1, (2, 4)).astype(np.float32)
    expected = np.concatenate([-x, x, -x])
    for label, device in devices.items():
        graph = NativeGraph()
        given = graph.add_input("input_0", TensorDesc.from_array(x))
        [y] = graph.add_node("ELEMENT_WISE_UNARY", [given], [TensorDesc.from_array(x)], NEGATE)
        whole = graph.add_view("JOIN", [y, given, y], expected.shape, {"axis": (0,)})
        graph.mark_output(whole, "output_0", TensorDesc.from_array(expected))
        compiled = CompiledGraph(device, graph)
        assert compiled.describe().count("COPY") == 2, label
        np.testing.assert_array_equal(compiled.dispatch(input_0=x), expected, label)


@pytest.mark.parametrize(
    ("shape", "axis", "copies"),
    [((3, 4, 2), 1, 1), ((3, 4, 2), 2, 1), ((3, 8), 1, 1), ((4, 6), 0, 1), ((4, 6), 1, 2)],
    ids=str,
)
def test_what_is_reshaped_is_written_into_its_place_in_a_join(
    devices: Devices, random_numbers: Rng, shape: tuple[int, ...], axis: int, copies: int
) -> None:
    """Where strides can say it; what is bound is copied, and the reshaped values are read by others, too."""
    x = random_numbers.normal(0, 1, (3, 2, 2, 2)).astype(np.float32)
    given = random_numbers.normal(0, 1, shape).astype(np.float32)
    expected = np.concatenate([-x.reshape(shape), given], axis)
    for label, device in devices.items():
        graph = NativeGraph()
        pairs = graph.add_input("input_0", TensorDesc.from_array(x))
        other = graph.add_input("input_1", TensorDesc.from_array(given))
        [y] = graph.add_node("ELEMENT_WISE_UNARY", [pairs], [TensorDesc.from_array(x)], NEGATE)
        part = graph.add_view("RESHAPE", [y], shape)
        [again] = graph.add_node("ELEMENT_WISE_UNARY", [part], [TensorDesc.from_array(given)], NEGATE)
        whole = graph.add_view("JOIN", [part, other], expected.shape, {"axis": (axis,)})
        graph.mark_output(whole, "output_0", TensorDesc.from_array(expected))
        graph.mark_output(again, "output_1", TensorDesc.from_array(given))
        compiled = CompiledGraph(device, graph)
        assert compiled.describe().count("COPY") == copies, label
        results = compiled.dispatch(input_0=x, input_1=given)
        np.testing.assert_array_equal(results[0], expected, label)
        np.testing.assert_array_equal(results[1], x.reshape(shape), label)


def test_slices_and_transpositions_are_read_in_place(devices: Devices, random_numbers: Rng) -> None:
    x = codes(random_numbers, (2, 12, 7, 8))
    first, second = permuting_filter(random_numbers, 12), permuting_filter(random_numbers, 6)
    expected = applied(applied(x, first)[:, 3:9, 1::2], second)
    for label, device in devices.items():
        graph = NativeGraph()
        # {N, H, W, C} codes, as many models have them at their beginning.
        image = graph.add_input("input_0", TensorDesc(TensorDataType.UINT8, (2, 7, 8, 12)))
        planes = graph.add_view("TRANSPOSE", [image], (2, 12, 7, 8), {"permutation": (0, 3, 1, 2)})
        y = add_point_convolution(graph, planes, first, x.shape)
        part = graph.add_view("SLICE", [y], (2, 6, 3, 8), {"starts": (0, 3, 1, 0), "steps": (1, 1, 2, 1)})
        graph.mark_output(
            add_point_convolution(graph, part, second, expected.shape), "output_0", TensorDesc.from_array(expected)
        )
        compiled = CompiledGraph(device, graph)
        assert "COPY" not in compiled.describe(), label
        np.testing.assert_array_equal(
            compiled.dispatch(input_0=np.ascontiguousarray(x.transpose(0, 2, 3, 1))), expected
        )


@pytest.mark.parametrize(("columns", "asks"), [(2, False), (4, True), (30, True), (32, False)])
def test_poolings_of_floats_ask_for_channels_innermost_where_planes_are_small(
    devices: Devices, random_numbers: Rng, columns: int, asks: bool
) -> None:
    x = random_numbers.normal(0, 1, (2, 16, columns)).astype(np.float32)
    expected = x.reshape(2, 16, -1, 2).max(-1)
    window = {"window_size": (1, 2), "strides": (1, 2), "start_padding": (0, 0), "end_padding": (0, 0)}
    attributes = {**ATTRIBUTES, "function": (1,), **window}
    for label, device in devices.items():
        graph = NativeGraph()
        images = graph.add_view("RESHAPE", [graph.add_input("input_0", TensorDesc.from_array(x))], (2, 16, 1, columns))
        pooled = TensorDesc(TensorDataType.FLOAT32, (2, 16, 1, columns // 2))
        [y] = graph.add_node("FLOAT_POOLING", [images], [pooled], attributes)
        output = graph.add_view("RESHAPE", [y], expected.shape)
        graph.mark_output(output, "output_0", TensorDesc.from_array(expected))
        compiled = CompiledGraph(device, graph)
        assert ("COPY" in compiled.describe()) == asks, label
        np.testing.assert_array_equal(compiled.dispatch(input_0=x), expected, label)


@pytest.mark.parametrize("sizes", [(2, 60), (120,), (4, 3, 10), (2, 6, 1, 10), (1, 2, 2, 1, 3, 10, 1), (5, 24)])
def test_reshapes_keep_the_row_major_order(devices: Devices, random_numbers: Rng, sizes: tuple[int, ...]) -> None:
    x, filters = codes(random_numbers, (2, 6, 2, 5)), permuting_filter(random_numbers, 6)
    expected = applied(x, filters).reshape(sizes)
    for label, device in devices.items():
        graph = NativeGraph()
        y = add_point_convolution(graph, graph.add_input("input_0", TensorDesc.from_array(x)), filters, x.shape)
        reshaped = graph.add_view("RESHAPE", [y], sizes)
        graph.mark_output(reshaped, "output_0", TensorDesc.from_array(expected))
        np.testing.assert_array_equal(CompiledGraph(device, graph).dispatch(input_0=x), expected, label)


@pytest.mark.parametrize(("strides", "copies"), [(None, 0), ((36, 6, 1), 0), ((1, 2, 12), 1)], ids=str)
@pytest.mark.parametrize("is_read", [False, True])
def test_what_is_reshaped_to_an_output_is_written_there(
    devices: Devices, random_numbers: Rng, strides: tuple[int, ...] | None, copies: int, is_read: bool
) -> None:
    """Unless strides cannot say it; who else reads it reads the output."""
    x = random_numbers.normal(0, 1, (12, 4)).astype(np.float32)
    sizes = (4, 3, 4) if strides is None else (2, 6, 4)
    for label, device in devices.items():
        graph = NativeGraph()
        given = graph.add_input("input_0", TensorDesc.from_array(x))
        [y] = graph.add_node("ELEMENT_WISE_UNARY", [given], [TensorDesc.from_array(x)], NEGATE)
        output = graph.add_view("RESHAPE", [y], sizes)
        graph.mark_output(output, "output_0", TensorDesc(TensorDataType.FLOAT32, sizes, strides=strides))
        if is_read:
            [again] = graph.add_node("ELEMENT_WISE_UNARY", [y], [TensorDesc.from_array(x)], NEGATE)
            graph.mark_output(again, "output_1", TensorDesc.from_array(x))
        compiled = CompiledGraph(device, graph)
        assert compiled.describe().count("COPY") == copies, label
        results = compiled.dispatch(input_0=x)
        first, *others = results if is_read else [results]
        np.testing.assert_array_equal(first.reshape(-1), -x.reshape(-1), label)
        for other in others:
            np.testing.assert_array_equal(other.reshape(-1), x.reshape(-1), label)


VIEWS = {
    "TRANSPOSE": ({"permutation": (1, 0)}, lambda x: x.T),
    "SLICE": ({"starts": (0, 1), "steps": (1, 2)}, lambda x: x[:, 1::2]),
}


@pytest.mark.parametrize("type", VIEWS)
def test_what_does_not_lie_as_it_says_is_copied_to_be_reinterpreted(
    devices: Devices, random_numbers: Rng, type: str
) -> None:
    attributes, view = VIEWS[type]
    x = random_numbers.integers(-(2**31), 2**31, (3, 4), np.int32)
    viewed = np.ascontiguousarray(view(x))
    expected = viewed.view(np.uint8).reshape(*viewed.shape, 4)
    for label, device in devices.items():
        graph = NativeGraph()
        value = graph.add_view(type, [graph.add_input("input_0", TensorDesc.from_array(x))], viewed.shape, attributes)
        parts = graph.reinterpret(value, TensorDesc.from_array(expected))
        graph.mark_output(parts, "output_0", TensorDesc.from_array(expected))
        np.testing.assert_array_equal(CompiledGraph(device, graph).dispatch(input_0=x), expected, label)


UNCHANGED = {
    "RESHAPE": ((2, 4), None),
    "SLICE": ((2, 4), {"starts": (0, 0), "steps": (1, 1)}),
}


@pytest.mark.parametrize("joins", [None, "RESHAPE"])
@pytest.mark.parametrize("reads", [None, *UNCHANGED])
def test_behind_what_is_reinterpreted_are_zeros_and_no_other_part_of_a_join(
    devices: Devices, random_numbers: Rng, joins: str | None, reads: str | None
) -> None:
    """Whether a value itself is joined, and is reinterpreted, or a view of it."""
    x = random_numbers.normal(0, 1, (2, 4)).astype(np.float32)
    joined, longer = np.concatenate([-x, x]), np.concatenate([-x, np.zeros_like(x)])
    for label, device in devices.items():
        graph = NativeGraph()
        given = graph.add_input("input_0", TensorDesc.from_array(x))
        [y] = graph.add_node("ELEMENT_WISE_UNARY", [given], [TensorDesc.from_array(x)], NEGATE)
        part, read = (y if view is None else graph.add_view(view, [y], *UNCHANGED[view]) for view in (joins, reads))
        both = graph.add_view("JOIN", [part, given], (4, 4), {"axis": (0,)})
        for number, value in enumerate((both, graph.reinterpret(read, TensorDesc.from_array(longer)))):
            [negative] = graph.add_node("ELEMENT_WISE_UNARY", [value], [TensorDesc.from_array(longer)], NEGATE)
            graph.mark_output(negative, f"output_{number}", TensorDesc.from_array(longer))
        for result, expected in zip(CompiledGraph(device, graph).dispatch(input_0=x), (joined, longer), strict=True):
            np.testing.assert_array_equal(result, -expected, label)
